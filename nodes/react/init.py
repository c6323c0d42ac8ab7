"""INIT: a new task on the thread."""

from typing import cast

from langgraph.types import Overwrite

from ..beginning import begin
from ..context import NodeRuntime
from .state import ReactState, ReactUpdate


async def init(state: ReactState, runtime: NodeRuntime) -> ReactUpdate:
    """Mint the task's id and reset everything that belongs to a task."""
    assignment = state.get("assignment")
    return {
        **cast(ReactUpdate, begin(state["messages"], assignment, runtime)),
        "iteration": 0,
        "trace_id": "",
        "spent": "",
        "plan": (assignment or {}).get("plan") or [],
        "records": Overwrite([]),
        "decision": None,
        "calls": [],
        "outcomes": [],
        "tool_calls": 0,
        "repairs": 0,
    }
