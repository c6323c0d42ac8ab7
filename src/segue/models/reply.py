"""A model's reply while it arrives: text, function calls, and the reasoning between `<think>` and `</think>`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal
from uuid import uuid4

from ..core.models import CallDelta, Hidden, ModelPiece, ModelReply, RawCall, ReasoningDelta, TextDelta, Withdrawn

OPENING, CLOSING = "<think>", "</think>"
_OBJECT = re.compile(r"\s*\{")


class ThinkTags:
    """Separates the thoughts with which a reply begins from its text, while it arrives.

    Some chat templates put the opening tag into the prompt, so that the reply has the closing one alone. Where that is
    known, the reply begins as a thought (`opened`); else what was returned as text becomes one (`withdrawn`).
    """

    def __init__(self, opened: bool = False) -> None:
        self._opened = opened
        self._state: Literal["begin", "thought", "between", "text"] = "begin"
        self._blank: list[str] = []
        """Spaces before what is buffered, while it is open what begins there."""
        self._buffer = ""
        self._untagged = ""
        """What arrived before any tag."""
        self._searched = 0
        """How far it was searched for an opening tag."""
        self._tagged = False
        """Whether there is one in it."""
        self.withdrawn = False
        self.lone = False
        """Whether a closing tag came without an opening one."""

    @property
    def unclosed(self) -> str:
        """The text of a reply that was taken for a thought and had no tag at all."""
        return self._untagged if self._opened and self._state == "thought" else ""

    def feed(self, piece: str) -> tuple[str, str]:
        """Return what the piece adds to the thoughts, and to the text."""
        self._buffer += piece
        thoughts = ""
        while True:
            if self._state == "thought":
                thoughts += self._take_thought()
                if self._state == "thought":
                    return thoughts, ""
            elif self._state == "text":
                if not self._take_lone_thought():
                    text, self._buffer = self._buffer, ""
                    return thoughts, text
                thoughts += self._untagged
            elif not self._begin():
                return thoughts, ""

    def close(self) -> tuple[str, str]:
        """Return what was held back, now that nothing follows."""
        rest = self._spaces() + self._buffer
        self._buffer = ""
        self._untagged += rest
        return (rest, "") if self._state == "thought" else ("", rest)

    def _begin(self) -> bool:
        """Distinguish a thought from a text, or return False until that is possible."""
        begun = self._buffer.lstrip()
        if not begun:
            self._blank.append(self._buffer)
            self._buffer = ""
            return False
        if begun.startswith(OPENING):
            self._spaces()
            self._state, self._opened, self._buffer = "thought", False, begun.removeprefix(OPENING)
        elif OPENING.startswith(begun):
            return False
        elif self._state == "between":
            self._spaces()
            self._state, self._buffer = "text", begun
        else:
            self._buffer = self._spaces() + self._buffer
            self._state = "thought" if self._opened and not begun.startswith("{") else "text"
        return True

    def _spaces(self) -> str:
        blank, self._blank = "".join(self._blank), []
        return blank

    def _take_thought(self) -> str:
        """Take the thought up to its end, or up to what may be the beginning of the closing tag."""
        thought, closing, rest = self._buffer.partition(CLOSING)
        if closing:
            self._state, self._buffer = "between", rest
            self.lone |= self._opened
            return thought
        most = min(len(thought), len(CLOSING) - 1)
        kept = next((n for n in range(most, 0, -1) if thought.endswith(CLOSING[:n])), 0)
        end = len(thought) - kept
        self._buffer = thought[end:]
        self._untagged += thought[:end]
        return thought[:end]

    def _take_lone_thought(self) -> bool:
        """Whether a text turns out to be a thought; a closing tag in code, JSON or after a thought is just text."""
        if self.lone:
            return False
        since = max(0, len(self._untagged) - len(CLOSING))
        self._untagged += self._buffer
        end = self._untagged.find(CLOSING, since)
        if end < 0:
            return False
        self._tagged = self._tagged or self._untagged.find(OPENING, self._searched, end) >= 0
        self._searched = max(0, end - len(OPENING) + 1)
        inside = _OBJECT.match(self._untagged) and not self._untagged.endswith(("\n", "}"), 0, end)
        if self._tagged or inside or self._untagged.endswith("`", 0, end):
            return False
        before, rest = self._untagged[:end], self._untagged[end + len(CLOSING) :]
        self._state, self._untagged, self._buffer = "between", before, rest
        self.lone = self.withdrawn = True
        return True


HIDDEN_CHARS = 1000
"""Characters that are not shown are reported in amounts of at least so many."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_HIGH_SURROGATE = re.compile("[\ud800-\udbff]\\Z")


