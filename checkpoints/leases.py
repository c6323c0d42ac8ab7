"""One running task per thread: a lease with a fence number, and its renewal."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from segue.core.errors import DatabaseUnavailable, StaleOwner, StorageError, ThreadBusy
from segue.core.records import Count, Record, from_row

from .ports import ALL, Connection, Database, NotRepeatable, Row, Session, lease_clock

LEASE_SECONDS = 15.0
"""How long a lease in SQLite holds without being renewed."""
POSTGRES_LEASE_SECONDS = 5.0
"""How long one in PostgreSQL holds; the server's clock counts the seconds, whichever machine asks."""

QUEUE_TTL = 5.0
"""Seconds that a position in the queue lives without being renewed."""

_CHECK_FENCE = "SELECT 1 FROM leases WHERE thread_id = ? AND fence = ?"
_NEWEST_UNDER = """
    SELECT task_id, status, requested, notes FROM leases JOIN tasks ON tasks.position = (
        SELECT max(newest.position) FROM tasks AS newest WHERE newest.thread_id = leases.thread_id
    ) WHERE leases.thread_id = ? AND fence = ?
"""
_FLOOR = "SELECT 1 FROM leases WHERE thread_id = ''"

# The row of the thread '' holds the highest fence of the threads that were deleted.
_ACQUIRE = """
    INSERT INTO leases (thread_id, owner, fence, expires_at)
    VALUES (:thread_id, :owner, 1 + (SELECT coalesce(max(fence), 0) FROM leases WHERE thread_id = ''), :now + :ttl)
    ON CONFLICT (thread_id) DO UPDATE
        SET owner = excluded.owner, fence = leases.fence + 1, expires_at = excluded.expires_at
        WHERE leases.expires_at <= :now
    RETURNING fence
"""
# The fence moves on, so that nothing that still runs under it can write after the release.
_RELEASE = "UPDATE leases SET owner = '', expires_at = 0, fence = fence + 1 WHERE thread_id = ? AND fence = ?"
_JOIN = "INSERT INTO lease_queue (thread_id, expires_at) VALUES (?, ?) RETURNING position"
_STAY = "UPDATE lease_queue SET expires_at = ? WHERE position = ?"
_LEAVE = "DELETE FROM lease_queue WHERE position = ? OR expires_at < ?"
_BEFORE = "SELECT 1 FROM lease_queue WHERE thread_id = ? AND expires_at > ? AND position < ?"
_RENEW = "UPDATE leases SET expires_at = ? WHERE thread_id = ? AND fence = ?"
_LAST_OWNER = "SELECT * FROM leases WHERE thread_id = ?"
_HOLDER = "SELECT * FROM leases WHERE thread_id = ? AND expires_at > ?"


@dataclass(frozen=True, kw_only=True)
class StoredLease(Record):
    """A lease as it is stored; one that was released has no owner."""

    row_name = "lease of session {thread_id}"
    is_recoverable = False

    thread_id: str
    owner: str
    fence: Count
    expires_at: float


def check_fence(connection: Connection, thread_id: str, fence: int) -> None:
    """Make sure, inside a write transaction, that no other owner took the thread."""
    if connection.execute(_CHECK_FENCE + connection.for_key_share, (thread_id, fence)).fetchone() is None:
        raise StaleOwner(thread_id)


def newest_under(connection: Connection, thread_id: str, fence: int) -> Row | None:
    """As `check_fence`; returns the thread's newest task, which is locked, where it has any."""
    locks = f"{connection.for_key_share} OF leases{connection.for_update} OF tasks" if connection.for_update else ""
    found: list[Row] = connection.fetched(_NEWEST_UNDER + locks, (thread_id, fence))
    if not found:
        check_fence(connection, thread_id, fence)
        return None
    connection.has_locked(found[0]["task_id"])
    return found[0]


def release_lease(connection: Connection, thread_id: str, fence: int | None) -> None:
    """Let the thread go; a lease that was lost already is left alone."""
    if connection.execute(_RELEASE, (thread_id, fence)).rowcount:
        connection.notify("", thread_id)


def renew(connection: Connection, thread_id: str, fence: int, expires_at: float) -> bool:
    """Prolong a lease, expired or not; False where another owner took the thread."""
    return connection.execute(_RENEW, (expires_at, thread_id, fence)).rowcount == 1


@dataclass(frozen=True)
class Found:
    """How a thread's lease was found: the `fence` where it could be taken at once, else 0.

    `owner` is who had it and did not release it, or empty; it lasts `left` seconds, or negative ones since it expired.
    """

    fence: int
    owner: str
    left: float


