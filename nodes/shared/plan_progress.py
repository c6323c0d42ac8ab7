"""Progress of a plan, one rule for every mode: a step moves with its calls, which override what the model reports.

A step begins when a call or a branch names it, or matches its tool and parameters, and ends with the result. What the
model says of its steps counts where no call contradicts it.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from segue.core.calls import CallResult
from segue.core.decision import StepStatusUpdate
from segue.core.events import StepUpdate
from segue.core.plan import FINAL, Status, Step, set_status
from segue.prompts.catalogue import phrase
from segue.prompts.words import word

NOTE_CHARS = 200
"""Characters of an error in the note of a step."""
_PREFIX = re.compile(r"^\D+")


def plans_call(step: Step, name: str, arguments: Mapping[str, Any]) -> bool:
    """Whether the plan names this tool for the step, with these values for the parameters that it names."""
    if not step.uses_tool or step.action != name:
        return False
    return all(key in arguments and _fits(value, arguments[key]) for key, value in step.params.items())


def _fits(planned: Any, given: Any) -> bool:
    """A reference to an earlier result fits every value."""
    return (isinstance(planned, Mapping) and "$ref" in planned) or planned == given


def steps_of_calls(
    calls: Sequence[tuple[str, Mapping[str, Any]]], steps: Sequence[Step], named: str, repaired: str = ""
) -> list[str]:
    """The id of the step that each call works on; empty where neither the plan nor the model says.

    The tool and the parameters that the plan names come first, then the step that the model names, then the failed step
    that a repair is for.
    """
    unfinished = [step for step in steps if step.status not in FINAL]
    named = _named(named, unfinished) or _named(repaired, unfinished)
    found: list[str] = []
    for name, arguments in calls:
        planned = [step.step_id for step in unfinished if plans_call(step, name, arguments)]
        if named in planned:
            found.append(named)
        else:
            found.append(next((step_id for step_id in planned if step_id not in found), named))
    return found


def _named(step_id: str, steps: Sequence[Step]) -> str:
    """The step's id as the plan writes it, where a model writes "step_1" for "1"; empty if there is none."""
    ids = [step.step_id for step in steps]
    return next((known for known in (step_id, _PREFIX.sub("", step_id)) if known in ids), "")


def begin_steps(
    steps: tuple[Step, ...], worked_on: Collection[str], claims: Sequence[StepStatusUpdate] = ()
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
    steps: tuple[Step, ...], outcomes: Sequence[Mapping[str, Any]], claims: Sequence[StepStatusUpdate] = ()
) -> tuple[Step, ...]:
    """Settle the running steps by the results of their calls: {step_id, name, result, …} each.

    A step that the model says is running continues after a success.
    """
    still_running = {claim.step_id for claim in claims if claim.status is Status.RUNNING}
    for step in steps:
        results = [(o["name"], CallResult.of(o["result"])) for o in outcomes if o.get("step_id") == step.step_id]
        if step.status is not Status.RUNNING or not results:
            continue
        failed = [(name, result.error) for name, result in results if not result.success]
        shown = [error if len(results) == 1 else f"{name}: {error}" for name, error in failed]
        if failed:
            steps = set_status(steps, step.step_id, Status.ERROR, "; ".join(shown)[:NOTE_CHARS])
        elif step.step_id not in still_running:
            steps = set_status(steps, step.step_id, Status.DONE)
    return steps


def answer_steps(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The plan once the answer is written: it carries out what runs, and the steps without a tool that write it."""
    for step in steps:
        last = step.step_id == steps[-1].step_id and not step.uses_tool
        writing = last or step.phase == "generation" or (step.action and not step.uses_tool)
        if step.status is Status.RUNNING or (step.status is Status.PENDING and writing):
            steps = set_status(steps, step.step_id, Status.DONE)
    return steps


def step_events(old: Sequence[Step], new: Sequence[Step], ids: Mapping[str, Any]) -> list[StepUpdate]:
    """One event a step whose status changed."""
    before = {step.step_id: step.status for step in old}
    return [step_event(step, ids) for step in new if before.get(step.step_id) not in (None, step.status)]


def step_event(step: Step, ids: Mapping[str, Any]) -> StepUpdate:
    """The event of a step that changed."""
    return StepUpdate(
        step_id=step.step_id, status=step.status.value, description=step.description, note=step.note, **ids
    )


def undone_line(text: str, steps: Sequence[Step], language: str) -> str:
    """The steps that are not done, each with its status and why, on one line; `text` names the sentence of one."""
    said = (phrase(text, language, step=s.step_id, status=word(s.status, language), why=s.note) for s in steps)
    return ("；" if language == "zh" else "; ").join(said)
