"""Observers of the tasks that run in this process."""

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
