"""An OpenAI-compatible endpoint without latency: `python -m costs.endpoint` prints its port.

The newest message of the user says what to answer: `[bench KIND CALLS NAME]`, where KIND is native, json or plan. The
first CALLS requests of that message get a tool call, the next one the answer. Where `whole` is in NAME, the request has
all results, and they are counted in place of the requests. Where `kept` is in it, what is known of the requests is at
`GET /requests/NAME`.
"""

import asyncio
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

ANSWER = "That is all there is to say about the pages of the handbook."
THOUGHT = "The next page is still to be read."
PIECE = 12
"""Characters in a streamed piece."""

_ASKED = re.compile(rb"\[bench (\w+) (\d+) ([\w-]+)\]")
_RESULT = re.compile(rb'"role": ?"tool"')
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_counts: dict[bytes, int] = defaultdict(int)
_bodies: dict[str, list[bytes]] = defaultdict(list)


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the requests of one connection."""
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = _LENGTH.search(head)
            body = await reader.readexactly(int(length[1])) if length else b""
            if head.startswith(b"GET /requests/"):
                name = head.split(b" ", 2)[1].rpartition(b"/")[2].decode()
                content = json.dumps(described(_bodies.pop(name, []))).encode()
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(content), content))
            else:
                stream = b"".join(f"data: {chunk}\n\n".encode() for chunk in chunks(body))
                writer.write(
                    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n%s"
                    % (len(stream), stream)
                )
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


def chunks(body: bytes) -> Iterator[str]:
    """The reply to a request, as the data of its events."""
    *_, asked = _ASKED.finditer(body)
    kind, calls, name = asked[1].decode(), int(asked[2]), asked[3].decode()
    if "kept" in name:
        _bodies[name].append(body)
    _counts[asked[0]] += 1
    turn = len(_RESULT.findall(body)) + 1 if "whole" in name else _counts[asked[0]]
    for delta in deltas(kind, calls, turn):
        yield json.dumps({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"} | delta)
    yield "[DONE]"


def deltas(kind: str, calls: int, turn: int) -> Iterator[dict[str, Any]]:
    """The chunks of a message's reply number `turn`, without what is the same in all."""
    last = turn > calls
    if kind == "native" and not last:
        call = {
            "index": 0,
            "id": f"call_{turn}",
            "type": "function",
            "function": {"name": "read_page", "arguments": ""},
        }
        yield choice({"role": "assistant", "content": None, "tool_calls": [call]})
        for piece in pieces(json.dumps({"number": turn})):
            yield choice({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
        yield choice({}, "tool_calls")
    else:
        yield choice({"role": "assistant", "content": ""})
        for piece in pieces(text(kind, calls, turn)):
            yield choice({"content": piece})
        yield choice({}, "stop")
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    yield {"choices": [], "usage": usage}


def text(kind: str, calls: int, turn: int) -> str:
    if kind == "plan":
        return plan(calls) if turn == 1 else ANSWER
    if kind == "native":
        return ANSWER
    result: dict[str, Any] = {"action_type": "ANSWER", "output": {"answer": ANSWER}}
    if turn <= calls:
        call = {"function": {"name": "read_page", "arguments": {"number": turn}}}
        result = {"action_type": "CALL_TOOL", "output": {"tool_calls": [call]}}
    return json.dumps({"observe": "", "thought": THOUGHT, "action": {"result": result}})


def plan(steps: int) -> str:
    """A plan of independent steps."""
    one = {"action": "wait", "phase": "execution", "depends_on": []}
    each = [
        {"step": n, "params": {"number": n}, "description": f"Wait for number {n}"} | one for n in range(1, steps + 1)
    ]
    return json.dumps({"goal": "Wait for all of them", "steps": each})


def choice(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}


def pieces(whole: str) -> Iterator[str]:
    return (whole[start : start + PIECE] for start in range(0, len(whole), PIECE))


def described(bodies: list[bytes]) -> dict[str, int]:
    """Characters of a task's requests: all of them, and of the messages those behind the previous request's prefix."""
    sent = fresh = asked = 0
    before = ""
    for body in map(json.loads, bodies):
        messages = dumped(body["messages"])
        beside = [dumped(body[name]) for name in ("tools", "response_format") if name in body]
        sent += len(messages) + sum(map(len, beside))
        asked += len(messages)
        fresh += len(messages) - common(before, messages)
        before = messages
    return {"requests": len(bodies), "sent": sent, "messages": asked, "fresh": fresh}


def dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def common(first: str, second: str) -> int:
    """The length of the common beginning; a closing bracket that a longer list does not have there is not counted."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if first[:middle] == second[:middle] else (low, middle - 1)
    return low


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=2**26)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
