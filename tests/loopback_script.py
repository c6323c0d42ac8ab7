"""What the loopback server can be told to say: replies, faults, and rules that stand for the rest of the script."""

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from tests.fakes import pieces
from tests.loopback_wire import USAGE, Dropped, Json, Wire, deltas, error_body

PATIENCE = 60.0
"""Seconds that a gate is waited for."""


class SignalLike(Protocol):
    """An asyncio.Event or a threading.Event."""

    def is_set(self) -> bool: ...


def _say(wire: Wire, message: Json, finish_reason: str | None, usage: Mapping[str, int] = USAGE) -> None:
    """Answer with a message, in the form that was asked for."""
    if not wire.streaming:
        return wire.whole([_choice(message, finish_reason)], usage)
    wire.begin()
    for delta in deltas(message):
        wire.delta(delta)
    wire.finish(finish_reason, usage)


def _choice(message: Json, finish_reason: str | None) -> Json:
    return {"index": 0, "message": {"role": "assistant", "content": None} | message, "finish_reason": finish_reason}


def _begin_with(wire: Wire, text: str, after_chunks: int) -> None:
    """Stream the first chunks of a text (the role's does not count)."""
    wire.begin()
    wire.delta({"role": "assistant", "content": ""})
    for piece in list(pieces(text))[:after_chunks]:
        wire.delta({"content": piece})


class Item(Protocol):
    """What one request is answered with."""

    def play(self, wire: Wire) -> None: ...


@dataclass(frozen=True)
class Text:
    """A whole reply."""

    text: str
    finish_reason: str | None = "stop"
    usage: Mapping[str, int] = field(default_factory=lambda: USAGE)

    def play(self, wire: Wire) -> None:
        _say(wire, {"content": self.text}, self.finish_reason, self.usage)


@dataclass(frozen=True)
class Message:
    """A whole reply with all fields of its message."""

    fields: Mapping[str, Any]
    finish_reason: str = "tool_calls"

    def play(self, wire: Wire) -> None:
        _say(wire, dict(self.fields), self.finish_reason)


@dataclass(frozen=True)
class Deltas:
    """A streamed reply, delta by delta; before a delta that is a gate, its event is waited for."""

    deltas: Sequence[Json | SignalLike]
    finish_reason: str = "stop"

    def play(self, wire: Wire) -> None:
        wire.begin()
        for delta in self.deltas:
            if isinstance(delta, dict):
                wire.delta(delta)
            else:
                wire.wait(delta.is_set, PATIENCE)
        wire.finish(self.finish_reason)


class Call(NamedTuple):
    """A tool call as it goes over the wire; the arguments are raw text, which may not be valid JSON."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class ToolCalls:
    """Tool calls, with or without text beside them."""

    calls: Sequence[tuple[str, str, str]]
    content: str | None = None
    finish_reason: str | None = "tool_calls"
    usage: Mapping[str, int] = field(default_factory=lambda: USAGE)

    def play(self, wire: Wire) -> None:
        named = [Call(*call) for call in self.calls]
        calls = [
            {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}} for c in named
        ]
        _say(wire, {"content": self.content, "tool_calls": calls}, self.finish_reason, self.usage)


@dataclass(frozen=True)
class Refusal:
    """The model declines, in the field that OpenAI has for it."""

    text: str

    def play(self, wire: Wire) -> None:
        _say(wire, {"refusal": self.text}, "stop")


@dataclass(frozen=True)
class LengthCut:
    """The reply stops at the token limit."""

    text: str

    def play(self, wire: Wire) -> None:
        _say(wire, {"content": self.text}, "length")


@dataclass(frozen=True)
class Gate:
    """Withholds the rest of a reply until the event is set."""

    first: str
    rest: str
    event: SignalLike

    def play(self, wire: Wire) -> None:
        if not wire.streaming:
            wire.wait(self.event.is_set, PATIENCE)
            return _say(wire, {"content": self.first + self.rest}, "stop")
        _begin_with(wire, self.first, len(self.first))
        wire.wait(self.event.is_set, PATIENCE)
        for piece in pieces(self.rest):
            wire.delta({"content": piece})
        wire.finish("stop")


def _never() -> bool:
    return False


# Faults.


@dataclass(frozen=True)
class Status:
    """An HTTP error; the body is an OpenAI error object unless it is given."""

    code: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None

    def play(self, wire: Wire) -> None:
        if isinstance(self.body, str):
            return wire.raw(self.code, "text/plain; charset=utf-8", self.body.encode(), self.headers)
        usual = error_body(f"scripted status {self.code}", "scripted")
        wire.json(usual if self.body is None else self.body, self.code, self.headers)


@dataclass(frozen=True)
class Hang:
    """Says nothing for a while, then drops the connection."""

    seconds: float

    def play(self, wire: Wire) -> None:
        wire.wait(_never, self.seconds)
        raise Dropped


@dataclass(frozen=True)
class Stall:
    """Falls silent in the middle of the stream, then drops the connection; without streaming it hangs."""

    seconds: float
    text: str = "a reply that falls silent in the middle"
    after_chunks: int = 2

    def play(self, wire: Wire) -> None:
        if wire.streaming:
            _begin_with(wire, self.text, self.after_chunks)
        Hang(self.seconds).play(wire)


@dataclass(frozen=True)
class CutStream:
    """The connection is closed in the middle of the body."""

    after_chunks: int = 2
    text: str = "a reply that is cut off in the middle"

    def play(self, wire: Wire) -> None:
        if wire.streaming:
            _begin_with(wire, self.text, self.after_chunks)
        else:
            wire.whole([_choice({"content": self.text}, "stop")], promised=100)
        raise Dropped


@dataclass(frozen=True)
class CleanEof:
    """The stream ends as HTTP has it, with neither finish_reason nor [DONE]."""

    text: str = "a reply that just ends"
    after_chunks: int = 2

    def play(self, wire: Wire) -> None:
        if not wire.streaming:
            return wire.whole([_choice({"content": self.text}, None)])
        _begin_with(wire, self.text, self.after_chunks)
        wire.end()


@dataclass(frozen=True)
class EmptyChoices:
    """A reply without choices."""

    def play(self, wire: Wire) -> None:
        if not wire.streaming:
            return wire.whole([])
        wire.begin()
        wire.chunk([])
        wire.line("[DONE]")
        wire.end()


@dataclass(frozen=True)
class Html:
    """A proxy's page where a reply should be."""

    page: str = "<html><body>Bad gateway</body></html>"
    code: int = 200

    def play(self, wire: Wire) -> None:
        wire.raw(self.code, "text/html; charset=utf-8", self.page.encode())


