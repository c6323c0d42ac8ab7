"""GIVE_UP: no plan could be had; another mode takes over."""

from typing import Any

from segue.core.events import ErrorRaised, TaskComplete

from ..shared.context import NodeRuntime, announce
from ..shared.task import compose_result
from .state import PlanState, PlanUpdate


async def give_up(state: PlanState, runtime: NodeRuntime) -> PlanUpdate:
    """Say why there is no plan; alone, the task ends with it."""
    why = state["complaint"]
    if state["nested"]:
        return {"gave_up": why}
    result = compose_result("plan", "", usage=state["usage"], error=why)
    ids: dict[str, Any] = {"task_id": state["task_id"]}
    ended = announce(ErrorRaised(message=why, final=True, **ids), TaskComplete(status="error", result=result, **ids))
    return {"gave_up": why, "result": result, "events": ended}
