"""A loopback receiver of webhooks."""

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any, NamedTuple, cast

Json = dict[str, Any]


class Delivery(NamedTuple):
    """A request that came."""

    headers: dict[str, str]
    body: bytes
    status: int
    """What it was answered with."""

    @property
    def form(self) -> Json:
        found: Json = json.loads(self.body)
        return found


class HttpReceiver:
    """A server that keeps what is sent to it; it answers with `statuses` first, then with what `later` says.

    It answers once it is let `go`.
    """

    def __init__(self, *statuses: int, later: Callable[[], int] = lambda: 200) -> None:
        self.got: list[Delivery] = []
        self.go = Event()
        self.go.set()
        got, answers, go = self.got, [*statuses], self.go

        class _Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers["Content-Length"])
                if len(body := self.rfile.read(size)) < size:
                    return  # who sent it was killed
                status = answers.pop(0) if answers else later()
                got.append(Delivery({name.lower(): value for name, value in self.headers.items()}, body, status))
                go.wait(60)
                self.send_response(status)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self.port = cast(int, self._server.server_address[1])
        self.url = f"http://127.0.0.1:{self.port}/hook"

    @property
    def types(self) -> list[str]:
        """The types of what came."""
        return [each.form["type"] for each in self.got]

    def __enter__(self) -> "HttpReceiver":
        Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.go.set()
        self._server.shutdown()
        self._server.server_close()
