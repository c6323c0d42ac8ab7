"""A scripted OpenAI-compatible chat-completions server on loopback, with the faults that real endpoints have.

It runs in a thread of its own, so that clients that block, and other processes, can use it too. Every answer closes its
connection, so that no client keeps one from an earlier test.
"""

import json
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from types import TracebackType
from typing import Any, Self, cast

from tests.fakes import ScriptLeftOver, ScriptRanDry
from tests.loopback_script import (
    BadJson,
    Call,
    CleanEof,
    CutStream,
    Deltas,
    Demand,
    EmptyChoices,
    Endless,
    ErrorFrame,
    Gate,
    Hang,
    Html,
    Item,
    LengthCut,
    Malformed,
    Message,
    Refusal,
    RefuseResponseFormat,
    RefuseTools,
    Rule,
    Scripted,
    Stall,
    Status,
    Text,
    ToolCalls,
)
from tests.loopback_wire import USAGE, Dropped, Json, Wire, error_body

__all__ = [
    "USAGE", "BadJson", "Call", "CleanEof", "CutStream", "Deltas", "Demand", "EmptyChoices", "Endless", "ErrorFrame",
    "Gate", "Hang", "Html", "Item", "Json", "LengthCut", "LoopbackServer", "Malformed", "Message", "Refusal",
    "RefuseResponseFormat", "RefuseTools", "Request", "Scripted", "Stall", "Status", "Text", "ToolCalls",
]  # fmt: skip


@dataclass(frozen=True)
class Request:
    """What a client sent; header names are in lower case."""

    path: str
    headers: Mapping[str, str]
    body: Json


class LoopbackServer:
    """Serves a script, an item a request: `async with LoopbackServer([Text("hi")]) as server:` (or plain `with`)."""

    def __init__(self, script: Sequence[Scripted] = ()) -> None:
        self._script: list[Scripted] = list(script)
        self._length = len(self._script)
        self._rules: list[Rule] = []
        self._dry = ""
        self._lock = threading.Lock()
        self._listener: _Listener | None = None
        self.faults: list[BaseException] = []
        self.requests: list[Request] = []

    @property
    def base_url(self) -> str:
        assert self._listener is not None, "the server is not started"
        return f"http://127.0.0.1:{self._listener.server_address[1]}/v1"

    def assert_spent(self) -> None:
        """Fail unless the script was used up, neither more nor less.

        Raises:
            ScriptRanDry, ScriptLeftOver, or what a script's function raised.
        """
        if self.faults:
            raise self.faults[0]
        if self._dry:
            raise ScriptRanDry(self._dry)
        if left := [item for item in self._script if not isinstance(item, Rule)]:
            raise ScriptLeftOver(f"{len(left)} of {self._length} scripted items were not asked for, next: {left[0]!r}")

    def answer_to(self, request: Request) -> Item:
        """Record a request and pick what it is answered with."""
        with self._lock:
            self.requests.append(request)
            while self._script and isinstance(self._script[0], Rule):
                self._rules.append(cast(Rule, self._script.pop(0)))
            for rule in self._rules:
                if refusal := rule.refuses(request.body):
                    return refusal
            if not self._script:
                self._dry = f"script ran dry: request {len(self.requests)} finds a script of {self._length} items"
                return Status(500, body=error_body(self._dry, "script_ran_dry"))
            item = self._script.pop(0)
        return item(request.body) if callable(item) else cast(Item, item)

    def start(self) -> Self:
        self._listener = _Listener(self)
        threading.Thread(target=self._listener.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def stop(self) -> None:
        """Stop listening; whoever still waits for an answer is dropped."""
        if self._listener is None:
            return
        self._listener.stopping.set()
        self._listener.shutdown()
        self._listener.server_close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.stop()


class _Listener(ThreadingMixIn, TCPServer):
    """The socket; a port that is free, a thread for each connection."""

    daemon_threads = False
    request_queue_size = 128

    def __init__(self, script: LoopbackServer) -> None:
        self.script = script
        self.stopping = threading.Event()
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Keep what a script's function raised; a client that has gone away is no news."""
        error = sys.exc_info()[1]
        if error is not None and not isinstance(error, (ConnectionError, TimeoutError)):
            self.script.faults.append(error)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 5
    server: _Listener

    def do_POST(self) -> None:
        self.close_connection = True
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = json.loads(content or b"{}")
        wire = Wire(self, body, self.server.stopping)
        if not self.path.endswith("/chat/completions"):
            return wire.json(error_body(f"there is no {self.path} here", "not_found"), 404)
        request = Request(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
        try:
            self.server.script.answer_to(request).play(wire)
        except (Dropped, ConnectionError):
            return

    def log_message(self, format: str, *args: Any) -> None:
        """Tests print enough."""
