"""A tool's specification as the offline planner reads it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from .offline_reading import CJK

Kind = Literal["text", "number", "boolean", "arithmetic", "language", "other"]

_KINDS: Mapping[str, Kind] = {"string": "text", "integer": "number", "number": "number", "boolean": "boolean"}
_FORMAT_KINDS: Mapping[str, Kind] = {"arithmetic": "arithmetic", "language": "language"}
_FORMATS = {
    "email": r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
    "date": r"\d{4}-\d{2}-\d{2}",
    "time": r"\d{1,2}:\d{2}(?::\d{2})?",
    "uri": r"https?://[^\s，。！？）」]+",
    "uuid": r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}",
}
_SAYS_NOTHING = {"min", "max", "the", "and", "for", "number", "how", "many", "to", "of"}


@dataclass(frozen=True)
class Parameter:
    """One argument of a tool; `values` are its enum or examples, `closed` says that there are no others.

    `aliases` are words with the value that each stands for; where there are any, a value is named by them alone.
    """

    name: str
    label: str
    kind: Kind
    many: bool = False
    required: bool = False
    values: tuple[Any, ...] = ()
    closed: bool = False
    pattern: str = ""
    keywords: tuple[str, ...] = ()
    aliases: tuple[tuple[str, Any], ...] = ()

    @property
    def bound(self) -> Literal["", "min", "max"]:
        """Which end of a range the name says it is."""
        parts = self.name.lower().split("_")
        return "min" if "min" in parts else "max" if "max" in parts else ""

    @property
    def words(self) -> list[str]:
        """Words of the name and the label: weaker evidence than keywords."""
        found = re.findall(rf"[A-Za-z]{{3,}}|[{CJK}]{{2}}", f"{self.name.replace('_', ' ')} {self.label}")
        return [word for word in found if word.lower() not in _SAYS_NOTHING]

    @property
    def is_free(self) -> bool:
        """Whether any text will do, so that only quotation marks or a keyword tell where it stands."""
        return self.kind == "text" and not self.closed and not self.pattern


@dataclass(frozen=True)
class Card:
    """What is known of a tool."""

    name: str
    title: str
    description: str
    keywords: tuple[str, ...]
    read_only: bool
    parameters: tuple[Parameter, ...]

    @property
    def required(self) -> tuple[Parameter, ...]:
        return tuple(parameter for parameter in self.parameters if parameter.required)


def read_card(spec: Mapping[str, Any]) -> Card:
    """Read an OpenAI function specification with its `segue` key."""
    function, marks = spec["function"], spec.get("segue", {})
    schema = function.get("parameters") or {}
    required = schema.get("required", ())
    properties = schema.get("properties", {})
    return Card(
        name=function["name"],
        title=marks.get("title") or function["name"],
        description=str(function.get("description") or "").strip(),
        keywords=tuple(marks.get("keywords", ())),
        read_only=bool(marks.get("read_only")),
        parameters=tuple(_parameter(name, body, name in required) for name, body in properties.items()),
    )


def _merged(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema with the first of its alternatives that is not null folded in."""
    for key in ("anyOf", "oneOf", "allOf"):
        if real := [inner for inner in schema.get(key, ()) if inner.get("type") != "null"]:
            return {**_merged(real[0]), **{name: value for name, value in schema.items() if name != key}}
    return dict(schema)


def _type_of(schema: Mapping[str, Any]) -> str:
    given = schema.get("type")
    return next((kind for kind in given if kind != "null"), "") if isinstance(given, list) else str(given or "")


def _parameter(name: str, schema: Mapping[str, Any], required: bool) -> Parameter:
    outer = _merged(schema)
    many = _type_of(outer) == "array"
    inner = _merged(outer.get("items") or {}) if many else outer
    examples = [*outer.get("examples", ()), *(inner.get("examples", ()) if many else ())]
    values = inner.get("enum") or [leaf for item in examples for leaf in (item if isinstance(item, list) else [item])]
    kind = _KINDS.get(_type_of(inner), "text" if values else "other")
    return Parameter(
        name=name,
        label=str(outer.get("description") or outer.get("title") or name).strip(),
        kind=_FORMAT_KINDS.get(inner.get("format", ""), kind),
        many=many,
        required=required,
        values=tuple(value for value in values if isinstance(value, (str, int, float))),
        closed="enum" in inner,
        pattern=inner.get("pattern") or _FORMATS.get(inner.get("format", ""), ""),
        keywords=tuple(outer.get("keywords", ())),
        aliases=_aliases(outer.get("aliases")),
    )


def _aliases(given: Any) -> tuple[tuple[str, Any], ...]:
    """Words and what they stand for, of {value: [words]}; a foreign schema may mean something else by the key."""
    pairs = given.items() if isinstance(given, Mapping) else ()
    return tuple((word, value) for value, words in pairs if isinstance(words, list) for word in words)
