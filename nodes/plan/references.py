"""Parameters that refer to earlier results: {"$ref": "steps.<step>.result.<field>.<place>"}."""

from collections.abc import Iterator, Mapping
from typing import Any


class DanglingReference(Exception):
    """A reference leads nowhere; the message says where it broke off."""


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
            return
        for inner in value.values():
            yield from _references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _references(inner)


def referenced_steps(params: Any) -> list[str]:
    """The ids of the steps that parameters refer to."""
    parts = [reference.split(".") for reference in _references(params)]
    return [part[1] for part in parts if len(part) > 1 and part[0] == "steps"]


def resolve(value: Any, results: Mapping[str, Any]) -> Any:
    """The parameters with every reference replaced; `results` maps a step's id to its successful result.

    Raises:
        DanglingReference: a step, field or place is not there.
    """
    if isinstance(value, Mapping):
        if isinstance(value.get("$ref"), str):
            return _look_up(value["$ref"], results)
        return {name: resolve(inner, results) for name, inner in value.items()}
    if isinstance(value, list):
        return [resolve(inner, results) for inner in value]
    return value


def _look_up(reference: str, results: Mapping[str, Any]) -> Any:
    parts = reference.split(".")
    if len(parts) < 3 or parts[0] != "steps" or parts[2] != "result":
        raise DanglingReference(f"{reference!r} is not of the form steps.<step>.result.<field>")
    if parts[1] not in results:
        raise DanglingReference(f"{reference!r}: step {parts[1]} has no result")
    found = results[parts[1]]
    for part in parts[3:]:
        found = _enter(found, part, reference)
    return found


def _enter(value: Any, part: str, reference: str) -> Any:
    if isinstance(value, Mapping) and part in value:
        return value[part]
    if isinstance(value, list) and part.isdigit() and int(part) < len(value):
        return value[int(part)]
    there = (
        list(value) if isinstance(value, Mapping) else f"{len(value)} items" if isinstance(value, list) else "no fields"
    )
    raise DanglingReference(f"{reference!r} breaks off at {part!r}; there is: {there}")
