"""Progress of the plan: the calls that ran override what the model reports."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from segue.core.decision import Decision, StepStatusUpdate
from segue.core.plan import FINAL, Status, Step, set_status

from ..shared.planned_steps import plans_call


def steps_of_calls(decision: Decision, steps: Sequence[Step], repaired: str = "") -> list[str]:
    """The id of the step that each call works on; empty where neither the plan nor the model says.

    The tool and the parameters that the plan names come first, then the step that the model names, then the failed step
    that a repair is for.
    """
    unfinished = [step for step in steps if step.status not in FINAL]
    named = _named(decision.step_id, unfinished) or _named(repaired, unfinished)
    found: list[str] = []
    for call in decision.tool_calls:
        planned = [step.step_id for step in unfinished if plans_call(step, call.name, call.arguments)]
        if named in planned:
            found.append(named)
        else:
            found.append(next((step_id for step_id in planned if step_id not in found), named))
    return found


def _named(step_id: str, steps: Sequence[Step]) -> str:
    """The step's id as the plan writes it, where a model writes "step_1" for "1"; empty if there is none."""
    ids = [step.step_id for step in steps]
    return next((known for known in (step_id, _PREFIX.sub("", step_id)) if known in ids), "")


_PREFIX = re.compile(r"^\D+")


def begin_steps(
    steps: tuple[Step, ...], worked_on: Collection[str], claims: Sequence[StepStatusUpdate]
) -> tuple[Step, ...]:
    """The plan after what the model says of its steps, with those running whose calls are about to run.

    A failed step is not done because the model says so, and of a step whose calls are about to run it says nothing.
    """
    status = {step.step_id: step.status for step in steps}
    for claim in claims:
        now = status.get(claim.step_id)
        refused = now is Status.ERROR and claim.status is Status.DONE
        if now is None or now in FINAL or refused or claim.step_id in worked_on:
            continue
        steps = set_status(steps, claim.step_id, claim.status)
        status[claim.step_id] = claim.status
    for step_id, now in status.items():
        if step_id in worked_on and now not in FINAL:
            steps = set_status(steps, step_id, Status.RUNNING)
    return steps


def end_steps(
    steps: tuple[Step, ...], outcomes: Sequence[Mapping[str, Any]], claims: Sequence[StepStatusUpdate]
) -> tuple[Step, ...]:
    """Settle the steps by what their calls came to; one that the model says is running goes on after a success."""
    still_running = {claim.step_id for claim in claims if claim.status is Status.RUNNING}
    for step in steps:
        results = [outcome for outcome in outcomes if outcome.get("step_id") == step.step_id]
        if step.status is not Status.RUNNING or not results:
            continue
        failure = "; ".join(f"{o['name']}: {o['result']['error']}" for o in results if "error" in o["result"])[:200]
        if failure:
            steps = set_status(steps, step.step_id, Status.ERROR, failure)
        elif step.step_id not in still_running:
            steps = set_status(steps, step.step_id, Status.DONE)
    return steps
