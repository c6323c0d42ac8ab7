"""Notifications of changes that other processes made."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from ..checkpoints.ports import Workers
from ..core.records import Json

LOOK_EVERY = 0.1
"""Seconds between two polls where the database sends no notifications."""
FALLBACK = 2.0
"""Seconds between two polls where it does."""

REQUESTS = "requests"
"""In place of an id: requests to running tasks."""


class Notice:
    """Wakes who waits when a notification names one of its ids."""

    def __init__(self, notices: "Notices") -> None:
        self._notices = notices
        self._awake = asyncio.Event()
        self._told = False

    async def wait(self, at_most: float = FALLBACK) -> bool:
        """Wait for a notification, or until the next poll is due; False where there was only a delta."""
        seconds = min(at_most, FALLBACK if self._notices.connected else LOOK_EVERY)
        try:
            await asyncio.wait_for(self._awake.wait(), seconds)
        except TimeoutError:
            self._told = True
        told, self._told = self._told, False
        self._awake.clear()
        return told

    def tell(self) -> None:
        """Wake who waits: something was changed."""
        self._told = True
        self._awake.set()

    def stream(self) -> None:
        """Wake who waits: a delta came, and nothing was stored."""
        self._awake.set()


class Notices:
    """Passes the database's notifications on, over one connection that is opened once somebody waits."""

    def __init__(self, workers: Workers | None) -> None:
        self._listen: Callable[..., Coroutine[Any, Any, None]] | None = workers.listen if workers else None
        self._waiting: dict[str, set[Notice]] = defaultdict(set)
        self._listening: asyncio.Task[None] | None = None
        self.connected = False
        self.hear: Callable[[Json], None] = lambda message: None
        """What deltas, and who waits for them, are passed on to."""

    @contextmanager
    def about(self, *ids: str) -> Iterator[Notice]:
        """A notice about threads, tasks or requests; it misses no notification from now on."""
        if self._listen and self._listening is None:
            self._listening = asyncio.create_task(self._listen(self.tell, self.hear, self._connected), name="notices")
        notice = Notice(self)
        for each in ids:
            self._waiting[each].add(notice)
        try:
            yield notice
        finally:
            for each in ids:
                self._waiting[each].discard(notice)
                if not self._waiting[each]:
                    del self._waiting[each]

    def tell(self, *ids: str) -> None:
        """Wake who waits for one of these ids."""
        for each in ids:
            for notice in self._waiting.get(each, ()):
                notice.tell()

    def tell_all(self) -> None:
        """Wake everybody."""
        self.tell(*self._waiting)

    def _connected(self, connected: bool) -> None:
        self.connected = connected
        self.tell_all()

    async def close(self) -> None:
        """Close the connection."""
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)
