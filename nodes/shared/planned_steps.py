"""Steps of a plan: the match between steps and calls, their endings and their events."""

from collections.abc import Mapping, Sequence
from typing import Any

from segue.core.events import StepUpdate
from segue.core.plan import Status, Step, set_status


def plans_call(step: Step, name: str, arguments: Mapping[str, Any]) -> bool:
    """Whether the plan names this tool for the step, with these values for the parameters that it names."""
    if not step.uses_tool or step.action != name:
        return False
    return all(key in arguments and _fits(value, arguments[key]) for key, value in step.params.items())


def _fits(planned: Any, given: Any) -> bool:
    """A reference to an earlier result fits every value."""
    return (isinstance(planned, Mapping) and "$ref" in planned) or planned == given


def close_steps(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """At the answer: what runs is done, and so is the writing of the answer, or a last step without a tool."""
    for step in steps:
        last = step.step_id == steps[-1].step_id and not step.uses_tool
        writing = last or step.phase == "generation" or (step.action and not step.uses_tool)
        if step.status is Status.RUNNING or (step.status is Status.PENDING and writing):
            steps = set_status(steps, step.step_id, Status.DONE)
    return steps


def step_events(old: Sequence[Step], new: Sequence[Step], ids: dict[str, Any]) -> list[StepUpdate]:
    """One event a step whose status changed."""
    before = {step.step_id: step.status for step in old}
    return [
        StepUpdate(step_id=s.step_id, status=s.status.value, description=s.description, note=s.note, **ids)
        for s in new
        if before.get(s.step_id) not in (None, s.status)
    ]
