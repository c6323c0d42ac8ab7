"""The rows of calls: what each column holds."""

import json
import sqlite3
from collections.abc import Mapping
from typing import Any

from .columns import (
    Column,
    Row,
    count,
    damaged,
    fetched,
    json_object,
    moment,
    name,
    one_of,
    optional,
    read_columns,
)
from .database import Database

CALL: Mapping[str, Column] = {
    **dict.fromkeys(("thread_id", "task_id", "scope", "name"), name),
    "idx": count,
    "arguments": json_object,
    "state": one_of("running", "done"),
    "outcome": optional(json_object),
    "fence": count,
    "started_at": moment,
    "finished_at": optional(moment),
    "orphaned": one_of(0, 1),
}
"""What a row of calls holds."""

_SHOWN = ("name", "arguments", "outcome", "state", "started_at", "finished_at", "scope", "idx")
_OF_TASK = "SELECT * FROM calls WHERE thread_id = ? AND task_id = ? ORDER BY position"


def read_call(row: sqlite3.Row) -> tuple[Row, dict[str, str]]:
    """The columns that can be read, and what is wrong with the others."""
    values, faults = read_columns(row, CALL)
    if values.get("state") == "done":
        faults |= {column: "missing" for column in ("outcome", "finished_at") if row[column] is None}
    return values, faults


def call_of(row: sqlite3.Row) -> Row:
    """{name, arguments, outcome, state, started_at, finished_at, scope, idx} of a call.

    Raises:
        DamagedRow: something of it is not what was stored.
    """
    values, faults = read_call(row)
    if faults:
        raise damaged("calls", values, faults)
    return {column: values[column] for column in _SHOWN}


def canonical(arguments: Mapping[str, Any]) -> str:
    """One text per value, whatever the order of its keys."""
    return json.dumps(dict(arguments), sort_keys=True, separators=(",", ":"))


async def calls_of(database: Database, thread_id: str, task_id: str) -> list[Row]:
    """A task's calls as in `call_of`, in the order of their intents.

    Raises:
        DamagedRow: one of them cannot be read.
    """
    rows = await database.read(lambda db: fetched(db, _OF_TASK, (thread_id, task_id)))
    return [call_of(row) for row in rows]
