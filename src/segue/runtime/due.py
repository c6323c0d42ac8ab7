"""What is due: one poller in a process for everything that happens at a moment."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from typing import Protocol

from ..checkpoints.tables.due import DueKind, DueMoments
from ..core.errors import DatabaseUnavailable

logger = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""Seconds between two looks: another process may have stored something that is due."""
RETRY_SECONDS = 60.0
"""Seconds until a job is tried again that failed on an error which it does not know."""


class Job(Protocol):
    """Something that is due at moments."""

    async def take(self, now: float) -> None:
        """Begin what is due; several processes may try, and one does it."""
        ...


class Due:
    """Looks for what is due, until it is closed; `clock` gives Unix seconds."""

    def __init__(self, moments: DueMoments, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.jobs: dict[DueKind, Job] = {}
        self.begins_itself = True
        """Whether this process looks once it stored something that will be due."""
        self._moments = moments
        self._watched: set[DueKind] = set()
        self._put_off = PutOff()
        self._awake = asyncio.Event()
        self._taking = asyncio.Lock()
        self._running: asyncio.Task[None] | None = None
        self._closed = False
        self._is_away = False

    def wake(self) -> None:
        """Look at once, since something may be due sooner than was known; begin to look, where that is wanted."""
        if self.begins_itself:
            self.watch()
        self.look()

    def look(self) -> None:
        """Look at once for what is watched."""
        self._awake.set()

    def watch(self, *kinds: DueKind) -> None:
        """Look for these kinds from now on, by default for all."""
        self._watched.update(kinds or self.jobs)
        if self._running is None and not self._closed:
            # In a context of its own: what a task begins here is no part of that task.
            self._running = asyncio.create_task(self._run(), name="due", context=Context())
        self.look()

    async def take(self) -> None:
        """Begin everything that is due now; what another call is just beginning has begun as well."""
        async with self._taking:
            now, found = self.clock(), await self._moments.next(self.jobs)
            for kind, job in self.jobs.items():
                if found.get(kind, now + 1) <= now:
                    await job.take(now)

    async def next(self) -> float | None:
        """When something is due next, as far as that is known; what is due now is left to others, or was put off."""
        now, found = self.clock(), await self._moments.next(self.jobs)
        return min((moment for moment in found.values() if moment > now), default=None)

    async def drain(self) -> None:
        """Begin no task any more, and only go on sending notifications; what is being begun is finished first."""
        self.begins_itself = False
        self._watched &= {"notification"}
        async with self._taking:
            pass

    async def close(self) -> None:
        """Look no more; what is being begun is finished first."""
        self._closed = True
        if self._running is not None:
            self.look()
            await asyncio.gather(self._running, return_exceptions=True)

    async def _run(self) -> None:
        while not self._closed:
            self._awake.clear()
            try:
                async with self._taking:
                    pause = await self._take_watched()
                self._is_away = False
            except DatabaseUnavailable as error:
                pause = LOOK_SECONDS
                if not self._is_away:
                    logger.warning("Nothing that is due is begun: %s", error)
                self._is_away = True
            except Exception:
                pause = LOOK_SECONDS
                logger.exception("Nothing that is due is begun")
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):  # `wait_for` can lose that it is cancelled, before Python 3.12
                    await self._awake.wait()

    async def _take_watched(self) -> float:
        """Begin what is due of what is watched; returns the seconds until the next look."""
        found = await self._moments.next(self._watched)
        now = self.clock()
        for kind, job in self.jobs.items():
            if found.get(kind, now + 1) <= now and not self._put_off.has(kind, now):
                await self._take(kind, job, now)
        return min([LOOK_SECONDS, *(moment - now for moment in found.values() if moment > now)])

    async def _take(self, kind: DueKind, job: Job, now: float) -> None:
        """One job that fails keeps no other from what is due."""
        try:
            await job.take(now)
        except DatabaseUnavailable:
            raise
        except Exception:
            logger.exception("What is due of the kind %s was not begun", kind)
            self._put_off.put_off(kind, now + RETRY_SECONDS)


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
