"""The durable events of every task, numbered from 1 without gap or repeat."""

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from segue.core.events import Event, to_dict
from segue.core.records import Json, StoredEvent, from_row

from .database import Database, fetched

# One statement numbers and stores: an event that is there already takes no number and returns no row.
INSERT_EVENT = """
    INSERT INTO events (task_id, seq, thread_id, source, ordinal, event)
    SELECT :task_id, coalesce(max(seq), 0) + 1, :thread_id, :source, :ordinal, :event
    FROM events WHERE task_id = :task_id
    ON CONFLICT (thread_id, source, ordinal) DO NOTHING
    RETURNING seq
"""
_READ = "SELECT * FROM events WHERE task_id = ? AND seq > ? ORDER BY seq LIMIT ?"


def event_row(thread_id: str, source: str | None, ordinal: int, event: Mapping[str, Any]) -> Json:
    """The parameters of INSERT_EVENT for an event in the form of `segue.core.events.to_dict`."""
    return {
        "task_id": event["task_id"],
        "thread_id": thread_id,
        "source": source,
        "ordinal": ordinal,
        "event": json.dumps({name: value for name, value in event.items() if name != "seq"}),
    }


def insert_event(connection: sqlite3.Connection, thread_id: str, event: Event) -> Event:
    """Store an event that no step of a graph made, and return it with its `seq`."""
    row = connection.execute(INSERT_EVENT, event_row(thread_id, None, 0, to_dict(event))).fetchone()
    return replace(event, seq=int(row["seq"]))


class EventLog:
    """Reads the log."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read(self, task_id: str, after: int = 0, limit: int | None = None) -> list[Event]:
        """Return a task's events with `seq` above `after`, in order, at most `limit`.

        Raises:
            DamagedRow: one of them cannot be read.
        """
        values = (task_id, after, -1 if limit is None else limit)
        rows = await self._database.read(lambda connection: fetched(connection, _READ, values))
        return [from_row(StoredEvent, row).numbered() for row in rows]
