"""An MCP server that sends what no server should: `python hostile_mcp_server.py [TOOLS]` on stdio, `… TOOLS http`.

It has TOOLS tools more than those that the tests call, and no SDK, so that nothing stands between it and the client.
"""

import gzip
import json
import os
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

BLOCK = b'{"type":"text","text":"a"}'
MEGABYTE = b"x" * 1_000_000
ANYTHING = {"type": "object"}
DOUBLING = {
    f"d{place}": {"properties": {name: {"$ref": f"#/$defs/d{place - 1}"} for name in "ab"}} for place in range(1, 25)
}
SCHEMAS = {
    "doubling": {"type": "object", "properties": {"x": {"$ref": "#/$defs/d24"}}, "$defs": {"d0": {}, **DOUBLING}}
}
CALLS = (
    "kind",
    "million_blocks",
    "many_blocks",
    "commas",
    "escapes",
    "endless",
    "no_utf8",
    "half_character",
    "packed",
    "sse_blocks",
    "wrong_blocks",
)


def tools() -> list[dict[str, Any]]:
    """The tools; those of a large server have a description of some length."""
    more = int((sys.argv[1:] or ["0"])[0])
    own = [{"name": name, "inputSchema": SCHEMAS.get(name, ANYTHING)} for name in (*CALLS, *SCHEMAS)]
    return own + [{"name": f"t{n}", "description": "It helps. " * 20, "inputSchema": ANYTHING} for n in range(more)]


def listed() -> dict[str, Any]:
    """The list of tools, of which there is always another page where their number is -1; at -2 they are not valid."""
    if sys.argv[1:2] == ["-2"]:
        return {"tools": [{}] * 20_000}
    more = {"nextCursor": "x"} if sys.argv[1:2] == ["-1"] else {}
    filler = [{"name": "long", "description": "x" * 3_000_000, "inputSchema": ANYTHING}] if more else []
    return {"tools": tools() + filler, **more}


def reply(message: dict[str, Any]) -> Iterator[bytes]:
    """The response to a request, in pieces; none to a notification."""
    if "id" not in message:
        return
    method, params = message["method"], message.get("params", {})
    about = {"name": "hostile", "version": "1"}
    results = {
        "initialize": lambda: {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": about,
        },
        "tools/list": listed,
    }
    if method == "tools/call":
        yield from called(params["name"], message["id"])
    elif method in results:
        yield json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": results[method]()}).encode()
    else:
        error = {"code": -32601, "message": f"no {method}"}
        yield json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode()


def called(name: str, request: Any) -> Iterator[bytes]:
    yield b'{"jsonrpc":"2.0","result":{"content":['
    yield from CONTENTS[name]()
    yield b'],"isError":false},"id":%s}' % json.dumps(request).encode()


def text(inner: bytes) -> bytes:
    return b'{"type":"text","text":"%s"}' % inner


def blocks(count: int) -> Iterator[bytes]:
    for _ in range(count // 1000 - 1):
        yield (BLOCK + b",") * 1000
    yield b",".join([BLOCK] * 1000)


def endless() -> Iterator[bytes]:
    while True:
        yield MEGABYTE


CONTENTS: dict[str, Any] = {
    "kind": lambda: [text(b"%d" % os.getpid())],
    "million_blocks": lambda: blocks(1_000_000),
    "many_blocks": lambda: blocks(200_000),
    "sse_blocks": lambda: blocks(200_000),
    "commas": lambda: [text(b"[{,}]," * 300_000)],
    "escapes": lambda: [text(rb"\"\\,\\\"," * 300_000)],
    "endless": endless,
    "no_utf8": lambda: [text(b"\xff\xfe")],
    "half_character": lambda: [text(rb"7 \ud83d and \ud83d\ude00 \\ud83d")],
    "packed": lambda: [text(MEGABYTE * 50)],
    "wrong_blocks": lambda: [b"{}," * 49_000 + b"{}"],
}


def on_stdio() -> None:
    out = sys.stdout.buffer
    for line in sys.stdin.buffer:
        pieces = 0
        for piece in reply(json.loads(line)):
            out.write(piece)
            pieces += 1
        if pieces:
            out.write(b"\n")
            out.flush()


class Hostile(BaseHTTPRequestHandler):
    """The same over HTTP: JSON, or events where the tool's name says so."""

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path == "/moved":
            self.send_response(307)
            self.send_header("Location", "/mcp")
            self.end_headers()
            return
        if "id" not in message:
            self.send_response(202)
            self.end_headers()
            return
        name = message.get("params", {}).get("name", "")
        events, packed = name.startswith("sse_"), name == "packed"
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream" if events else "application/json")
        if packed:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        pieces = [gzip.compress(b"".join(reply(message)))] if packed else reply(message)
        if events:
            self.wfile.write(b': a comment with one "\n\nevent: message\ndata: ')
        try:
            for piece in pieces:
                self.wfile.write(piece)
        except OSError:
            return
        self.wfile.write(b"\n\n" if events else b"")

    def do_GET(self) -> None:
        self.send_response(405)
        self.end_headers()

    def log_message(self, *arguments: Any) -> None:
        """Say nothing."""


def on_http() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hostile)
    sys.stdout.write(f"{server.server_address[1]}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    on_http() if sys.argv[2:] == ["http"] else on_stdio()
