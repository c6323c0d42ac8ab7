"""The answer and the result of a run, for COMPLETED and ERROR."""

from collections.abc import Sequence
from typing import Any

from segue.core.lifecycle import SubTask
from segue.core.plan import Status
from segue.prompts.catalogue import phrase

from ..shared.task import compose_result
from .events import tasks_of
from .state import LifecycleState

MODE = "lifecycle"


def lifecycle_result(state: LifecycleState, answer: str, error: str = "", limit: str = "") -> dict[str, Any]:
    """The task's result."""
    tasks = tasks_of(state["steps"])
    return compose_result(
        MODE,
        answer,
        history=[{**entry, "step": o["step_id"]} for o in state["outcomes"] for entry in o["history"]],
        reasoning="\n".join(f"[{task.step_id}] {task.description}" for task in tasks),
        total_steps=len(tasks),
        plan=state["steps"],
        usage=state["usage"],
        error=error,
        limit=limit,
    )


def whole_answer(state: LifecycleState) -> str:
    """The result of the task that all others lead to, or each under its task; then what is in doubt or undone."""
    tasks, results = tasks_of(state["steps"]), state["results"]
    last = _conclusion(tasks)
    answer = results[last.step_id] if last and last.step_id in results else done_so_far(state)
    if not answer and len(tasks) == 1:
        answer = "\n\n".join(outcome["answer"] for outcome in state["outcomes"])
    undone = [f"- {task.description}: {task.note}" for task in tasks if task.status is not Status.DONE]
    left = phrase("lifecycle_left", state["language"], tasks="\n".join(undone)) if undone and len(tasks) > 1 else ""
    doubtful = dict.fromkeys(line for outcome in state["outcomes"] for line in outcome.get("unknown", ()))
    return "\n\n".join(part for part in (answer, *(line for line in doubtful if line not in answer), left) if part)


def done_so_far(state: LifecycleState) -> str:
    """The results of the completed tasks, each under its description; one alone has none."""
    tasks, results = tasks_of(state["steps"]), state["results"]
    done = [task for task in tasks if results.get(task.step_id)]
    if len(done) == 1:
        return results[done[0].step_id]
    return "\n\n".join(f"### {task.description}\n\n{results[task.step_id]}" for task in done)


def _conclusion(tasks: Sequence[SubTask]) -> SubTask | None:
    """The one task that every other leads to."""
    needed = {need for task in tasks for need in task.depends_on}
    last = [task for task in tasks if task.step_id not in needed]
    return last[0] if len(last) == 1 else None
