"""PLAN: write the plan, or rewrite it and keep what is done."""

from segue.core.errors import InvalidPlan
from segue.core.events import ErrorRaised, PlanUpdate
from segue.core.plan import Plan, Step, keep_finished, validate

from ..shared.context import NodeRuntime, announce
from .records import control_exchange, decision_of, ids_of, record_of
from .state import ReactState, ReactUpdate


async def plan(state: ReactState, runtime: NodeRuntime) -> ReactUpdate:
    """Take the decided plan over; one that cannot run becomes the next round's error."""
    decision = decision_of(state)
    old = tuple(Step(**step) for step in state["plan"])
    merged = keep_finished(old, decision.plan)
    try:
        validate(Plan(goal=state["objective"], steps=merged))
    except InvalidPlan as error:
        failed = record_of(state, decision.action_type.value, decision, error=str(error))
        return {"records": [failed], "events": announce(ErrorRaised(message=str(error), **ids_of(state)))}
    steps = [step.model_dump(mode="json") for step in merged]
    return {
        "plan": steps,
        "records": [record_of(state, decision.action_type.value, decision)],
        "messages": control_exchange(decision, {"success": "The plan is taken over."}),
        "events": announce(PlanUpdate(goal=state["objective"], steps=steps, **ids_of(state))),
    }
