"""COMPLETED: nothing is left to do; the results make up the answer."""

from typing import cast

from langchain_core.messages import AIMessage

from segue.core.events import Token
from segue.core.lifecycle import EngineEventType
from segue.core.plan import Status

from ..shared.context import NodeRuntime, announce, node_context
from ..shared.plan_progress import undone_line
from ..shared.task import end_task, joined, read_added_messages
from .events import engine_event, tasks_of
from .result import lifecycle_result, whole_answer
from .state import LifecycleState


async def completed(state: LifecycleState, runtime: NodeRuntime) -> LifecycleState:
    """Tell how many tasks were completed, and write the result; a task that failed makes it an error."""
    work = node_context(runtime)
    added = cast(LifecycleState, await read_added_messages(state, work))
    task_id, tasks = state["task_id"], tasks_of(state["steps"])
    answer = whole_answer(state)
    work.emit(Token(task_id=task_id, content=answer))
    undone = [task for task in tasks if task.status is not Status.DONE]
    why = undone_line("task_undone", undone, state["language"])
    result = lifecycle_result(state, answer, why)
    details = {
        "total_tasks": len(tasks),
        "completed_tasks": len(tasks) - len(undone),
        "failed_tasks": sum(task.status is Status.ERROR for task in undone),
        "skipped_tasks": sum(task.status is Status.SKIPPED for task in undone),
        "answer": answer,
        "usage": state["usage"],
    }
    finished = engine_event(task_id, EngineEventType.ENGINE_COMPLETED, details)
    update: LifecycleState = {
        "messages": [*added.get("messages", ()), AIMessage(answer)],
        "result": result,
        "events": announce(finished, *end_task(state, result)),
    }
    return joined(added, update)
