"""The events of tasks, followed in this process and from others."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing, nullcontext
from functools import partial

from ..core.errors import DatabaseDamaged
from ..core.events import Event, Token, Waiting
from ..core.records import Json
from ..core.task_status import ACTIVE
from .relay import Deltas, Notice, Queue
from .runner import Runner
from .worker import Dispatch


class EventStream:
    """Follows tasks of this process and of others."""

    def __init__(self, runner: Runner, dispatch: Dispatch) -> None:
        self._runner = runner
        self.dispatch = dispatch
        self._closing = False

    async def follow(
        self, task_id: str, after: int = 0, so_far: bool = False, *, streams: bool = True
    ) -> AsyncGenerator[Event, None]:
        """The task's durable events after number `after`, then the live ones until it stops.

        With `so_far` the live ones begin with what was streamed of the answer before, as one token. Without `streams`
        there are no deltas of a task that another process runs.

        Raises:
            DatabaseDamaged: so that not even this could be stored with the task.
        """
        runner = self._runner
        with (
            runner.hub.listening(task_id) as queue,
            runner.notices.subscribe(task_id) as notice,
            runner.relay.following(task_id, notice) if streams else nullcontext(Deltas()) as deltas,
        ):
            run = runner.run_of(task_id)
            live, written = run is not None, run.partial if run and so_far else ""
            seen, newest = after, run.stored if run else 0
            published = run.published_after(after) if run else None
            if published is None:
                stored = self._stored(task_id, after, notice, deltas, waits=not live, streams=streams)
            else:
                stored = _given(published)
            async with aclosing(stored):
                async for event in stored:
                    if newest and event.seq > newest:
                        break  # it is in the queue, behind the deltas that came before it
                    seen = event.seq or seen
                    yield event
            if written:
                yield Token(task_id=task_id, content=written)
            if live:
                async for event in until_end(queue, seen, partial(runner.log.read, task_id)):
                    yield event
        if run and run.task:
            await _raise_damage(run.task)

    async def _stored(
        self, task_id: str, seen: int, notice: Notice, deltas: Deltas, *, waits: bool, streams: bool
    ) -> AsyncGenerator[Event, None]:
        """What is stored of a task after event number `seen`; with `waits` as long as another process runs it."""
        is_reported = False
        while True:
            elsewhere = waits and await self.runs_elsewhere(task_id)
            async for page in self._runner.log.pages(task_id, seen):
                for event in page:
                    for delta in deltas.until(seen):
                        yield delta
                    seen = event.seq
                    deltas.passed(event)
                    yield event
            if not elsewhere or self._closing:
                return
            if streams:
                self._runner.relay.watch(task_id, deltas)
            if not is_reported and await self.dispatch.lacks_worker(await self._runner.tasks.get(task_id)):
                yield Waiting(task_id=task_id, reason="no worker is running")
                is_reported = True
            is_due = False
            while not is_due:
                for delta in deltas.until(seen):
                    yield delta
                is_due = await notice.wait() or not deltas.up_to_date(seen)

    async def runs_elsewhere(self, task_id: str) -> bool:
        """Whether another process runs a task that is not finished, or a worker will."""
        row = await self._runner.tasks.get(task_id)
        if row.status not in ACTIVE:
            return False
        return await self._runner.leases.held(row.thread_id) or await self.dispatch.awaits_worker(row)

    def close(self) -> None:
        """End the streams of tasks that other processes run."""
        self._closing = True
        self._runner.notices.notify_all()


async def _given(events: Iterable[Event]) -> AsyncGenerator[Event, None]:
    for event in events:
        yield event


Read = Callable[[int, int], Awaitable[Iterable[Event]]]


async def until_end(queue: Queue, seen: int, read: Read) -> AsyncIterator[Event]:
    """The queue's events until its end, durable ones from the one after number `seen` on, without gap or repeat.

    What another process stored of the task comes from `read(after, limit)`.
    """
    while (event := await queue.get()) is not None:
        if not event.seq:
            yield event
        elif event.seq > seen:
            if between := event.seq - seen - 1:
                for missed in await read(seen, between):
                    yield missed
            seen = event.seq
            yield event


async def _raise_damage(run: "asyncio.Task[Json]") -> None:
    """Raise what a run of this process ended with if it is damage of the file."""
    await asyncio.wait([run])
    if not run.cancelled() and isinstance(error := run.exception(), DatabaseDamaged):
        raise error
