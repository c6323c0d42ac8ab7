"""Approvals and answers in an imported document, which are removed."""

from collections.abc import Iterable, Mapping
from typing import Any

from langgraph.types import Interrupt, Send

from segue.core.question import PAUSE

from ..state.serializer import CheckedSerializer
from .export_format import Blob, CheckpointPart, StatePart

RESUME = "__resume__"
"""LangGraph's channel of the answers to interrupts."""
_INTERRUPT = "__interrupt__"
_APPROVED = "approved"
"""The mark at a call that a person approved, as the nodes write it."""
_SERDE = CheckedSerializer(allowed_msgpack_modules=[])


def without_approvals(blob: Blob) -> tuple[str, bytes]:
    """The type and bytes of a stored value, without the marks of approved calls in it."""
    value = _SERDE.loads_typed(blob.value())
    return _SERDE.plain_typed(value) if _strip(value) else blob.value()


def _strip(value: Any) -> bool:
    """Remove the marks, in place; whether there were any."""
    found, waiting = False, [value]
    while waiting:
        part = waiting.pop()
        match part:
            case Send():
                waiting.append(part.arg)
            case dict():
                found |= "name" in part and part.pop(_APPROVED, None) is not None
                waiting += part.values()
            case list() | tuple() | set():
                waiting += part
    return found


def has_question(state: StatePart) -> bool:
    """Whether the state is interrupted by a question to a person, in an innermost graph."""
    places = _innermost(state.checkpoints)
    asked = (
        _SERDE.loads_typed(write.value.value())
        for write in state.writes
        if write.channel == _INTERRUPT and (write.inside, write.checkpoint_id) in places
    )
    return any(_is_question(each) for interrupts in asked for each in _several(interrupts))


def _innermost(checkpoints: Iterable[CheckpointPart]) -> set[tuple[str, str]]:
    """The newest checkpoint of each graph that is under way and waits for no graph inside it."""
    newest = {part.inside: part for part in sorted(checkpoints, key=lambda part: part.checkpoint_id)}
    places = {(part.inside, part.checkpoint_id): _outside(part) for part in newest.values()}
    under_way = {place: outside for place, outside in places.items() if outside <= places.keys()}
    return under_way.keys() - set().union(*under_way.values())


def _outside(part: CheckpointPart) -> set[tuple[str, str]]:
    parents = part.metadata.get("parents")
    return set(parents.items()) if isinstance(parents, dict) else set()


def _several(interrupts: Any) -> Iterable[Any]:
    return interrupts if isinstance(interrupts, list | tuple) else (interrupts,)


def _is_question(interrupt: Any) -> bool:
    return (
        isinstance(interrupt, Interrupt) and isinstance(interrupt.value, Mapping) and interrupt.value != {"kind": PAUSE}
    )
