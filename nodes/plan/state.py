"""State of the plan graph."""

from typing import Any

from typing_extensions import TypedDict

from segue.core.calls import PendingCall

from ..shared.channels import Records
from ..shared.task import TaskState


class PlannedCall(PendingCall, total=False):
    """The call of a step, with what the plan says of it."""

    description: str
    phase: str
    action: str
    params: dict[str, Any]
    """The step's tool and parameters when the call was made of it."""


class PlanState(TaskState, total=False):
    """INIT resets every channel that belongs to a task."""

    origin: str
    """What the idempotency keys of the calls are made of; a fork keeps it. INIT."""
    notes_taken: int
    """How many additions the objective holds. INIT, MAKE_PLAN, SCHEDULE, ANSWER."""
    draft: dict[str, Any] | None
    """The plan as the model wrote it: {goal, steps}; None while it cannot be read. MAKE_PLAN."""
    asked: int
    """How often this plan was asked for. MAKE_PLAN; 0 again when one is accepted. DECOMPOSE."""
    complaint: str
    """What is wrong with the draft or went wrong with the plan; empty if nothing. MAKE_PLAN, DECOMPOSE, SCHEDULE."""
    replans: int
    """Plans asked for because a step failed. SCHEDULE."""
    goal: str
    """DECOMPOSE."""
    plan: list[dict[str, Any]]
    """Steps. DECOMPOSE, SCHEDULE, ANSWER."""
    vetted: list[dict[str, Any]]
    """Steps that untrusted text has no part in: {action, params}. INIT, DECOMPOSE."""
    repaired: list[str]
    """Failed steps that the plan goes around: they stay in it as they are. DECOMPOSE."""
    wave: list[PlannedCall]
    """Calls of the steps that are under way. SCHEDULE."""
    outcomes: Records
    """What ran: a wave's entry with its `result` and the `usage` of its summary, `announced` where the events say how
    the step ended. EXECUTE_STEP, and SCHEDULE for what could not be run."""
    gave_up: str
    """GIVE_UP."""


PlanUpdate = PlanState
"""What a node returns: the channels that it changes."""


class StepWork(TypedDict):
    """What one EXECUTE_STEP is sent."""

    task_id: str
    language: str
    call: PlannedCall
    """Of the wave."""
    place: int
    """Of the step in its plan, from 1."""
    total: int
