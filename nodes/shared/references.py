"""References of a call's arguments to earlier results: {"$ref": "steps.1.result.cities.0"}."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

REF: Final = "$ref"


class DanglingReference(Exception):
    """A reference leads nowhere; the message says where it broke off."""


def references(value: Any) -> Iterator[str]:
    """The references in a value, however deep."""
    if isinstance(value, Mapping):
        if isinstance(value.get(REF), str):
            yield value[REF]
            return
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def resolve(value: Any, look_up: Callable[[str], Any]) -> Any:
    """The value with every reference replaced by what `look_up` gives for it."""
    if isinstance(value, Mapping):
        if isinstance(value.get(REF), str):
            return look_up(value[REF])
        return {name: resolve(inner, look_up) for name, inner in value.items()}
    if isinstance(value, list):
        return [resolve(inner, look_up) for inner in value]
    return value


def resolve_arguments(arguments: Mapping[str, Any], look_up: Callable[[str], Any]) -> dict[str, Any]:
    """A call's arguments with every reference in them replaced.

    Raises:
        DanglingReference: one leads nowhere, or stands in place of all arguments.
    """
    if isinstance(arguments.get(REF), str):
        raise DanglingReference(
            f"{arguments[REF]!r} stands in place of all arguments: refer to a result in each of them"
        )
    return {name: resolve(value, look_up) for name, value in arguments.items()}


def follow(value: Any, path: Sequence[str], reference: str) -> Any:
    """The part of a value that a path of fields and places leads to.

    Raises:
        DanglingReference: a field or place is not there.
    """
    for part in path:
        value = _enter(value, part, reference)
    return value


def _enter(value: Any, part: str, reference: str) -> Any:
    if isinstance(value, Mapping) and part in value:
        return value[part]
    if isinstance(value, list) and part.isdigit() and int(part) < len(value):
        return value[int(part)]
    there = (
        list(value) if isinstance(value, Mapping) else f"{len(value)} items" if isinstance(value, list) else "no fields"
    )
    raise DanglingReference(f"{reference!r} breaks off at {part!r}; there is: {there}")
