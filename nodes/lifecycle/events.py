"""Events of the engine, and the tasks' form in the state."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from segue.core.calls import CallResult
from segue.core.events import Lifecycle
from segue.core.lifecycle import EngineEventType, EngineState, SubTask, next_state
from segue.core.plan import Status
from segue.prompts.catalogue import phrase

from ..shared.plan_progress import end_steps


def engine_event(task_id: str, kind: EngineEventType, details: Mapping[str, Any]) -> Lifecycle:
    """An event of the engine; `task_id` is the whole run's, a subtask's is in the details."""
    return Lifecycle(task_id=task_id, event_type=kind.value, details=dict(details))


def changed(task_id: str, old: str, new: EngineState) -> Lifecycle:
    """The engine's state changes.

    Raises:
        IllegalTransition: the table has no such move.
    """
    return engine_event(
        task_id, EngineEventType.STATE_CHANGED, {"from": EngineState(old).value, "to": next_state(old, new).value}
    )


def unknown_calls(history: Iterable[Mapping[str, Any]], language: str) -> list[str]:
    """A line for each tool of which a call may or may not have taken effect."""
    unknown = (entry["action"] for entry in history if CallResult.of(entry["result"]).unknown)
    return [phrase("unknown_call", language, tool=tool) for tool in dict.fromkeys(unknown)]


def tasks_of(steps: Iterable[Mapping[str, Any]]) -> tuple[SubTask, ...]:
    """The state's tasks."""
    return tuple(SubTask(**step) for step in steps)


def as_steps(tasks: Iterable[SubTask]) -> list[dict[str, Any]]:
    """The tasks as the state keeps them."""
    return [task.model_dump(mode="json") for task in tasks]


def ended(tasks: Sequence[SubTask], outcomes: Iterable[Mapping[str, Any]]) -> tuple[SubTask, ...]:
    """The tasks once some were carried out: {step_id, answer, error, …} each."""
    return end_steps(tasks, [{"step_id": o["step_id"], "name": "", "result": _result(o)} for o in outcomes])


def _result(outcome: Mapping[str, Any]) -> dict[str, Any]:
    return {"error": outcome["error"]} if outcome["error"] else {"success": outcome["answer"]}


def completed(tasks: Sequence[SubTask]) -> int:
    """How many of the tasks are completed."""
    return sum(task.status is Status.DONE for task in tasks)
