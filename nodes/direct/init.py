"""INIT: a new task on the thread."""

from typing import cast

from ..shared.context import NodeRuntime
from ..shared.task import additions, begin
from .state import DirectState, DirectUpdate


async def init(state: DirectState, runtime: NodeRuntime) -> DirectUpdate:
    """Mint the task's id and reset everything that belongs to a task."""
    fresh = cast(DirectUpdate, begin(state["messages"], state.get("assignment"), runtime))
    return {**fresh, "notes_taken": len(additions(state["messages"])), "gave_up": ""}
