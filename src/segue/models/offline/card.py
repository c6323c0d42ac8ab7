"""A tool's specification as the offline planner reads it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from .text import CJK

_SAYS_NOTHING = frozenset(re.findall(r"\w+", "get list find search query fetch look make the and for how many min max"))


@dataclass(frozen=True)
class Parameter:
    """One argument of a tool.

    `kind` is the JSON type, or the format `arithmetic` or `language`; `values` are its enum (`closed`) or examples, by
    the word that stands for each.
    """

    name: str
    label: str
    kind: str
    many: bool = False
    required: bool = False
    values: Mapping[Any, Any] = field(default_factory=dict)
    closed: bool = False
    pattern: str = ""
    keywords: tuple[str, ...] = ()

    @property
    def bound(self) -> str:
        """Which end of a range the name says it is."""
        return next((part for part in self.name.lower().split("_") if part in ("min", "max")), "")

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The keywords, then the words of the name and the label."""
        found = re.findall(rf"[A-Za-z]{{3,}}|[{CJK}]{{2}}", f"{self.name.replace('_', ' ')} {self.label}")
        return (*self.keywords, *(word for word in found if word.lower() not in _SAYS_NOTHING))

    @property
    def switches(self) -> tuple[str, ...]:
        """The words that set a boolean: its keywords, else those of its name; a label may name the opposite, too."""
        return self.keywords or tuple(word for word in self.name.split("_") if len(word) > 2)

    @property
    def is_number(self) -> bool:
        return self.kind in ("integer", "number") and not self.values

    @property
    def is_free(self) -> bool:
        """Whether any text will do."""
        return self.kind == "string" and not self.pattern and not self.closed


@dataclass(frozen=True)
class Card:
    """What is known of a tool; each of `keywords` names it, and so do all of `words` together."""

    name: str
    title: str
    description: str
    keywords: tuple[str, ...]
    words: tuple[str, ...]
    read_only: bool
    parameters: tuple[Parameter, ...]

    @property
    def required(self) -> tuple[Parameter, ...]:
        return tuple(parameter for parameter in self.parameters if parameter.required)


def read_card(spec: Mapping[str, Any]) -> Card:
    """Read an OpenAI function specification with its `segue` key."""
    function, marks = spec["function"], spec["segue"]
    name, title = function["name"], str(marks.get("title") or function["name"])
    schema, given = function.get("parameters") or {}, tuple(marks.get("keywords", ()))
    spelled = re.findall(r"[A-Za-z][a-z]+|[A-Z]+", name)
    return Card(
        name=name,
        title=title,
        description=str(function.get("description") or "").strip(),
        keywords=(*given, *({name, *title.split(" · ")} - {*spelled})),
        words=() if given else tuple(word for word in spelled if word.lower() not in _SAYS_NOTHING),
        read_only=bool(marks.get("read_only")),
        parameters=tuple(
            _parameter(name, body, name in schema.get("required", ()))
            for name, body in schema.get("properties", {}).items()
        ),
    )


def _merged(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema with the first of its alternatives that is not null folded in."""
    for key in ("anyOf", "oneOf", "allOf"):
        if real := [inner for inner in schema.get(key, ()) if inner.get("type") != "null"]:
            return {**_merged(real[0]), **{name: value for name, value in schema.items() if name != key}}
    kinds = schema.get("type")
    return {**schema, "type": next((k for k in kinds if k != "null"), "") if isinstance(kinds, list) else kinds or ""}


def _parameter(name: str, schema: Mapping[str, Any], required: bool) -> Parameter:
    outer = _merged(schema)
    many = outer["type"] == "array"
    inner = _merged(outer.get("items") or {}) if many else outer
    examples = [*outer.get("examples", ()), *(inner.get("examples", ()) if many else ())]
    samples = [leaf for item in examples for leaf in (item if isinstance(item, list) else [item])]
    values = inner.get("enum") or (samples if inner["type"] == "string" else [])
    form = inner.get("format", "")
    return Parameter(
        name=name,
        label=str(outer.get("description") or outer.get("title") or name).strip(),
        kind=form if form in ("arithmetic", "language") else inner["type"] or ("string" if values else ""),
        many=many,
        required=required,
        values=_aliases(outer.get("aliases")) or {v: v for v in values if isinstance(v, str | int | float)},
        closed="enum" in inner,
        pattern=inner.get("pattern", ""),
        keywords=tuple(outer.get("keywords", ())),
    )


def _aliases(given: Any) -> dict[Any, Any]:
    """The value that each word stands for, of {value: [words]}; a foreign schema may mean something else by the key."""
    pairs = given.items() if isinstance(given, Mapping) else ()
    return {word: value for value, words in pairs if isinstance(words, list) for word in words}
