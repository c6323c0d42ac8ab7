"""Watching a task, wherever it runs."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial

from ..core.events import Event, from_dict
from ..core.task_status import ACTIVE
from .event_stream import until_end
from .queries import Reader

LOOK_EVERY = 0.1
"""Seconds between two looks at a task that another process runs."""


class Follower(Reader):
    """The part of the app that tells what happens."""

    _leaving = False

    async def follow(self, task_id: str, after: int = 0) -> AsyncIterator[Event]:
        """The task's durable events from `after` on, then what happens until it ends, pauses or waits.

        Of a task that another process runs only the durable events are seen.
        """
        with self._runner.hub.listening(task_id) as queue:
            live = self._runner.run_of(task_id) is not None
            seen = after
            while True:
                elsewhere = not live and await self._runs_elsewhere(task_id)
                for form in await self._runner.log.read(task_id, seen):
                    seen = form["seq"]
                    yield from_dict(form)
                if not elsewhere or self._leaving:
                    break
                await asyncio.sleep(LOOK_EVERY)
            if live:
                async for event in until_end(queue, seen, partial(self._runner.log.read, task_id)):
                    yield event

    async def _runs_elsewhere(self, task_id: str) -> bool:
        row = await self._runner.tasks.get(task_id)
        return row["status"] in ACTIVE and await self._runner.leasing.held(row["thread_id"])

    def stop_following(self) -> None:
        """End the streams of tasks that other processes run, before those have ended."""
        self._leaving = True
