"""Rows of a thread's records, as they are stored."""

from typing import Any

from segue.core.records import Json

from ..ports import Connection

ORDERED = {"tasks": "position", "calls": "position", "events": "task_id, seq"}
"""The tables whose rows have an order, and the columns that say which."""


def stored_rows(connection: Connection, table: str, thread_id: str) -> list[Json]:
    """The rows of a thread in a table, in the order in which they were stored."""
    statement = f"SELECT * FROM {table} WHERE thread_id = ? ORDER BY {ORDERED.get(table, 'thread_id')}"
    return [dict(row) for row in connection.fetched(statement, (thread_id,))]


def insert_row(connection: Connection, table: str, row: Json) -> None:
    """Store a row; its place among the others is the last."""
    stored: dict[str, Any] = {name: value for name, value in row.items() if name != "position"}
    names, places = ", ".join(stored), ", ".join(f":{name}" for name in stored)
    connection.execute(f"INSERT INTO {table} ({names}) VALUES ({places})", stored)
