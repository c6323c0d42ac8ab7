"""The tasks of a database: one for each message, with its status and result."""

import json
import sqlite3
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import fields
from typing import Any

from segue.core.errors import TaskError, UnknownTask
from segue.core.events import Event, StateChanged
from segue.core.records import Json, NewTask, Task, Thread, damaged, from_row, read, to_row
from segue.core.task_status import ENDED, TaskStatus, next_status

from .database import Database, fetched
from .event_log import insert_event
from .leases import check_fence

Moved = tuple[Task, list[Event]]
"""A task, and the events that were stored with the change."""

_Tasks = list[Task]
_Threads = list[Thread]
_Owned = list[tuple[Task, str]]

SHORTEST = 6
"""Characters that an id may be shortened to."""

_BEGINNING = [field.name for field in fields(NewTask)]
_INSERT = f"""
    INSERT INTO tasks ({", ".join(_BEGINNING)}, status, created_at, updated_at)
    VALUES ({", ".join(f":{name}" for name in _BEGINNING)}, 'pending', :now, :now)
    RETURNING *
"""
_GET = "SELECT * FROM tasks WHERE task_id = ?"
_UPDATE = """
    UPDATE tasks
    SET status = :status, model = :model, result = :result, error = :error, wanted = :wanted, notes = :notes,
        answer = :answer, updated_at = :now
    WHERE task_id = :task_id
    RETURNING *
"""
_LATEST = "SELECT * FROM tasks WHERE thread_id = ? ORDER BY position DESC LIMIT 1"
_STARTING_WITH = "SELECT task_id FROM tasks WHERE substr(task_id, 1, length(:text)) = :text ORDER BY position LIMIT 10"
_WANTED = "SELECT task_id, wanted FROM tasks WHERE wanted IS NOT NULL AND task_id IN (SELECT value FROM json_each(?))"
# Without a live owner a task is interrupted, or paused until somebody resumes it.
_UNFINISHED = """
    SELECT tasks.*, iif(leases.expires_at > :now, leases.owner, '') AS owner
    FROM tasks LEFT JOIN leases USING (thread_id)
    WHERE coalesce(status, '') NOT IN ('waiting', 'done', 'error', 'cancelled') ORDER BY position
"""
_WAITING = """
    SELECT * FROM tasks WHERE status = 'waiting' AND (:prefix = '' OR substr(thread_id, 1, length(:prefix)) = :prefix)
    ORDER BY updated_at, position
"""
_LIST = """
    SELECT * FROM tasks
    WHERE (:agent_id IS NULL OR agent_id = :agent_id) AND (:thread_id IS NULL OR thread_id = :thread_id)
        AND (:prefix = '' OR substr(thread_id, 1, length(:prefix)) = :prefix)
        AND (:before IS NULL OR position < (SELECT position FROM tasks WHERE task_id = :before))
    ORDER BY position DESC LIMIT :limit
"""
_THREADS = """
    SELECT last.thread_id, turns, last.message, last.status, last.updated_at
    FROM (SELECT thread_id, count(*) AS turns, max(position) AS position FROM tasks GROUP BY thread_id) AS counted
    JOIN tasks AS last ON last.position = counted.position
    WHERE :prefix = '' OR substr(last.thread_id, 1, length(:prefix)) = :prefix
    ORDER BY last.updated_at DESC, last.position DESC LIMIT :limit
"""


EMPTY: Json = {
    **dict.fromkeys(field.name for field in fields(Task)),
    **dict.fromkeys(("task_id", "thread_id", "agent_id", "user_id", "mode", "model", "message"), ""),
    **{"notes": [], "created_at": 0.0, "updated_at": 0.0},
}
"""What is shown where nothing can be read."""


def shown(row: sqlite3.Row) -> Task:
    """The task of a row; of a damaged one what can be read, with the status error and a sentence for its error."""
    values, faults = read(Task, row)
    if faults:
        sentence = str(damaged(Task, values, faults))
        values = {**EMPTY, **values, "status": TaskStatus.ERROR, "error": sentence}
    return Task(**values)


def _shown_thread(row: sqlite3.Row) -> Thread:
    values, faults = read(Thread, row)
    if faults:
        values = {**EMPTY, "turns": 0, **values, "status": TaskStatus.ERROR}
    return Thread(**{field.name: values[field.name] for field in fields(Thread)})


