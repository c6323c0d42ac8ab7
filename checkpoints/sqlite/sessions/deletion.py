"""The deletion of a thread: every row of it, and what the file still holds of them."""

import contextlib
import sqlite3

from segue.core.errors import UnknownThread

from ..database import Database
from ..errors import translated
from ..leases import check_fence
from .snapshots import has_checkpoints

_RAISE_FLOOR = """
    INSERT INTO leases (thread_id, owner, fence, expires_at) VALUES ('', '', ?, 0)
    ON CONFLICT (thread_id) DO UPDATE SET fence = max(leases.fence, excluded.fence)
"""


async def delete(database: Database, thread_id: str, fence: int) -> None:
    """Delete a thread that is leased under this fence, with its lease, and rewrite the file without it.

    A thread of the same name begins with a higher fence, so that no former owner can write to it.

    Raises:
        UnknownThread: it has no rows; nothing was changed.
        StaleOwner: another owner took the thread; nothing was changed.
        DatabaseUnavailable: the rows are deleted or nothing was changed; the file may still hold their bytes.
    """

    def work(connection: sqlite3.Connection) -> None:
        check_fence(connection, thread_id, fence)
        tables = ["tasks", "events", "calls", *(("checkpoints", "writes") if has_checkpoints(connection) else ())]
        deleted = [_delete_from(connection, table, thread_id) for table in tables]
        if not any(deleted):
            raise UnknownThread(thread_id)
        for table in ("leases", "line"):
            _delete_from(connection, table, thread_id)
        connection.execute(_RAISE_FLOOR, (fence,))

    await database.write(work, synced=True)
    await rewrite(database)


def _delete_from(connection: sqlite3.Connection, table: str, thread_id: str) -> int:
    return connection.execute(f"DELETE FROM {table} WHERE thread_id = ?", (thread_id,)).rowcount


async def rewrite(database: Database) -> None:
    """Write the file anew, without deleted rows and free pages, and empty the write-ahead log."""
    if not database.temporary:
        await database.read(lambda _: _rewrite(database))


def _rewrite(database: Database) -> None:
    with translated(database.path), contextlib.closing(database.connect()) as connection:
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
