"""Events that were sent to tasks, kept until a task that waits for one of the name takes it."""

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

from segue.core.audit import Act
from segue.core.errors import TaskError, UnknownTask
from segue.core.records import RequestKey, Task, from_row
from segue.core.sent_events import SentEvent

from ..ports import Connection, Database
from .audit import record, reseal

AT_ONCE = 0.0
"""When a task is due whose event is there."""
_TASK = "SELECT * FROM tasks WHERE task_id = ?"
_PUT = """
    INSERT INTO sent_events (task_id, thread_id, name, data, sent_at, key)
    VALUES (:task_id, :thread_id, :name, :data, :now, :key) ON CONFLICT (key) DO NOTHING
"""
_DUE = "SELECT task_id, agent_id FROM tasks WHERE status = 'waiting' AND due <= ? ORDER BY due, position"
_SET_DUE = "UPDATE tasks SET due = ? WHERE task_id = ? AND status = 'waiting' RETURNING thread_id"
_SENT = "SELECT 1 FROM sent_events WHERE key = ?"
_AWAKE = f"UPDATE tasks SET due = {AT_ONCE} WHERE task_id = :task_id AND status = 'waiting' AND awaited = :name"
_NEXT = """
    SELECT * FROM sent_events WHERE task_id = ? AND name = ? AND taken_at IS NULL ORDER BY position LIMIT 1
"""
_TAKE = "UPDATE sent_events SET taken_at = ? WHERE position = ?"


class SentEvents:
    """The events of a database that were sent to tasks, and the tasks that wait for them, or until a moment."""

    def __init__(self, database: Database[Connection], clock: Callable[[], float] | None = None) -> None:
        self._database = database
        self._clock = clock or time.time

    async def send(self, task_id: str, name: str, data: Any, key: RequestKey | None = None) -> None:
        """Keep an event for a task; one that waits for it is due at once.

        Raises:
            UnknownTask.
            TaskError: the task has ended.
        """
        values = {"task_id": task_id, "name": name, "data": json.dumps({"data": data}), "now": self._clock()}

        def send(connection: Connection) -> None:
            rows = connection.fetched(f"{_TASK}{connection.for_update}", (task_id,))
            if not rows:
                raise UnknownTask(task_id)
            if key and connection.fetched(_SENT, (key.key,)):
                return
            task = from_row(Task, rows[0])
            if task.is_over:
                raise TaskError(
                    "Task {task_id} is {status}: it accepts no events.", task_id=task_id, status=task.status
                )
            connection.execute(_PUT, {**values, "thread_id": task.thread_id, "key": key.key if key else None})
            connection.execute(_AWAKE, values)
            record(connection, Act("event", {"name": name}), task.thread_id, task_id)
            connection.notify(task_id, task.thread_id)

        await self._database.write(send, synced=True)

    async def next(self, task_id: str, name: str) -> SentEvent | None:
        """Return the first event of a name that a task has not taken."""
        return await self._database.read(lambda connection: next_event(connection, task_id, name))

    async def due(self, now: float) -> Sequence[tuple[str, str]]:
        """Return the ids of the tasks that waited until now, or whose event came, each with its agent's."""
        rows = await self._database.read(lambda connection: connection.fetched(_DUE, (now,)))
        return [(row["task_id"], row["agent_id"]) for row in rows]

    async def set_due(self, task_id: str, due: float | None) -> None:
        """Note when a task that waits is due."""

        def change(connection: Connection) -> None:
            if rows := connection.execute(_SET_DUE, (due, task_id)).fetchall():
                reseal(connection, "changed", rows[0]["thread_id"], task_id)

        await self._database.write(change)


def next_event(connection: Connection, task_id: str, name: str) -> SentEvent | None:
    """The first event of a name that a task has not taken."""
    rows = connection.fetched(_NEXT, (task_id, name))
    return from_row(SentEvent, rows[0]) if rows else None


def exchange_events(
    connection: Connection, task_id: str, awaited: str | None, taken: int | None, now: float
) -> dict[str, float]:
    """Note, in the transaction that changes a task, that it takes an event; when it is due if the next one is there."""
    if taken is not None:
        connection.execute(_TAKE, (now, taken))
    return {"due": AT_ONCE} if awaited and next_event(connection, task_id, awaited) else {}
