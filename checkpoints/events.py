"""The event log: the durable events of every task, and those that programs send."""

import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from operator import methodcaller
from typing import Any

from segue.core.audit import Act
from segue.core.errors import KeyUsed, TaskError, UnknownTask
from segue.core.events import Event, TaskComplete, ToolResult
from segue.core.records import Json, RequestKey, SentEvent, StoredEvent, Task, from_row
from segue.core.task import TaskStatus

from .audit import record, reseal
from .ports import Connection, Database, Row

# One statement numbers and stores: an event that is there already takes no number and returns no row.
_INSERT = """
    INSERT INTO events (task_id, seq, thread_id, source, ordinal, event, scope, idx)
    SELECT :task_id, coalesce(max(seq), 0) + 1, :thread_id, :source, :ordinal, :event, :scope, :idx
    FROM events WHERE task_id = :task_id
    ON CONFLICT (thread_id, source, ordinal) DO NOTHING
    RETURNING seq
"""
_CALL = """
    SELECT scope, idx FROM calls WHERE thread_id = ? AND task_id = ? AND scope = ? AND idx = ? AND outcome = ?
"""
_COMPLETE = """
    UPDATE events SET scope = NULL, idx = NULL, event = (
        SELECT event FROM event_log AS whole WHERE (whole.task_id, whole.seq) = (events.task_id, events.seq)
    )
    WHERE thread_id = ? AND task_id = ? AND scope IS NOT NULL
"""
_LAST = "SELECT * FROM events WHERE task_id = ? ORDER BY seq DESC LIMIT 1"
_SHARE = "UPDATE events SET scope = '', event = ? WHERE task_id = ? AND seq = ?"
_READ = "SELECT * FROM event_log WHERE task_id = ? AND seq > ? ORDER BY seq LIMIT ?"
_NEWEST = "SELECT * FROM event_log WHERE task_id = ? ORDER BY seq DESC LIMIT 1"
PAGE = 200
"""Events that are read and decoded at once."""


def event_row(thread_id: str, source: str | None, ordinal: int, event: Mapping[str, Any]) -> Json:
    """The columns of an event in the form of its `json`, all of it in it."""
    return {
        "task_id": event["task_id"],
        "thread_id": thread_id,
        "source": source,
        "ordinal": ordinal,
        "event": _text({name: value for name, value in event.items() if name != "seq"}),
    }


def _text(event: Json) -> str:
    return json.dumps(event, separators=(",", ":"))


def put_event(
    connection: Connection, thread_id: str, source: str | None, ordinal: int, event: Mapping[str, Any]
) -> int | None:
    """Store an event and return its number; None where it was stored before.

    A result that the ledger has is stored there alone, and the scope of its call in the column alone.
    """
    connection.lock_task(event["task_id"])
    call = _call_of(connection, thread_id, event)
    kept = event if call is None else {**event, "data": {**event["data"], "scope": "", "result": None}}
    named = {"scope": None, "idx": None} if call is None else dict(call)
    row = connection.execute(_INSERT, {**event_row(thread_id, source, ordinal, kept), **named}).fetchone()
    if row is None:
        return None
    connection.notify(event["task_id"], thread_id)
    return int(row["seq"])


def _call_of(connection: Connection, thread_id: str, event: Mapping[str, Any]) -> Row | None:
    """The scope and index of the call whose outcome an event reports."""
    if event["type"] != ToolResult.type:
        return None
    data = event["data"]
    key = (thread_id, event["task_id"], data["scope"], data["index"])
    call: Row | None = connection.execute(_CALL, (*key, json.dumps(data["result"]))).fetchone()
    return call


def insert_event(connection: Connection, thread_id: str, event: Event) -> Event:
    """Store an event that no step of a graph made, and return it with its `seq`."""
    seq = put_event(connection, thread_id, None, 0, event.json())
    return replace(event, seq=int(seq or 0))


def share_result(connection: Connection, task_id: str, result: str | None) -> None:
    """Store a task's result with the task alone, where its last event, which says that it is complete, has the same."""
    row = next(iter(connection.fetched(_LAST, (task_id,))), None)
    if not result or row is None or row["scope"] is not None:
        return
    event = from_row(StoredEvent, row).event
    if event["type"] == TaskComplete.type and event["data"].get("result") == json.loads(result):
        shared = _text({**event, "data": {**event["data"], "result": None}})
        connection.execute(_SHARE, (shared, task_id, row["seq"]))


def complete_events(connection: Connection, thread_id: str, task_id: str) -> None:
    """Store a task's results with its events, too: its calls are about to be filed elsewhere."""
    connection.execute(_COMPLETE, (thread_id, task_id))


