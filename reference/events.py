"""The events and their fields."""

import dataclasses
import inspect
from collections.abc import Sequence
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from segue.core.events import BaseEvent, Delta, Phase, RoundEvent, TaskEvent

from .tables import code, table

_GROUPS = {
    "The task": TaskEvent,
    "Rounds, plans, flows and conversations": RoundEvent,
    "Deltas": Delta,
}
_IDS = {
    "type": "The event's name.",
    "task_id": "The task.",
    "trace_id": "The recursion, if any.",
    "step_id": "The plan's step, if any.",
    "iteration": "The number of the round, from 1.",
    "parent_id": "The flow's round whose branch caused the event; omitted if there is none.",
    "seq": "The number of a durable event in its task, from 1 without a gap; 0 for deltas.",
    "timestamp": "Unix time in seconds.",
}


def describe_ids() -> str:
    return table(("field", "meaning"), ((code(name), meaning) for name, meaning in _IDS.items()))


def describe_events() -> str:
    parts = []
    for heading, kinds in _GROUPS.items():
        parts += [f"## {heading}", *map(_event, get_args(kinds))]
    return "\n\n".join(parts)


def _event(kind: type[BaseEvent]) -> str:
    own = [each for each in dataclasses.fields(kind) if each.name not in _IDS]
    also = " with `phase`" if kind is Phase else ""
    parts = [f"### `{kind.__dataclass_fields__['type'].default}`{also}", inspect.cleandoc(kind.__doc__ or "")]
    return "\n\n".join([*parts, f"Data: {', '.join(map(_field, own))}."] if own else parts)


def _field(each: "dataclasses.Field[Any]") -> str:
    default = _default(each)
    return f"{code(each.name)} ({code(type_name(each.type))}{f', default {default}' if default else ''})"


def type_name(kind: Any) -> str:
    """A type as a table shows it, without the bars that would end a cell."""
    origin, inside = get_origin(kind), get_args(kind)
    if origin is Literal:
        return " or ".join(map(repr, inside))
    if origin in (Union, UnionType):
        return " or ".join(type_name(each) for each in inside if each is not NoneType)
    if inside:
        if origin in (Sequence, tuple):
            return f"list[{type_name(inside[0])}]"
        return f"{origin.__name__}[{', '.join(map(type_name, inside))}]"
    return getattr(kind, "__name__", str(kind))


def _default(each: "dataclasses.Field[Any]") -> str:
    if each.default_factory is not dataclasses.MISSING:
        return code(each.default_factory())
    return "" if each.default is dataclasses.MISSING else code(repr(each.default))
