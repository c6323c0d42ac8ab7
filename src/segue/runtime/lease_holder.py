"""Who may run a task on a thread: this process's side of the leases."""

import asyncio
import os
import socket
import time
import uuid

from ..checkpoints.sqlite.database import Database
from ..checkpoints.sqlite.leases import Lease
from ..core.errors import ThreadBusy

LOOK_EVERY = 0.1
"""Seconds between two looks at a thread that somebody stands in line for."""


class Leasing:
    """Takes leases for this process; one whose owner is a process of this machine that is gone counts as free."""

    def __init__(self, database: Database) -> None:
        self._lease = Lease(database)
        self._owner = f"{_here()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"

    async def take(self, thread_id: str, wait: float = 0.0) -> int:
        """Take the lease and return its fence; stand in line for it up to `wait` seconds, first come first served.

        Raises:
            ThreadBusy: another owner has it, still.
        """
        try:
            return await self._try(thread_id)
        except ThreadBusy:
            if wait <= 0:
                raise
        deadline = time.monotonic() + wait
        place = await self._lease.join_line(thread_id)
        try:
            while True:
                try:
                    return await self._try(thread_id, place)
                except ThreadBusy:
                    if time.monotonic() > deadline:
                        raise
                await asyncio.sleep(LOOK_EVERY)
        finally:
            await self._lease.leave_line(place)

    async def _try(self, thread_id: str, place: int | None = None) -> int:
        try:
            return await self._lease.acquire(thread_id, self._owner, place=place)
        except ThreadBusy:
            owner = await self._lease.holder(thread_id)
            if owner is not None and not gone(owner):
                raise
            if owner is not None:
                await self._lease.expire(thread_id, owner)
            return await self._lease.acquire(thread_id, self._owner, place=place)

    async def release(self, thread_id: str, fence: int) -> None:
        """Let the thread go, after the last write."""
        await self._lease.release(thread_id, fence)

    async def held(self, thread_id: str) -> bool:
        """Whether a live process, this one or another, runs a task on the thread."""
        return lives(await self._lease.holder(thread_id) or "")


def _here() -> str:
    """This machine and, where it has several, this container: process ids mean something only here."""
    try:
        return f"{socket.gethostname()}/{os.readlink('/proc/self/ns/pid')}".replace(":", "")
    except OSError:
        return socket.gethostname()


def lives(owner: str) -> bool:
    """Whether an owner of a lease is there, and not a process of this machine that is no more."""
    return bool(owner) and not gone(owner)


def gone(owner: str) -> bool:
    """Whether an owner, place:pid:random, was a process of this machine that is no more."""
    place, _, pid = owner.rpartition(":")[0].rpartition(":")
    if place != _here() or not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
