"""GIVE_UP: no plan could be had; another mode takes over."""

from ..shared.context import NodeRuntime, announce
from ..shared.task import compose_result, end_task
from .state import PlanState, PlanUpdate


async def give_up(state: PlanState, runtime: NodeRuntime) -> PlanUpdate:
    """Say why there is no plan; alone, the task ends with it."""
    why = state["complaint"]
    if state["nested"]:
        return {"gave_up": why}
    result = compose_result("plan", "", usage=state["usage"], error=why)
    return {
        "gave_up": why,
        "result": result,
        "events": announce(*end_task(state, result, failure=why, answered=False)),
    }
