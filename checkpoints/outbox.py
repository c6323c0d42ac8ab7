"""The outbox of notifications, and the webhooks that clients register."""

import json
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, Literal

from segue.core.errors import DatabaseDamaged
from segue.core.notifications import PUSH, Notification
from segue.core.records import Json, Task, Webhook, from_row, readable
from segue.core.task import ACTIVE

from .ports import ALL, Connection, Database, Row, sql_list

logger = logging.getLogger(__name__)

Found = Sequence[Notification]
State = Literal["pending", "dead"]

ADD: Final = """
    INSERT INTO notifications (notification_id, thread_id, task_id, receiver, kind, body, created_at, due)
    VALUES (:notification_id, :thread_id, :task_id, :receiver, :kind, :body, :now, :due)
"""
_ANSWERED = "DELETE FROM notifications WHERE task_id = ? AND kind IN ('reminder', 'escalation', 'expiry')"
_DUE = """
    SELECT notification_id FROM notifications
    WHERE due <= :now AND receiver IN ({receivers}){others} ORDER BY due LIMIT :most
"""
_OTHERS = " AND NOT (receiver = :{name}_r AND substr(thread_id, 1, length(:{name}_p)) = :{name}_p)"
_CLAIM = """
    UPDATE notifications SET due = :until, attempts = attempts + 1
    WHERE due <= :now AND notification_id IN ({due})
    RETURNING *
"""
_OURS = "notification_id = :notification_id AND due = :due"
_SENT = f"DELETE FROM notifications WHERE {_OURS}"
_FAILED = f"UPDATE notifications SET due = :next, error = :error WHERE {_OURS}"
_RELEASE = f"UPDATE notifications SET due = :next, attempts = attempts - 1 WHERE {_OURS}"
_UNREADABLE = "UPDATE notifications SET due = NULL, error = 'it cannot be read' WHERE notification_id = ?"
_OF = """
    substr(thread_id, 1, length(:prefix)) = :prefix
        AND (CAST(:state AS TEXT) IS NULL OR (due IS NULL) = (CAST(:state AS TEXT) = 'dead'))
"""
_LIST = f"""
    SELECT * FROM notifications
    WHERE {_OF} AND (due IS NULL OR due <= :now OR attempts > 0)
        AND (CAST(:before AS TEXT) IS NULL OR (created_at, notification_id) < (
            SELECT created_at, notification_id FROM notifications WHERE notification_id = :before
        ))
    ORDER BY created_at DESC, notification_id DESC LIMIT :limit
"""
_REPLAY = "UPDATE notifications SET due = :now, attempts = 0 WHERE {which}"
_ONE = "notification_id = :notification_id AND substr(thread_id, 1, length(:prefix)) = :prefix"
_DEAD = "due IS NULL AND substr(thread_id, 1, length(:prefix)) = :prefix"


class Outbox:
    """The notifications of a database that were not delivered yet; one that is delivered is deleted."""

    def __init__(self, database: Database[Connection], clock: Callable[[], float] | None = None) -> None:
        self._database = database
        self._clock = clock or time.time

    async def claim(
        self, receivers: Collection[str], most: int, seconds: float, busy: Collection[tuple[str, str]] = ()
    ) -> Found:
        """Return at most so many due notifications of these receivers; to others they are due after so many seconds.

        Those of a receiver and of threads whose names begin with a prefix that are `busy` together are left. One that
        cannot be read is logged, and not tried any more.
        """
        names = {f"receiver_{_letters(place)}": name for place, name in enumerate(receivers)}
        lanes = {f"busy_{_letters(place)}": lane for place, lane in enumerate(busy)}
        due = _DUE.format(
            receivers=", ".join(f":{name}" for name in names),
            others="".join(_OTHERS.format(name=name) for name in lanes),
        )
        excluded = {
            f"{name}_{end}": value for name, lane in lanes.items() for end, value in zip("rp", lane, strict=True)
        }
        now = self._clock()
        values: Mapping[str, Any] = {"now": now, "until": now + seconds, "most": most, **names, **excluded}
        if not names or not await self._database.read(lambda connection: connection.fetched(due, values)):
            return []
        claim = _CLAIM.format(due=due)
        rows: list[Row] = await self._database.write(lambda connection: connection.fetched(claim, values))
        return [found for row in rows if (found := await self._read(row))]

    async def _read(self, row: Row) -> Notification | None:
        try:
            return from_row(Notification, row)
        except DatabaseDamaged as error:
            logger.error("A notification is not sent: %s", error)
            await self._change(_UNREADABLE, (row["notification_id"],))
            return None

    async def settle(self, sent: Notification) -> None:
        """Note that a claimed notification was delivered; what became due again meanwhile stays."""
        await self._change(_SENT, {"notification_id": sent.notification_id, "due": sent.due})

    async def fail(self, failed: Notification, again_in: float | None, error: str) -> None:
        """Note why an attempt failed, and when to try again; with None it is dead."""
        again = None if again_in is None else self._clock() + again_in
        await self._change(
            _FAILED, {"notification_id": failed.notification_id, "due": failed.due, "next": again, "error": error}
        )

    async def release(self, claimed: Notification) -> None:
        """Leave a claimed notification to the next who looks; the attempt was not finished."""
        values = {"notification_id": claimed.notification_id, "due": claimed.due, "next": self._clock()}
        await self._change(_RELEASE, values)

    async def list(
        self, state: State | None = None, prefix: str = "", limit: int = -1, before: str | None = None
    ) -> Found:
        """Return the undelivered notifications of threads whose names begin with `prefix`, the newest first.

        Reminders and the like are among them once they are due.

        `before` is the id that the last page ended with.
        """
        page = {"limit": ALL if limit < 0 else limit, "before": before}
        values: Mapping[str, Any] = {"state": state, "prefix": prefix, "now": self._clock(), **page}
        rows = await self._database.read(lambda connection: connection.fetched(_LIST, values))
        return readable(Notification, rows)

    async def replay(self, notification_id: str | None, prefix: str = "") -> int:
        """Make one due now, with all its attempts before it, or all that are dead; returns how many."""
        which = _DEAD if notification_id is None else _ONE
        values = {"now": self._clock(), "prefix": prefix, "notification_id": notification_id}
        return await self._change(_REPLAY.format(which=which), values)

    async def _change(self, statement: str, values: Any) -> int:
        changed: int = await self._database.write(lambda connection: connection.execute(statement, values).rowcount)
        return changed


