"""The leases of this process, each the right to run a task on a thread, and the heartbeat that renews them."""

import asyncio
import logging
import os
import socket
import sys
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Set
from dataclasses import dataclass
from typing import Protocol

from ..checkpoints.storage import Storage
from ..core.errors import StorageError, ThreadBusy
from .relay import POLL_SECONDS, Notices

logger = logging.getLogger(__name__)

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
class _HeldLease:
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
        ttl: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.ttl = ttl
        self._renewal = renewal
        self._on_lost = on_lost
        self._on_overdue = on_overdue
        self._clock = clock
        self._held: dict[str, _HeldLease] = {}
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def hold(self, thread_id: str, fence: int) -> None:
        """Keep the lease of a thread from now on."""
        self._held[thread_id] = _HeldLease(fence, self._clock())
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

    def _failed(self, held: Mapping[str, _HeldLease], error: StorageError) -> None:
        logger.warning("Leases could not be renewed: %s", error)
        now = self._clock()
        for thread_id, each in held.items():
            if not each.overdue and now - each.renewed_at >= self.ttl:
                each.overdue = True
                self._on_overdue(thread_id, str(error))


FIRST = 0
"""A position in the queue before all that are given."""

Promised = Callable[[str], Awaitable[bool]]
"""Whether a worker will take a thread that is free now."""


class LeaseHolder:
    """Takes leases for this process and keeps them.

    A lease whose owner is a process of this machine that is gone counts as free. One that has expired by the clock,
    while its process lives, is left for as long as that process takes to renew it: the clock may have jumped.
    """

    def __init__(
        self,
        storage: Storage,
        notices: Notices,
        on_lost: Callable[[str], None],
        on_overdue: Callable[[str, str], None],
        ttl: float | None = None,
        on_takeover: Callable[[], None] = lambda: None,
    ) -> None:
        self._lease = storage.leases
        self._notices = notices
        self._on_takeover = on_takeover
        self._heartbeat = Heartbeat(storage.renewal(), on_lost, on_overdue, ttl=ttl or storage.lease_ttl)
        self.owner = f"{_this_machine()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"

    async def take(self, thread_id: str, wait: float = 0.0, promised: Promised | None = None) -> int:
        """Take the lease and return its fence; wait up to `wait` seconds for it, first come first served.

        Raises:
            ThreadBusy: another owner still has it, or it is `promised` to a worker.
        """
        fence = await self._wait_for(thread_id, wait, promised)
        self._heartbeat.hold(thread_id, fence)
        return fence

    async def take_first(self, thread_id: str) -> int:
        """Take the lease for a task that the thread has already, ahead of those who wait with a new one.

        Raises:
            ThreadBusy: another owner has it.
        """
        fence = await self._try(thread_id, FIRST)
        self._heartbeat.hold(thread_id, fence)
        return fence

    async def _wait_for(self, thread_id: str, wait: float, promised: Promised | None) -> int:
        try:
            return await self._try(thread_id, promised=promised)
        except ThreadBusy:
            if wait <= 0:
                raise
        deadline = time.monotonic() + wait
        place = await self._lease.join_queue(thread_id)
        try:
            with self._notices.subscribe(thread_id) as notice:
                while True:
                    try:
                        return await self._try(thread_id, place, promised)
                    except ThreadBusy:
                        if time.monotonic() > deadline:
                            raise
                    await notice.wait(deadline - time.monotonic())
        finally:
            await self._lease.leave_queue(place)

    async def _try(self, thread_id: str, place: int | None = None, promised: Promised | None = None) -> int:
        """Take the lease unless it is promised, which may show only under it."""
        if promised and await promised(thread_id):
            raise ThreadBusy(thread_id)
        fence = await self._acquire(thread_id, place)
        if promised and await promised(thread_id):
            await self._lease.release(thread_id, fence)
            raise ThreadBusy(thread_id)
        return fence

    async def _acquire(self, thread_id: str, place: int | None) -> int:
        found = await self._lease.acquire_released(thread_id, self.owner, place=place, ttl=self._heartbeat.ttl)
        if found.fence:
            return found.fence
        owner, left = found.owner, found.left
        if self._heartbeat.fence_of(thread_id) and owner == self.owner:
            raise ThreadBusy(thread_id)
        if owner and is_dead(owner):
            await self._lease.expire(thread_id, owner)
        elif owner and left <= 0 and is_local(owner):
            await self._until_renewed(thread_id)
        fence = await self._lease.acquire(thread_id, self.owner, place=place, ttl=self._heartbeat.ttl)
        if owner not in ("", self.owner):
            self._on_takeover()
        return fence

    async def _until_renewed(self, thread_id: str) -> None:
        """Give the owner the time of a heartbeat."""
        for _ in range(round(self._heartbeat.ttl / 2 / POLL_SECONDS)):
            if await self._lease.holder(thread_id) is not None:
                return
            await asyncio.sleep(POLL_SECONDS)

    async def release(self, thread_id: str, fence: int) -> None:
        """Let the thread go, after the last write."""
        self.forget(thread_id)
        await self._lease.release(thread_id, fence)

    def forget(self, thread_id: str) -> None:
        """Renew the lease no more: it was released with the last write, or is left to expire."""
        self._heartbeat.drop(thread_id)

    def keeps(self, thread_id: str, fence: int) -> bool:
        """Whether the lease is renewed under this fence."""
        return self._heartbeat.fence_of(thread_id) == fence

    async def expire(self, thread_id: str, owner: str) -> None:
        """End the lease of an owner whose process is gone."""
        await self._lease.expire(thread_id, owner)

    async def last_owner(self, thread_id: str) -> str:
        """Who had the lease and did not release it; empty where there is nobody."""
        return (await self._lease.last_owner(thread_id))[0]

    async def held(self, thread_id: str) -> bool:
        """Whether a live process, this one or another, runs a task on the thread."""
        return is_alive(await self._lease.holder(thread_id) or "")

    async def close(self) -> None:
        """End the heartbeat."""
        await asyncio.to_thread(self._heartbeat.close)


def _this_machine() -> str:
    """This machine and, where it has several, this container: process ids mean something only here."""
    try:
        return f"{socket.gethostname()}/{os.readlink('/proc/self/ns/pid')}".replace(":", "")
    except OSError:
        return socket.gethostname()


def is_local(owner: str) -> bool:
    """Whether an owner, place:pid:random, is or was a process of this machine."""
    place, _, pid = owner.rpartition(":")[0].rpartition(":")
    return place == _this_machine() and pid.isdigit()


def is_dead(owner: str) -> bool:
    """Whether an owner was a process of this machine that is no more."""
    if not is_local(owner) or sys.platform == "win32":  # signal 0 is Ctrl-C there: its lease has to expire
        return False
    try:
        os.kill(int(owner.split(":")[-2]), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def describe_owner(owner: str) -> str:
    """An owner in a log: its process, and the machine of that."""
    place, _, pid = owner.rpartition(":")[0].rpartition(":")
    return f"process {pid} of {place.partition('/')[0]}"


def is_alive(owner: str) -> bool:
    """Whether an owner of a lease is there, and not a process of this machine that is no more."""
    return bool(owner) and not is_dead(owner)
