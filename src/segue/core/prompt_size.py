"""The size of prompts: a rough count of tokens, the prefix shared with the one before, and cached renderings."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from .attachments import PARTS, attached
from .models import ModelRequest

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

_WIDE = re.compile(r"[\u2e80-\uffef]+")


@dataclass(frozen=True)
class PromptSize:
    """Characters of one prompt with its tools or its schema, and of its messages those that began the one before."""

    chars: int
    prefix_chars: int


class SentPrompts:
    """The last prompt for each purpose of a run."""

    def __init__(self) -> None:
        self._last: dict[str, list[str]] = {}

    def add(self, request: ModelRequest) -> PromptSize:
        """Measure a prompt, a line for each message, beside the last one for its purpose."""
        beside = _beside(request)
        texts = [f"{_text(message)}\n" for message in request.messages]
        before, self._last[request.purpose] = self._last.get(request.purpose, []), texts
        shared = min(_shared(before, texts), _chars(before), _chars(texts))
        return PromptSize(_chars(texts) + (len(_json(beside)) if beside else 0), shared)


def _chars(texts: Sequence[str]) -> int:
    """Characters of all texts, without the last line's end."""
    return sum(map(len, texts)) - bool(texts)


def _shared(before: Sequence[str], texts: Sequence[str]) -> int:
    """Characters of the beginning that two prompts share; most of their messages are the same."""
    shared = 0
    for one, other in zip(before, texts, strict=False):
        if one != other:
            return shared + common_prefix(one, other)
        shared += len(one)
    return shared


def _text(message: "BaseMessage") -> str:
    calls = getattr(message, "tool_calls", None)
    return f"{message.type}: {message.text}{_json(calls) if calls else ''}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def common_prefix(first: str, second: str) -> int:
    """The length of the beginning that two texts share, by bisection: slices are compared fast."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if first[low:middle] == second[low:middle] else (low, middle - 1)
    return low


def tokens(text: str) -> int:
    """A rough count that errs high: one a wide character, one for three others."""
    wide = 0 if text.isascii() else sum(map(len, _WIDE.findall(text)))
    return wide + plain_tokens(len(text) - wide)


def plain_tokens(chars: int) -> int:
    """A rough count of the tokens of so many characters, none of them wide."""
    return (chars + 2) // 3


def prompt_tokens(request: ModelRequest) -> int:
    """A rough count of a prompt's tokens, with its tools or its schema and the files that are sent as parts."""
    messages = sum(tokens(_text(message)) for message in request.messages)
    files = sum(file.tokens for message in request.messages for file in attached(message, PARTS))
    beside = _beside(request)
    return messages + files + (tokens(_json(beside)) if beside else 0)


def _beside(request: ModelRequest) -> Any:
    """The tools or the schema that are sent with the messages."""
    return [tool["function"] for tool in request.tools] if request.native else request.schema


S = TypeVar("S")
T = TypeVar("T")
P = ParamSpec("P")

MOST_CHARS = 16_000_000
"""Characters that are kept; beyond it the cache is cleared."""

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
