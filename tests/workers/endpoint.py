"""An OpenAI-compatible endpoint that decides from the messages alone; as a module it prints its port.

`[pay NAME CALLS]` in the user's message asks for so many payments, one after the other; `[pay NAME CALLS DELAY]` waits
so many seconds before each reply. Every second payment is one whose tool has a check.
"""

import asyncio
import json
import re
import sys
from collections.abc import Iterator
from typing import Any

_ASKED = re.compile(r"\[pay (\S+) (\d+)(?: ([\d.]+))?\]")
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n"


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the requests of one connection."""
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = _LENGTH.search(head)
            body = json.loads(await reader.readexactly(int(length[1]) if length else 0))
            delay, deltas = _reply(body["messages"])
            await asyncio.sleep(delay)
            stream = b"".join(f"data: {line}\n\n".encode() for line in _lines(deltas))
            writer.write(_HEAD % len(stream) + stream)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


def _reply(messages: list[dict[str, Any]]) -> tuple[float, list[dict[str, Any]]]:
    """How long to wait, and the message that comes next."""
    place = max(at for at, message in enumerate(messages) if message["role"] == "user" and _asked(message))
    found = _asked(messages[place])
    assert found is not None
    name, calls, delay = found[1], int(found[2]), float(found[3] or 0)
    done = sum(message["role"] == "tool" for message in messages[place:])
    if done >= calls:
        return delay, [{"content": f"paid {name}"}]
    call = {"name": "transfer" if done % 2 else "deposit", "arguments": json.dumps({"label": f"{name}-{done}"})}
    return delay, [{"tool_calls": [{"index": 0, "id": f"call_{done}", "type": "function", "function": call}]}]


def _asked(message: dict[str, Any]) -> re.Match[str] | None:
    return _ASKED.search(json.dumps(message["content"]))


def _lines(deltas: list[dict[str, Any]]) -> Iterator[str]:
    kept = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    for delta in deltas:
        yield json.dumps({**kept, "choices": [{"index": 0, "delta": {"role": "assistant", **delta}}]})
    yield json.dumps({**kept, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    yield json.dumps({**kept, "choices": [], "usage": usage})
    yield "[DONE]"


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=2**24)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
