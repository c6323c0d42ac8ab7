"""The durable events of every task, numbered from 1 without gap or repeat."""

import json
import sqlite3
from collections.abc import Mapping
from typing import Any

from segue.events import Event, from_dict, to_dict

from .database import Database
from .rows import damaged_row, decoded

# One statement numbers and stores: an event that is there already takes no number and returns no row.
INSERT_EVENT = """
    INSERT INTO events (task_id, seq, thread_id, source, ordinal, event)
    SELECT :task_id, coalesce(max(seq), 0) + 1, :thread_id, :source, :ordinal, :event
    FROM events WHERE task_id = :task_id
    ON CONFLICT (thread_id, source, ordinal) DO NOTHING
    RETURNING seq
"""
_READ = "SELECT seq, event FROM events WHERE task_id = ? AND seq > ? ORDER BY seq LIMIT ?"


def event_row(thread_id: str, source: str | None, ordinal: int, event: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of INSERT_EVENT for an event in the form of `segue.events.to_dict`."""
    return {
        "task_id": event["task_id"],
        "thread_id": thread_id,
        "source": source,
        "ordinal": ordinal,
        "event": json.dumps({name: value for name, value in event.items() if name != "seq"}),
    }


def insert_event(connection: sqlite3.Connection, thread_id: str, event: Event) -> dict[str, Any]:
    """Store an event that no step of a graph made, and return its dict form with its `seq`."""
    form = to_dict(event)
    row = connection.execute(INSERT_EVENT, event_row(thread_id, None, 0, form)).fetchone()
    return {**form, "seq": int(row["seq"])}


class EventLog:
    """Reads the log."""

    def __init__(self, database: Database) -> None:
        self._rows = database.rows

    async def read(self, task_id: str, after: int = 0, limit: int | None = None) -> list[dict[str, Any]]:
        """Return a task's events with `seq` above `after`, in order, at most `limit`."""
        values = (task_id, after, -1 if limit is None else limit)
        rows = await self._rows.read(lambda connection: connection.execute(_READ, values).fetchall())
        return [_form(row) for row in rows]


def _form(row: sqlite3.Row) -> dict[str, Any]:
    value = decoded(row["event"])
    try:
        form: dict[str, Any] = {**value, "seq": row["seq"]}
        from_dict(form)
    except (TypeError, LookupError) as error:
        raise damaged_row("it holds no event") from error
    return form
