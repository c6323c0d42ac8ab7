"""Limits of JSON values from outside: levels of nesting, and numbers of values."""

import json
import re
from dataclasses import dataclass
from typing import Any

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