class TextPieces:
    """A text that arrives in pieces; a surrogate pair that is split between two is joined, a lone half replaced."""

    def __init__(self) -> None:
        self._whole: list[str] = []
        self._half = ""

    def add(self, piece: str) -> str:
        """Append a piece; return what can be shown of it now."""
        if piece.isascii() and not self._half:
            if piece:
                self._whole.append(piece)
            return piece
        piece = self._half + piece
        half = _HIGH_SURROGATE.search(piece)
        self._half = half[0] if half else ""
        piece = _storable(piece.removesuffix(self._half))
        self._whole.append(piece)
        return piece

    @property
    def text(self) -> str:
        return "".join([*self._whole, _storable(self._half)])


def _storable(text: str) -> str:
    """The text with surrogate pairs joined, and U+FFFD in the place of lone surrogates."""
    if not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


@dataclass
class _Call:
    id: str
    name: str = ""
    arguments: TextPieces = field(default_factory=TextPieces)


class GrowingReply:
    """A reply that is put together piece by piece."""

    def __init__(self, opened: bool = False) -> None:
        self._text = TextPieces()
        self._reasoning = TextPieces()
        self._tags = ThinkTags(opened)
        self._calls: list[_Call] = []
        self._call_at: dict[object, _Call] = {}
        self._pending: list[ModelPiece] = []
        self._chars = 0
        self.finish_reason = ""
        self.usage: dict[str, int] = {}

    def add_text(self, piece: str) -> None:
        """Add a piece of the text; thoughts that it begins with are reasoning."""
        thoughts, text = self._tags.feed(piece)
        if self._tags.withdrawn:
            self._tags.withdrawn = False
            self._text = TextPieces()
            self._pending.append(Withdrawn())
        self._add(thoughts, text)

    @property
    def opened(self) -> bool | None:
        """Whether the endpoint's replies begin inside a thought, where this one shows it."""
        return True if self._tags.lone else False if self._tags.unclosed else None

    def add_reasoning(self, piece: str) -> None:
        self._add(piece, "")

    def _add(self, reasoning: str, text: str) -> None:
        if shown := self._reasoning.add(reasoning):
            self._pending.append(ReasoningDelta(shown))
        if shown := self._text.add(text):
            self._pending.append(TextDelta(shown))

    def add_hidden(self, chars: int) -> None:
        """Count characters that are received and not shown."""
        self._chars += chars
        if self._chars >= HIDDEN_CHARS:
            self._pending.append(Hidden(self._chars))
            self._chars = 0

    def add_call(self, index: object, call_id: str, name: str, arguments: str) -> None:
        """Add a piece of a function call.

        A piece without index belongs to the last call. Another id makes another call, even under an index that is
        taken: there are endpoints that give every call the index 0.
        """
        self.add_hidden(len(call_id) + len(name) + len(arguments))
        call = self._call_at.get(index) if index is not None else self._calls[-1] if self._calls else None
        if call is None or (call_id and call.id and call_id != call.id):
            call = _Call(call_id)
            self._calls.append(call)
            self._call_at[index] = call
        call.id = call.id or call_id
        call.arguments.add(arguments)
        if name and not call.name:
            call.name = name
            self._pending.append(CallDelta(name))

    @property
    def pending(self) -> Sequence[ModelPiece]:
        """The pieces that were not taken yet."""
        return self._pending

    def take(self) -> list[ModelPiece]:
        """The pieces since the last time."""
        pending, self._pending = self._pending, []
        return pending

    def whole(self) -> ModelReply:
        """The reply, now that nothing follows; a call that came without an id gets one: results are paired by it."""
        self._add(*self._tags.close())
        if self._tags.unclosed and not self._text.text:
            self._add("", self._tags.unclosed)
        return ModelReply(
            text=self._text.text,
            finish_reason=self.finish_reason,
            usage=self.usage,
            tool_calls=tuple(
                RawCall(id=call.id or f"call_{uuid4().hex}", name=_storable(call.name), arguments=call.arguments.text)
                for call in self._calls
            ),
        )
