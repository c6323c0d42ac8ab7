"""Server-sent events."""

from collections.abc import AsyncGenerator, AsyncIterator

from .faults import AttemptFailed, too_long


async def event_data(received: AsyncIterator[bytes], limit: int) -> AsyncGenerator[bytes, None]:
    """Yield the data of each event; names, ids and comments are passed over.

    Raises:
        AttemptFailed: an event is longer than `limit` bytes.
    """
    line: list[bytes] = []
    data: list[bytes] = []
    size = 0
    async for chunk in received:
        first, *rest = chunk.replace(b"\r", b"").split(b"\n")
        line.append(first)
        for after in rest:
            whole, line = b"".join(line), [after]
            name, _, value = whole.partition(b":")
            if name == b"data":
                data.append(value.removeprefix(b" "))
            elif not whole:
                if data:
                    yield b"\n".join(data)
                data, size = [], 0
        size += len(chunk)
        if size > limit:
            raise AttemptFailed(too_long(limit))
