"""Limits on the replies and cards of A2A agents, which hold before one is decoded."""

from collections.abc import AsyncIterator

import httpx

from segue.core.json_depth import DEEPEST, Outline

MOST_BYTES = 20_000_000
"""Of one reply."""
MOST_VALUES = 100_000
"""JSON values in one reply."""


class ReplyTooLarge(httpx.ReadError):
    """A reply is larger than one may be, or compressed."""


async def limit_response(response: httpx.Response) -> None:
    """Have the response's body read within the limits: a hook of an HTTP client.

    Raises:
        ReplyTooLarge: it is compressed, so that it would grow when it is decoded.
    """
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise ReplyTooLarge("it sent a compressed reply: have it send plain ones, as it was asked to")
    assert isinstance(response.stream, httpx.AsyncByteStream)
    response.stream = _Body(response.stream)


class _Body(httpx.AsyncByteStream):
    def __init__(self, received: httpx.AsyncByteStream) -> None:
        self._received = received

    async def __aiter__(self) -> AsyncIterator[bytes]:
        body = bytearray()
        async for piece in self._received:
            body += piece
            if len(body) > MOST_BYTES:
                raise ReplyTooLarge(f"it sent a reply of more than {MOST_BYTES:,} bytes")
        outline = Outline.of(body, MOST_VALUES)
        if outline.values > MOST_VALUES or outline.depth > DEEPEST:
            raise ReplyTooLarge(
                f"it sent a reply of more than {MOST_VALUES:,} JSON values, or {DEEPEST} levels of them"
            )
        yield bytes(body)

    async def aclose(self) -> None:
        await self._received.aclose()
