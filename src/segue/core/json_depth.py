"""The limit on the nesting of JSON values."""

from typing import Any

DEEPEST = 100
"""Levels of lists and objects in a value from outside: parsers, encoders and validators recurse on each."""


def is_too_deep(value: Any) -> bool:
    """Whether the value has more than DEEPEST levels of lists and objects; does not recurse."""
    level = [value]
    for _ in range(DEEPEST + 1):
        level = [part for part in level if isinstance(part, dict | list | tuple)]
        if not level:
            return False
        level = [inner for part in level for inner in (part.values() if isinstance(part, dict) else part)]
    return True
