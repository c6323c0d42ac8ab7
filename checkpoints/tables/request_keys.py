"""Clients' idempotency keys, each with what its request began or continued."""

import json
from typing import Any

from segue.core.errors import KeyUsed
from segue.core.records import KnownRequest, RequestKey

from ..ports import Connection, Database

_ADD = """
    INSERT INTO request_keys (key, task_id, thread_id, seq, digest, about)
    SELECT :key, :task_id, :thread_id, coalesce(max(seq), 0), :digest, :about FROM events WHERE task_id = :task_id
    ON CONFLICT (key) DO NOTHING
"""
_WITH_KEY = "SELECT * FROM request_keys WHERE key = :key"
_CONTINUING = "SELECT * FROM request_keys WHERE task_id = :task_id AND seq = :seq ORDER BY key LIMIT 1"


def add_key(connection: Connection, key: RequestKey | None, thread_id: str, task_id: str = "") -> None:
    """Store, in the transaction of what a request does, that its key stands for that; without a key nothing.

    Raises:
        KeyUsed: the key stands for something already.
    """
    if key is None:
        return
    add_key(connection, key.also, thread_id, task_id)
    values = {"key": key.key, "digest": key.digest, "about": json.dumps(key.about)}
    if connection.execute(_ADD, {**values, "thread_id": thread_id, "task_id": task_id}).rowcount == 0:
        raise KeyUsed(key.key)


class RequestKeys:
    """Reads the keys."""

    def __init__(self, database: Database[Connection]) -> None:
        self._database = database

    async def get(self, key: str) -> KnownRequest | None:
        """Return what a key stands for, or None."""
        return await self._one(_WITH_KEY, key=key)

    async def continuing(self, task_id: str, seq: int) -> KnownRequest | None:
        """Return the request that continued a task after its event of that number, 0 for its beginning, or None."""
        return await self._one(_CONTINUING, task_id=task_id, seq=seq)

    async def _one(self, statement: str, **values: Any) -> KnownRequest | None:
        rows = await self._database.read(lambda connection: connection.fetched(statement, values))
        return KnownRequest(**{**dict(rows[0]), "about": json.loads(rows[0]["about"])}) if rows else None
