"""How the steps of a plan move, and what the ledger knows their calls by."""

from collections.abc import Mapping, Sequence
from typing import Any

from segue.core.events import StepUpdate
from segue.core.plan import Status, Step, ready, set_status
from segue.core.ports import CallKey

from .state import PlanState


def key_of(task_id: str, item: Mapping[str, Any]) -> CallKey:
    """The place of a wave's entry: its step and its attempt."""
    return CallKey(task_id, f"{item['step_id']}#{item['attempt']}", 0)


def step_event(task_id: str, step: Step) -> StepUpdate:
    """The event of a step that changed."""
    return StepUpdate(
        task_id=task_id, step_id=step.step_id, status=step.status.value, description=step.description, note=step.note
    )


def thought_through(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The plan with its ready steps without a tool done: nothing has to wait for a mere thought."""
    while thoughts := [step.step_id for step in ready(steps) if not step.uses_tool]:
        for step_id in thoughts:
            steps = set_status(steps, step_id, Status.DONE)
    return steps


def in_doubt(state: PlanState) -> set[str]:
    """The ids of the steps whose last call may or may not have taken effect."""
    last = {outcome["step_id"]: outcome["result"] for outcome in state["outcomes"]}
    return {step_id for step_id, result in last.items() if result.get("unknown_outcome")}


def behind(steps: Sequence[Step], step_ids: set[str]) -> set[str]:
    """The ids of the steps that need one of these, also through others."""
    found = set(step_ids)
    while more := {step.step_id for step in steps if found.intersection(step.depends_on)} - found:
        found |= more
    return found - step_ids


def unmended(steps: Sequence[Step], state: PlanState) -> list[Step]:
    """The failed steps that no new plan goes around."""
    mended = state.get("mended", ())  # a task that was begun before there was such a list
    return [step for step in steps if step.status is Status.ERROR and step.step_id not in mended]
