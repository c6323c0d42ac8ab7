"""A task as a stream of frames: what happens, heartbeats where nothing does, and one `done`."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import cast

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from ...core.errors import SegueError
from ...core.records import Json
from ...prompts.errors import render
from ...prompts.language import Language
from ...prompts.problems import problem_sentence
from ..errors import new_error_id
from ..log_config import logger
from ..service import Service
from ..tenants import Tenant
from ..views import outcome
from .frames import HEARTBEAT, done_frame


class EventStream(StreamingResponse):
    """One client's view of a task, which does not know of it; its place is free as soon as the client is gone."""

    def __init__(self, service: Service, tenant: Tenant, row: Json, after: int, headers: Mapping[str, str]) -> None:
        self._frames = cast("AsyncGenerator[bytes, None]", self._frames_of(row["task_id"], after))
        super().__init__(
            self._frames,
            media_type="text/event-stream",
            headers={**headers, "Cache-Control": "no-cache", "X-Accel-Buffering": "no"},
        )
        self._service = service
        self._tenant = tenant
        self._language: Language = row["language"] or "en"
        self._quiet = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        responding = cast("asyncio.Task[None]", asyncio.current_task())
        self._service.streams.add(responding)
        try:
            async with aclosing(self._frames):
                await super().__call__(scope, receive, send)
        finally:
            self._service.streams.discard(responding)
            self._service.close_stream(self._tenant)

    async def stream_response(self, send: Send) -> None:
        """Send each frame in one write, and a heartbeat where there was none for a while."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        beating = asyncio.create_task(self._beat(send), name="heartbeat")
        try:
            async for frame in self._frames:
                self._quiet = False
                await send({"type": "http.response.body", "body": frame, "more_body": True})
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

    async def _frames_of(self, task_id: str, after: int) -> AsyncIterator[bytes]:
        """Everything that the client is sent: the events after the one of that number, what happens, `done`."""
        try:
            if resumed := self._service.resuming.get(task_id):
                await resumed.wait()
            events = self._service.app.follow(task_id, after)
            async with aclosing(events):
                async for event in events:
                    for frame in self._service.frame_cache.frames(event, self._tenant):
                        yield frame
            result = await outcome(self._service.app, self._tenant, task_id)
        except Exception as error:  # noqa: BLE001  logged with its trace, and answered without
            result = self._broken(task_id, error)
        yield done_frame(task_id, result)

    def _broken(self, task_id: str, error: Exception) -> Json:
        """The result of a stream that failed."""
        error_id = new_error_id()
        logger.error("stream broke", exc_info=error, extra={"error_id": error_id, "task_id": task_id})
        if isinstance(error, SegueError):
            sentence = self._tenant.without_prefix(render(error, self._language))
        else:
            sentence = problem_sentence("StreamFailed", self._language)
        return {"success": False, "answer": "", "error": sentence, "error_id": error_id, "task_id": task_id}