class Lease:
    """The right to run a task on a thread. `clock` gives Unix time in seconds, in place of the database's."""

    def __init__(self, database: Database[Connection], clock: Callable[[], float] | None = None) -> None:
        self._database = database
        self._now = lease_clock(clock)

    async def acquire(self, thread_id: str, owner: str, ttl: float = LEASE_SECONDS, place: int | None = None) -> int:
        """Take the thread for `ttl` seconds and return the fence, higher than any before it.

        `place` is the caller's in the queue for the thread, which it keeps where the thread is busy.
        """
        values = {"thread_id": thread_id, "owner": owner, "ttl": ttl}
        found = await self._taken(thread_id, lambda connection: Found(self._take(connection, values, place), "", 0.0))
        if not found.fence:
            raise ThreadBusy(thread_id)
        return found.fence

    async def acquire_released(
        self, thread_id: str, owner: str, ttl: float = LEASE_SECONDS, place: int | None = None
    ) -> Found:
        """As `acquire`, only where the last owner released the thread; returns how the lease was found."""
        values = {"thread_id": thread_id, "owner": owner, "ttl": ttl}

        def take(connection: Connection) -> Found:
            last, left = self._last_owner(connection, thread_id)
            if not last:
                return Found(self._take(connection, values, place), last, left)
            if place is not None:
                connection.execute(_STAY, (self._now(connection) + QUEUE_TTL, place))
            return Found(0, last, left)

        return await self._taken(thread_id, take)

    def _take(self, connection: Connection, values: Mapping[str, object], place: int | None) -> int:
        """Take a thread that is free, and return the fence; 0 where it is not, or others came first."""
        now, thread_id = self._now(connection), values["thread_id"]
        first = connection.execute(_BEFORE, (thread_id, now, ALL if place is None else place)).fetchone() is None
        if connection.for_key_share:  # its deletion may be under way
            connection.execute(_FLOOR + connection.for_key_share)
        row = connection.execute(_ACQUIRE, {**values, "now": now}).fetchone() if first else None
        if row is None and place is not None:
            connection.execute(_STAY, (now + QUEUE_TTL, place))
        return 0 if row is None else int(row["fence"])

    async def _taken(self, thread_id: str, take: Callable[[Connection], Found]) -> Found:
        """Carry out `take`; a caller that is cancelled meanwhile keeps no lease."""
        taking = self._database.submit(take, brief=True)
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            await asyncio.wait([taking])
            if taking.exception() is None and taking.result().fence:
                await self.release(thread_id, taking.result().fence)
            raise

    async def join_queue(self, thread_id: str) -> int:
        """Join the thread's queue and return the position; `acquire` with it keeps the position."""

        def join(connection: Connection) -> int:
            values = (thread_id, self._now(connection) + QUEUE_TTL)
            return int(connection.execute(_JOIN, values).fetchone()["position"])

        return await self._database.write(join, brief=True)

    async def leave_queue(self, place: int) -> None:
        """Leave the queue, and remove the entries of processes that are gone."""
        await self._database.write(lambda connection: connection.execute(_LEAVE, (place, self._now(connection))))

    async def release(self, thread_id: str, fence: int) -> None:
        """Let the thread go, after the last write; a lease that was lost already is left alone."""
        await self._database.write(lambda connection: release_lease(connection, thread_id, fence), brief=True)

    async def expire(self, thread_id: str, owner: str) -> None:
        """End the lease of an owner that is known to be dead."""
        statement = "UPDATE leases SET expires_at = 0 WHERE thread_id = ? AND owner = ?"
        await self._database.write(lambda connection: connection.execute(statement, (thread_id, owner)))

    async def last_owner(self, thread_id: str) -> tuple[str, float]:
        """The owner of the thread's lease and how many seconds it lasts, or negative ones since when it expired.

        ("", 0) where it was released.
        """

        return await self._database.read(lambda connection: self._last_owner(connection, thread_id))

    def _last_owner(self, connection: Connection, thread_id: str) -> tuple[str, float]:
        rows = connection.fetched(_LAST_OWNER, (thread_id,))
        found = from_row(StoredLease, rows[0]) if rows else None
        return (found.owner, found.expires_at - self._now(connection)) if found and found.owner else ("", 0.0)

    async def holder(self, thread_id: str) -> str | None:
        """Return the live owner, or None: then a task with the status `running` was interrupted."""
        rows = await self._database.read(
            lambda connection: connection.fetched(_HOLDER, (thread_id, self._now(connection)))
        )
        return from_row(StoredLease, rows[0]).owner if rows else None


class Renewal:
    """Renews leases from a thread of its own, over a connection of its own: neither the loop nor a writer delays it."""

    def __init__(self, database: Database[Connection], clock: Callable[[], float] | None = None) -> None:
        self._database = database
        self._now = lease_clock(clock)
        self._session: Session[Connection] | None = None

    def renew(self, fences: Mapping[str, int], ttl: float) -> set[str]:
        """Prolong the leases of these threads by `ttl` seconds, expired or not.

        Returns the threads that another owner took.
        """

        def extend(connection: Connection) -> set[str]:
            expires_at = self._now(connection) + ttl
            return {name for name, fence in sorted(fences.items()) if not renew(connection, name, fence, expires_at)}

        if self._session is None:
            self._session = self._database.open_renewing(ttl / 3)
        try:
            with self._database.held():
                self._session.begin(synced=False)
                (lost,) = self._session.commit([extend])
        except NotRepeatable as failure:
            self.close()
            raise failure.error from failure
        except StorageError:
            self.close()
            raise
        except self._database.errors as error:
            self.close()
            raise DatabaseUnavailable(
                "The database {path} cannot be used: {error}.", path=self._database.url, error=error
            ) from error
        return set(lost)

    def close(self) -> None:
        """Close the connection."""
        if self._session is not None:
            self._session.close()
            self._session = None
