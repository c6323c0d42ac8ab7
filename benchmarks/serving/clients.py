"""A thousand clients on plain sockets: they keep what comes, and look at it when all is over."""

import asyncio
import json
import re
from dataclasses import dataclass, field

_TASK_ID = re.compile(rb"x-task-id: *(\S+)", re.IGNORECASE)


@dataclass(eq=False)
class Client(asyncio.Protocol):
    """One connection that follows one task to its end, or leaves."""

    request: bytes
    began: float = 0.0
    first: float | None = None
    """Seconds from connecting to the first byte of the answer."""
    left: bool = False
    raw: bytearray = field(default_factory=bytearray)
    read: list[tuple[float, int]] = field(default_factory=list)
    """When, in seconds from the first byte, how many bytes were there; of those that record."""
    recording: bool = False
    error: str = ""
    _transport: asyncio.Transport | None = None
    _begun: asyncio.Event = field(default_factory=asyncio.Event)
    _over: asyncio.Event = field(default_factory=asyncio.Event)

    async def follow(self, port: int, leave_at: float | None = None) -> None:
        """Connect, and stay to the end or until the loop's clock says `leave_at`."""
        loop = asyncio.get_running_loop()
        self.began = loop.time()
        try:
            await loop.create_connection(lambda: self, "127.0.0.1", port)
            async with asyncio.timeout_at(leave_at):
                await self._over.wait()
        except TimeoutError:
            self.left = True
            if self._transport:
                self._transport.abort()
        except OSError as error:
            self.error = repr(error)
        finally:
            self._begun.set()

    async def task_id(self) -> str:
        """The task that it started."""
        await self._begun.wait()
        found = _TASK_ID.search(self.raw)
        if not found:
            raise RuntimeError(f"no task began: {self.error or bytes(self.raw[:300])!r}")
        return found[1].decode("ascii")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        if self.first is None:
            self.first = asyncio.get_running_loop().time() - self.began
            self._begun.set()
        self.raw += data
        if self.recording:
            self.read.append((asyncio.get_running_loop().time() - self.began - self.first, len(self.raw)))

    def connection_lost(self, exc: Exception | None) -> None:
        if exc and not self.left:
            self.error = repr(exc)
        self._over.set()
        self._begun.set()


def start_request(message: str) -> bytes:
    """Send a message."""
    body = json.dumps({"message": message, "agent_id": "steady", "mode": "react"}).encode("ascii")
    head = "POST /api/chat HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode("ascii") + body


def stream_request(task_id: str) -> bytes:
    """Watch a task."""
    head = f"GET /api/tasks/{task_id}/stream HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    return head.encode("ascii")
