"""The limit on tasks that run at once in this process; the others wait in a queue, first come first served."""

import asyncio
from collections import deque
from contextvars import ContextVar

from ..core.errors import TooManyTasks

MAX_RUNNING = 32
"""Tasks that run at once in a process by default."""
MAX_QUEUED = 256
"""Tasks that may wait for them."""

Place = asyncio.Future[bool]
"""Whether the task may run; False where it was stopped first."""

_inside: ContextVar[bool] = ContextVar("segue_inside_a_task", default=False)


def is_inside_task() -> bool:
    """Whether a task runs what calls this."""
    return _inside.get()


class Capacity:
    """Places for running tasks. A task that a running one starts and waits for takes none: it could never get it."""

    def __init__(self, running: int = MAX_RUNNING, queued: int = MAX_QUEUED) -> None:
        self._most_running = running
        self._most_queued = queued
        self._running = 0
        self._queue: deque[Place] = deque()

    def check(self) -> None:
        """Refuse a new task where the queue is full.

        Raises:
            TooManyTasks.
        """
        if len(self._queue) >= self._most_queued and not _inside.get():
            raise TooManyTasks(self._most_running, self._most_queued)

    def reserve(self) -> Place:
        """A place, now or later; `release` it once it was given."""
        place: Place = asyncio.get_running_loop().create_future()
        if self._running < self._most_running or _inside.get():
            self._running += 1
            place.set_result(True)
        else:
            self._queue.append(place)
        return place

    @staticmethod
    def enter() -> None:
        """The current asyncio task runs a task from now on."""
        _inside.set(True)

    def release(self, place: Place) -> None:
        """Give a place to the next in the queue; one that was never given is only left."""
        if place in self._queue:
            self._queue.remove(place)
        elif not place.cancelled() and place.result():
            self._running -= 1
        while self._queue and self._running < self._most_running:
            if not (following := self._queue.popleft()).done():
                self._running += 1
                following.set_result(True)
