"""The tasks: what each message set going, and how far it got."""

import json
import sqlite3
import time
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

from segue.errors import IllegalTransition, UnknownTask

from .database import Database
from .lease import check_fence

Row = dict[str, Any]
Rows = list[Row]


class TaskStatus(StrEnum):
    """Where a task stands."""

    PENDING = "pending"
    """Written down, not begun."""
    RUNNING = "running"
    """A process works on it."""
    WAITING = "waiting"
    """A person is asked."""
    PAUSING = "pausing"
    """A pause was asked for; the runner stops at the next boundary."""
    PAUSED = "paused"
    """It stands at a boundary and can be resumed."""
    DONE = "done"
    """It has its answer."""
    ERROR = "error"
    """It failed; it may be run again."""
    CANCELLED = "cancelled"
    """It was given up."""


_S = TaskStatus

TASK_TRANSITIONS: Mapping[TaskStatus, frozenset[TaskStatus]] = {
    _S.PENDING: frozenset({_S.RUNNING, _S.PAUSED, _S.CANCELLED, _S.ERROR}),
    # running to running is no change: a process resumes what a crash cut off.
    _S.RUNNING: frozenset({_S.RUNNING, _S.WAITING, _S.PAUSING, _S.PAUSED, _S.DONE, _S.ERROR, _S.CANCELLED}),
    _S.WAITING: frozenset({_S.RUNNING, _S.PAUSED, _S.CANCELLED, _S.ERROR}),
    _S.PAUSING: frozenset({_S.PAUSED, _S.RUNNING, _S.DONE, _S.ERROR, _S.CANCELLED}),
    _S.PAUSED: frozenset({_S.RUNNING, _S.CANCELLED}),
    _S.ERROR: frozenset({_S.RUNNING, _S.PAUSED, _S.CANCELLED}),
    _S.DONE: frozenset(),
    _S.CANCELLED: frozenset(),
}


def next_status(old: str, new: str) -> TaskStatus:
    """Return the new status.

    Raises:
        IllegalTransition: the table does not allow it.
    """
    if TaskStatus(new) not in TASK_TRANSITIONS[TaskStatus(old)]:
        raise IllegalTransition(old, new)
    return TaskStatus(new)


_INSERT = """
    INSERT INTO tasks (task_id, thread_id, agent_id, user_id, mode, model, message, status, created_at, updated_at)
    VALUES (:task_id, :thread_id, :agent_id, :user_id, :mode, :model, :message, 'pending', :now, :now)
    RETURNING *
"""
_GET = "SELECT * FROM tasks WHERE task_id = ?"
_UPDATE = "UPDATE tasks SET status = ?, result = ?, error = ?, updated_at = ? WHERE task_id = ? RETURNING *"
_LATEST = "SELECT * FROM tasks WHERE thread_id = ? ORDER BY position DESC LIMIT 1"
_OF_THREAD = "SELECT * FROM tasks WHERE thread_id = ? ORDER BY position"
_LIST = """
    SELECT * FROM tasks
    WHERE (:agent_id IS NULL OR agent_id = :agent_id) AND (:thread_id IS NULL OR thread_id = :thread_id)
        AND (:before IS NULL OR position < (SELECT position FROM tasks WHERE task_id = :before))
    ORDER BY position DESC LIMIT :limit
"""
_THREADS = """
    SELECT last.thread_id, turns, last.message, last.status, last.updated_at
    FROM (SELECT thread_id, count(*) AS turns, max(position) AS position FROM tasks GROUP BY thread_id) AS counted
    JOIN tasks AS last ON last.position = counted.position
    ORDER BY last.updated_at DESC, last.position DESC LIMIT ?
"""


class Tasks:
    """The rows of tasks, as dicts with the fields of the table; `result` is a dict or None, times are Unix seconds."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._rows = database.rows
        self._clock = clock

    async def create(
        self, *, task_id: str, thread_id: str, agent_id: str, user_id: str, mode: str, model: str, message: str
    ) -> Row:
        """Write down a pending task."""
        values = {
            "task_id": task_id,
            "thread_id": thread_id,
            "agent_id": agent_id,
            "user_id": user_id,
            "mode": mode,
            "model": model,
            "message": message,
            "now": self._clock(),
        }
        return _task(await self._rows.write(lambda connection: connection.execute(_INSERT, values).fetchone()))

    async def get(self, task_id: str) -> Row:
        """Return one task.

        Raises:
            UnknownTask: there is none.
        """
        return _task(await self._rows.read(lambda connection: _find(connection, task_id)))

    async def set_status(
        self,
        task_id: str,
        status: str,
        *,
        result: Mapping[str, Any] | None = None,
        error: str | None = None,
        fence: int | None = None,
    ) -> Row:
        """Move a task to `status` and return it; without a new one a result stays, an error goes.

        Raises:
            UnknownTask: there is none.
            IllegalTransition: it cannot go there from where it is.
            StaleOwner: `fence` is given and another owner took its thread.
        """

        def change(connection: sqlite3.Connection) -> sqlite3.Row:
            row = _find(connection, task_id)
            if fence is not None:
                check_fence(connection, row["thread_id"], fence)
            stored = row["result"] if result is None else json.dumps(dict(result))
            values = (next_status(row["status"], status), stored, error, self._clock(), task_id)
            changed: sqlite3.Row = connection.execute(_UPDATE, values).fetchone()
            return changed

        return _task(await self._rows.write(change))

    async def latest_of(self, thread_id: str) -> Row | None:
        """Return the thread's newest task, or None."""
        row = await self._rows.read(lambda connection: connection.execute(_LATEST, (thread_id,)).fetchone())
        return None if row is None else _task(row)

    async def of_thread(self, thread_id: str) -> Rows:
        """Return the thread's tasks, oldest first."""
        rows = await self._rows.read(lambda connection: connection.execute(_OF_THREAD, (thread_id,)).fetchall())
        return [_task(row) for row in rows]

    async def list(
        self, agent_id: str | None = None, thread_id: str | None = None, limit: int = 50, before: str | None = None
    ) -> Rows:
        """Return tasks, newest first; `before` is the task_id that the last page ended with."""
        values = {"agent_id": agent_id, "thread_id": thread_id, "limit": limit, "before": before}
        return [_task(row) for row in await self._rows.read(lambda db: db.execute(_LIST, values).fetchall())]

    async def threads(self, limit: int = 50) -> Rows:
        """Return the threads, last used first: {thread_id, turns, message, status, updated_at} of the newest task."""
        rows = await self._rows.read(lambda connection: connection.execute(_THREADS, (limit,)).fetchall())
        return [dict(row) for row in rows]


def _find(connection: sqlite3.Connection, task_id: str) -> sqlite3.Row:
    row: sqlite3.Row | None = connection.execute(_GET, (task_id,)).fetchone()
    if row is None:
        raise UnknownTask(task_id)
    return row


def _task(row: sqlite3.Row) -> Row:
    task = {name: row[name] for name in row.keys() if name != "position"}  # noqa: SIM118, a Row iterates its values
    return {**task, "result": None if row["result"] is None else json.loads(row["result"])}
