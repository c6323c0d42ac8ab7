"""The durable events of every task, numbered from 1 without gap or repeat."""

import dataclasses
import json
import sqlite3
from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin, get_type_hints

from segue.core.events import TYPES, Event, from_dict, to_dict

from .columns import (
    Column,
    Row,
    Unfit,
    count,
    damaged,
    fetched,
    json_object,
    moment,
    name,
    optional,
    read_columns,
    text,
)
from .database import Database

# One statement numbers and stores: an event that is there already takes no number and returns no row.
INSERT_EVENT = """
    INSERT INTO events (task_id, seq, thread_id, source, ordinal, event)
    SELECT :task_id, coalesce(max(seq), 0) + 1, :thread_id, :source, :ordinal, :event
    FROM events WHERE task_id = :task_id
    ON CONFLICT (thread_id, source, ordinal) DO NOTHING
    RETURNING seq
"""
_READ = "SELECT * FROM events WHERE task_id = ? AND seq > ? ORDER BY seq LIMIT ?"


def event_row(thread_id: str, source: str | None, ordinal: int, event: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of INSERT_EVENT for an event in the form of `segue.core.events.to_dict`."""
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
        self._database = database

    async def read(self, task_id: str, after: int = 0, limit: int | None = None) -> list[Row]:
        """Return a task's events with `seq` above `after`, in order, at most `limit`.

        Raises:
            DamagedRow: one of them cannot be read.
        """
        values = (task_id, after, -1 if limit is None else limit)
        return [_form(row) for row in await self._database.read(lambda connection: fetched(connection, _READ, values))]


def _form(row: sqlite3.Row) -> Row:
    values, faults = read_columns(row, EVENT)
    if faults:
        raise damaged("events", values, faults)
    return {**values["event"], "seq": values["seq"]}


def _kinds_of(hint: Any) -> tuple[type, ...]:
    """The types that a value of an event's field has once it was JSON."""
    origin = get_origin(hint)
    if origin is Literal:
        return (str,)
    if origin is None or origin in (dict, list):
        return (int, float) if hint is float else (origin or hint,)
    return tuple(kind for one in get_args(hint) for kind in _kinds_of(one))


_KINDS: Mapping[str, Mapping[str, tuple[type, ...]]] = {
    name: {field.name: _kinds_of(get_type_hints(kind)[field.name]) for field in dataclasses.fields(kind)}
    for name, kind in TYPES.items()
}
_IDS = ("task_id", "trace_id", "step_id", "iteration", "timestamp")


def _event(value: Any) -> Row:
    form = json_object(value)
    try:
        from_dict(form)
        kinds = _KINDS[form["type"]]
        told = {**form["data"], **{field: form[field] for field in _IDS}}
    except (TypeError, LookupError):
        raise Unfit("no event") from None
    for field in told.keys() & kinds.keys():
        if not isinstance(told[field], kinds[field]):
            raise Unfit(f"no event, its {field} is {type(told[field]).__name__}")
    moment(form["timestamp"])
    return form


EVENT: Mapping[str, Column] = {
    "task_id": name,
    "seq": count,
    "thread_id": name,
    "source": optional(text),
    "ordinal": count,
    "event": _event,
}
"""What a row of events holds."""
