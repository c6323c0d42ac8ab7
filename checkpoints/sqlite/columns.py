"""What rows are read through: SQLite keeps to the form of its pages, not to what a row may hold."""

import contextlib
import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from segue.core.errors import DamagedRow, DatabaseUnavailable, StorageError

Row = dict[str, Any]
Column = Callable[[Any], Any]
"""What a column holds: gives what a value of it means.

Raises:
    Unfit: the column cannot hold it.
"""

NUMBER = (int, float)
_LAST = 2.5e11
"""Unix seconds, in the year 9892: a later time cannot be shown."""


class Unfit(ValueError):
    """A column holds what it may not; the message says what is wrong."""


def what_of(table: str, values: Row) -> str:
    """Which row it is, by what of it can be read."""
    task = f"task «{values.get('task_id', '')}»"
    match table:
        case "events":
            return f"event {values.get('seq', '?')} of {task}"
        case "calls":
            return f"call {values.get('name', '?')} of {task}"
    return task


def damaged(table: str, values: Row, faults: Mapping[str, str]) -> StorageError:
    """The error for a row, by what of it can be read; without its session nothing can be recovered."""
    what, reason, thread_id = what_of(table, values), listed_faults(faults), values.get("thread_id", "")
    return DamagedRow(thread_id, reason, what) if thread_id else damaged_row(f"{what}, {reason}")


def damaged_row(reason: str) -> DatabaseUnavailable:
    """The error for a row that is not what was stored."""
    return DatabaseUnavailable(
        f"The database holds a row that cannot be read ({reason}), so it is damaged: `segue doctor` says what to do."
    )


def decoded(text: str | None) -> Any:
    """The value of a JSON text that a row holds; None for none.

    Raises:
        DatabaseUnavailable: it is damaged.
    """
    try:
        return None if text is None else json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise damaged_row("a JSON text is none") from error


def read_columns(row: Mapping[str, Any] | sqlite3.Row, columns: Mapping[str, Column]) -> tuple[Row, dict[str, str]]:
    """The values of the columns that can be read, and of the others what is wrong with them."""
    values: Row = {}
    faults: dict[str, str] = {}
    for name, read in columns.items():
        try:
            values[name] = read(row[name])
        except Unfit as error:
            faults[name] = str(error)
    return values, faults


def listed_faults(faults: Mapping[str, str]) -> str:
    return ", ".join(f"{name}: {fault}" for name, fault in faults.items())


@contextlib.contextmanager
def lenient(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Have a text that is none given as bytes, where it would otherwise keep its whole row from being read."""
    connection.text_factory = _text
    try:
        yield connection
    finally:
        connection.text_factory = str


def fetched(connection: sqlite3.Connection, statement: str, values: Any = ()) -> list[sqlite3.Row]:
    """The rows of a query, whatever they hold."""
    with lenient(connection):
        return connection.execute(statement, values).fetchall()


def _text(stored: bytes) -> str | bytes:
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return stored


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise Unfit("no text")
    return value


def name(value: Any) -> str:
    if not text(value):
        raise Unfit("empty")
    return str(value)


def moment(value: Any) -> float:
    """Unix seconds."""
    if not isinstance(value, NUMBER) or not 0 <= value < _LAST:
        raise Unfit("no time")
    return value


def count(value: Any) -> int:
    if not isinstance(value, int) or value < 0:
        raise Unfit("no number")
    return value


def json_value(value: Any) -> Any:
    try:
        return json.loads(text(value))
    except Unfit:
        raise
    except (ValueError, RecursionError):
        raise Unfit("no JSON") from None


def json_object(value: Any) -> Row:
    found = json_value(value)
    if not isinstance(found, dict):
        raise Unfit("no object")
    return found


def optional(read: Column) -> Column:
    """A column that may be empty."""
    return lambda value: None if value is None else read(value)


def one_of(*known: Any) -> Column:
    """A column of fixed words."""

    def read(value: Any) -> Any:
        if value not in known:
            raise Unfit("no word that it may be")
        return value

    return read
