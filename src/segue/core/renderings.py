"""Texts and sizes of records and tools, rendered once a run."""

from collections.abc import Callable, Iterable
from typing import Any, Concatenate, ParamSpec, TypeVar

S = TypeVar("S")
T = TypeVar("T")
P = ParamSpec("P")

MOST_CHARS = 16_000_000
"""Characters that are kept; beyond it all are rendered anew."""

_ENTRY_CHARS = 200
"""What an entry takes beside its text."""


class Renderings:
    """Renderings by the identity of what they render: what is in the state is replaced, never changed."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], dict[int, tuple[object, Any]]] = {}
        self._chars = 0

    def each(
        self, render: Callable[Concatenate[S, P], T], subjects: Iterable[S], *arguments: P.args, **named: P.kwargs
    ) -> list[T]:
        """`render(subject, …)` for each of them, from the last time if it was asked for before."""
        known = self._known.setdefault((render, *arguments, *named.values()), {})
        return [
            known[id(subject)][1]
            if id(subject) in known
            else self._add(known, subject, render(subject, *arguments, **named))
            for subject in subjects
        ]

    def _add(self, known: dict[int, tuple[object, Any]], subject: object, value: T) -> T:
        """Keep a rendering together with its subject, whose id stays taken that way."""
        self._chars += _ENTRY_CHARS + (len(value) if isinstance(value, str) else 0)
        if self._chars > MOST_CHARS:
            self._known.clear()
            self._chars = 0
        known[id(subject)] = (subject, value)
        return value
