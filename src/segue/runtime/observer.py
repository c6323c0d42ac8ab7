"""Observers and listeners of the tasks that run in this process; a listener that leaves does not stop the work."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from ..core.events import Event
from ..core.records import Call, Task


class Observer:
    """Callbacks on what happens to tasks. Its methods neither raise nor block; each does nothing until overridden."""

    def stored(self, task: Task, event: Event) -> None:
        """An event of a task that runs here was stored."""

    def left_open(self, task: Task, call: Call) -> None:
        """A call was under way when its task was cancelled; its outcome says whether that is known to be harmless."""

    def stopped(self, task: Task) -> None:
        """A task ended, paused, or waits for a person."""

    def took_over(self) -> None:
        """A session was taken from an owner that had not released it."""

    async def close(self) -> None:
        """The app closes: no task runs any more, the database is still open."""


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
