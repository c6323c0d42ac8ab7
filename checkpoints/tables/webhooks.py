"""Where clients want the ends of tasks reported to: the push notifications that A2A clients ask for."""

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

from segue.core.notifications import PUSH, Notification
from segue.core.records import Json, Webhook, from_row
from segue.core.task_status import ACTIVE

from ..ports import Connection, Database, sql_list

_PUT = """
    INSERT INTO webhooks (task_id, webhook_id, thread_id, config)
    SELECT task_id, :webhook_id, thread_id, :config FROM tasks WHERE task_id = :task_id
        AND (SELECT count(*) FROM webhooks WHERE task_id = :task_id AND webhook_id <> :webhook_id) < :most
    ON CONFLICT (task_id, webhook_id) DO UPDATE SET config = excluded.config
"""
# Of a task and a webhook there is one notification: the task is sent as it is then.
_DUE = f"""
    INSERT INTO notifications (notification_id, thread_id, task_id, receiver, kind, body, created_at, due)
    SELECT '{PUSH}/' || task_id || '/' || webhook_id, thread_id, task_id, '{PUSH}', 'stopped',
        :body, CAST(:now AS DOUBLE PRECISION), CAST(:now AS DOUBLE PRECISION)
    FROM webhooks WHERE task_id = :task_id
"""
_STOPPED = f"{_DUE} ON CONFLICT (notification_id) DO UPDATE SET due = excluded.due, attempts = 0, error = NULL"
# A statement of its own transaction: the task may stop while the webhook is stored.
_STOPPED_ALREADY = f"""
    {_DUE} AND webhook_id = :webhook_id AND EXISTS (
        SELECT 1 FROM tasks WHERE task_id = :task_id AND status NOT IN ({sql_list(ACTIVE)})
    ) ON CONFLICT (notification_id) DO NOTHING
"""
_LIST = "SELECT * FROM webhooks WHERE task_id = ? ORDER BY webhook_id"
_DELETE = "DELETE FROM webhooks WHERE task_id = ? AND webhook_id = ?"


class Webhooks:
    """The webhooks of a database. A config is JSON, of whoever reports."""

    def __init__(self, database: Database[Connection], clock: Callable[[], float] | None = None) -> None:
        self._database = database
        self._clock = clock or time.time

    async def put(self, task_id: str, webhook_id: str, config: Json, most: int) -> bool:
        """Store a task's webhook, in place of the one of that id; False where the task has `most` others.

        It is due at once where the task has stopped.
        """
        about: dict[str, Any] = {"task_id": task_id, "webhook_id": webhook_id}
        values = {**about, "config": json.dumps(config), "most": most}
        stored: int = await self._database.write(
            lambda connection: connection.execute(_PUT, values).rowcount, synced=True
        )
        moment = {**about, "now": self._clock(), "body": "{}"}
        await self._database.write(lambda connection: connection.execute(_STOPPED_ALREADY, moment).rowcount)
        return stored > 0

    async def list(self, task_id: str) -> Sequence[Webhook]:
        """Return a task's webhooks.

        Raises:
            DatabaseDamaged: one cannot be read.
        """
        rows = await self._database.read(lambda connection: connection.fetched(_LIST, (task_id,)))
        return [from_row(Webhook, row) for row in rows]

    async def reported_to(self, notification: Notification) -> Webhook | None:
        """Return the webhook that a notification is for; None where it was deleted.

        Raises:
            DatabaseDamaged: one of the task's cannot be read.
        """
        found = await self.list(notification.task_id)
        return next((each for each in found if notification.notification_id.endswith(f"/{each.webhook_id}")), None)

    async def delete(self, task_id: str, webhook_id: str) -> None:
        """Delete a task's webhook, if it has it."""
        await self._database.write(lambda connection: connection.execute(_DELETE, (task_id, webhook_id)).rowcount)


def mark_due(connection: Connection, task_id: str, now: float) -> None:
    """Note, in the transaction in which a task stops, that its webhooks are to be called."""
    connection.execute(_STOPPED, {"task_id": task_id, "now": now, "body": "{}"})
