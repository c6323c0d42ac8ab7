"""A task as a stream of frames: what happens, heartbeats where nothing does, and one `done`."""

import asyncio
import dataclasses
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import cast

from fastapi.responses import StreamingResponse

from ..errors import SegueError
from ..events import ErrorRaised, Event
from .asgi import Receive, Scope, Send
from .frames import HEARTBEAT, done_frame, frames
from .logs import logger
from .outcomes import outcome
from .problems import new_error_id
from .rows import Row
from .service import Service
from .tenants import Tenant

AHEAD = 256
"""Frames that are made ready before a client has taken them."""
CLOSING_SECONDS = 1.0
"""How long a stream may take to tell of the end of its task, when the service stops."""


class Stream:
    """One client's view of a task; the task does not know of it."""

    def __init__(self, service: Service, tenant: Tenant, task_id: str, after: int = 0) -> None:
        self._service = service
        self._tenant = tenant
        self._task_id = task_id
        self._after = after
        self._ready: asyncio.Queue[bytes | None] = asyncio.Queue(AHEAD)
        self._pump: asyncio.Task[None] | None = None

    async def end(self) -> None:
        """Let the stream close with what the task came to so far; soon, where another process runs it."""
        if self._pump is not None:
            await asyncio.wait({self._pump}, timeout=CLOSING_SECONDS)
            self._pump.cancel()

    async def frames(self) -> AsyncIterator[bytes]:
        """Everything that the client is sent, each item in one write."""
        self._pump = asyncio.create_task(self._follow(), name=f"stream of {self._task_id}")
        self._pump.add_done_callback(self._wake)
        try:
            while (frame := await self._next()) is not None:
                yield frame
            yield done_frame(self._task_id, await self._result())
        finally:
            self._pump.cancel()
            await asyncio.gather(self._pump, return_exceptions=True)

    async def _follow(self) -> None:
        if coming := self._service.coming.get(self._task_id):
            await coming.wait()
        events = cast("AsyncGenerator[Event, None]", self._service.app.follow(self._task_id, self._after))
        async with aclosing(events):
            async for event in events:
                for frame in frames(_told(event, self._tenant)):
                    await self._ready.put(frame)

    def _wake(self, _: "asyncio.Task[None]") -> None:
        if not self._ready.full():
            self._ready.put_nowait(None)

    async def _next(self) -> bytes | None:
        """The next frame, a heartbeat, or None at the end."""
        if not self._ready.empty():
            return self._ready.get_nowait()
        if self._pump and self._pump.done():
            return None
        try:
            async with asyncio.timeout(self._service.settings.heartbeat_seconds):
                return await self._ready.get()
        except TimeoutError:
            return HEARTBEAT

    async def _result(self) -> Row:
        """What the task came to, or why that is not known."""
        try:
            if self._pump and self._pump.done() and not self._pump.cancelled():
                self._pump.result()
            return await outcome(self._service.app, self._tenant, self._task_id)
        except Exception as error:  # noqa: BLE001  logged with its trace, and told without
            error_id = new_error_id()
            logger.exception("stream broke", extra={"error_id": error_id, "task_id": self._task_id})
            known = isinstance(error, SegueError)
            sentence = (
                self._tenant.told(str(error)) if known else "The stream broke off: the log has it by its error_id."
            )
            return {"success": False, "answer": "", "error": sentence, "error_id": error_id, "task_id": self._task_id}


def _told(event: Event, tenant: Tenant) -> Event:
    """The event with the names in its error as the tenant knows them."""
    if isinstance(event, ErrorRaised) and tenant.name:
        return dataclasses.replace(event, message=tenant.told(event.message))
    return event


class EventStream(StreamingResponse):
    """The response that carries a stream; its place is free again as soon as the client is gone."""

    def __init__(self, service: Service, tenant: Tenant, stream: Stream, headers: Mapping[str, str]) -> None:
        self._frames = cast("AsyncGenerator[bytes, None]", stream.frames())
        super().__init__(
            self._frames,
            media_type="text/event-stream",
            headers={**headers, "Cache-Control": "no-cache", "X-Accel-Buffering": "no"},
        )
        self._service = service
        self._tenant = tenant
        self._stream = stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._service.streams.add(self._stream)
        try:
            async with aclosing(self._frames):
                await super().__call__(scope, receive, send)
        finally:
            self._service.streams.discard(self._stream)
            self._service.leave_place(self._tenant)
