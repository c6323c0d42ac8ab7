"""An MCP server to test against, made with the SDK: `python tests/mcp_server.py` on stdio, `… http` on a free port.

`serve` has a server in a thread of the tests' own process, which spares the second that a process takes to start.
"""

import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, TextContent, ToolAnnotations

server = MCPServer("shop", log_level="ERROR")


@server.tool(title="Stock", annotations=ToolAnnotations(read_only_hint=True))
def stock(item: str) -> dict[str, int]:
    """How many of an item there are."""
    return {item: 7}


@server.tool(annotations=ToolAnnotations(idempotent_hint=True))
def label(item: str) -> CallToolResult:
    """Print a label."""
    return CallToolResult(content=[TextContent(type="text", text="printed:"), TextContent(type="text", text=item)])


@server.tool()
def picture() -> Image:
    """Show the shop."""
    return Image(data=b"123456", format="png")


@server.tool()
def refuse() -> str:
    """Always fails."""
    raise ToolError("the shop is closed")


@server.tool()
def whoami() -> str:
    """The process, and what it was told."""
    return f"{os.getpid()} {os.environ.get('SHOP_TOKEN', 'nothing')} {os.environ.get('SEGUE_MODEL', 'nothing')}"


@server.tool()
def key(ctx: Context) -> str:
    """The idempotency key of this request."""
    return str((ctx.request_context.meta or {}).get("idempotencyKey"))


@server.tool()
def die() -> str:
    """End the server at once."""
    os._exit(3)


@server.tool(annotations=ToolAnnotations(idempotent_hint=True))
def die_once(marker: str) -> str:
    """End the server at once, unless the marker's file is there."""
    if Path(marker).exists():
        return "survived"
    Path(marker).touch()
    os._exit(3)


@server.tool()
def order(items: list[dict[str, list[int]]], note: str = "-") -> dict[str, list[dict[str, list[int]]]]:
    """Order items."""
    return {note: items}


@contextmanager
def serve(server: MCPServer) -> Iterator[str]:
    """The address of a server in a thread of this process."""
    bound = socket.create_server(("127.0.0.1", 0))
    listening = socket.socket(fileno=bound.detach())
    address = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    running = uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_config=None, access_log=False))
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield address
    finally:
        running.should_exit = True
        thread.join()


def serve_http() -> None:
    """Serve on a free port of this machine and say which on stdout."""
    bound = socket.create_server(("127.0.0.1", int(sys.argv[2])))
    listening = socket.socket(fileno=bound.detach())  # says that it is TCP, which asyncio sends without delay
    sys.stdout.write(f"{listening.getsockname()[1]}\n")
    sys.stdout.flush()
    uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="error")).run(sockets=[listening])


if __name__ == "__main__":
    serve_http() if sys.argv[1:2] == ["http"] else server.run("stdio")
