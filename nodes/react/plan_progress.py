"""How the plan moves: what really ran wins over what the model says was done."""

from collections.abc import Sequence
from typing import Any

from segue.core.decision import ActionType, Decision, StepStatusUpdate
from segue.core.events import StepUpdate
from segue.core.plan import FINAL, Status, Step, ready, set_status


def claimed(steps: tuple[Step, ...], claims: Sequence[StepStatusUpdate]) -> tuple[Step, ...]:
    """The plan after what the model says of its steps.

    A failed step is not done because the model says so, nor is one whose calls are only about to run.
    """
    standing = {step.step_id: step.status for step in steps}
    for claim in claims:
        now = standing.get(claim.step_id)
        if now is None or now in FINAL or (now in (Status.ERROR, Status.RUNNING) and claim.status is Status.DONE):
            continue
        steps = set_status(steps, claim.step_id, claim.status)
        standing[claim.step_id] = claim.status
    return steps


def begin_step(steps: tuple[Step, ...], decision: Decision) -> tuple[Step, ...]:
    """Mark the step that the decision works on as running."""
    if decision.action_type not in (ActionType.CALL_TOOL, ActionType.REMEND) or not decision.tool_calls:
        return steps
    named = next((step for step in steps if step.step_id == decision.step_id), None)
    under_way = any(step.status is Status.RUNNING for step in steps)
    step = named or (None if under_way else next(iter(ready(steps)), None))
    if step is None or step.status in FINAL:
        return steps
    return set_status(steps, step.step_id, Status.RUNNING)


def end_step(steps: tuple[Step, ...], step_id: str, failure: str) -> tuple[Step, ...]:
    """Settle the running step by what its calls came to; without a name of the plan's every running step is meant."""
    step_id = step_id if any(step.step_id == step_id for step in steps) else ""
    running = [s.step_id for s in steps if s.status is Status.RUNNING and step_id in ("", s.step_id)]
    for found in running:
        steps = set_status(steps, found, Status.ERROR if failure else Status.DONE, failure)
    return steps


def close_steps(steps: tuple[Step, ...], note: str) -> tuple[Step, ...]:
    """At the answer: what runs, and the writing of the answer itself, is done; what was never begun is skipped."""
    for step in steps:
        writing = step.phase == "generation" or (step.action and not step.uses_tool)
        if step.status is Status.RUNNING or (step.status is Status.PENDING and writing):
            steps = set_status(steps, step.step_id, Status.DONE)
        elif step.status is Status.PENDING:
            steps = set_status(steps, step.step_id, Status.SKIPPED, note)
    return steps


def step_events(old: Sequence[Step], new: Sequence[Step], ids: dict[str, Any]) -> list[StepUpdate]:
    """One event a step whose status changed."""
    before = {step.step_id: step.status for step in old}
    return [
        StepUpdate(step_id=s.step_id, status=s.status.value, description=s.description, note=s.note, **ids)
        for s in new
        if before.get(s.step_id) not in (None, s.status)
    ]
