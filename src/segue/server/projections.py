"""The rounds, statuses and plan of a task as the service answers them."""

from typing import Any

from pydantic import BaseModel

from ..core.events import Event
from ..core.records import Json
from ..runtime.projection import PlanItem, Projection


class CallMade(BaseModel):
    """A call that a round made."""

    index: int
    name: str
    arguments: dict[str, Any]
    step_id: str
    """The plan's step that it works on; empty if none is known."""


class CallEnded(CallMade):
    """What came of it: {"success": value} or {"error": text}."""

    result: dict[str, Any]
    seconds: float


class Recursion(BaseModel):
    """One round of the machine: what it saw, thought, decided and did."""

    trace_id: str
    iteration: int
    step_id: str
    """The plan's step that it works on; empty if none is known."""
    observe: str
    thought: str
    action: dict[str, Any] | None
    calls: list[CallMade]
    results: list[CallEnded]
    errors: list[str]


class StatusChange(BaseModel):
    """The task went from one status to another."""

    seq: int
    timestamp: float
    old: str
    new: str


class PlanStep(BaseModel, extra="allow"):
    """A step as it stands now."""

    step_id: str
    description: str
    status: str


class PlanView(BaseModel):
    """The newest plan; without steps where the task has none."""

    goal: str
    steps: list[PlanStep]


def recursions(task: Projection) -> list[Json]:
    """The rounds in their order."""
    return [
        {
            "trace_id": each.trace_id,
            "iteration": each.iteration,
            "observe": each.observe,
            "thought": each.thought,
            "action": {"action_type": each.action.action_type, "output": each.action.output} if each.action else None,
            "calls": [_fields(CallMade, call) for call in each.calls],
            "results": [_fields(CallEnded, result) for result in each.results],
            "errors": each.errors,
        }
        for each in task.rounds.values()
    ]


def states(task: Projection) -> list[Json]:
    """The statuses that the task went through."""
    return [_fields(StatusChange, change) for change in task.statuses]


def plan(task: Projection) -> Json:
    """The newest plan, each step as it is now."""
    return {"goal": task.goal, "steps": [_step(item) for item in task.plan.values()]}


def _step(item: PlanItem) -> Json:
    """The step, with a note only where there is one."""
    return {name: value for name, value in item.as_dict().items() if name != "note" or value or name in item.fields}


def _fields(model: type[BaseModel], event: Event) -> Json:
    """The fields of the model, from the event's of the same names."""
    return {name: getattr(event, name) for name in model.model_fields}