@dataclass(frozen=True)
class BadJson:
    """A body, or a frame of the stream, that is not valid JSON."""

    text: str = '{"id": "chatcmpl-1", "choices": ['

    def play(self, wire: Wire) -> None:
        if not wire.streaming:
            return wire.raw(200, "application/json", self.text.encode())
        _begin_with(wire, "a good start", 1)
        wire.line(self.text)
        wire.end()


@dataclass(frozen=True)
class Malformed:
    """A reply, or the next chunk of one, in which these fields of the document have the wrong form."""

    fields: Any

    @classmethod
    def message(cls, **fields: Any) -> "Malformed":
        """The fields are those of the message, or of the delta."""
        return cls({"choices": [{"index": 0, "delta": fields, "message": fields}]})

    def play(self, wire: Wire) -> None:
        if not wire.streaming:
            return wire.json(self.fields)
        _begin_with(wire, "a good start", 1)
        wire.line(json.dumps(self.fields))
        wire.finish("stop")


@dataclass(frozen=True)
class Endless:
    """A chunk that is sent again and again, until the client leaves; without streaming, a body without an end."""

    fields: Json
    left: threading.Event = field(default_factory=threading.Event, compare=False)

    @classmethod
    def delta(cls, **fields: Any) -> "Endless":
        return cls({"choices": [{"index": 0, "delta": fields}]})

    def play(self, wire: Wire) -> None:
        try:
            wire.endless("text/event-stream" if wire.streaming else "application/json", self._frame(wire))
        except OSError:
            self.left.set()

    def _frame(self, wire: Wire) -> bytes:
        return f"data: {json.dumps(self.fields)}\n\n".encode() if wire.streaming else b" "


@dataclass(frozen=True)
class ErrorFrame:
    """An error object where a reply, or the next frame of one, should be; the HTTP status says 200."""

    message: str = "scripted error frame"

    def play(self, wire: Wire) -> None:
        error = error_body(self.message, "server_error")
        if not wire.streaming:
            return wire.json(error)
        _begin_with(wire, "a good start", 1)
        wire.line(json.dumps(error))
        wire.end()


# Standing rules: in force from where they stand in the script until its end, they use up no item.


@dataclass(frozen=True)
class RefuseResponseFormat:
    """400 whenever the body asks for a response_format of these types."""

    types: tuple[str, ...] = ("json_schema",)

    def refuses(self, body: Json) -> Status | None:
        asked = (body.get("response_format") or {}).get("type")
        return _bad_request(f"response_format {asked} not supported") if asked in self.types else None


@dataclass(frozen=True)
class RefuseTools:
    """400 whenever the body carries tools."""

    def refuses(self, body: Json) -> Status | None:
        return _bad_request("tools are not supported by this model") if body.get("tools") else None


def _bad_request(message: str) -> Status:
    return Status(
        400, body={"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}}
    )


@dataclass(frozen=True)
class Demand:
    """An error whenever `why` says what is wrong with the body."""

    why: Callable[[Json], str]
    code: int = 400

    def refuses(self, body: Json) -> Status | None:
        message = self.why(body)
        return Status(self.code, body=error_body(message, "invalid_request_error")) if message else None


Rule = RefuseResponseFormat | RefuseTools | Demand
Scripted = Item | Rule | Callable[[Json], Item]