class Tasks:
    """The tasks of a database.

    Work on a task whose row is damaged raises DamagedRow. Lists show the columns that can be read, with the status
    `error` and a message.
    """

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    async def create(self, new: NewTask, *, fence: int | None = None) -> Task:
        """Store a pending task.

        Raises:
            StaleOwner: `fence` is given and another owner took the thread.
        """
        values = {**to_row(NewTask, vars(new)), "now": self._clock()}

        def insert(connection: sqlite3.Connection) -> sqlite3.Row:
            if fence is not None:
                check_fence(connection, new.thread_id, fence)
            row: sqlite3.Row = connection.execute(_INSERT, values).fetchone()
            return row

        return from_row(Task, await self._database.write(insert))

    async def get(self, task_id: str) -> Task:
        """Return one task.

        Raises:
            UnknownTask: there is none.
            DamagedRow: it cannot be read.
        """
        return from_row(Task, await self._database.read(lambda connection: _find(connection, task_id)))

    async def show(self, task_id: str) -> Task:
        """Return one task as lists show it.

        Raises:
            UnknownTask: there is none.
        """
        return shown(await self._database.read(lambda connection: _find(connection, task_id)))

    async def move(
        self,
        task_id: str,
        status: TaskStatus | None,
        *,
        events: Iterable[Event] = (),
        fence: int | None = None,
        **changes: Any,
    ) -> Moved:
        """Change a task and store its events, in one transaction.

        The event of a new status comes first, then `events`. `changes` are columns: model, result, error, wanted,
        notes, answer; what is not named stays, but an error goes with the next status. Without `status` that stays too.

        Raises:
            UnknownTask: there is none.
            IllegalTransition: it cannot go there from where it is.
            StaleOwner: `fence` is given and another owner took its thread.
        """

        told = tuple(events)

        def change(connection: sqlite3.Connection) -> Moved:
            old = from_row(Task, _find(connection, task_id))
            if fence is not None:
                check_fence(connection, old.thread_id, fence)
            new = old.status if status is None else next_status(old.status, status)
            moved = [] if new == old.status else [StateChanged(task_id=task_id, old=old.status, new=str(new))]
            kept = {} if status is None else {"error": None}
            changed = {**vars(old), **kept, **changes, "status": str(new)}
            values = {**to_row(Task, changed), "now": self._clock()}
            row = connection.execute(_UPDATE, values).fetchone()
            return from_row(Task, row), [insert_event(connection, old.thread_id, event) for event in (*moved, *told)]

        return await self._database.write(change)

    async def add_note(self, task_id: str, text: str, event: Event) -> Moved:
        """Add a text that steers a task which has not ended.

        Raises:
            UnknownTask: there is none.
            TaskError: it has ended.
        """

        def add(connection: sqlite3.Connection) -> Moved:
            task = from_row(Task, _find(connection, task_id))
            if task.status in ENDED:
                raise TaskError("Task {task_id} is {status}: send a new message.", task_id=task_id, status=task.status)
            values = {**to_row(Task, {**vars(task), "notes": [*task.notes, text]}), "now": self._clock()}
            row = connection.execute(_UPDATE, values).fetchone()
            return from_row(Task, row), [insert_event(connection, task.thread_id, event)]

        return await self._database.write(add)

    async def find(self, text: str) -> str:
        """Return the id of the task that `text` is, or the beginning of, from six characters on.

        Raises:
            UnknownTask: there is none.
            TaskError: there are several, or `text` is too short to tell.
        """
        rows = await self._database.read(lambda connection: fetched(connection, _STARTING_WITH, {"text": text}))
        found = [str(row["task_id"]) for row in rows]
        if text in found:
            return text
        if len(text) < SHORTEST:
            raise TaskError(
                "'{text}' is too short for a task's id: write at least its first {least} characters; `segue tasks` "
                "lists what there is.",
                text=text,
                least=SHORTEST,
            )
        if not found:
            raise UnknownTask(text)
        if len(found) > 1:
            raise TaskError(
                "Several tasks begin with '{text}': write more of {found}.", text=text, found=", ".join(found)
            )
        return found[0]

    async def requested(self, task_ids: Collection[str]) -> dict[str, str]:
        """Return the requested pauses and cancellations, by task id."""
        given = json.dumps([*task_ids])
        rows = await self._database.read(lambda connection: fetched(connection, _WANTED, (given,)))
        return {row["task_id"]: row["wanted"] for row in rows}

    async def unfinished(self) -> _Owned:
        """Return the tasks that have not ended and wait for no answer, oldest first, each with its live owner or "".

        One whose status cannot be read is among them.
        """
        values = {"now": self._clock()}
        rows = await self._database.read(lambda connection: fetched(connection, _UNFINISHED, values))
        return [(shown(row), row["owner"]) for row in rows]

    async def waiting(self, prefix: str = "") -> _Tasks:
        """Return the tasks that wait for a person, the longest waiting first, of threads with that beginning."""
        values = {"prefix": prefix}
        return [shown(row) for row in await self._database.read(lambda db: fetched(db, _WAITING, values))]

    async def latest_of(self, thread_id: str) -> Task | None:
        """Return the thread's newest task, or None.

        Raises:
            DamagedRow: it cannot be read.
        """
        rows = await self._database.read(lambda connection: fetched(connection, _LATEST, (thread_id,)))
        return from_row(Task, rows[0]) if rows else None

    async def list(
        self,
        agent_id: str | None = None,
        thread_id: str | None = None,
        limit: int = 50,
        before: str | None = None,
        prefix: str = "",
    ) -> _Tasks:
        """Return tasks, newest first, of threads whose names begin with `prefix`.

        `before` is the task_id that the last page ended with.
        """
        values = {"agent_id": agent_id, "thread_id": thread_id, "limit": limit, "before": before, "prefix": prefix}
        return [shown(row) for row in await self._database.read(lambda db: fetched(db, _LIST, values))]

    async def threads(self, limit: int = 50, prefix: str = "") -> _Threads:
        """Return the threads, last used first."""
        values = {"limit": limit, "prefix": prefix}
        rows = await self._database.read(lambda connection: fetched(connection, _THREADS, values))
        return [_shown_thread(row) for row in rows]


def _find(connection: sqlite3.Connection, task_id: str) -> sqlite3.Row:
    rows = fetched(connection, _GET, (task_id,))
    if not rows:
        raise UnknownTask(task_id)
    return rows[0]
