"""The services of the staging system, on loopback: payments and orders over HTTP, and mail over SMTP."""

import json
import socketserver
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LATE = 0.8
"""Seconds until a shipment that was accepted is there."""


class State:
    """What exists, by namespace."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.rows: dict[str, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
        self.replies: dict[tuple[str, str], Any] = {}

    def create(self, namespace: str, kind: str, row: Any, key: str = "") -> Any:
        """Add a row once for a key; returns the reply."""
        with self.lock:
            if key and (namespace, key) in self.replies:
                return self.replies[namespace, key]
            reply = {"accepted": kind, "number": len(self.rows[namespace][kind]) + 1}
            if key:
                self.replies[namespace, key] = reply
            if kind == "shipments":
                threading.Timer(LATE, self.rows[namespace][kind].append, (row,)).start()
            else:
                self.rows[namespace][kind].append(row)
            return reply


def _http(state: State) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """/NAMESPACE/KIND: a GET lists rows, a POST adds one; /NAMESPACE/replies/KEY has what a key was answered."""

        def do_GET(self) -> None:
            _, namespace, *rest = self.path.split("/")
            if rest == ["state"]:
                self._reply({kind: rows for kind, rows in state.rows[namespace].items() if rows})
            elif rest[0] == "replies":
                self._reply(state.replies.get((namespace, rest[1])))
            else:
                self._reply(state.rows[namespace][rest[0]])

        def do_POST(self) -> None:
            _, namespace, kind = self.path.split("/")
            row = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self._reply(state.create(namespace, kind, row, self.headers.get("Idempotency-Key", "")))

        def _reply(self, body: Any) -> None:
            text = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            with suppress(ConnectionError):  # the client was killed
                self.wfile.write(text)

        def log_message(self, format: str, *arguments: Any) -> None:
            return

    return Handler


def _smtp(state: State) -> type[socketserver.StreamRequestHandler]:
    class Handler(socketserver.StreamRequestHandler):
        """One client; a mail to `who@NAMESPACE.test` is a row of that namespace."""

        def handle(self) -> None:
            with suppress(ConnectionError):  # the client was killed
                self._talk()

        def _talk(self) -> None:
            self._say("220 staging")
            recipient = ""
            while line := self.rfile.readline().decode().strip():
                command = line[:4].upper()
                if command == "QUIT":
                    return self._say("221 bye")
                if command == "RCPT":
                    recipient = line.partition("<")[2].partition(">")[0]
                if command == "DATA":
                    self._say("354 go on")
                    state.create(recipient.partition("@")[2].removesuffix(".test"), "mails", self._mail(recipient))
                self._say("250 ok")

        def _mail(self, recipient: str) -> Any:
            lines = []
            while (line := self.rfile.readline().decode().rstrip("\r\n")) != ".":
                lines.append(line)
            return {"to": recipient.partition("@")[0], "text": lines[-1]}

        def _say(self, text: str) -> None:
            self.wfile.write(f"{text}\r\n".encode())

    return Handler


class _Threads(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


@contextmanager
def started() -> Iterator[dict[str, str]]:
    """Start the services; gives the environment variables with their addresses."""
    state = State()
    http, smtp = ThreadingHTTPServer(("127.0.0.1", 0), _http(state)), _Threads(("127.0.0.1", 0), _smtp(state))
    for server in (http, smtp):
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield {
            "STAGING_URL": f"http://127.0.0.1:{http.server_address[1]}",
            "STAGING_SMTP": f"127.0.0.1:{smtp.server_address[1]}",
        }
    finally:
        for server in (http, smtp):
            server.shutdown()
            server.server_close()
