"""A tool's specification as the offline planner reads it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from .text import CJK

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
_COMMON_WORDS = """
the and for with from that this what when where which who how are was can could would you your please about into than
get list find show give tell search look make let use all any one some its per does did has have not number many min max
查询 获取 列出 返回 信息 一个 什么 怎么 可以 如何 给出 按照 多少 一下 我的 帮我 计算
"""
_COMMON = frozenset(_COMMON_WORDS.split())


def words_of(text: str) -> frozenset[str]:
    """English words without plural endings, and pairs of Chinese characters."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", text)
    english = (word for word in re.findall(r"[a-z]{3,}", spaced.lower()) if word not in _COMMON)
    runs = re.findall(rf"[{CJK}]+", re.sub(r"[的了和是把被]", " ", text))
    pairs = {run[at : at + 2] for run in runs for at in range(len(run) - 1)}
    return frozenset({re.sub(r"(?<=\w\w)(?:ies|es|s|y)$", "", word) for word in english} | (pairs - _COMMON))


@dataclass(frozen=True)
class Parameter:
    """One argument of a tool; `values` are its enum (`closed`) or examples, by the word that stands for each."""

    name: str
    label: str
    kind: Kind
    many: bool = False
    required: bool = False
    values: Mapping[Any, Any] | None = None
    closed: bool = False
    pattern: str = ""
    keywords: tuple[str, ...] = ()

    @property
    def bound(self) -> str:
        """Which end of a range the name says it is."""
        return next((part for part in self.name.lower().split("_") if part in ("min", "max")), "")

    @property
    def words(self) -> tuple[str, ...]:
        """The keywords, then the words of the name and the label."""
        found = re.findall(rf"[A-Za-z]{{3,}}|[{CJK}]{{2}}", f"{self.name.replace('_', ' ')} {self.label}")
        return (*self.keywords, *(word for word in found if word.lower() not in _COMMON))

    @property
    def is_free(self) -> bool:
        """Whether any text will do."""
        return self.kind == "text" and not self.pattern and not self.closed


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
    def parameter_names(self) -> frozenset[str]:
        return frozenset(parameter.name for parameter in self.parameters)

    @property
    def required(self) -> tuple[Parameter, ...]:
        return tuple(parameter for parameter in self.parameters if parameter.required)


def read_card(spec: Mapping[str, Any]) -> Card:
    """Read an OpenAI function specification with its optional `segue` key."""
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
    kind = _FORMAT_KINDS.get(inner.get("format", ""), _KINDS.get(_type_of(inner), "text" if values else "other"))
    listed = {value: value for value in values if isinstance(value, (str, int, float))}
    if kind != "text" and "enum" not in inner:
        listed = {}
    return Parameter(
        name=name,
        label=str(outer.get("description") or outer.get("title") or name).strip(),
        kind=kind,
        many=many,
        required=required,
        values=_aliases(outer.get("aliases")) or listed or None,
        closed="enum" in inner,
        pattern=inner.get("pattern") or _FORMATS.get(inner.get("format", ""), ""),
        keywords=tuple(outer.get("keywords", ())),
    )


def _aliases(given: Any) -> dict[Any, Any]:
    """The value that each word stands for, of {value: [words]}; a foreign schema may mean something else by the key."""
    pairs = given.items() if isinstance(given, Mapping) else ()
    return {word: value for value, words in pairs if isinstance(words, list) for word in words}
