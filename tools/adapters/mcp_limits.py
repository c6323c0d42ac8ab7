"""Limits on the messages of MCP servers, which hold before a message is decoded."""

import codecs
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self

import httpx2
from mcp import StdioServerParameters, stdio_client
from mcp.types import INVALID_REQUEST, ErrorData, JSONRPCError, JSONRPCNotification

from .client import COMPRESSED, MOST_BYTES, TOO_LONG, Received, over_limit, storable_json

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from typing import TextIO

    from mcp.client._transport import ReadStream, TransportStreams
    from mcp.shared.message import SessionMessage

REFUSED = -32098
"""The code of the error that takes the place of a response that is too large, over HTTP."""
CODEC = "segue_mcp_lines"
_REFUSAL = "notifications/segue/refused"


# On stdio. The SDK collects lines of any length in the encoding that it is given, so the limits are in the encoding.


class _Lines(codecs.IncrementalDecoder):
    """Decodes whole lines; in place of one that is refused stands a notification of that, and nothing follows it."""

    def __init__(self, errors: str = "replace") -> None:
        super().__init__(errors)
        self._line = Received()
        self._refused = False

    def decode(self, data: bytes, final: bool = False) -> str:  # type: ignore[override]
        return "" if self._refused else "".join(self._decoded(data))

    def _decoded(self, data: bytes) -> Iterator[str]:
        *ends, rest = data.split(b"\n")
        for end in ends:
            reason = self._line.add(end)
            line, over = self._line.end()
            if reason or over:
                yield self._refusal(reason or over)
                return
            yield line.decode(errors="replace") + "\n"
        if reason := self._line.add(rest):
            yield self._refusal(reason)

    def _refusal(self, reason: str) -> str:
        self._refused, self._line = True, Received()
        return JSONRPCNotification(jsonrpc="2.0", method=_REFUSAL, params={"reason": reason}).model_dump_json() + "\n"


def _codec(name: str) -> codecs.CodecInfo | None:
    if name != CODEC:
        return None
    return codecs.CodecInfo(codecs.utf_8_encode, codecs.utf_8_decode, incrementaldecoder=_Lines, name=CODEC)


codecs.register(_codec)


class _Read:
    """The messages of a server until one is refused."""

    def __init__(self, inner: "ReadStream[SessionMessage | Exception]", refuse: Callable[[str], None]) -> None:
        self._inner = inner
        self._refuse = refuse

    async def receive(self) -> "SessionMessage | Exception":
        return await self._inner.receive()

    async def aclose(self) -> None:
        await self._inner.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> "SessionMessage | Exception":
        item = await self._inner.__anext__()
        message = None if isinstance(item, Exception) else item.message
        if isinstance(message, JSONRPCNotification) and message.method == _REFUSAL:
            self._refuse(str((message.params or {}).get("reason", "")))
            raise StopAsyncIteration
        return item

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._inner.__aexit__(kind, error, trace)


@asynccontextmanager
async def limited_stdio(
    started: StdioServerParameters, errlog: "TextIO", refuse: Callable[[str], None]
) -> "AsyncGenerator[TransportStreams]":
    """As `stdio_client`; where a message is refused, `refuse` is called with the reason and no other one is read."""
    bounded = started.model_copy(update={"encoding": CODEC, "encoding_error_handler": "replace"})
    async with stdio_client(bounded, errlog=errlog) as (read, write):
        yield _Read(read, refuse), write


# Over HTTP. A response that is refused is replaced by an error, so that the session stays.


async def limit_response(response: httpx2.Response) -> None:
    """Have the response's body read within the limits: a hook of an HTTP client."""
    await response.request.aread()  # one that follows a redirect has its content as a stream
    received = response.stream
    assert isinstance(received, httpx2.AsyncByteStream)
    events = response.headers.get("content-type", "").lower().startswith("text/event-stream")
    if response.headers.get("content-encoding", "identity").lower() != "identity":  # it would grow when it is decoded
        del response.headers["content-encoding"]
        pieces = _only(_refused(response.request, COMPRESSED, events))
    elif events:
        pieces = _events(response.request, httpx2.Response(200, headers=response.headers, stream=received))
        response.headers["content-type"] = "text/event-stream; charset=utf-8"
    else:
        pieces = _body(response.request, received)
    response.stream = _Body(pieces, received)


class _Body(httpx2.AsyncByteStream):
    """A body in place of the one that is received."""

    def __init__(self, pieces: AsyncIterator[bytes], received: httpx2.AsyncByteStream) -> None:
        self._pieces = pieces
        self._received = received

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._pieces:
            yield piece

    async def aclose(self) -> None:
        await self._received.aclose()


async def _only(body: bytes) -> AsyncIterator[bytes]:
    yield body


async def _body(request: httpx2.Request, received: httpx2.AsyncByteStream) -> AsyncIterator[bytes]:
    message = Received()
    async for piece in received:
        if reason := message.add(piece):
            yield _refused(request, reason)
            return
    whole, reason = message.end()
    yield _refused(request, reason) if reason else whole


async def _events(request: httpx2.Request, response: httpx2.Response) -> AsyncIterator[bytes]:
    response.request = request
    try:
        async for event in httpx2.EventSource(response, max_event_size=MOST_BYTES):
            data = event.data.encode()
            if reason := over_limit(data):
                yield _refused(request, reason, events=True)
                continue
            data = storable_json(data)
            retry = [] if event.retry is None else [f"retry: {event.retry}"]
            fields = [f"event: {event.event}", f"id: {event.id}", *retry]
            lines = [*(field.encode() for field in fields), *(b"data: " + line for line in data.split(b"\n"))]
            yield b"\n".join(lines) + b"\n\n"
    except httpx2.SSEError:
        yield _refused(request, TOO_LONG, events=True)


def _refused(request: httpx2.Request, reason: str, events: bool = False) -> bytes:
    """The error in place of the response to a request; nothing where there was none."""
    asked = json.loads(request.content or b"{}").get("id")
    if asked is None:
        return b""
    code = INVALID_REQUEST if reason == COMPRESSED else REFUSED
    error = JSONRPCError(jsonrpc="2.0", id=asked, error=ErrorData(code=code, message=reason))
    body = error.model_dump_json(by_alias=True, exclude_unset=True).encode()
    return b"data: " + body + b"\n\n" if events else body
