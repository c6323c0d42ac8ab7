"""The size of a task's prompts, and how much of each is the beginning of the one before."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .models import ModelRequest

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage


@dataclass(frozen=True)
class PromptSize:
    """Characters of one prompt with its tools or its schema, and of its messages those that began the one before."""

    chars: int
    prefix_chars: int


class SentPrompts:
    """The last prompt for each purpose of a run."""

    def __init__(self) -> None:
        self._last: dict[str, str] = {}

    def add(self, request: ModelRequest) -> PromptSize:
        """Measure a prompt beside the last one for its purpose."""
        beside = [tool["function"] for tool in request.tools] if request.native else request.schema
        text = "\n".join(_text(message) for message in request.messages)
        before, self._last[request.purpose] = self._last.get(request.purpose, ""), text
        return PromptSize(len(text) + (len(_json(beside)) if beside else 0), common_prefix(before, text))


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
