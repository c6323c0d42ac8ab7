"""Clients' idempotency keys, each with what its request began or continued."""

import json
from collections.abc import Mapping
from typing import Any

from segue.core.errors import KeyUsed
from segue.core.records import KnownRequest, RequestKey, from_row
from segue.core.task_status import OPEN

from ..ports import Connection, Database, Row, sql_list

_ADD = """
    INSERT INTO request_keys (key, task_id, thread_id, seq, digest, about, is_stored)
    SELECT :key, :task_id, :thread_id, coalesce(:seq, max(seq), 0), :digest, :about, :is_stored
    FROM events WHERE task_id = :task_id
    ON CONFLICT (key) DO NOTHING
"""
_WITH_KEY = "SELECT * FROM request_keys WHERE key = :key"
_CONTINUING = "SELECT * FROM request_keys WHERE task_id = :task_id AND seq = :seq ORDER BY key LIMIT 1"
_LAST = """
    SELECT * FROM request_keys
    WHERE key >= :first AND key < :after AND ltrim(substr(key, length(:first)), '0123456789') = ''
    ORDER BY length(key) DESC, key DESC LIMIT :limit
"""
_LAST_SEQ = """
    SELECT max(seq) AS seq FROM request_keys
    WHERE task_id = :task_id AND substr(key, 1, length(:prefix)) = :prefix
"""
_UNSTORED = f"""
    SELECT DISTINCT thread_id FROM request_keys
    WHERE is_stored = 0 AND (:thread_id = '' OR thread_id = :thread_id)
    AND thread_id NOT IN (
        SELECT thread_id FROM request_keys WHERE is_stored <> 0
        UNION ALL SELECT thread_id FROM sessions
        UNION ALL SELECT thread_id FROM branches
        UNION ALL SELECT root FROM branches
        UNION ALL SELECT parent FROM branches
    )
    AND NOT EXISTS (
        SELECT 1 FROM tasks WHERE tasks.thread_id = request_keys.thread_id AND (
            updated_at > :before OR (status IN ({sql_list(OPEN)}) AND updated_at > :open_before)
            OR NOT EXISTS (SELECT 1 FROM request_keys AS known WHERE known.task_id = tasks.task_id)
        )
    )
"""


def add_key(
    connection: Connection, key: RequestKey | None, thread_id: str, task_id: str = "", seq: int | None = None
) -> None:
    """Store, in the transaction of what a request does, that its key stands for that; without a key nothing.

    The task continues after its event `seq`, by default its newest.

    Raises:
        KeyUsed: the key stands for something already.
    """
    if key is None:
        return
    add_key(connection, key.also, thread_id, task_id, seq)
    values: dict[str, Any] = {"key": key.key, "digest": key.digest, "about": json.dumps(key.about)}
    values["is_stored"] = int(key.is_stored)
    if connection.execute(_ADD, {**values, "thread_id": thread_id, "task_id": task_id, "seq": seq}).rowcount == 0:
        raise KeyUsed(key.name)


class RequestKeys:
    """Reads the keys, and adds those of requests that change nothing."""

    def __init__(self, database: Database[Connection]) -> None:
        self._database = database

    async def get(self, key: str) -> KnownRequest | None:
        """Return what a key stands for, or None."""
        return await self._one(_WITH_KEY, key=key)

    async def continuing(self, task_id: str, seq: int) -> KnownRequest | None:
        """Return the request that continued a task after its event of that number, 0 for its beginning, or None."""
        return await self._one(_CONTINUING, task_id=task_id, seq=seq)

    async def last(self, prefix: str, limit: int) -> list[KnownRequest]:
        """Return what the keys stand for that are this prefix and a number, those with the highest numbers first."""
        about = {"first": f"{prefix}0", "after": f"{prefix}:", "limit": limit}  # a colon follows the digits
        return await self._all(_LAST, about)

    async def last_seq(self, task_id: str, prefix: str) -> int | None:
        """Return the event after which a task was last continued by a request whose key has this prefix."""
        about = {"task_id": task_id, "prefix": prefix}
        rows = await self._database.read(lambda connection: connection.fetched(_LAST_SEQ, about))
        return None if rows[0]["seq"] is None else int(rows[0]["seq"])

    async def add(self, key: RequestKey, thread_id: str, task_id: str, seq: int) -> None:
        """Store that a request was answered with what a task did after its event `seq`.

        Raises:
            KeyUsed: the key stands for something already.
        """
        await self._database.write(lambda connection: add_key(connection, key, thread_id, task_id, seq))

    async def unstored(self, before: float, open_before: float, thread_id: str = "") -> list[str]:
        """Return the threads, or the one that is named, whose every task has only requests that are not stored.

        None has a task that changed since `before`, or since `open_before` if it is open; none was created without a
        message, and none has branches or is one.
        """
        values = {"thread_id": thread_id, "before": before, "open_before": open_before}
        rows = await self._database.read(lambda connection: connection.fetched(_UNSTORED, values))
        return [row["thread_id"] for row in rows]

    async def _one(self, statement: str, **values: Any) -> KnownRequest | None:
        return next(iter(await self._all(statement, values)), None)

    async def _all(self, statement: str, values: Mapping[str, Any]) -> list[KnownRequest]:
        rows = await self._database.read(lambda connection: connection.fetched(statement, values))
        return [_known(row) for row in rows]


def _known(row: Row) -> KnownRequest:
    return from_row(KnownRequest, {**dict(row), "is_stored": row["is_stored"] != 0})
