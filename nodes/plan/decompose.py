"""DECOMPOSE: turn the draft into steps that can run."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from segue.core.errors import InvalidPlan
from segue.core.events import ErrorRaised, Phase
from segue.core.events import PlanUpdate as PlanUpdated
from segue.core.plan import Plan, Status, Step, keep_finished, validate
from segue.core.tools import Tool
from segue.prompts import errors
from segue.prompts.catalogue import phrase

from ..shared.context import NodeRuntime, announce, node_context
from ..shared.entered import vetted_steps
from .state import PlanState, PlanUpdate
from .steps import referenced_steps, steps_in_doubt


async def decompose(state: PlanState, runtime: NodeRuntime) -> PlanUpdate:
    """Validate the draft; what is wrong with it goes back to MAKE_PLAN, and nothing is dropped."""
    return await _decomposed(state, runtime, answers=True)


async def decompose_calls(state: PlanState, runtime: NodeRuntime) -> PlanUpdate:
    """As DECOMPOSE, without a last step that writes the answer: a controller answers by a command."""
    return await _decomposed(state, runtime, answers=False)


async def _decomposed(state: PlanState, runtime: NodeRuntime, *, answers: bool) -> PlanUpdate:
    work = node_context(runtime)
    draft = state["draft"] or {}
    goal = str(draft.get("goal") or state["objective"])
    old = tuple(Step(**step) for step in state["plan"])
    try:
        new = _steps(draft["steps"])
        merged, repeated = _without_repeats(keep_finished(old, new, failed=True), old, state, work.tools)
        repaired = [step.step_id for step in merged if step.status is Status.ERROR]
        left = tuple(step for step in merged if step.step_id not in repaired or step.step_id in repeated)
        validate(Plan(goal=goal, steps=left), work.tools)
    except InvalidPlan as error:
        why = errors.render(error, state["language"])
        event = ErrorRaised(task_id=state["task_id"], message=why)
        return {"complaint": why, "draft": None, "events": announce(event)}
    if not answers and merged[-1].phase == "generation" and not merged[-1].uses_tool:
        merged = merged[:-1]
    steps = [step.model_dump(mode="json") for step in merged]
    banner = phrase("plan_made", state["language"], goal=goal, n=len(steps))
    work.emit(Phase(task_id=state["task_id"], content=banner))
    updated = PlanUpdated(task_id=state["task_id"], goal=goal, steps=steps)
    update: PlanUpdate = {"goal": goal, "plan": steps, "repaired": repaired, "draft": None, "asked": 0, "complaint": ""}
    vetted = await vetted_steps(work, state["task_id"], merged, state.get("vetted", ()))
    return {**update, "vetted": vetted, "events": announce(updated)}


def _steps(drafted: list[Any]) -> tuple[Step, ...]:
    """The steps; one that declares no dependencies follows the one before it and what its parameters refer to.

    One without a description has the name of its tool.
    """
    steps: list[Step] = []
    for place, item in enumerate(drafted, start=1):
        if not isinstance(item, dict):
            raise InvalidPlan("Step {place} is not an object.", place=place)
        try:
            step = Step(**{**_without_nulls(item), "step_id": str(item.get("step", item.get("step_id", place)))})
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise InvalidPlan("Step {place}: {where}: {why}.", place=place, where=where, why=first["msg"]) from error
        needs = [steps[-1].step_id] if item.get("depends_on") is None and steps else list(step.depends_on)
        needs += [need for need in referenced_steps(step.params) if need not in needs]
        needs = [need for need in needs if need != step.step_id]
        said = step.description or (step.action if step.uses_tool else "")
        changes = {"depends_on": tuple(needs), "description": said}
        steps.append(step.model_copy(update=changes))
    return tuple(steps)


def _without_repeats(
    merged: tuple[Step, ...], old: Sequence[Step], state: PlanState, tools: Mapping[str, Tool]
) -> tuple[tuple[Step, ...], set[str]]:
    """The plan with the steps as they were whose calls may have taken effect, and the ids of those that it repeats.

    Such a call is not made again without a person's approval. What needs it cannot run; the rest of the plan can.
    """
    doubtful = steps_in_doubt(state)
    asks = {name for name, tool in tools.items() if tool.approve == "always"}
    kept = {step.step_id: step for step in old if step.step_id in doubtful and step.action not in asks}
    repeated = {step.step_id for step in merged if step.step_id in kept and step.status is Status.PENDING}
    return tuple(kept.get(step.step_id, step) for step in merged), repeated


def _without_nulls(item: dict[str, Any]) -> dict[str, Any]:
    known = ("action", "params", "description", "phase", "depends_on")
    return {name: item[name] for name in known if item.get(name) is not None}
