"""ERROR: the run failed; say why, with what was done so far."""

from langchain_core.messages import AIMessage

from segue.core.events import Token
from segue.core.lifecycle import EngineEventType, EngineState
from segue.prompts.catalogue import phrase

from ..shared.context import NodeRuntime, announce, node_context
from ..shared.task import end_task
from .events import changed, engine_event
from .result import done_so_far, lifecycle_result
from .state import LifecycleState


async def error(state: LifecycleState, runtime: NodeRuntime) -> LifecycleState:
    """End the task as an error that keeps what was found."""
    failure, language, task_id = state["failure"] or {}, state["language"], state["task_id"]
    why = str(failure.get("error", ""))
    found = done_so_far(state) or phrase("nothing_found", language)
    text = phrase("unfinished", language, why=why.rstrip(".。"), found=found)
    node_context(runtime).emit(Token(task_id=task_id, content=text))
    result = lifecycle_result(state, text, why, str(failure.get("limit", "")))
    events = announce(
        changed(task_id, state["phase"], EngineState.ERROR),
        engine_event(task_id, EngineEventType.ENGINE_ERROR, failure),
        *end_task(state, result, failure=why),
    )
    return {
        "messages": [AIMessage(text)],
        "phase": EngineState.ERROR.value,
        "result": result,
        "events": events,
    }
