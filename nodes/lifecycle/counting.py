"""Tokens and calls of several parts together."""

from collections.abc import Iterable, Mapping
from typing import Any

_COUNTED = ("input", "output", "calls", "cost")


def added_up(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What the parts used: {"input", "output", "calls"}, and "cost" where there are prices."""
    total: dict[str, Any] = {}
    for part in parts:
        for name in part:
            total[name] = total.get(name, 0) + part[name] if name in _COUNTED else part[name]
    return total
