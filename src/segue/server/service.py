"""The service that the routes share: the app, the settings, the open streams."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, NamedTuple

from ..app import App
from ..core.agents import Agent
from ..core.errors import TaskError, UnknownTask
from ..core.events import Steered
from ..core.message import ReplyOptions
from ..core.records import Json, RequestKey, Task
from ..runtime.start import Request
from ..telemetry.metrics import Metrics
from ..testing.rehearsal.batch import FILE as BATCH
from ..testing.rehearsal.segue_bot import ConversationExecutor
from .errors import Problem, not_found
from .frames import FrameCache
from .runs import FILE as BACKTEST
from .runs import Runs
from .settings import ON_DISCONNECT, ServerSettings, Surface
from .tenants import Tenant
from .views import task_view

DELIVERED_SECONDS = 3600.0
"""How long a process remembers which requests it answered: longer than anybody tries again."""

_LIVE_ONLY = 2**62
"""After this event there are none in the log."""

Begun = tuple[Task, int]
"""A task, and the number of its last event before the request."""


class Waiting(NamedTuple):
    """How many workers there are, and how many tasks wait for one, or for a version of their agent."""

    workers: int
    waiting_for_worker: int
    waiting_for_version: int


@dataclass
class Service:
    """One process's service over an open app."""

    app: App
    settings: ServerSettings
    metrics: Metrics
    database: str = ""
    """The path or URL of the app's database."""
    drained: "asyncio.Task[None] | None" = None
    """The task that stops the service, once it was asked to."""
    streams: "set[asyncio.Task[Any]]" = field(default_factory=set)
    frame_cache: FrameCache = field(default_factory=FrameCache)
    resuming: dict[str, asyncio.Event] = field(default_factory=dict)
    """Tasks that are about to be resumed."""
    logins: "dict[str, tuple[asyncio.Task[None], asyncio.Future[str]]]" = field(default_factory=dict)
    """Logins at MCP servers that are under way, with the links that a person is sent to, by the servers' names."""
    rehearsals: Runs = field(default_factory=lambda: Runs("rehearsal", BATCH))
    backtests: Runs = field(default_factory=lambda: Runs("backtest", BACKTEST))
    drains: list[Callable[[float], Awaitable[None]]] = field(default_factory=list)
    """What also stops when the service does, within so many seconds."""
    _delivered: dict[str, float] = field(default_factory=dict)
    """When this process began to answer requests, by their names, the earliest first."""
    _open_streams: Counter[str] = field(default_factory=Counter)
    _readers: Counter[str] = field(default_factory=Counter)
    """How many clients read the answer of a task that their leaving stops."""
    _stops: "dict[str, asyncio.Task[None]]" = field(default_factory=dict)
    """What stops tasks whose clients have just left."""
    _starting: Counter[str] = field(default_factory=Counter)
    """Tasks that are being started, by tenant."""
    _writable: "asyncio.Task[Waiting] | None" = None
    _checked_at: float = 0.0

    @property
    def draining(self) -> bool:
        return self.drained is not None

    @property
    def agents(self) -> dict[str, Agent]:
        """The agents that clients may use: not those that are the bots of conversations."""
        known = self.app.agents
        return {
            name: agent
            for name, agent in known.items()
            if not isinstance(known.executor_of(name), ConversationExecutor)
        }

    @property
    def default_agent(self) -> str:
        """The agent of a message that names none."""
        return self.settings.default_agent or next(iter(self.agents))

    @property
    def default_model(self) -> str:
        """The model that answers a message that names neither a model nor an agent."""
        return self.app.agents.model_name(self.app.agents[self.default_agent])

    def refuse_while_draining(self) -> None:
        """Take on nothing new while the service stops."""
        if self.draining:
            raise Problem(503, "Stopping", {"Retry-After": "5"})

    async def check_ready(self) -> Waiting:
        """Check that work can be taken on; returns how many workers there are, and how many tasks wait.

        The database is asked at most once a second, however many want to know.
        """
        self.refuse_while_draining()
        now = time.monotonic()
        if self._writable is None or now - self._checked_at >= self.settings.ready_seconds:
            self._checked_at = now
            self._writable = asyncio.create_task(self._check_writable(), name="readiness")
        return await asyncio.shield(self._writable)

    async def _check_writable(self) -> Waiting:
        tasks = self.app.tasks
        await tasks.check_writable()
        waiting = len(await tasks.waiting_for_worker()), len(await tasks.waiting_for_version())
        return Waiting(len(await tasks.workers()), *waiting)

    @contextmanager
    def starting_task(self, tenant: Tenant, thread_id: str) -> Iterator[None]:
        """Count a task of the tenant's as it starts, and refuse it beyond the tenant's limit.

        The session's own task does not count: whether the session is busy, the app says.
        """
        running = sum(tenant.owns(other) and other != thread_id for other in self.app.tasks.running())
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

    @contextmanager
    def delivering(self, name: str) -> Iterator[None]:
        """Begin to answer a request: the same one again is a new one, unless this raises."""
        now = self._delivered[name] = time.monotonic()
        while now - self._delivered[oldest := next(iter(self._delivered))] > DELIVERED_SECONDS:
            del self._delivered[oldest]
        try:
            yield
        except BaseException:
            self._delivered.pop(name, None)
            raise

    def has_delivered(self, name: str) -> bool:
        """Whether this process answered a request recently, or is about to."""
        return name in self._delivered

    def open_stream(self, tenant: Tenant) -> None:
        """Count a stream of the tenant's; `close_stream` when it ends."""
        if self._open_streams[tenant.name] >= self.settings.streams:
            raise Problem(429, "TooManyStreams", {"Retry-After": "1"}, most=self.settings.streams)
        self._open_streams[tenant.name] += 1
        self.metrics.open_streams.inc()

    def close_stream(self, tenant: Tenant) -> None:
        self._open_streams[tenant.name] -= 1
        self.metrics.open_streams.dec()

    def stops(self, surface: Surface, task_id: str) -> str:
        """The task, if a client of the surface that disconnects stops it; else empty."""
        return task_id if self.settings.on_disconnect.get(surface, ON_DISCONNECT[surface]) == "stop" else ""

    @asynccontextmanager
    async def reading(self, task_id: str) -> AsyncIterator[Callable[[], None]]:
        """A client reads the answer of a task: one that was stopped goes on, as its client is back.

        The task is stopped when its last client leaves, unless that one said before that it has all of the answer.
        """
        self._readers[task_id] += 1
        has_left = True

        def has_all() -> None:
            nonlocal has_left
            has_left = False

        try:
            if (await self.stopped(task_id)).requested == "stop":
                with suppress(TaskError):  # it waits for a person, or has ended
                    await self.app.tasks.resume(task_id)
            yield has_all
        finally:
            self._readers[task_id] -= 1
            if not self._readers[task_id]:
                del self._readers[task_id]
                if has_left and not self.draining:
                    stopping = asyncio.create_task(self.app.tasks.stop(task_id), name=f"stop {task_id}")
                    self._stops[task_id] = stopping
                    stopping.add_done_callback(lambda _: self._stops.pop(task_id, None))

    async def until_stopped(self, task_id: str) -> None:
        """Wait until a task ended, waits for a person, or is paused; what is to be resumed is resumed first."""
        if resumed := self.resuming.get(task_id):
            await resumed.wait()
        async with aclosing(self.app.follow(task_id, _LIVE_ONLY)) as events:
            async for _ in events:
                pass

    async def stopped(self, task_id: str) -> Task:
        """The task, which has stopped if its client left."""
        if stopping := self._stops.get(task_id):
            await asyncio.wait([stopping])
        task = await self.app.task(task_id)
        if task.requested != "stop":
            return task
        await self.until_stopped(task_id)
        return await self.app.task(task_id)

    async def own_task(self, tenant: Tenant, task_id: str) -> Task:
        """A task of the tenant's; a 404 for any other."""
        try:
            row = await self.app.task(task_id)
        except UnknownTask:
            raise not_found("task", task_id) from None
        if not tenant.owns(row.session_id):
            raise not_found("task", task_id)
        return row

    async def known(self, key: RequestKey | None) -> Begun | None:
        """What the request with this idempotency key began or continued, None where there was none."""
        known = await self.app.tasks.known(key)
        return (await self.app.task(known.task_id), known.seq) if known else None

    async def start(self, tenant: Tenant, message: str, key: RequestKey | None, **options: Any) -> Begun:
        """Start a task of the tenant's, or give its unfinished one the message where `steer` says so."""
        with self.starting_task(tenant, options["session_id"]):
            row, _ = await self.app.tasks.start(Request.of(message, {**options, "idempotency_key": key or ""}))
        return await self.known(key) or (row, await self._steered_at(row) if options.get("steer") else 0)

    async def answer(
        self,
        tenant: Tenant,
        task: Task,
        question: Mapping[str, Any],
        answer: Any,
        key: RequestKey | None,
        reply_options: ReplyOptions | None = None,
        message: str = "",
    ) -> Begun:
        """Answer the question that a task of the tenant's waits with, and add a message that came with results."""
        about = {"interrupt_id": question["interrupt_id"], "reply_options": reply_options, "message": message}
        return await self.resume(tenant, task, key, answer=answer, **about)

    async def resume(self, tenant: Tenant, task: Task, key: RequestKey | None, **options: Any) -> Begun:
        """Continue a task of the tenant's."""
        after = await self.app.tasks.last_event(task.task_id)
        with self.starting_task(tenant, task.session_id):
            row, _ = await self.app.tasks.resume(task.task_id, key=key, remote=True, **options)
        return await self.known(key) or (row, after)

    async def _steered_at(self, row: Task) -> int:
        """The number of the event before the task was steered; 0 for a task that has only begun."""
        events = await self.app.tasks.events(row.task_id)
        return max((event.seq - 1 for event in events if isinstance(event, Steered)), default=0)

    async def once(self, key: RequestKey | None, making: Awaitable[Any]) -> None:
        """Let a request make its session, unless the same request that came at once just did."""
        try:
            await making
        except TaskError:
            if not await self.app.tasks.known(key):
                raise

    async def newest(self, thread_id: str) -> Json:
        """The `task_id` and the `status` of a session's newest task; None where it has none."""
        task = await self.app.tasks.newest(thread_id)
        return {"task_id": task and task.task_id, "status": task and str(task.status)}

    async def new_session(self, tenant: Tenant, asked: str | None, key: RequestKey | None) -> tuple[str, bool]:
        """The stored name of the session that a request makes, and whether it was made already.

        A request that names none has one of its idempotency key, so that it makes no second one.
        """
        if known := await self.app.tasks.known(key):
            return known.session_id, True
        named = f"session-{sha256(key.key.encode()).hexdigest()[:24]}" if key else self.app.sessions.new_id()
        return tenant.stored(asked or named), False

    async def page_of_tasks(self, tenant: Tenant, limit: int, before: str | None, **which: Any) -> Json:
        """A page of the tenant's tasks, the latest first."""
        if before is not None:
            await self.own_task(tenant, before)
        rows = await self.app.tasks.list(limit=limit + 1, before=before, session_prefix=tenant.prefix, **which)
        items = [task_view(row, tenant) for row in rows[:limit]]
        return {"items": items, "next": items[-1]["task_id"] if len(rows) > limit else None}

    async def own_session(self, tenant: Tenant, session_id: str) -> str:
        """The stored name of a session of the tenant's; a 404 where there is none."""
        thread_id = tenant.stored(session_id)
        if not await self.app.tasks.newest(thread_id) and not await self.app.sessions.settings(thread_id):
            raise not_found("session", session_id)
        return thread_id
