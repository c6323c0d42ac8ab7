"""Links that show a conversation to whoever has them, until they expire or are revoked."""

import hashlib
import secrets
import time
from collections.abc import Callable

from segue.core.audit import Act
from segue.core.errors import UnknownThread
from segue.core.records import Share, from_row, readable, to_row

from .audit import record
from .ports import Connection, Database

_PUT = """
    INSERT INTO shares (share_id, thread_id, created_at, expires_at)
    SELECT :share_id, :thread_id, :created_at, :expires_at WHERE EXISTS (
        SELECT 1 FROM tasks WHERE thread_id = :thread_id
    )
"""
_EXPIRED = "DELETE FROM shares WHERE expires_at <= ?"
_FIND = "SELECT * FROM shares WHERE share_id = ? AND expires_at > ?"
_LIST = "SELECT * FROM shares WHERE thread_id = ? AND expires_at > ? ORDER BY created_at, share_id"
_REVOKE = "DELETE FROM shares WHERE thread_id = :thread_id AND (:share_id = '' OR share_id = :share_id)"
TOKEN_BYTES = 24
"""Random bytes of a token, which cannot be guessed."""


class Shares:
    """The links of a database: each has a secret token, of which only the SHA-256 is stored, as its id."""

    def __init__(self, database: Database[Connection], clock: Callable[[], float] | None = None) -> None:
        self._database = database
        self._clock = clock or time.time

    async def create(self, thread_id: str, seconds: float) -> tuple[str, Share]:
        """Store a link to what the thread holds now, for so many seconds; return its token, which is not stored."""
        token, now = secrets.token_urlsafe(TOKEN_BYTES), self._clock()
        share = Share(share_id=_hashed(token), session_id=thread_id, created_at=now, expires_at=now + seconds)

        act = Act("shared", {"share_id": share.share_id, "expires_at": share.expires_at})

        def store(connection: Connection) -> None:
            connection.execute(_EXPIRED, (now,))
            if not connection.execute(_PUT, to_row(Share, vars(share))).rowcount:
                raise UnknownThread(thread_id)
            record(connection, act, thread_id, kept={"shares": thread_id})

        await self._database.write(store)
        return token, share

    async def find(self, token: str) -> Share | None:
        """The link of a token; None where there is none, or none any more."""
        values = (_hashed(token), self._clock())
        rows = await self._database.read(lambda connection: connection.fetched(_FIND, values))
        return from_row(Share, rows[0]) if rows else None

    async def list(self, thread_id: str) -> list[Share]:
        """The links to a thread that have not expired, oldest first, without those that cannot be read."""
        values = (thread_id, self._clock())
        rows = await self._database.read(lambda connection: connection.fetched(_LIST, values))
        return readable(Share, rows)

    async def delete_expired(self) -> None:
        """Delete the links that have expired, which nothing finds any more."""
        values = (self._clock(),)
        await self._database.write(lambda connection: connection.execute(_EXPIRED, values))

    async def revoke(self, thread_id: str, share_id: str = "") -> int:
        """Delete a thread's links, or the one of that id; return how many there were."""
        values = {"thread_id": thread_id, "share_id": share_id}
        act = Act("unshared", {"share_id": share_id})

        def delete(connection: Connection) -> int:
            deleted = connection.execute(_REVOKE, values).rowcount
            if deleted:
                record(connection, act, thread_id, kept={"shares": thread_id})
            return deleted

        return await self._database.write(delete, synced=True)


def _hashed(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()
