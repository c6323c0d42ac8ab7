"""The heartbeat of a process: it keeps the leases of all the threads that the process holds."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import Protocol

from ..core.errors import StorageError

logger = logging.getLogger(__name__)

TTL = 15.0
"""Seconds that a lease lives without being renewed."""
RETRIES = 10
"""How often a renewal that failed is tried again before the leases run out."""


class Renewal(Protocol):
    """What the heartbeat needs of the storage; it is used from the heartbeat's thread alone."""

    def renew(self, fences: Mapping[str, int], ttl: float) -> Set[str]:
        """Prolong the leases of these threads; returns the threads that another owner took.

        Raises:
            StorageError: nothing was renewed.
        """
        ...

    def close(self) -> None: ...


@dataclass
class _Held:
    fence: int
    renewed_at: float
    overdue: bool = False


class Heartbeat:
    """Renews every lease each third of its life, from one thread, and tries again sooner where that fails.

    From that thread `on_lost` is called with the id of a thread that another owner took, and `on_overdue` with the id
    of one whose lease could not be renewed in time, and why.
    """

    def __init__(
        self,
        renewal: Renewal,
        on_lost: Callable[[str], None],
        on_overdue: Callable[[str, str], None],
        *,
        ttl: float = TTL,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.ttl = ttl
        self._renewal = renewal
        self._on_lost = on_lost
        self._on_overdue = on_overdue
        self._clock = clock
        self._held: dict[str, _Held] = {}
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def hold(self, thread_id: str, fence: int) -> None:
        """Keep the lease of a thread from now on."""
        self._held[thread_id] = _Held(fence, self._clock())
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="segue-heartbeat", daemon=True)
            self._thread.start()

    def drop(self, thread_id: str) -> None:
        """Renew the lease of the thread no more."""
        self._held.pop(thread_id, None)

    def fence_of(self, thread_id: str) -> int:
        """The fence under which the lease of the thread is kept, as far as this process knows; 0 where it is not."""
        held = self._held.get(thread_id)
        return held.fence if held else 0

    def close(self) -> None:
        """End the thread, once a renewal that is under way is done."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        pause = self.ttl / 3
        while not self._closed.wait(pause):
            pause = self.ttl / 3 if self.beat() else self.ttl / 3 / RETRIES
        self._renewal.close()

    def beat(self) -> bool:
        """Renew what is held; returns whether that was possible."""
        held = dict(self._held)
        if not held:
            return True
        try:
            lost = self._renewal.renew({thread_id: each.fence for thread_id, each in held.items()}, self.ttl)
        except StorageError as error:
            self._failed(held, error)
            return False
        now = self._clock()
        for thread_id, each in held.items():
            if thread_id not in lost:
                each.renewed_at, each.overdue = now, False
            elif self._held.get(thread_id) is each:  # else it was released meanwhile
                self.drop(thread_id)
                self._on_lost(thread_id)
        return True

    def _failed(self, held: Mapping[str, _Held], error: StorageError) -> None:
        logger.warning("Leases could not be renewed: %s", error)
        now = self._clock()
        for thread_id, each in held.items():
            if not each.overdue and now - each.renewed_at >= self.ttl:
                each.overdue = True
                self._on_overdue(thread_id, str(error))
