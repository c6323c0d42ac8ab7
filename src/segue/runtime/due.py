"""What is due: one poller in a process for everything that happens at a moment."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from typing import Protocol

from ..core.errors import DatabaseUnavailable

logger = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""Seconds between two looks: another process may have stored something that is due."""


class Job(Protocol):
    """Something that is due at moments."""

    async def take(self, now: float) -> None:
        """Begin what is due; several processes may try, and one does it."""
        ...

    async def next_due(self) -> float | None:
        """When something is due next, as far as that is known."""
        ...


class Due:
    """Looks for what is due, until it is closed; `clock` gives Unix seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.jobs: list[Job] = []
        self.begins_itself = True
        """Whether this process looks once it stored something that will be due."""
        self._awake = asyncio.Event()
        self._taking = asyncio.Lock()
        self._running: asyncio.Task[None] | None = None
        self._closed = False
        self._is_away = False

    def wake(self) -> None:
        """Look at once, since something may be due sooner than was known; begin to look, where that is wanted."""
        if self.begins_itself:
            self.watch()
        self._awake.set()

    def watch(self) -> None:
        """Look from now on."""
        if self._running is None and not self._closed:
            # In a context of its own: what a task begins here is no part of that task.
            self._running = asyncio.create_task(self._run(), name="due", context=Context())
        self._awake.set()

    async def take(self) -> None:
        """Begin everything that is due now; what another call is just beginning has begun as well."""
        async with self._taking:
            for job in self.jobs:
                await job.take(self.clock())

    async def close(self) -> None:
        """Look no more; what is being begun is finished first."""
        self._closed = True
        if self._running is not None:
            self._awake.set()
            await asyncio.gather(self._running, return_exceptions=True)

    async def _run(self) -> None:
        while not self._closed:
            self._awake.clear()
            try:
                await self.take()
                pause = await self._pause()
                self._is_away = False
            except DatabaseUnavailable as error:
                pause = LOOK_SECONDS
                if not self._is_away:
                    logger.warning("Nothing that is due is begun: %s", error)
                self._is_away = True
            except Exception:
                pause = LOOK_SECONDS
                logger.exception("Something that is due was not begun")
            with suppress(TimeoutError):
                await asyncio.wait_for(self._awake.wait(), pause)

    async def _pause(self) -> float:
        """Seconds until the next look. What is due still is left to others, or was put off."""
        now = self.clock()
        coming = [moment for job in self.jobs if (moment := await job.next_due()) is not None and moment > now]
        return min([LOOK_SECONDS, *(moment - now for moment in coming)])


class PutOff:
    """What could not be begun, each until it is tried again."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def put_off(self, name: str, until: float) -> None:
        self._until[name] = until

    def has(self, name: str, now: float) -> bool:
        """Whether something is to be left for now."""
        self._until = {name: until for name, until in self._until.items() if until > now}
        return name in self._until
