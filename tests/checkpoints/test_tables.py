"""The tables of the database: their records, and what a deleted session leaves in them."""

from collections.abc import Iterable
from contextlib import closing
from typing import Any

from segue.checkpoints.postgres.database import PostgresDatabase
from segue.checkpoints.schema import BESIDE, RECOVERED
from segue.core.records import names_of

from .worlds import World, note_up_to

OF_THE_STATEMENTS = {
    "tasks": {"position"},
    "events": {"scope", "idx"},
    "calls": {"position", "checksum"},
    "spend": {"scope"},
}
"""Columns that no record has: only statements read them."""
STAY = {"audit", "graph_objects", "graph_events"}
"""Of the audit log, and of threads of LangGraph's API, which are deleted with their thread."""
_SQLITE = """
    SELECT sqlite_master.name, info.name, info.type
    FROM sqlite_master JOIN pragma_table_info(sqlite_master.name) AS info WHERE sqlite_master.type = 'table'
"""
_POSTGRES = """
    SELECT table_name, column_name, data_type FROM information_schema.columns JOIN information_schema.tables
    USING (table_schema, table_name)
    WHERE table_schema = 'segue' AND table_type = 'BASE TABLE' AND is_generated = 'NEVER'
"""


def columns_of(here: World, connection: Any) -> dict[str, dict[str, str]]:
    """The types of the columns of each table that the database has."""
    found: dict[str, dict[str, str]] = {}
    for table, column, kind in connection.execute(_POSTGRES if is_postgres(here) else _SQLITE).fetchall():
        found.setdefault(table, {})[column] = kind.lower()
    return found


def is_postgres(here: World) -> bool:
    return isinstance(here.database, PostgresDatabase)


def rows_of(connection: Any, tables: Iterable[str], thread_id: str) -> dict[str, int]:
    """How many rows of a thread each of the tables has."""
    count = "SELECT count(*) FROM {} WHERE thread_id = '{}'"
    return {table: connection.execute(count.format(table, thread_id)).fetchone()[0] for table in tables}


def add_row(connection: Any, table: str, columns: dict[str, str], thread_id: str) -> None:
    """Store a row of a thread, whatever its other columns may mean."""
    values: dict[str, str] = {}
    for name, kind in columns.items():
        if name == "thread_id":
            values[name] = f"'{thread_id}'"
        elif any(number in kind for number in ("int", "double", "real", "numeric", "serial")):
            values[name] = "999"
        else:
            values[name] = "'x'"
    names = ", ".join(values)
    connection.execute(f"INSERT INTO {table} ({names}) VALUES ({', '.join(values.values())})")


async def test_every_column_is_a_field_of_its_tables_record(here: World) -> None:
    with closing(here.connect()) as connection:
        columns = columns_of(here, connection)
    for table, record in {**RECOVERED, **BESIDE}.items():
        assert columns[table].keys() - OF_THE_STATEMENTS.get(table, set()) == {*names_of(record)}, table


async def test_a_deleted_session_leaves_no_row_in_any_table(here: World) -> None:
    here.register("a", note_up_to(1), "react")
    await here.run("note one", "gone")
    await here.run("note one", "kept")
    with closing(here.connect()) as connection:
        tables = {name: columns for name, columns in columns_of(here, connection).items() if "thread_id" in columns}
        terms = connection.execute("SELECT count(*) FROM search_terms").fetchone()[0]
        for table, count in rows_of(connection, tables, "gone").items():
            if not count:
                add_row(connection, table, tables[table], "gone")
        connection.commit()
        assert all(rows_of(connection, tables, "gone").values())
        kept = rows_of(connection, tables, "kept")
        connection.rollback()
        await here.app.sessions.delete("gone")
        left = {table for table, count in rows_of(connection, tables, "gone").items() if count}
        assert left == STAY, f"{left - STAY} keep rows of a deleted session: see OF_SESSIONS of checkpoints/schema.py"
        assert rows_of(connection, tables, "kept") == kept
        assert 2 * connection.execute("SELECT count(*) FROM search_terms").fetchone()[0] == terms
