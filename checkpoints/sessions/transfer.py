"""Threads as a whole: read out of one database, stored in another as they are."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from segue.core.errors import DatabaseUnavailable, TaskError, ThreadBusy
from segue.core.records import Json

from ..ports import CheckpointRow, Connection, WriteRow
from ..state.compression import Undecodable
from ..state.row_keys import check_thread
from ..state.rows import checkpoint_rows, put_rows, write_rows
from ..state.serializer import CheckedSerializer, decoding
from ..tables.integrity import refuse_damaged
from .rows import ORDERED, insert_row, stored_rows
from .snapshots import refuse_unknown

_SERDE = CheckedSerializer(allowed_msgpack_modules=[])
TABLES = ("tasks", "calls", "events", "permissions", "titles", "request_keys", "sessions")
"""Those whose rows belong to a thread, and stay what they are."""
_THREADS = """
    SELECT thread_id FROM (
        SELECT thread_id, position FROM tasks UNION ALL SELECT thread_id, 0 FROM checkpoints WHERE checkpoint_ns = ''
    ) AS every GROUP BY thread_id ORDER BY max(position), thread_id
"""
_LEASE = "SELECT owner, fence, expires_at FROM leases WHERE thread_id = ?"
_PREFERENCES = "SELECT * FROM preferences WHERE user_id IN (SELECT user_id FROM tasks WHERE thread_id = ?) ORDER BY 1"
# Whoever takes the thread there gets a higher fence than anybody had who wrote to it here.
_FENCE = """
    INSERT INTO leases (thread_id, owner, fence, expires_at) VALUES (?, '', ?, 0)
    ON CONFLICT (thread_id) DO UPDATE
    SET fence = CASE WHEN leases.fence > excluded.fence THEN leases.fence ELSE excluded.fence END
"""
_PREFER = "INSERT INTO preferences (user_id, default_mode) VALUES (:user_id, :default_mode) ON CONFLICT DO NOTHING"


@dataclass(frozen=True)
class WholeThread:
    """A thread with everything that is stored of it, and what its users prefer."""

    thread_id: str
    fence: int
    rows: Mapping[str, Sequence[Json]]
    preferences: Sequence[Json]
    checkpoints: Sequence[CheckpointRow]
    writes: Sequence[WriteRow]

    def content(self) -> Any:
        """What of it is the same in every database."""
        rows = {table: [{**row, "position": None} for row in rows] for table, rows in self.rows.items()}
        for table in rows.keys() - ORDERED:
            rows[table].sort(key=str)
        checkpoints = [
            (row.inside, row.checkpoint_id, row.parent_id, _loaded(row.state), json.loads(row.metadata))
            for row in self.checkpoints
        ]
        writes = [
            (row.inside, row.checkpoint_id, row.task_id, row.idx, row.task_path, row.channel, _loaded(row.value))
            for row in self.writes
            if row.value
        ]
        return rows, sorted(checkpoints, key=lambda row: row[:2]), sorted(writes, key=lambda row: row[:4])


def _loaded(value: tuple[str, bytes]) -> Any:
    return _SERDE.loads_typed(value)


def threads_of(connection: Connection) -> list[str]:
    """The threads of a database, those that were used last at the end."""
    return [row["thread_id"] for row in connection.execute(_THREADS).fetchall()]


def read_thread(connection: Connection, thread_id: str) -> WholeThread:
    """A thread that nobody runs.

    Raises:
        UnknownThread.
        ThreadBusy: a task of it runs.
        DamagedSession: something of it cannot be read.
    """
    with connection.state.view():
        refuse_unknown(connection, thread_id)
        lease = connection.execute(_LEASE, (thread_id,)).fetchone()
        if lease is not None and lease["owner"] and lease["expires_at"] > connection.now():
            raise ThreadBusy(thread_id)
        refuse_damaged(connection, thread_id)
        with decoding(thread_id):
            check_thread(connection, thread_id)
            whole = _read(connection, thread_id, 0 if lease is None else lease["fence"])
            whole.content()
            return whole


def store_thread(connection: Connection, whole: WholeThread) -> bool:
    """Store a thread, with all its ids; False where it is there already, just as it is.

    Raises:
        TaskError: there is another one of its name, or one that has gone on.
        DatabaseUnavailable: the database would not hold what was read.
    """
    for table in ("tasks", "events", "calls", "sessions", "checkpoints", "writes"):
        if connection.execute(f"SELECT 1 FROM {table} WHERE thread_id = ? LIMIT 1", (whole.thread_id,)).fetchone():
            if not _is_same(connection, whole):
                raise _taken(whole.thread_id)
            return False
    try:
        for table, rows in whole.rows.items():
            for row in rows:
                insert_row(connection, table, row)
    except connection.duplicate as error:
        raise _taken(whole.thread_id) from error
    for row in whole.preferences:
        connection.execute(_PREFER, row)
    connection.execute(_FENCE, (whole.thread_id, whole.fence))
    put_rows(connection, whole.thread_id, whole.checkpoints, whole.writes)
    if not _is_same(connection, whole):
        raise DatabaseUnavailable(
            "Session '{thread_id}' reads differently in the database that it was copied to: nothing of it was stored.",
            thread_id=whole.thread_id,
        )
    return True


def _taken(thread_id: str) -> TaskError:
    return TaskError(
        "The database to copy to has another session '{thread_id}' already: delete one of the two, or export it and "
        "import it under another name.",
        thread_id=thread_id,
    )


def _is_same(connection: Connection, whole: WholeThread) -> bool:
    try:
        return bool(_read(connection, whole.thread_id, whole.fence).content() == whole.content())
    except Undecodable:
        return False


def _read(connection: Connection, thread_id: str, fence: int) -> WholeThread:
    return WholeThread(
        thread_id,
        fence,
        {table: stored_rows(connection, table, thread_id) for table in TABLES},
        [dict(row) for row in connection.fetched(_PREFERENCES, (thread_id,))],
        [*checkpoint_rows(connection, thread_id)],
        [*write_rows(connection, thread_id)],
    )
