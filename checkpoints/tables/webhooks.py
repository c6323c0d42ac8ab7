"""Where the ends of tasks are reported to: the push notifications that A2A clients ask for."""

import json
import logging
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

from segue.core.errors import DatabaseDamaged
from segue.core.records import Json, Webhook, from_row
from segue.core.task_status import ACTIVE

from ..ports import Connection, Database, Row, sql_list

logger = logging.getLogger(__name__)

_PUT = """
    INSERT INTO webhooks (task_id, webhook_id, thread_id, config)
    SELECT task_id, :webhook_id, thread_id, :config FROM tasks WHERE task_id = :task_id
        AND (SELECT count(*) FROM webhooks WHERE task_id = :task_id AND webhook_id <> :webhook_id) < :most
    ON CONFLICT (task_id, webhook_id) DO UPDATE SET config = excluded.config
"""
# A statement of its own transaction: the task may stop while the webhook is stored.
_STOPPED_ALREADY = f"""
    UPDATE webhooks SET due = :now, attempts = 0
    WHERE task_id = :task_id AND webhook_id = :webhook_id AND due IS NULL AND EXISTS (
        SELECT 1 FROM tasks WHERE task_id = :task_id AND status NOT IN ({sql_list(ACTIVE)})
    )
"""
_STOPPED = "UPDATE webhooks SET due = ?, attempts = 0 WHERE task_id = ?"
_LIST = """
    SELECT task_id, webhook_id, thread_id AS thread, config, coalesce(due, 0) AS due, attempts
    FROM webhooks WHERE task_id = ? ORDER BY webhook_id
"""
_DELETE = "DELETE FROM webhooks WHERE task_id = ? AND webhook_id = ?"
_DUE = "SELECT task_id, webhook_id FROM webhooks WHERE due <= :now{others} ORDER BY due LIMIT :most"
_OTHERS = " AND substr(thread_id, 1, length(:{busy})) <> :{busy}"
_CLAIM = """
    UPDATE webhooks SET due = :until, attempts = attempts + 1
    WHERE due <= :now AND (task_id, webhook_id) IN ({due})
    RETURNING *, thread_id AS thread
"""
_SKIP = "UPDATE webhooks SET due = NULL WHERE task_id = ? AND webhook_id = ?"
_SETTLE = "UPDATE webhooks SET due = :next WHERE task_id = :task_id AND webhook_id = :webhook_id AND due = :due"


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
        moment = {**about, "now": self._clock()}
        await self._database.write(lambda connection: connection.execute(_STOPPED_ALREADY, moment).rowcount)
        return stored > 0

    async def list(self, task_id: str) -> Sequence[Json]:
        """Return the configs of a task's webhooks.

        Raises:
            DatabaseDamaged: one cannot be read.
        """
        rows = await self._database.read(lambda connection: connection.fetched(_LIST, (task_id,)))
        return [from_row(Webhook, row).config for row in rows]

    async def delete(self, task_id: str, webhook_id: str) -> None:
        """Delete a task's webhook, if it has it."""
        await self._database.write(lambda connection: connection.execute(_DELETE, (task_id, webhook_id)).rowcount)

    async def claim(self, most: int, seconds: float, busy: Collection[str] = ()) -> Sequence[Webhook]:
        """Return at most so many webhooks whose task stopped; to others they are due only after so many seconds.

        Those of threads whose names begin with one of the `busy` are left. One that cannot be read is logged, and left
        out until its task stops again.
        """
        now, prefixes = self._clock(), {f"busy_{chr(97 + place)}": each for place, each in enumerate(busy)}
        due = _DUE.format(others="".join(_OTHERS.format(busy=name) for name in prefixes))
        values = {"now": now, "until": now + seconds, "most": most, **prefixes}
        if not await self._database.read(lambda connection: connection.fetched(due, values)):
            return []
        claim = _CLAIM.format(due=due)
        rows: list[Row] = await self._database.write(lambda connection: connection.execute(claim, values).fetchall())
        return [webhook for row in rows if (webhook := await self._read(row))]

    async def _read(self, row: Row) -> Webhook | None:
        try:
            return from_row(Webhook, row)
        except DatabaseDamaged as error:
            logger.error("A webhook is not called: %s", error)
            settled = (row["task_id"], row["webhook_id"])
            await self._database.write(lambda connection: connection.execute(_SKIP, settled).rowcount)
            return None

    async def settle(self, webhook: Webhook, again_in: float | None = None) -> None:
        """Note that a claimed webhook was called, or when to try again; a task that stopped meanwhile is due again."""
        values = {
            "task_id": webhook.task_id,
            "webhook_id": webhook.webhook_id,
            "due": webhook.due,
            "next": None if again_in is None else self._clock() + again_in,
        }
        await self._database.write(lambda connection: connection.execute(_SETTLE, values).rowcount)


def mark_due(connection: Connection, task_id: str, now: float) -> None:
    """Note, in the transaction in which a task stops, that its webhooks are to be called."""
    connection.execute(_STOPPED, (now, task_id))
