"""A task as a stream of frames: what happens, heartbeats where nothing does, and one `done`."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing, suppress
from typing import cast
from urllib.parse import quote

from fastapi import Request, Response
from fastapi.responses import StreamingResponse
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from ..core.errors import SegueError, TaskError
from ..core.events import Event, Paused, PauseReason
from ..core.records import Json, Task
from ..prompts.catalogue import http_text, render_over_http
from .errors import new_error_id
from .frames import HEARTBEAT, PADDING, done_frame
from .run import logger
from .service import Service
from .tenants import Tenant
from .views import outcome


class EventStream(StreamingResponse):
    """One client's view of a task, which does not know of it; its place is free as soon as the client is gone.

    The headers that all event streams have are added in `middleware.py`.
    """

    def __init__(
        self,
        service: Service,
        tenant: Tenant,
        frames: AsyncGenerator[bytes, None],
        headers: Mapping[str, str],
        stops: str = "",
    ) -> None:
        """`stops` is the task that is stopped if the client leaves before the last frame."""
        self._frames = frames
        self._stops = stops
        super().__init__(frames, media_type="text/event-stream", headers=headers)
        self._service = service
        self._tenant = tenant
        self._quiet = True
        self._is_padded = False
        self._is_whole = False
        """Whether all frames were sent."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._is_padded = Headers(scope=scope).get("user-agent", "").startswith("Mozilla/")
        responding = cast("asyncio.Task[None]", asyncio.current_task())
        self._service.streams.add(responding)
        try:
            async with aclosing(self._frames):
                if not self._stops:
                    return await super().__call__(scope, receive, send)
                async with self._service.reading(self._stops) as has_all:
                    await super().__call__(scope, receive, send)
                    if self._is_whole:
                        has_all()
        finally:
            self._service.streams.discard(responding)
            self._service.close_stream(self._tenant)

    async def stream_response(self, send: Send) -> None:
        """Send each frame in one write, and a heartbeat where there was none for a while."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        if self._is_padded:
            await send({"type": "http.response.body", "body": PADDING, "more_body": True})
        beating = asyncio.create_task(self._beat(send), name="heartbeat")
        try:
            async for frame in self._frames:
                self._quiet = False
                await send({"type": "http.response.body", "body": frame, "more_body": True})
            self._is_whole = True
        finally:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _beat(self, send: Send) -> None:
        while True:
            self._quiet = True
            await asyncio.sleep(self._service.settings.heartbeat_seconds)
            if self._quiet:
                await send({"type": "http.response.body", "body": HEARTBEAT, "more_body": True})


async def while_connected(service: Service, request: Request, stops: str, reading: Awaitable[Response]) -> Response:
    """The response to a client that waits for it; `stops` is the task that is stopped if the client leaves before."""
    if not stops:
        return await reading

    async def leave() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    async with service.reading(stops) as has_all:
        read, left = asyncio.ensure_future(reading), asyncio.create_task(leave(), name="disconnect")
        try:
            await asyncio.wait([read, left], return_when=asyncio.FIRST_COMPLETED)
            if not read.done():
                return Response(status_code=499)
            has_all()
            return await read
        finally:
            for each in (read, left):
                each.cancel()
            await asyncio.gather(read, left, return_exceptions=True)


def task_frames(
    service: Service, tenant: Tenant, row: Task, after: int, so_far: bool = False
) -> AsyncGenerator[bytes, None]:
    """Everything that a client is sent of a task: the events after the one of that number, what happens, `done`."""
    task_id = row.task_id

    async def frames() -> AsyncGenerator[bytes, None]:
        async with aclosing(events_of(service, task_id, after, so_far)) as events:
            async for event in events:
                for frame in service.frame_cache.frames(event, tenant, row.reply_language):
                    yield frame
        yield done_frame(task_id, await outcome(service.app, tenant, task_id))

    return with_error_frames(frames(), tenant, row, lambda result: [done_frame(task_id, result)])


async def with_error_frames(
    frames: AsyncGenerator[bytes, None], tenant: Tenant, row: Task, ending: Callable[[Json], Iterable[bytes]]
) -> AsyncGenerator[bytes, None]:
    """The frames of a task's stream; if they fail, they end with those of the result that says so."""
    try:
        async with aclosing(frames):
            async for frame in frames:
                yield frame
    except Exception as error:  # noqa: BLE001  logged with its trace, and answered without
        for frame in ending(_broken(tenant, row, error)):
            yield frame


_RELEASE_SECONDS = 5.0
"""Seconds that a process which stops may take to release a session."""


async def events_of(
    service: Service, task_id: str, after: int, so_far: bool = False, *, takes_over: bool = False
) -> AsyncGenerator[Event, None]:
    """The task's events, once it runs again where a restart had interrupted it.

    With `takes_over` it is resumed here where another process of the service pauses it meanwhile, as it stops.
    """

    async def begin() -> tuple[str, int]:
        if resumed := service.resuming.get(task_id):
            await resumed.wait()
        return task_id, after

    is_closed, seen = False, after
    async with aclosing(service.app.tasks.begin_and_follow(begin, so_far)) as events:
        async for event in events:
            is_closed = event.reason == PauseReason.CLOSED if isinstance(event, Paused) else is_closed
            seen = event.seq or seen
            yield event
    if not (takes_over and is_closed and service.settings.resume) or service.draining:
        return
    with suppress(TaskError):  # another process was faster
        await service.app.tasks.resume_with(task_id, None, wait=_RELEASE_SECONDS)
    async with aclosing(events_of(service, task_id, seen)) as events:
        async for event in events:
            yield event


def _broken(tenant: Tenant, row: Task, error: Exception) -> Json:
    """The result of a stream that failed."""
    error_id = new_error_id()
    language = row.reply_language
    logger.error("stream broke", exc_info=error, extra={"error_id": error_id, "task_id": row.task_id})
    if isinstance(error, SegueError):
        sentence = tenant.without_prefix(render_over_http(error, language))
    else:
        sentence = http_text("StreamFailed", language)
    return {"success": False, "answer": "", "error": sentence, "error_id": error_id, "task_id": row.task_id}


def task_headers(tenant: Tenant, row: Task) -> Mapping[str, str]:
    """The task and its session; a name that is not ASCII is percent-encoded."""
    return {"X-Task-Id": row.task_id, "X-Session-Id": quote(tenant.shown(row.session_id), safe=":@")}
