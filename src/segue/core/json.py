"""JSON: the public form of records, limits of values from outside, and schemas of tools as a model should see them."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn
from urllib.parse import unquote

from .errors import Clause

# What the public API returns.


class Public:
    """A frozen record: its fields are attributes, and `json()` gives its public form as a dict."""

    json_names: ClassVar[Mapping[str, str]] = {}
    """The attributes that `json()` names otherwise, by its names."""

    def json(self) -> dict[str, Any]:
        """The public form: all its fields."""
        return asdict(self)  # type: ignore[call-overload, no-any-return]

    if not TYPE_CHECKING:  # a type checker finds these without running

        def __getitem__(self, name: object) -> NoReturn:
            """Say which attribute to read in place of a key."""
            renamed = {"thread_id": "session_id", **self.json_names}
            kind, attribute = type(self).__name__, renamed.get(str(name), str(name))
            if hasattr(self, attribute):
                raise AttributeError(f"A {kind} is not a dict: read .{attribute}, or call .json() for a dict.")
            known = ", ".join(field.name for field in fields(self))
            raise AttributeError(f"A {kind} is not a dict and has no {name!r}: read one of {known}.")

        def get(self, name: object, default: object = None) -> Any:
            """As `record[name]`."""
            return self[name]

        def __iter__(self) -> NoReturn:
            """Say how to read a record whose keys are asked for."""
            kind, attribute = type(self).__name__, fields(self)[0].name
            raise AttributeError(f"A {kind} is not a dict: read an attribute such as .{attribute}, or call .json().")

        def __contains__(self, name: object) -> NoReturn:
            """As iterating."""
            iter(self)


# Limits of JSON values from outside: levels of nesting, and numbers of values.

DEEPEST = 100
"""Levels of lists and objects in a value from outside: parsers, encoders and validators recurse on each."""
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.?[^"\\]*+)*+(?:"|\Z)|[][{},]', re.DOTALL)
"""A string, or what opens, closes or separates values; a string that is not closed reaches to the end."""


@dataclass(frozen=True)
class Outline:
    """How deep a JSON text is nested, and how many values it has; both are upper bounds where they are harmless."""

    depth: int = 0
    values: int = 0

    @classmethod
    def of(cls, text: bytes | bytearray, most: int) -> "Outline":
        """The outline of a text, valid or not, without decoding it; counting ends after `most` values."""
        if b"\0" in text[:4]:  # UTF-16 or UTF-32, which `json.loads` reads as well
            text = text.decode(json.detect_encoding(text), "replace").encode("utf-8", "replace")
        opened = text.count(b"[") + text.count(b"{")
        values = text.count(b",") + opened + 1
        if opened <= DEEPEST and values <= most:
            return cls(opened, values)
        return cls._counted(text, most)

    @classmethod
    def _counted(cls, text: bytes | bytearray, most: int) -> "Outline":
        level = deepest = values = 0
        for number, token in enumerate(_TOKEN.finditer(text)):
            match token[0][:1]:
                case b"[" | b"{":
                    level += 1
                    values += 1
                    deepest = max(deepest, level)
                case b"]" | b"}":
                    level -= 1
                case b",":
                    values += 1
            if values > most or number > 8 * most:  # what is valid has fewer tokens
                return cls(deepest, most + 1)
        return cls(deepest, values + 1)


def is_too_deep(value: Any) -> bool:
    """Whether the value has more than DEEPEST levels of lists and objects; does not recurse."""
    level = [value]
    for _ in range(DEEPEST + 1):
        level = [part for part in level if isinstance(part, dict | list | tuple)]
        if not level:
            return False
        level = [inner for part in level for inner in (part.values() if isinstance(part, dict) else part)]
    return True


# ---

NOISE = ("examples", "keywords", "aliases")
"""What in a schema only Segue reads."""

_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_VALUES = ("default", "enum", "const", "required")
_DATA = (*_VALUES, "examples")
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
MOST_INLINED = 10_000
"""Values that references may add to a schema: a few of them that refer to one another could add billions."""


class UnusableSchema(ValueError):
    """A schema cannot be inlined; `reason` says why."""

    def __init__(self, reason: Clause) -> None:
        super().__init__(str(reason))
        self.reason = reason


def object_schema(*required: str, **properties: Any) -> dict[str, Any]:
    """The schema of an object with these properties and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def plain_schema(schema: Any, noise: Collection[str] = NOISE) -> Any:
    """A schema without its noise; a parameter that is called `keywords` stays."""
    if isinstance(schema, list):
        return [plain_schema(item, noise) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    return {key: _part(key, part, noise) for key, part in schema.items() if key not in noise}


def _part(key: str, part: Any, noise: Collection[str]) -> Any:
    if key in _VALUES:
        return part
    if key in _NAMED and isinstance(part, Mapping):
        return {name: plain_schema(inner, noise) for name, inner in part.items()}
    return plain_schema(part, noise)


def plain_specs(tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Tool specs in OpenAI's format: without the `segue` key, and without what in a schema only Segue reads."""
    return [{"type": "function", "function": _plain_function(tool["function"])} for tool in tools]


def _plain_function(function: Mapping[str, Any]) -> dict[str, Any]:
    parameters = function.get("parameters") or {"type": "object", "properties": {}}
    return {**function, "parameters": plain_schema(parameters, (*NOISE, "title"))}


def inlined(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema with its references replaced by what they refer to; its own `$defs` stay.

    A union's discriminator, which maps its values to references, is left out: each part of the union has the value.
    Where a definition refers to itself, the inner reference becomes a schema that accepts anything.
    """
    whole: dict[str, Any] = _Inlining(schema).value(schema, (), 0)
    return whole


class _Inlining:
    """The references of one schema, and how many values they have added."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._added = 0

    def value(self, part: Any, within: tuple[str, ...], depth: int) -> Any:
        """A part of the schema; `within` are the references that led to it."""
        self._added += bool(within)
        if self._added > MOST_INLINED:
            reason = Clause("the references of its schema add more than {most} values", most=f"{MOST_INLINED:,}")
            raise UnusableSchema(reason)
        if depth > DEEPEST:
            raise UnusableSchema(Clause("its schema has more than {most} levels", most=DEEPEST))
        if isinstance(part, Mapping):
            return self._mapping(part, within, depth)
        if isinstance(part, list):
            return [self.value(item, within, depth + 1) for item in part]
        return part

    def _mapping(self, part: Mapping[str, Any], within: tuple[str, ...], depth: int) -> Any:
        ref = part.get("$ref")
        if not isinstance(ref, str):  # it may be a property of that name
            return self._members(part, within, depth)
        others = self._members({key: inner for key, inner in part.items() if key != "$ref"}, within, depth)
        if ref in within:
            return others
        target = self.value(_target(self._schema, ref), (*within, ref), depth + 1)
        return target if not others else {**(target if isinstance(target, dict) else {}), **others}

    def _members(self, part: Mapping[str, Any], within: tuple[str, ...], depth: int) -> dict[str, Any]:
        left_out = {*(["$defs"] if within else []), *(["discriminator"] if "oneOf" in part or "anyOf" in part else [])}
        members = {key: inner for key, inner in part.items() if key not in left_out}
        return {key: self._member(key, inner, within, depth + 1) for key, inner in members.items()}

    def _member(self, key: str, inner: Any, within: tuple[str, ...], depth: int) -> Any:
        """A member of a schema: data stays as it is, and a property may be called like a keyword."""
        if key == "$defs" or key in _DATA:
            return inner
        if key in _NAMED and isinstance(inner, Mapping):
            return {name: self.value(named, within, depth + 1) for name, named in inner.items()}
        return self.value(inner, within, depth)


def _target(schema: Mapping[str, Any], ref: str) -> Any:
    start, *names = ref.split("/")
    target: Any = schema
    for name in (unquote(name).replace("~1", "/").replace("~0", "~") for name in names):
        if isinstance(target, Mapping):
            target = target.get(name)
        else:
            place = int(name) if _INDEX.fullmatch(name) else -1
            target = target[place] if isinstance(target, list) and 0 <= place < len(target) else None
    if start != "#" or target is None:
        raise UnusableSchema(Clause("its schema has an unresolvable $ref ({ref})", ref=ref[:100]))
    return target


def schema_kinds(schema: Any) -> set[str]:
    """The types that a schema takes; empty where it does not say."""
    if not isinstance(schema, Mapping):
        return set()
    kinds = schema.get("type")
    if isinstance(kinds, str | list):
        return {kinds} if isinstance(kinds, str) else {kind for kind in kinds if isinstance(kind, str)}
    found: set[str] = set()
    for part in [*(schema.get("anyOf") or ()), *(schema.get("oneOf") or ())]:
        if not (inner := schema_kinds(part)):
            return set()
        found |= inner
    return found
