"""INIT: a new task on the thread."""

from typing import cast

from ..shared.channels import replaced
from ..shared.context import NodeRuntime, node_context
from ..shared.task import additions, begin
from .state import PlanState, PlanUpdate


async def init(state: PlanState, runtime: NodeRuntime) -> PlanUpdate:
    """Mint the task's id and reset everything that belongs to a task."""
    assignment = state.get("assignment")
    return {
        **cast(PlanUpdate, begin(state["messages"], assignment, runtime)),
        "origin": node_context(runtime).services.ids.origin(),
        "notes_taken": len(additions(state["messages"])),
        "draft": None,
        "asked": 0,
        "complaint": "",
        "replans": 0,
        "goal": "",
        "plan": (assignment or {}).get("plan") or [],
        "vetted": [],
        "repaired": [],
        "wave": [],
        "outcomes": replaced([]),
        "gave_up": "",
    }
