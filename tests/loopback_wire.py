"""How a chat-completions endpoint's answer goes over the wire, whole or as server-sent events."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.fakes import PIECE, pieces

USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}

Json = dict[str, Any]


class Dropped(Exception):
    """The connection is closed here, whatever was promised."""


class Wire:
    """One request's answer while it is written."""

    def __init__(self, handler: BaseHTTPRequestHandler, body: Json, stopping: threading.Event) -> None:
        self._handler = handler
        self._stopping = stopping
        self.body = body
        self.streaming = bool(body.get("stream"))

    def raw(
        self, status: int, kind: str, content: bytes, headers: Mapping[str, str] | None = None, promised: int = 0
    ) -> None:
        """A whole body; `promised` more bytes are announced than are sent."""
        self._handler.send_response(status)
        sent = {"Content-Type": kind, "Content-Length": str(len(content) + promised), "Connection": "close"}
        for name, value in (sent | dict(headers or {})).items():
            self._handler.send_header(name, value)
        self._handler.end_headers()
        self._handler.wfile.write(content)

    def json(self, value: Any, status: int = 200, headers: Mapping[str, str] | None = None, promised: int = 0) -> None:
        self.raw(status, "application/json", json.dumps(value).encode(), headers, promised)

    def whole(self, choices: list[Json], usage: Mapping[str, int] = USAGE, promised: int = 0) -> None:
        self.json(self._head("chat.completion") | {"choices": choices, "usage": dict(usage)}, promised=promised)

    def begin(self, kind: str = "text/event-stream") -> None:
        """Start a body of unknown length, such as a stream of server-sent events."""
        self._handler.send_response(200)
        sent = {"Content-Type": kind, "Transfer-Encoding": "chunked", "Connection": "close"}
        for name, value in sent.items():
            self._handler.send_header(name, value)
        self._handler.end_headers()

    def endless(self, kind: str, content: bytes) -> None:
        """Send the content again and again, until the client leaves or the server stops."""
        self.begin(kind)
        while not self._stopping.wait(0.001):
            self._part(content)

    def line(self, data: str) -> None:
        self._part(f"data: {data}\n\n".encode())

    def _part(self, content: bytes) -> None:
        self._handler.wfile.write(b"%x\r\n%s\r\n" % (len(content), content))

    def chunk(self, choices: list[Json], **beside: Any) -> None:
        self.line(json.dumps(self._head("chat.completion.chunk") | {"choices": choices} | beside))

    def delta(self, delta: Json, finish_reason: str | None = None) -> None:
        self.chunk([{"index": 0, "delta": delta, "finish_reason": finish_reason}])

    def finish(self, finish_reason: str | None, usage: Mapping[str, int] = USAGE) -> None:
        """The end of a well-formed stream."""
        self.delta({}, finish_reason)
        if (self.body.get("stream_options") or {}).get("include_usage"):
            self.chunk([], usage=dict(usage))
        self.line("[DONE]")
        self.end()

    def end(self) -> None:
        """The end of the HTTP body and no more."""
        self._handler.wfile.write(b"0\r\n\r\n")

    def wait(self, over: Callable[[], bool], seconds: float) -> None:
        """Wait until something is over, the time is, or the server stops (which drops the connection)."""
        end = time.monotonic() + seconds
        while not over() and time.monotonic() < end:
            if self._stopping.wait(0.005):
                raise Dropped

    def _head(self, kind: str) -> Json:
        return {
            "id": "chatcmpl-1",
            "object": kind,
            "created": 1_700_000_000,
            "model": self.body.get("model", "scripted"),
        }


def error_body(message: str, kind: str) -> Json:
    """An error as OpenAI writes it."""
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def deltas(message: Json, size: int = PIECE) -> Iterator[Json]:
    """A message as OpenAI streams it: the role, text in pieces, each tool call with its arguments in pieces."""
    yield {"role": "assistant", "content": ""}
    for name, value in message.items():
        if name not in ("role", "content", "refusal", "tool_calls"):
            yield {name: value}
    for name in ("content", "refusal"):
        for piece in pieces(message.get(name) or "", size):
            yield {name: piece}
    for index, call in enumerate(message.get("tool_calls", ())):
        function = call["function"]
        yield {"tool_calls": [{"index": index} | call | {"function": {"name": function["name"], "arguments": ""}}]}
        for piece in pieces(function["arguments"], size):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
