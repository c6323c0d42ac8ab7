"""The rows of tasks: what each column holds, and how a damaged one is shown."""

import json
import sqlite3
from collections.abc import Mapping
from typing import Any

from segue.core.task_status import TaskStatus

from .columns import (
    Column,
    Row,
    Unfit,
    damaged,
    json_object,
    json_value,
    moment,
    name,
    one_of,
    optional,
    read_columns,
    text,
)

BEST = 5
"""The highest rating; the lowest is 1."""
_JSON = ("result", "notes", "answer")


def _notes(value: Any) -> list[str]:
    found = json_value(value)
    if not isinstance(found, list) or not all(isinstance(note, str) for note in found):
        raise Unfit("no list of texts")
    return found


def _answer(value: Any) -> Row:
    found = json_object(value)
    if found and not (isinstance(found.get("interrupt_id"), str) and "value" in found):
        raise Unfit("no answer")
    return found


TASK: Mapping[str, Column] = {
    "task_id": name,
    "thread_id": name,
    **dict.fromkeys(("agent_id", "user_id", "mode", "model"), text),
    "status": one_of(*TaskStatus),
    "message": text,
    "error": optional(text),
    "result": optional(json_object),
    "wanted": one_of(None, "pause", "cancel"),
    "notes": _notes,
    "answer": optional(_answer),
    "rating": one_of(None, *range(1, BEST + 1)),
    "copy_of": optional(text),
    "created_at": moment,
    "updated_at": moment,
}
"""What a row of tasks holds."""

_TEXTS = ("task_id", "thread_id", "agent_id", "user_id", "mode", "model", "message")
EMPTY: Mapping[str, Any] = {
    **dict.fromkeys(TASK),
    **dict.fromkeys(_TEXTS, ""),
    "notes": [],
    "created_at": 0.0,
    "updated_at": 0.0,
}
"""What stands where nothing can be read."""

_OF_THREADS = {column: TASK[column] for column in ("thread_id", "message", "status", "updated_at")}


def task_of(row: sqlite3.Row) -> Row:
    """The row of a task, with the values of its JSON columns.

    Raises:
        DamagedRow: something of it is not what was stored.
    """
    values, faults = read_columns(row, TASK)
    if faults:
        raise damaged("tasks", values, faults)
    return _in_order(row, values)


def shown_task(row: sqlite3.Row) -> Row:
    """As `task_of`, but of a damaged row what can be read, with the status error and a sentence for it."""
    values, faults = read_columns(row, TASK)
    if faults:
        sentence = str(damaged("tasks", values, faults))
        values = {**EMPTY, **values, "status": TaskStatus.ERROR.value, "error": sentence}
    return _in_order(row, values)


def shown_thread(row: sqlite3.Row) -> Row:
    """A thread by its newest task; what cannot be read of that is empty, and its status is error."""
    values, faults = read_columns(row, _OF_THREADS)
    if faults:
        values = {**{column: EMPTY[column] for column in _OF_THREADS}, **values, "status": TaskStatus.ERROR.value}
    return {**dict(row), **values}


def stored_task(task: Row) -> Row:
    """The row, or some of its columns, as they are stored."""
    return {**task, **{column: json.dumps(task[column]) for column in _JSON if task.get(column) is not None}}


def _in_order(row: sqlite3.Row, values: Row) -> Row:
    """The values in the order of the columns, with what the query gave beside them."""
    return {column: values.get(column, row[column]) for column in row.keys() if column != "position"}  # noqa: SIM118
