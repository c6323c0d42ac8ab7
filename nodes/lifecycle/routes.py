"""Routers of the lifecycle graph."""

from collections.abc import Callable
from typing import Literal

from langgraph.types import Send

from segue.core.lifecycle import EngineState

from ..shared.task import attachments_of
from .events import completed, tasks_of
from .state import LifecycleState, Restored, SubTaskWork

PAUSABLE = (EngineState.SCHEDULING, EngineState.EXECUTING)
"""Where a run can be paused, and continues."""


def route_start(restored: Restored | None) -> Callable[[LifecycleState], Literal["RECEIVING", "PAUSED"]]:
    """The router of a run that may continue what an earlier engine did."""

    def route(state: LifecycleState) -> Literal["RECEIVING", "PAUSED"]:
        """A restored run continues where it was paused; any other begins at the beginning."""
        return "PAUSED" if restored and restored["phase"] in PAUSABLE else "RECEIVING"

    return route


def after_receiving(state: LifecycleState) -> Literal["CONTEXT_FETCHING", "ERROR"]:
    """An input that holds nothing to do ends the run."""
    return "ERROR" if state["failure"] else "CONTEXT_FETCHING"


def after_context_fetching(state: LifecycleState) -> Literal["DECOMPOSING", "ERROR"]:
    """A coordinator that fails ends the run."""
    return "ERROR" if state["failure"] else "DECOMPOSING"


def after_decomposing(state: LifecycleState) -> Literal["SCHEDULING", "DECOMPOSING", "ERROR"]:
    """Tasks that cannot be carried out are asked for again, then the run ends."""
    if state["failure"]:
        return "ERROR"
    return "DECOMPOSING" if state["complaint"] else "SCHEDULING"


def after_scheduling(state: LifecycleState) -> Literal["EXECUTING", "PAUSED", "ERROR"]:
    """A pause that was requested meanwhile comes first."""
    if state["failure"]:
        return "ERROR"
    return "PAUSED" if state["held"] else "EXECUTING"


def after_paused(state: LifecycleState) -> Literal["SCHEDULING", "EXECUTING"]:
    """Back to where the run was paused."""
    return "SCHEDULING" if state["phase"] == EngineState.SCHEDULING else "EXECUTING"


def after_executing(state: LifecycleState) -> list[Send] | Literal["PAUSED", "COMPLETED", "ERROR"]:
    """Send the tasks out that begin, or end."""
    if state["failure"]:
        return "ERROR"
    if state["held"]:
        return "PAUSED"
    return [Send("EXECUTE_SUBTASK", _work(state, task_id)) for task_id in state["wave"]] or "COMPLETED"


def _work(state: LifecycleState, task_id: str) -> SubTaskWork:
    steps = {step["step_id"]: step for step in state["steps"]}
    step = steps[task_id]
    return {
        "task_id": state["task_id"],
        "language": state["language"],
        "started_at": state["started_at"],
        "goal": state["objective"],
        "context": state["context"],
        "step": step,
        "needed": [{**steps[need], "answer": state["results"].get(need, "")} for need in step["depends_on"]],
        "calls": state["calls"].get(task_id, []),
        "attachments": attachments_of(state["messages"]),
        "place": list(steps).index(task_id) + 1,
        "total": len(steps),
        "completed": completed(tasks_of(state["steps"])),
    }
