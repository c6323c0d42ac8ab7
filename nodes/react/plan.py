"""PLAN: write the plan, or rewrite it and keep what is done."""

from segue.core.errors import InvalidPlan
from segue.core.events import ErrorRaised, PlanUpdate
from segue.core.plan import Plan, Step, validate
from segue.prompts.errors import render

from ..shared.context import NodeRuntime, announce, node_context
from ..shared.entered import vetted_steps
from ..shared.plan_progress import replan_steps
from .records import control_exchange, decision_of, ids_of, record_of
from .state import ReactState, ReactUpdate


async def plan(state: ReactState, runtime: NodeRuntime) -> ReactUpdate:
    """Take the decided plan over; one that cannot run becomes the next round's error."""
    decision = decision_of(state)
    old = tuple(Step(**step) for step in state["plan"])
    merged = replan_steps(old, decision.plan) if decision.plan else old
    try:
        validate(Plan(goal=state["objective"], steps=merged))
    except InvalidPlan as error:
        why = render(error, state["language"])
        failed = record_of(state, decision.action_type.value, decision, error=why)
        return {"records": [failed], "events": announce(ErrorRaised(message=why, **ids_of(state)))}
    steps = [step.model_dump(mode="json") for step in merged]
    vetted = await vetted_steps(node_context(runtime), state["task_id"], merged, state.get("vetted", ()))
    return {
        "plan": steps,
        "vetted": vetted,
        "records": [record_of(state, decision.action_type.value, decision)],
        "messages": control_exchange(decision, {"success": "The plan is taken over."}),
        "events": announce(PlanUpdate(goal=state["objective"], steps=steps, **ids_of(state))),
    }
