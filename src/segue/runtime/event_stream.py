"""Subscriptions to the events of tasks; a subscriber that leaves does not stop the work."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager

from ..core.events import Event

Queue = asyncio.Queue[Event | None]


class Hub:
    """Passes events to the queues of a task's listeners; None ends a queue."""

    def __init__(self) -> None:
        self._queues: dict[str, set[Queue]] = defaultdict(set)

    @contextmanager
    def listening(self, task_id: str) -> Iterator[Queue]:
        """A queue that gets every event of the task from now on."""
        queue: Queue = asyncio.Queue()
        self._queues[task_id].add(queue)
        try:
            yield queue
        finally:
            self._queues[task_id].discard(queue)
            if not self._queues[task_id]:
                del self._queues[task_id]

    def publish(self, event: Event) -> None:
        for queue in self._queues.get(event.task_id, ()):
            queue.put_nowait(event)

    def end(self, task_id: str) -> None:
        """Tell the listeners that nothing more will come."""
        for queue in self._queues.get(task_id, ()):
            queue.put_nowait(None)


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
