"""The service that the routes share: the app, the settings, the open streams."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ..app import App
from ..core.errors import UnknownTask
from ..core.records import Json
from .errors import Problem, not_found
from .settings import ServerSettings
from .sse.frames import FrameCache
from .tenants import Tenant
from .views import task_view


@dataclass
class Service:
    """One process's service over an open app."""

    app: App
    settings: ServerSettings
    drained: "asyncio.Task[None] | None" = None
    """The task that stops the service, once it was asked to."""
    streams: "set[asyncio.Task[Any]]" = field(default_factory=set)
    frame_cache: FrameCache = field(default_factory=FrameCache)
    resuming: dict[str, asyncio.Event] = field(default_factory=dict)
    """Tasks that are about to be resumed."""
    _open_streams: Counter[str] = field(default_factory=Counter)
    _starting: Counter[str] = field(default_factory=Counter)
    """Tasks that are being started, by tenant."""
    _writable: "asyncio.Task[None] | None" = None
    _checked_at: float = 0.0

    @property
    def draining(self) -> bool:
        return self.drained is not None

    def refuse_while_draining(self) -> None:
        """Take on nothing new while the service stops."""
        if self.draining:
            raise Problem(503, "Stopping", {"Retry-After": "5"})

    async def check_ready(self) -> None:
        """Check that work can be taken on; the database is asked at most once a second, however many want to know.

        Raises:
            DatabaseUnavailable: it cannot be written.
        """
        self.refuse_while_draining()
        now = time.monotonic()
        if self._writable is None or now - self._checked_at >= self.settings.ready_seconds:
            self._checked_at = now
            self._writable = asyncio.create_task(self.app.check_writable(), name="readiness")
        await asyncio.shield(self._writable)

    @contextmanager
    def starting_task(self, tenant: Tenant, thread_id: str) -> Iterator[None]:
        """Count a task of the tenant's as it starts, and refuse it beyond the tenant's limit.

        The session's own task does not count: whether the session is busy, the app says.
        """
        running = sum(tenant.owns(other) and other != thread_id for other in self.app.queries.running())
        if running + self._starting[tenant.name] >= self.settings.tasks:
            raise Problem(429, "TooManyTasks", {"Retry-After": "5"}, most=self.settings.tasks)
        self._starting[tenant.name] += 1
        try:
            yield
        finally:
            self._starting[tenant.name] -= 1

    def mark_resumed(self, task_id: str) -> None:
        """A task was resumed, or will not be."""
        if event := self.resuming.pop(task_id, None):
            event.set()

    def open_stream(self, tenant: Tenant) -> None:
        """Count a stream of the tenant's; `close_stream` when it ends."""
        if self._open_streams[tenant.name] >= self.settings.streams:
            raise Problem(429, "TooManyStreams", {"Retry-After": "1"}, most=self.settings.streams)
        self._open_streams[tenant.name] += 1

    def close_stream(self, tenant: Tenant) -> None:
        self._open_streams[tenant.name] -= 1

    async def own_task(self, tenant: Tenant, task_id: str) -> Json:
        """The row of a task of the tenant's; a 404 for any other."""
        try:
            row = await self.app.task(task_id)
        except UnknownTask:
            raise not_found("task", task_id) from None
        if not tenant.owns(row["thread_id"]):
            raise not_found("task", task_id)
        return row

    async def page_of_tasks(self, tenant: Tenant, limit: int, before: str | None, **which: Any) -> Json:
        """A page of the tenant's tasks, the latest first."""
        if before is not None:
            await self.own_task(tenant, before)
        rows = await self.app.tasks(limit=limit + 1, before=before, session_prefix=tenant.prefix, **which)
        items = [task_view(row, tenant) for row in rows[:limit]]
        return {"items": items, "next": items[-1]["task_id"] if len(rows) > limit else None}

    async def own_session(self, tenant: Tenant, session_id: str) -> str:
        """The stored name of a session of the tenant's; a 404 where there is none."""
        thread_id = tenant.stored(session_id)
        if not await self.app.tasks(session_id=thread_id, limit=1):
            raise not_found("session", session_id)
        return thread_id
