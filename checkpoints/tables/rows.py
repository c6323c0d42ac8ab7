"""Damage in the rows of tasks, events, calls and sessions."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from segue.core.records import (
    Call,
    Json,
    Session,
    StoredEvent,
    Task,
    call_checksum,
    damaged,
    described,
    read,
)
from segue.core.row_validators import listed_faults

from ..ports import Connection
from .search import index_task

ORDERED = {"tasks": "position", "calls": "position", "events": "task_id, seq"}
"""The tables whose rows have an order, and the columns that say which."""


def stored_rows(connection: Connection, table: str, thread_id: str) -> list[Json]:
    """The rows of a thread in a table, in the order in which they were stored."""
    statement = f"SELECT * FROM {table} WHERE thread_id = ? ORDER BY {ORDERED.get(table, 'thread_id')}"
    return [dict(row) for row in connection.fetched(statement, (thread_id,))]


def insert_row(connection: Connection, table: str, row: Json) -> None:
    """Store a row; its place among the others is the last. That of a call gets its checksum, a task can be found."""
    stored: dict[str, Any] = {name: value for name, value in row.items() if name != "position"}
    if table == "calls":
        stored["checksum"] = call_checksum(stored)
    names, places = ", ".join(stored), ", ".join(f":{name}" for name in stored)
    inserted = connection.execute(f"INSERT INTO {table} ({names}) VALUES ({places}) RETURNING *", stored).fetchone()
    if table == "tasks":
        index_task(connection, inserted)


_KINDS: Mapping[str, type[Task | StoredEvent | Call | Session]] = {
    "tasks": Task,
    "events": StoredEvent,
    "calls": Call,
    "sessions": Session,
}
_READ_FROM = {"tasks": "tasks", "events": "event_log", "calls": "calls", "sessions": "sessions"}
_ORDER = {"tasks": "position", "events": "task_id, seq", "calls": "position", "sessions": "thread_id"}
# A row whose session cannot be read any more is found by the other rows of its task.
_OF_SESSION = {
    "tasks": """thread_id = :thread OR task_id IN (
        SELECT task_id FROM events WHERE thread_id = :thread UNION SELECT task_id FROM calls WHERE thread_id = :thread
    )""",
    "events": "thread_id = :thread OR task_id IN (SELECT task_id FROM tasks WHERE thread_id = :thread)",
    "calls": "thread_id = :thread OR task_id IN (SELECT task_id FROM tasks WHERE thread_id = :thread)",
    "sessions": "thread_id = :thread",
}
# Calls that lost their thread's id are found by a scan only.
_QUICKLY = {**_OF_SESSION, "calls": "thread_id = :thread"}
_SESSION = """
    SELECT thread_id FROM tasks WHERE task_id = :task
    UNION ALL SELECT thread_id FROM events WHERE task_id = :task
    UNION ALL SELECT thread_id FROM calls WHERE task_id = :task
"""


@dataclass(frozen=True)
class ReadRow:
    """A row as it is stored, its columns that can be read, and what is wrong with the others."""

    table: str
    stored: Json
    values: Json
    faults: Mapping[str, str]

    @property
    def task_id(self) -> str:
        """Empty where it cannot be read."""
        return str(self.values.get("task_id", ""))

    @property
    def described(self) -> str:
        """Which row it is, and what is wrong with it."""
        return f"{described(_KINDS[self.table], self.values)} ({listed_faults(self.faults)})"


def rows_of(
    connection: Connection,
    table: str,
    thread_id: str | None = None,
    own: Mapping[str, str] = _OF_SESSION,
    *,
    damaged_only: bool = False,
) -> Iterator[ReadRow]:
    """The rows of a session in a table, or of all."""
    where = "" if thread_id is None else f"WHERE {own[table]}"
    statement = f"SELECT * FROM {_READ_FROM[table]} {where} ORDER BY {_ORDER[table]}"
    for row in connection.fetched(statement, {} if thread_id is None else {"thread": thread_id}):
        values, faults = read(_KINDS[table], row)
        if damaged_only and not faults:
            continue
        if thread_id is not None and values.get("thread_id", thread_id) != thread_id:
            continue
        yield ReadRow(table, dict(row), values, faults)


def damaged_rows(connection: Connection, thread_id: str | None = None) -> list[ReadRow]:
    """The damaged ones among a session's rows, or among all."""
    return [row for table in _KINDS for row in rows_of(connection, table, thread_id, damaged_only=True)]


def refuse_damaged(connection: Connection, thread_id: str) -> None:
    """Make sure that every row of a session can be read.

    Raises:
        DamagedRow: one cannot.
    """
    for table in _KINDS:
        for row in rows_of(connection, table, thread_id, _QUICKLY, damaged_only=True):
            raise damaged(_KINDS[table], {**row.values, "thread_id": thread_id}, row.faults)


def session_of(connection: Connection, row: ReadRow) -> str:
    """The session that a row belongs to; empty if it is unknown."""
    if "thread_id" in row.values:
        return str(row.values["thread_id"])
    found = (each[0] for each in connection.fetched(_SESSION, {"task": row.task_id}))
    return next((thread_id for thread_id in found if isinstance(thread_id, str) and thread_id), "")
