"""Progress of a plan, one rule for every mode: a step moves with its calls, which override what the model reports.

A step begins when a call or a branch names it, or matches its tool and parameters, and ends with the result. What the
model says of its steps counts where no call contradicts it. Every move is one of the table in `core.plan`.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from segue.core.calls import CallResult
from segue.core.decision import StepStatusUpdate
from segue.core.errors import IllegalTransition
from segue.core.events import StepUpdate
from segue.core.plan import FINAL, AnyStep, Status, Step, keep_finished, ready, set_status
from segue.prompts.catalogue import phrase, word

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
    steps: Sequence[AnyStep], worked_on: Collection[str], claims: Sequence[StepStatusUpdate] = ()
) -> tuple[AnyStep, ...]:
    """The plan after what the model says of its steps, with those running whose calls are about to run.

    An impossible claim is ignored, and so is any about a step whose calls are about to run.
    """
    ignored = {*worked_on, *_denied(steps, claims)}
    for claim in claims:
        if claim.step_id not in ignored:
            with suppress(IllegalTransition):
                steps = set_status(steps, claim.step_id, claim.status)
    for step in steps:
        if step.step_id in worked_on and step.status not in FINAL:
            steps = set_status(steps, step.step_id, Status.RUNNING)
    return tuple(steps)


def claim_steps(steps: Sequence[AnyStep], claims: Sequence[StepStatusUpdate]) -> tuple[AnyStep, ...]:
    """The plan after what the model says of its steps, where every claim has to be possible.

    Raises:
        IllegalTransition: one is not.
    """
    if _denied(steps, claims):
        raise IllegalTransition(Status.ERROR, Status.DONE)
    for claim in claims:
        steps = set_status(steps, claim.step_id, claim.status)
    return tuple(steps)


def _denied(steps: Sequence[Step], claims: Sequence[StepStatusUpdate]) -> set[str]:
    """The failed steps that are done according to the model, be it after another status: only a call can do them."""
    done = {claim.step_id for claim in claims if claim.status is Status.DONE}
    return {step.step_id for step in steps if step.status is Status.ERROR and step.step_id in done}


def replan_steps(old: Sequence[Step], new: Sequence[Step]) -> tuple[Step, ...]:
    """The model's new plan behind what is done of the old one; the statuses that it writes are claims."""
    failed = {step.step_id: Status.ERROR for step in old if step.status is Status.ERROR}
    before = [step.model_copy(update={"status": failed.get(step.step_id, Status.PENDING)}) for step in new]
    claims = [StepStatusUpdate(step_id=step.step_id, status=step.status) for step in new]
    return keep_finished(old, begin_steps(before, (), claims))


def restart_steps(steps: Sequence[AnyStep]) -> tuple[AnyStep, ...]:
    """The plan of a run that begins again elsewhere: what was under way is still to be done."""
    for step in steps:
        if step.status is Status.RUNNING:
            steps = set_status(steps, step.step_id, Status.PENDING)
    return tuple(steps)


def end_steps(
    steps: Sequence[AnyStep], outcomes: Sequence[Mapping[str, Any]], claims: Sequence[StepStatusUpdate] = ()
) -> tuple[AnyStep, ...]:
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
    return tuple(steps)


def finish_thoughts(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The plan with its ready steps without a tool done: nothing has to wait for a mere thought."""
    while thoughts := [step.step_id for step in ready(steps) if not step.uses_tool]:
        for step_id in thoughts:
            steps = set_status(steps, step_id, Status.DONE)
    return tuple(steps)


def answer_steps(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The plan once the answer is written: it carries out what runs, and the steps without a tool that write it."""
    for step in steps:
        last = step.step_id == steps[-1].step_id and not step.uses_tool
        writing = last or step.phase == "generation" or (step.action and not step.uses_tool)
        if step.status is Status.RUNNING or (step.status is Status.PENDING and writing):
            steps = set_status(steps, step.step_id, Status.DONE)
    return tuple(steps)


def close_steps(steps: Sequence[Step], answered: str, skipped: Mapping[str, str]) -> tuple[Step, ...]:
    """The plan of which nothing more runs: the answer carries out all steps without a tool, and others are skipped.

    `answered` is the note of the former, `skipped` has those of the latter by their ids.
    """
    steps = finish_thoughts(steps)
    for step in steps:
        if step.status is Status.PENDING and not step.uses_tool:
            steps = set_status(steps, step.step_id, Status.DONE, answered)
    return skip_steps(steps, skipped)


def skip_steps(steps: Sequence[AnyStep], notes: Mapping[str, str]) -> tuple[AnyStep, ...]:
    """The plan with these steps skipped, each with the note that says why."""
    for step_id, note in notes.items():
        steps = set_status(steps, step_id, Status.SKIPPED, note)
    return tuple(steps)


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
