"""Where the ends of tasks are reported to: the push notifications that A2A clients ask for."""

import json
from collections.abc import Sequence
from typing import Any

from segue.core.records import Json

from ..ports import Connection, Database

_PUT = """
    INSERT INTO webhooks (task_id, webhook_id, thread_id, config)
    SELECT task_id, :webhook_id, thread_id, :config FROM tasks WHERE task_id = :task_id
    ON CONFLICT (task_id, webhook_id) DO UPDATE SET config = excluded.config
"""
_LIST = "SELECT config FROM webhooks WHERE task_id = ? ORDER BY webhook_id"
_DELETE = "DELETE FROM webhooks WHERE task_id = ? AND webhook_id = ?"


class Webhooks:
    """The webhooks of a database. A config is JSON, of whoever reports."""

    def __init__(self, database: Database[Connection]) -> None:
        self._database = database

    async def put(self, task_id: str, webhook_id: str, config: Json) -> None:
        """Store a task's webhook, in place of the one of that id."""
        values: dict[str, Any] = {"task_id": task_id, "webhook_id": webhook_id, "config": json.dumps(config)}
        await self._database.write(lambda connection: connection.execute(_PUT, values), synced=True)

    async def list(self, task_id: str) -> Sequence[Json]:
        """Return the configs of a task's webhooks."""
        rows = await self._database.read(lambda connection: connection.fetched(_LIST, (task_id,)))
        return [json.loads(row["config"]) for row in rows]

    async def delete(self, task_id: str, webhook_id: str) -> None:
        """Delete a task's webhook, if it has it."""
        await self._database.write(lambda connection: connection.execute(_DELETE, (task_id, webhook_id)))