def add_notification(connection: Connection, task: Task, receiver: str, body: Json, after: float = 0.0) -> None:
    """Store what a receiver is to be told so many seconds after a task changed, in the transaction that changes it."""
    values = {
        "notification_id": body["id"],
        "thread_id": task.session_id,
        "task_id": task.task_id,
        "receiver": receiver,
        "kind": str(body["type"]).removeprefix("task."),
        "body": json.dumps(body),
        "now": task.updated_at,
        "due": task.updated_at + after,
    }
    connection.execute(ADD, values)


def drop_reminders(connection: Connection, task_id: str) -> None:
    """Delete what is due while a task waits for an approval, in the transaction in which it goes on."""
    connection.execute(_ANSWERED, (task_id,))


def _letters(place: int) -> str:
    """A number as letters, for the name of a value."""
    return "".join(chr(97 + int(digit)) for digit in str(place))


# Where clients want the ends of tasks reported to: the push notifications that A2A clients ask for.

_PUT = """
    INSERT INTO webhooks (task_id, webhook_id, thread_id, config)
    SELECT task_id, :webhook_id, thread_id, :config FROM tasks WHERE task_id = :task_id
        AND (SELECT count(*) FROM webhooks WHERE task_id = :task_id AND webhook_id <> :webhook_id) < :most
    ON CONFLICT (task_id, webhook_id) DO UPDATE SET config = excluded.config
"""
# Of a task and a webhook there is one notification: the task is sent as it is then.
_WEBHOOKS_DUE = f"""
    INSERT INTO notifications (notification_id, thread_id, task_id, receiver, kind, body, created_at, due)
    SELECT '{PUSH}/' || task_id || '/' || webhook_id, thread_id, task_id, '{PUSH}', 'stopped',
        :body, CAST(:now AS DOUBLE PRECISION), CAST(:now AS DOUBLE PRECISION)
    FROM webhooks WHERE task_id = :task_id
"""
_STOPPED = f"{_WEBHOOKS_DUE} ON CONFLICT (notification_id) DO UPDATE SET due = excluded.due, attempts = 0, error = NULL"
_STOPPED_ALREADY = f"""
    {_WEBHOOKS_DUE} AND webhook_id = :webhook_id AND EXISTS (
        SELECT 1 FROM tasks WHERE task_id = :task_id AND status NOT IN ({sql_list(ACTIVE)})
    ) ON CONFLICT (notification_id) DO NOTHING
"""
_TASK = "SELECT 1 FROM tasks WHERE task_id = ?"
_LIST_WEBHOOKS = "SELECT * FROM webhooks WHERE task_id = ? ORDER BY webhook_id"
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
        values: dict[str, Any] = {"task_id": task_id, "webhook_id": webhook_id}
        values |= {"config": json.dumps(config), "most": most, "now": self._clock(), "body": "{}"}

        def put(connection: Connection) -> bool:
            connection.execute(_TASK + connection.for_update, (task_id,))  # it cannot stop meanwhile
            stored = connection.execute(_PUT, values).rowcount > 0
            if stored:
                connection.execute(_STOPPED_ALREADY, values)
            return stored

        return await self._database.write(put, synced=True)

    async def list(self, task_id: str) -> Sequence[Webhook]:
        """Return a task's webhooks, without those that cannot be read."""
        return readable(Webhook, await self._rows(task_id))

    async def _rows(self, task_id: str) -> Sequence[Row]:
        return await self._database.read(lambda connection: connection.fetched(_LIST_WEBHOOKS, (task_id,)))

    async def reported_to(self, notification: Notification) -> Webhook | None:
        """Return the webhook that a notification is for; None where it was deleted."""
        for row in await self._rows(notification.task_id):
            if notification.notification_id.endswith(f"/{row['webhook_id']}"):
                return from_row(Webhook, row)
        return None

    async def delete(self, task_id: str, webhook_id: str) -> None:
        """Delete a task's webhook, if it has it."""
        await self._database.write(lambda connection: connection.execute(_DELETE, (task_id, webhook_id)).rowcount)


def mark_due(connection: Connection, task_id: str, now: float) -> None:
    """Note, in the transaction in which a task stops, that its webhooks are to be called."""
    connection.execute(_STOPPED, {"task_id": task_id, "now": now, "body": "{}"})
