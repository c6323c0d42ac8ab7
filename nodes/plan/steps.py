"""Steps of a plan: their banners, those that failed or are in doubt, and references to their results."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from segue.core.calls import CallResult
from segue.core.errors import TaskError
from segue.core.events import Phase
from segue.core.plan import Status, Step
from segue.prompts.catalogue import phrase

from ..shared.context import NodeContext
from ..shared.hidden_results import is_to_call, reference_to
from ..shared.plan_progress import end_steps
from ..shared.references import REF, DanglingReference, follow, references, resolve_arguments
from .state import PlannedCall, PlanState

_PHASES = ("planning", "execution", "generation")


def call_of(step: Step, state: PlanState) -> PlannedCall:
    """The call of a step, its references not resolved yet."""
    attempt = 1 + sum(outcome["step_id"] == step.step_id for outcome in state["outcomes"])
    scope = f"{step.step_id}#{attempt}"
    return {
        "index": 0,
        "name": step.action,
        "arguments": step.params,
        "scope": scope,
        "origin": f"{state['origin']}/{scope}",
        "step_id": step.step_id,
        "description": step.description,
        "phase": step.phase,
        "action": step.action,
        "params": step.params,
    }


def resolved(call: PlannedCall, state: PlanState) -> PlannedCall:
    """The call with the results that its step refers to.

    Raises:
        DanglingReference: one is not there.
    """
    ran = {o["step_id"]: o for o in state["outcomes"] if CallResult.of(o["result"]).success}
    arguments = resolve_arguments(call["params"], partial(_look_up, outcomes=ran))
    refs = {name: [ran[step]["ref"] for step in referenced_steps(value)] for name, value in call["params"].items()}
    return {**call, "arguments": arguments, "taken": {name: found for name, found in refs.items() if found}}


def dispatched(call: PlannedCall, state: PlanState) -> PlannedCall:
    """The call as it is sent out: that of the wave, or with what an update of the state has changed in its step since.

    Raises:
        TaskError: the update cannot be carried out.
    """
    step = next((Step(**step) for step in state["plan"] if step["step_id"] == call["step_id"]), None)
    if step is None or step.status is not Status.RUNNING:
        raise _not_changed(call, "it is under way in this state")
    if (step.action, step.params) == (call["action"], call["params"]):
        return call
    if "approved" in call or "rejected" in call:
        raise _not_changed(call, "a person decided about its call")
    try:
        again = resolved(call_of(step, state), state)
    except DanglingReference as error:
        raise _not_changed(call, str(error)) from error
    return {**again, "scope": call["scope"], "origin": call["origin"]}


def _not_changed(call: PlannedCall, why: str) -> TaskError:
    return TaskError(
        "Step {step} of the plan cannot be changed like this: {why}. Choose a state before the step was scheduled.",
        step=call["step_id"],
        why=why,
    )


def step_banner(task_id: str, item: Mapping[str, Any], place: int, total: int, language: str) -> Phase:
    """The banner of a step, or of a wave's entry, under the phase that the plan gave it."""
    phase = item["phase"] if item["phase"] in _PHASES else "execution"
    about = {"phase": phrase(f"phase_{phase}", language), "i": place, "n": total, "description": item["description"]}
    return Phase(task_id=task_id, step_id=item["step_id"], content=phrase("plan_step", language, **about))


def emit_thoughts(before: Sequence[Step], after: Sequence[Step], state: PlanState, work: NodeContext) -> None:
    """Stream the banners of the steps without a tool that are done by now."""
    for place, (old, new) in enumerate(zip(before, after, strict=True), start=1):
        if old.status is Status.PENDING and new.status is Status.DONE and not new.uses_tool:
            work.emit(step_banner(state["task_id"], new.model_dump(), place, len(after), state["language"]))


def last_wave(state: PlanState) -> list[dict[str, Any]]:
    """The outcomes of the wave that was sent out, in the wave's order."""
    results = {outcome["scope"]: outcome for outcome in state["outcomes"]}
    return [results[call["scope"]] for call in state["wave"] if call["scope"] in results]


def settled_steps(state: PlanState) -> tuple[Step, ...]:
    """The plan with the wave that was sent out settled by its outcomes."""
    return end_steps([Step(**step) for step in state["plan"]], last_wave(state))


def steps_in_doubt(state: PlanState) -> set[str]:
    """The ids of the steps whose last call may or may not have taken effect."""
    last = {outcome["step_id"]: outcome["result"] for outcome in state["outcomes"]}
    return {step_id for step_id, result in last.items() if CallResult.of(result).unknown}


def dependents_of(steps: Sequence[Step], step_ids: set[str]) -> set[str]:
    """The ids of the steps that need one of these, also through others."""
    found = set(step_ids)
    while more := {step.step_id for step in steps if found.intersection(step.depends_on)} - found:
        found |= more
    return found - step_ids


def unrepaired(steps: Sequence[Step], state: PlanState) -> list[Step]:
    """The failed steps that no new plan goes around."""
    return [step for step in steps if step.status is Status.ERROR and step.step_id not in state["repaired"]]


def referenced_steps(params: Any) -> list[str]:
    """The ids of the steps that parameters refer to."""
    parts = [reference.split(".") for reference in references(params)]
    return [part[1] for part in parts if len(part) > 1 and part[0] == "steps"]


def _look_up(reference: str, outcomes: Mapping[str, Mapping[str, Any]]) -> Any:
    """The part of a step's result that a reference leads to; of a hidden one, the reference by which calls get it.

    `outcomes` are what ran successfully, by the steps' ids.

    Raises:
        DanglingReference: the step, field or place is not there.
    """
    if is_to_call(reference):
        return {REF: reference}
    parts = reference.split(".")
    if len(parts) < 3 or parts[0] != "steps" or parts[2] != "result":
        raise DanglingReference(f"{reference!r} is not of the form steps.<step>.result.<field>")
    if parts[1] not in outcomes:
        raise DanglingReference(f"{reference!r}: step {parts[1]} has no result")
    outcome = outcomes[parts[1]]
    result = CallResult.of(outcome["result"])
    if result.hidden:
        return {REF: ".".join([reference_to(outcome["ref"]), *parts[3:]])}
    return follow(result.value, parts[3:], reference)
