"""One running task per thread: a lease with a fence number, and the heartbeat that keeps it."""

import asyncio
import contextlib
import sqlite3
import threading
import time
from collections.abc import Callable
from types import TracebackType

from segue.core.errors import StaleOwner, ThreadBusy

from .database import Database

TTL = 15.0
"""Seconds that a lease lives without being renewed."""

LINE_TTL = 5.0
"""Seconds that a place in the line lives without being renewed."""

_CHECK_FENCE = "UPDATE leases SET fence = fence WHERE thread_id = ? AND fence = ?"

_ACQUIRE = """
    INSERT INTO leases (thread_id, owner, fence, expires_at) VALUES (:thread_id, :owner, 1, :now + :ttl)
    ON CONFLICT (thread_id) DO UPDATE
        SET owner = excluded.owner, fence = leases.fence + 1, expires_at = excluded.expires_at
        WHERE leases.expires_at <= :now
    RETURNING fence
"""
# The fence moves on, so that nothing that still runs under it can write after the release.
_RELEASE = "UPDATE leases SET owner = '', expires_at = 0, fence = fence + 1 WHERE thread_id = ? AND fence = ?"
_JOIN = "INSERT INTO line (thread_id, expires_at) VALUES (?, ?) RETURNING position"
_STAY = "UPDATE line SET expires_at = ? WHERE position = ?"
_LEAVE = "DELETE FROM line WHERE position = ? OR expires_at < ?"
_BEFORE = "SELECT 1 FROM line WHERE thread_id = ? AND expires_at > ? AND (? IS NULL OR position < ?)"
_RENEW = "UPDATE leases SET expires_at = ? WHERE thread_id = ? AND fence = ?"
_HOLDER = "SELECT owner FROM leases WHERE thread_id = ? AND expires_at > ?"


def check_fence(connection: sqlite3.Connection, thread_id: str, fence: int) -> None:
    """Make sure, inside a write transaction, that no other owner took the thread.

    Raises:
        StaleOwner: another one did.
    """
    if connection.execute(_CHECK_FENCE, (thread_id, fence)).rowcount != 1:
        raise StaleOwner(thread_id)


def renew(connection: sqlite3.Connection, thread_id: str, fence: int, expires_at: float) -> bool:
    """Prolong a lease, even an expired one that nobody took; False where another owner took the thread."""
    return connection.execute(_RENEW, (expires_at, thread_id, fence)).rowcount == 1


class Lease:
    """The right to run a task on a thread. `clock` gives Unix time in seconds."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    async def acquire(self, thread_id: str, owner: str, ttl: float = TTL, place: int | None = None) -> int:
        """Take the thread for `ttl` seconds and return the fence, higher than any before it.

        `place` is the caller's in the line before the thread, which it keeps where the thread is busy.

        Raises:
            ThreadBusy: a live owner holds it, be it the same one, or others came first.
        """
        values = {"thread_id": thread_id, "owner": owner, "ttl": ttl}

        def take(connection: sqlite3.Connection) -> int | None:
            now = self._clock()
            first = connection.execute(_BEFORE, (thread_id, now, place, place)).fetchone() is None
            row = connection.execute(_ACQUIRE, {**values, "now": now}).fetchone() if first else None
            if row is None and place is not None:
                connection.execute(_STAY, (now + LINE_TTL, place))
            return None if row is None else int(row["fence"])

        taken = self._database.submit(take)
        try:
            fence = await asyncio.shield(taken)
        except asyncio.CancelledError:
            await asyncio.wait([taken])
            if taken.exception() is None and taken.result() is not None:
                await self.release(thread_id, taken.result() or 0)
            raise
        if fence is None:
            raise ThreadBusy(thread_id)
        return fence

    async def join_line(self, thread_id: str) -> int:
        """Stand in line for the thread and return the place; `acquire` with it keeps it."""
        values = (thread_id, self._clock() + LINE_TTL)
        return int(
            await self._database.write(lambda connection: connection.execute(_JOIN, values).fetchone()["position"])
        )

    async def leave_line(self, place: int) -> None:
        """Give the place up, and sweep away those of processes that are gone."""
        values = (place, self._clock())
        await self._database.write(lambda connection: connection.execute(_LEAVE, values))

    async def release(self, thread_id: str, fence: int) -> None:
        """Let the thread go, after the last write; a lease that was lost already is left alone."""
        await self._database.write(lambda connection: connection.execute(_RELEASE, (thread_id, fence)))

    async def expire(self, thread_id: str, owner: str) -> None:
        """End the lease of an owner that is known to be dead."""
        statement = "UPDATE leases SET expires_at = 0 WHERE thread_id = ? AND owner = ?"
        await self._database.write(lambda connection: connection.execute(statement, (thread_id, owner)))

    async def holder(self, thread_id: str) -> str | None:
        """Return the live owner, or None: then a task that is «running» was cut off."""
        values = (thread_id, self._clock())
        row = await self._database.read(lambda connection: connection.execute(_HOLDER, values).fetchone())
        return None if row is None else str(row["owner"])


class Heartbeat:
    """Renews a lease every third of its `ttl`, from a thread and connection of its own.

    `on_lost` is called from that thread, once, when another owner took the thread; the heartbeat ends with it.
    """

    def __init__(
        self,
        database: Database,
        thread_id: str,
        fence: int,
        on_lost: Callable[[], None],
        ttl: float = TTL,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._thread_id = thread_id
        self._fence = fence
        self._on_lost = on_lost
        self._ttl = ttl
        self._clock = clock
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._beat, name=f"segue-heartbeat-{thread_id}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    async def stop(self) -> None:
        """End the thread and close its connection; do so before the lease is released."""
        self._stopped.set()
        await asyncio.to_thread(self._thread.join)

    async def __aenter__(self) -> "Heartbeat":
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def _beat(self) -> None:
        with contextlib.closing(self._database.connect()) as connection:
            while not self._stopped.wait(self._ttl / 3):
                if not self._renew(connection):
                    self._on_lost()
                    return

    def _renew(self, connection: sqlite3.Connection) -> bool:
        """Say whether the lease is still ours; trouble with the file proves nothing, the next beat asks again."""
        try:
            return renew(connection, self._thread_id, self._fence, self._clock() + self._ttl)
        except sqlite3.DatabaseError:
            return True
