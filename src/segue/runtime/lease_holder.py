"""The leases of this process: each is the right to run a task on a thread."""

import asyncio
import os
import socket
import time
import uuid
from collections.abc import Callable

from ..checkpoints.ports import Storage
from ..core.errors import ThreadBusy
from .heartbeat import TTL, Heartbeat

LOOK_EVERY = 0.1
"""Seconds between two looks at a thread that somebody waits for."""


class LeaseHolder:
    """Takes leases for this process and keeps them.

    A lease whose owner is a process of this machine that is gone counts as free. One that has expired by the clock,
    while its process lives, is left for as long as that process takes to renew it: the clock may have jumped.
    """

    def __init__(
        self,
        storage: Storage,
        on_lost: Callable[[str], None],
        on_overdue: Callable[[str, str], None],
        ttl: float = TTL,
    ) -> None:
        self._lease = storage.leases
        self._heartbeat = Heartbeat(storage.renewal(), on_lost, on_overdue, ttl=ttl)
        self._owner = f"{_here()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"

    async def take(self, thread_id: str, wait: float = 0.0) -> int:
        """Take the lease and return its fence; wait up to `wait` seconds for it, first come first served.

        Raises:
            ThreadBusy: another owner still has it.
        """
        fence = await self._take(thread_id, wait)
        self._heartbeat.hold(thread_id, fence)
        return fence

    async def _take(self, thread_id: str, wait: float) -> int:
        try:
            return await self._try(thread_id)
        except ThreadBusy:
            if wait <= 0:
                raise
        deadline = time.monotonic() + wait
        place = await self._lease.join_queue(thread_id)
        try:
            while True:
                try:
                    return await self._try(thread_id, place)
                except ThreadBusy:
                    if time.monotonic() > deadline:
                        raise
                await asyncio.sleep(LOOK_EVERY)
        finally:
            await self._lease.leave_queue(place)

    async def _try(self, thread_id: str, place: int | None = None) -> int:
        owner, expires_at = await self._lease.last_owner(thread_id)
        if self._heartbeat.keeps(thread_id) and owner == self._owner:
            raise ThreadBusy(thread_id)
        if owner and is_gone(owner):
            await self._lease.expire(thread_id, owner)
        elif owner and expires_at <= self._lease.now and is_here(owner):
            await self._until_renewed(thread_id)
        return await self._lease.acquire(thread_id, self._owner, place=place, ttl=self._heartbeat.ttl)

    async def _until_renewed(self, thread_id: str) -> None:
        """Give the owner the time of a heartbeat."""
        for _ in range(round(self._heartbeat.ttl / 2 / LOOK_EVERY)):
            if await self._lease.holder(thread_id) is not None:
                return
            await asyncio.sleep(LOOK_EVERY)

    async def release(self, thread_id: str, fence: int) -> None:
        """Let the thread go, after the last write."""
        self._heartbeat.drop(thread_id)
        await self._lease.release(thread_id, fence)

    async def held(self, thread_id: str) -> bool:
        """Whether a live process, this one or another, runs a task on the thread."""
        return lives(await self._lease.holder(thread_id) or "")

    async def close(self) -> None:
        """End the heartbeat."""
        await asyncio.to_thread(self._heartbeat.close)


def _here() -> str:
    """This machine and, where it has several, this container: process ids mean something only here."""
    try:
        return f"{socket.gethostname()}/{os.readlink('/proc/self/ns/pid')}".replace(":", "")
    except OSError:
        return socket.gethostname()


def is_here(owner: str) -> bool:
    """Whether an owner, place:pid:random, is or was a process of this machine."""
    place, _, pid = owner.rpartition(":")[0].rpartition(":")
    return place == _here() and pid.isdigit()


def is_gone(owner: str) -> bool:
    """Whether an owner was a process of this machine that is no more."""
    if not is_here(owner):
        return False
    try:
        os.kill(int(owner.split(":")[-2]), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def lives(owner: str) -> bool:
    """Whether an owner of a lease is there, and not a process of this machine that is no more."""
    return bool(owner) and not is_gone(owner)
