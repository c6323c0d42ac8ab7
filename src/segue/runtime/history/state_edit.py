"""Changes that a person makes to the state at a snapshot."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from ...core.errors import TaskError, listed
from ...core.plan import Step

_FIXED = frozenset(
    {"messages", "records", "outcomes", "task_id", "trace_id", "nested", "origin", "events", "assignment", "result"}
)
"""Logs and ids, which are the engine's own."""


def checked_edit(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The changes in the form that the state holds.

    Raises:
        TaskError: a field is not there, cannot be changed, or its value is of another kind.
    """
    editable = sorted(values.keys() - _FIXED)
    for name in changes:
        if name not in editable:
            raise TaskError(
                "The state has no field '{name}' that can be changed; it has: {known}.",
                name=name,
                known=listed(editable),
            )
    return {name: _checked(name, values[name], value) for name, value in changes.items()}


def _checked(name: str, old: Any, new: Any) -> Any:
    if name == "plan":
        return _plan(new)
    if old is not None and new is not None and _kind(old) != _kind(new):
        raise TaskError("The field '{name}' has the type {kind}; the new value does not.", name=name, kind=_kind(old))
    return new


def _plan(steps: Any) -> list[dict[str, Any]]:
    try:
        read = [Step.model_validate(step) for step in steps]
    except (ValidationError, TypeError) as error:
        why = error.errors()[0]["msg"] if isinstance(error, ValidationError) else "it is not a list of steps"
        raise TaskError("The plan is not valid: {why}.", why=why) from error
    if len({step.step_id for step in read}) < len(read):
        raise TaskError("The plan is not valid: {why}.", why="two steps have one step_id")
    return [step.model_dump(mode="json") for step in read]


def _kind(value: Any) -> str:
    """The JSON kind of a value."""
    match value:
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list() | tuple():
            return "array"
    return "object"
