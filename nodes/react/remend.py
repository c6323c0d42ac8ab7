"""REMEND: take a diagnosis and carry its correction on."""

from segue.core.events import ErrorRaised
from segue.core.plan import Step
from segue.prompts.catalogue import phrase

from ..shared.context import NodeRuntime, announce, node_context
from ..shared.plan_progress import begin_steps, step_events
from .records import announced_calls, calls_of, decision_of, ids_of, record_of
from .state import ReactState, ReactUpdate

MOST_REPAIRS = 3
"""REMENDs in a row for one failure."""


async def remend(state: ReactState, runtime: NodeRuntime) -> ReactUpdate:
    """Set the corrected calls; when repairs are used up, tell the model to plan around the failure."""
    decision = decision_of(state)
    repairs = state["repairs"] + 1
    if repairs > MOST_REPAIRS:
        return _refused(state, phrase("plan_around", state["language"], n=MOST_REPAIRS), repairs)
    if not decision.tool_calls and not decision.plan:
        return _refused(state, phrase("repair_empty", state["language"]), repairs)
    steps = tuple(Step(**step) for step in state["plan"])
    calls = calls_of(state, decision)
    begun = begin_steps(steps, [call["step_id"] for call in calls])
    return {
        "calls": calls,
        "plan": [step.model_dump(mode="json") for step in begun],
        "repairs": repairs,
        "events": announce(
            *step_events(steps, begun, ids_of(state)), *announced_calls(state, calls, node_context(runtime))
        ),
    }


def _refused(state: ReactState, why: str, repairs: int) -> ReactUpdate:
    record = record_of(state, "REMEND", decision_of(state), error=why)
    return {
        "decision": None,
        "repairs": repairs,
        "records": [record],
        "events": announce(ErrorRaised(message=why, **ids_of(state))),
    }
