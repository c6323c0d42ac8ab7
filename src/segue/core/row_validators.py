"""Validators of records: of all fields in one call, for rows with which nothing is wrong, and of each field."""

import json
from collections.abc import Collection, Mapping
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, Final, NamedTuple, NotRequired, Protocol, get_args, get_type_hints

from pydantic import BeforeValidator, ConfigDict, TypeAdapter, ValidationError
from typing_extensions import TypedDict  # pydantic takes no other with Python 3.11

from .events import TYPES
from .moments import LAST

Json = dict[str, Any]

_typed_dict: Any = TypedDict  # with fields that are known at run time only

IDS: Final = ("task_id", "trace_id", "step_id", "iteration", "timestamp")
"""What every stored event has beside its type."""
STORED_AS_JSON: Final = "stored as JSON text"
"""Marks the fields whose columns hold JSON."""
OR_EMPTY: Final = BeforeValidator(lambda given: given or [])
"""Reads an empty list where there is none."""


def valid_values(kind: type, columns: Mapping[str, Any], texts: Collection[str]) -> Json | None:
    """The values of a row of a dataclass, of which `texts` are JSON; None where something is wrong with one."""
    values = {**columns}
    try:
        for name in texts:
            text = values[name]
            if text is not None:
                if type(text) is not str:
                    return None
                values[name] = _decoded(text)
        found: Json = _shape(kind).validate_python(values)
    except (ValueError, TypeError, RecursionError):
        return None
    return found


def is_valid_event(form: Json) -> bool:
    """Whether nothing is wrong with an event in the form of `events.to_dict`."""
    try:
        data = form["data"]
        if type(data) is not dict or not data.keys().isdisjoint(form):
            return False
        kind: type = TYPES[form["type"]]
        values = _shape(kind, IDS).validate_python(data | form)
    except (ValidationError, TypeError, LookupError):
        return False
    return bool(0 <= values["timestamp"] < LAST)


_decoded = json.JSONDecoder().decode  # json.loads builds and checks more than it needs for a text


@cache
def _shape(kind: type, needed: Collection[str] | None = None) -> TypeAdapter[Json]:
    """The validator of a dict with the fields of a dataclass; with `needed`, others that have a default may lack."""
    hints = get_type_hints(kind, include_extras=True)
    types: dict[str, Any] = {}
    for field in fields(kind):
        has_default = field.default is not MISSING or field.default_factory is not MISSING
        may_lack = needed is not None and has_default and field.name not in needed
        types[field.name] = NotRequired[hints[field.name]] if may_lack else hints[field.name]
    shape = _typed_dict(kind.__name__, types)
    shape.__pydantic_config__ = ConfigDict(strict=True)
    return TypeAdapter(shape)


class Row(Protocol):
    """Values by name."""

    def __getitem__(self, name: str, /) -> Any: ...


class Column(NamedTuple):
    """What a field may hold, and whether its column holds it as JSON text."""

    adapter: TypeAdapter[Any]
    stored_as_json: bool


@cache
def columns_of(kind: type) -> Mapping[str, Column]:
    hints, config = get_type_hints(kind, include_extras=True), ConfigDict(strict=True)
    return {
        field.name: Column(TypeAdapter(hints[field.name], config=config), STORED_AS_JSON in get_args(hints[field.name]))
        for field in fields(kind)
    }


@cache
def texts_of(kind: type) -> tuple[str, ...]:
    return tuple(name for name, column in columns_of(kind).items() if column.stored_as_json)


def read_each(columns: Mapping[str, Column], row: Row, stored: bool) -> tuple[Json, dict[str, str]]:
    values: Json = {}
    faults: dict[str, str] = {}
    for name, column in columns.items():
        try:
            values[name] = _value(column, row[name], stored)
        except ValidationError as error:
            faults[name] = str(error.errors()[0]["msg"]).removeprefix("Input ").removeprefix("Value error, ")
        except (ValueError, TypeError, RecursionError):
            faults[name] = "is not valid JSON"
    return values, faults


def _value(column: Column, value: Any, stored: bool) -> Any:
    if stored and column.stored_as_json and value is not None:
        value = json.loads(_TEXT.validate_python(value, strict=True))
    return column.adapter.validate_python(value)


_TEXT: TypeAdapter[str] = TypeAdapter(str)


def listed_faults(faults: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {fault}" for name, fault in faults.items())
