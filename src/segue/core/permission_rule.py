"""Rules: which calls of a tool run without approval."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

MOST_BYTES: Final = 2_000
"""Of a rule as a text; it is part of a key in the database."""
PREFIX: Final = "prefix"
_ANYTHING: Final = {PREFIX: ""}


@dataclass(frozen=True)
class PermissionRule:
    """All calls of a tool, or those whose arguments match `only`: `refund`, or `refund {"order_id": 17}`.

    With `only`, a call must have exactly the arguments that are named there, each equal, or beginning with
    `{"prefix": "…"}`; an empty prefix matches anything, and an argument that is left out.
    """

    tool: str
    only: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a rule as `str` writes it."""
        tool, _, only = text.partition(" ")
        return cls(tool, json.loads(only) if only else {})

    def __str__(self) -> str:
        return f"{self.tool} {_json(self.only)}" if self.only else self.tool

    def matches(self, tool: str, arguments: Mapping[str, Any]) -> bool:
        """Whether a call with these arguments, defaults included, is one of them."""
        return tool == self.tool and not self.mismatches(arguments)

    def mismatches(self, arguments: Mapping[str, Any]) -> list[str]:
        """The arguments for which a call of the tool is not one of them."""
        if not self.only:
            return []
        names = dict.fromkeys([*self.only, *arguments])
        return [name for name in names if not (name in self.only and _fits(self.only[name], name, arguments))]


@dataclass(frozen=True)
class Grant:
    """A rule that a person allowed in a task or session (`scope`); `version` is the digest of its tool then."""

    rule: PermissionRule
    scope: str
    version: str = ""


def _fits(pattern: Any, name: str, arguments: Mapping[str, Any]) -> bool:
    if pattern == _ANYTHING:
        return True
    if name not in arguments:
        return False
    value = arguments[name]
    if isinstance(pattern, Mapping) and pattern.keys() == {PREFIX}:
        prefix = pattern[PREFIX]
        return isinstance(value, str) and isinstance(prefix, str) and value.startswith(prefix)
    return _json(pattern) == _json(value)  # True is not 1


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
