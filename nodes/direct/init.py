"""INIT: a new task on the thread."""

from typing import cast

from ..beginning import begin
from ..context import NodeRuntime
from ..objective import additions
from .state import DirectState, DirectUpdate


async def init(state: DirectState, runtime: NodeRuntime) -> DirectUpdate:
    """Mint the task's id and reset everything that belongs to a task."""
    fresh = cast(DirectUpdate, begin(state["messages"], state.get("assignment"), runtime))
    return {**fresh, "notes": len(additions(state["messages"])), "gave_up": ""}
