"""PLAN: rewrite the plan or mark its steps; the text of a step that stays is never the model's copy of it."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from segue.core.decision import StepStatusUpdate, read_steps
from segue.core.errors import IllegalTransition, InvalidPlan, UnreadableReply, listed
from segue.core.events import BranchEnd, PlanUpdate, StepUpdate
from segue.core.plan import Plan, Status, Step, keep_finished, validate
from segue.prompts.catalogue import phrase
from segue.prompts.errors import render

from ..shared.context import NodeRuntime, announce
from ..shared.plan_progress import claim_steps, step_events
from .branches import ids_of
from .outcome import outcome_of
from .state import FlowState, FlowUpdate

Steps = tuple[Step, ...]


class Refused(Exception):
    """The plan stays as it is; the message says why."""


async def plan(state: FlowState, runtime: NodeRuntime) -> FlowUpdate:
    """Carry out `re_plan` or `update_plan`; what does not fit is the controller's error."""
    call = state["call"] or {}
    old = tuple(Step(**step) for step in state["steps"])
    try:
        new = (
            _re_planned(old, call["arguments"], state)
            if call["name"] == "re_plan"
            else _updated(old, call["arguments"], state["language"])
        )
        result: dict[str, Any] = {"success": [f"{step.step_id} {step.status}: {step.description}" for step in new]}
    except Refused as why:
        new, result = old, {"error": str(why)}
    outcome = outcome_of(call["name"], "built_in", call["arguments"], result, state)
    about = {name: outcome[name] for name in ("branch", "kind", "result", "summary")}
    return {
        "call": None,
        "steps": [step.model_dump(mode="json") for step in new],
        "outcome": outcome,
        "events": announce(*_moves(call["name"], old, new, state), BranchEnd(**about, **ids_of(state))),
    }


def _re_planned(old: Steps, arguments: Mapping[str, Any], state: FlowState) -> Steps:
    """The new plan behind what is finished of the old one."""
    try:
        drafted = tuple(
            step.model_copy(update={"status": Status.PENDING}) for step in read_steps(arguments.get("plan"))
        )
        merged = keep_finished(old, drafted)
        validate(Plan(goal=state["objective"], steps=merged))
    except (UnreadableReply, InvalidPlan) as error:
        raise Refused(render(error, state["language"])) from error
    return merged


def _updated(old: Steps, arguments: Mapping[str, Any], language: str) -> Steps:
    """The plan with new statuses; ids and texts stay."""
    given = arguments.get("updates")
    if not isinstance(given, list) or not given:
        raise Refused(phrase("updates_needed", language, form='"updates": [{"step_id", "status"}]'))
    ids = [step.step_id for step in old]
    try:
        claims = [StepStatusUpdate.model_validate(item) for item in given]
        if unknown := [claim.step_id for claim in claims if claim.step_id not in ids]:
            raise Refused(phrase("no_such_step", language, step=repr(unknown[0]), known=listed(ids)))
        return claim_steps(old, claims)
    except ValidationError as error:
        raise Refused(phrase("status_not_changed", language, error=error)) from error
    except IllegalTransition as error:
        raise Refused(phrase("status_not_changed", language, error=render(error, language))) from error


def _moves(command: str, old: Steps, new: Steps, state: FlowState) -> list[PlanUpdate | StepUpdate]:
    ids = ids_of(state)
    if new == old:
        return []
    if command == "re_plan":
        steps = [step.model_dump(mode="json") for step in new]
        return [PlanUpdate(goal=state["objective"], steps=steps, **ids)]
    return [*step_events(old, new, ids)]