class EventLog:
    """Reads the log."""

    def __init__(self, database: Database[Connection]) -> None:
        self._database = database

    async def read(self, task_id: str, after: int = 0, limit: int | None = None) -> list[Event]:
        """Return a task's events with `seq` above `after`, in order, at most `limit`."""
        return [event async for page in self.pages(task_id, after, limit) for event in page]

    async def pages(self, task_id: str, after: int = 0, limit: int | None = None) -> AsyncIterator[list[Event]]:
        """As `read`, a page at a time: a long log leaves the event loop to others in between."""
        left, first = sys.maxsize if limit is None else limit, True
        while left > 0:
            values = (task_id, after, min(left, PAGE))
            rows = await self._database.read(methodcaller("fetched", _READ, values), brief=first)
            page = [from_row(StoredEvent, row).numbered() for row in rows]
            if page:
                yield page
            if len(page) < PAGE:
                return
            left, after, first = left - len(page), page[-1].seq, False

    async def last(self, task_id: str) -> Event | None:
        """Return a task's newest event; None where it has none."""
        row = await self._database.read(lambda connection: next(iter(connection.fetched(_NEWEST, (task_id,))), None))
        return None if row is None else from_row(StoredEvent, row).numbered()


# Events that were sent to tasks, kept until a task that waits for one of the name takes it.

AT_ONCE = 0.0
"""When a task is due whose event is there."""
_TASK = "SELECT * FROM tasks WHERE task_id = ?"
_PUT = """
    INSERT INTO sent_events (task_id, thread_id, name, data, sent_at, key)
    VALUES (:task_id, :thread_id, :name, :data, :now, :key) ON CONFLICT (key) DO NOTHING
"""
_WAITS = f"status = '{TaskStatus.WAITING}'"
_DUE = f"SELECT task_id, agent_id FROM tasks WHERE {_WAITS} AND due <= ? ORDER BY due, position"
_SET_DUE = f"UPDATE tasks SET due = ? WHERE task_id = ? AND {_WAITS} RETURNING thread_id"
_SENT = "SELECT * FROM sent_events WHERE key = ?"
_AWAKE = f"UPDATE tasks SET due = {AT_ONCE} WHERE task_id = :task_id AND {_WAITS} AND awaited = :name"
_NEXT = """
    SELECT * FROM sent_events WHERE task_id = ? AND name = ? AND taken_at IS NULL ORDER BY position LIMIT 1
"""
_ALL = "SELECT * FROM sent_events WHERE task_id = ? AND name = ? ORDER BY position"
_TAKE = "UPDATE sent_events SET taken_at = ? WHERE position = ?"


class SentEvents:
    """The events of a database that were sent to tasks, and the tasks that wait for them, or until a moment."""

    def __init__(self, database: Database[Connection], clock: Callable[[], float] | None = None) -> None:
        self._database = database
        self._clock = clock or time.time

    async def send(self, task_id: str, name: str, data: Any, key: RequestKey | None = None) -> None:
        """Keep an event for a task, with `key` once; one that waits for it is due at once."""
        sent = await self._send(task_id, name, lambda _: data, key)
        if key and json.dumps(sent, sort_keys=True) != json.dumps(data, sort_keys=True):
            raise KeyUsed(key.name)

    async def send_next(
        self, task_id: str, name: str, make: Callable[[Sequence[SentEvent]], Any], key: RequestKey | None = None
    ) -> Any:
        """As `send`, with what `make` gives for the events of that name so far; returns the data that was sent.

        No other event is sent to the task between.
        """
        return await self._send(task_id, name, lambda connection: make(_all_sent(connection, task_id, name)), key)

    async def _send(self, task_id: str, name: str, make: Callable[[Connection], Any], key: RequestKey | None) -> Any:
        def send(connection: Connection) -> Any:
            rows = connection.fetched(f"{_TASK}{connection.for_update}", (task_id,))
            if not rows:
                raise UnknownTask(task_id)
            if key and (found := connection.fetched(_SENT, (key.key,))):
                sent = from_row(SentEvent, found[0])
                if (sent.task_id, sent.name) != (task_id, name):
                    raise KeyUsed(key.name)
                return sent.data.get("data")
            data, task = make(connection), from_row(Task, rows[0])
            if task.is_over:
                raise TaskError(
                    "Task {task_id} is {status}: it accepts no events.", task_id=task_id, status=task.status
                )
            values = {"task_id": task_id, "name": name, "data": json.dumps({"data": data}), "now": self._clock()}
            connection.execute(_PUT, {**values, "thread_id": task.session_id, "key": key.key if key else None})
            connection.execute(_AWAKE, values)
            record(connection, Act("event", {"name": name}), task.session_id, task_id)
            connection.notify(task_id, task.session_id)
            return data

        return await self._database.write(send, synced=True)

    async def next(self, task_id: str, name: str) -> SentEvent | None:
        """Return the first event of a name that a task has not taken."""
        return await self._database.read(lambda connection: next_event(connection, task_id, name))

    async def all(self, task_id: str, name: str) -> Sequence[SentEvent]:
        """Return the events of a name that were sent to a task, oldest first, also those that it took."""
        return await self._database.read(lambda connection: _all_sent(connection, task_id, name))

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


def _all_sent(connection: Connection, task_id: str, name: str) -> list[SentEvent]:
    return [from_row(SentEvent, row) for row in connection.fetched(_ALL, (task_id, name))]


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
