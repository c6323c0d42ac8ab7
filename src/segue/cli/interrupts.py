"""Ctrl-C and SIGTERM while a task runs: the first one pauses it, the second one stops it."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from ..errors import TaskError
from .render import View

if TYPE_CHECKING:
    from ..app import App

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """Counts the signals that came while a task runs, and passes them on to the app."""

    def __init__(self, app: "App", task_id: str, view: View) -> None:
        self._app = app
        self._task_id = task_id
        self._view = view
        self._asking: asyncio.Task[None] | None = None
        self.count = 0

    @property
    def stopped(self) -> bool:
        """Whether the task was stopped without waiting for a boundary."""
        return self.count > 1

    def __call__(self) -> None:
        self.count += 1
        if self.count == 1:
            self._view.notice("pausing at the next boundary… (press again to stop now)")
            self._asking = asyncio.get_running_loop().create_task(self._pause())
        elif self.count == 2:  # a third one must not cut off how the second one is written down
            self._view.notice("stopping now…")
            self._app.stop_now(self._task_id)

    async def _pause(self) -> None:
        with suppress(TaskError):  # it ended before it could be asked
            await self._app.pause(self._task_id)


@contextmanager
def listening(app: "App", task_id: str, view: View) -> Iterator[Interrupts]:
    """Take the signals over while the task runs; where that is not possible they keep their usual effect."""
    loop = asyncio.get_running_loop()
    interrupts = Interrupts(app, task_id, view)
    taken = []
    for number in SIGNALS:
        with suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, interrupts)
            taken.append(number)
    try:
        yield interrupts
    finally:
        for number in taken:
            loop.remove_signal_handler(number)
