"""GIVEN_PLAN: take over the plan that a caller or the message gives."""

from segue.core.events import PlanUpdate
from segue.core.plan import Step, numbered_plan

from ..shared.context import NodeRuntime, announce
from ..shared.task import PlannedTask


async def given_plan(state: PlannedTask, runtime: NodeRuntime) -> PlannedTask:
    """Show the plan; its steps are carried out as they are written."""
    given = state["plan"] or numbered_plan(state["objective"])
    steps = [Step.model_validate(step).model_dump(mode="json") for step in given]
    return {
        "plan": steps,
        "events": announce(PlanUpdate(task_id=state["task_id"], goal=state["objective"], steps=steps)),
    }
