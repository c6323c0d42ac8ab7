"""The tables of a SQLite file, and the scripts that bring an older database up to date."""

import sqlite3
from collections.abc import Set as AbstractSet
from contextlib import closing
from functools import cache

from segue.core.errors import DatabaseDamaged, DatabaseUnavailable

from ..database import check_schema_version
from ..tables.schema import tables

FIRST = 24
"""The schema version that the first published Segue begins with: earlier ones were never published."""

# A call's result is stored with the call alone, that of a task with the task, and the scope of a call in a column: the
# view has the events as they are.
_EVENT_LOG = """CREATE VIEW event_log AS
    SELECT events.task_id, seq, events.thread_id, source, ordinal, iif(
        events.scope IS NULL OR iif(typeof(event) = 'text', NOT json_valid(event), 1), event, json_replace(
            event, '$.data.scope', events.scope, '$.data.result', json(iif(
                json_valid(coalesce(result, outcome)), coalesce(result, outcome),
                '{"error": "This result cannot be read any more."}'
            ))
        )
    ) AS event
    FROM events LEFT JOIN calls ON (calls.thread_id, calls.task_id, calls.scope, calls.idx)
        = (events.thread_id, events.task_id, events.scope, events.idx)
    LEFT JOIN tasks ON tasks.task_id = events.task_id AND events.scope = ''"""

_TYPES = {
    "key": "TEXT",
    "position": "INTEGER PRIMARY KEY",
    "serial": "INTEGER PRIMARY KEY AUTOINCREMENT",
    "clustered": " WITHOUT ROWID",
}
_BASELINE = (
    # LangGraph's own tables, which its saver may have created. Added are a checksum of each row, and how many of the
    # writes that led to a checkpoint are kept.
    """CREATE TABLE IF NOT EXISTS checkpoints (
        thread_id TEXT NOT NULL,
        checkpoint_ns TEXT NOT NULL DEFAULT '',
        checkpoint_id TEXT NOT NULL,
        parent_checkpoint_id TEXT,
        type TEXT,
        checkpoint BLOB,
        metadata BLOB,
        PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id)
    )""",
    """CREATE TABLE IF NOT EXISTS writes (
        thread_id TEXT NOT NULL,
        checkpoint_ns TEXT NOT NULL DEFAULT '',
        checkpoint_id TEXT NOT NULL,
        task_id TEXT NOT NULL,
        task_path TEXT NOT NULL DEFAULT '',
        idx INTEGER NOT NULL,
        channel TEXT NOT NULL,
        type TEXT,
        value BLOB,
        PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx)
    ) WITHOUT ROWID""",
    "ALTER TABLE checkpoints ADD COLUMN kept_writes INTEGER",
    "ALTER TABLE checkpoints ADD COLUMN checksum INTEGER",
    "ALTER TABLE writes ADD COLUMN checksum INTEGER",
    *tables(_TYPES),
    _EVENT_LOG,
    # The long texts of a thread's state, compressed; `digest` is BLAKE2b's of 16 bytes.
    """CREATE TABLE texts (
        thread_id TEXT NOT NULL,
        digest BLOB NOT NULL,
        text BLOB NOT NULL,
        PRIMARY KEY (thread_id, digest)
    )""",
)

SCRIPTS: tuple[tuple[str, ...], ...] = (_BASELINE,)
"""The first creates the tables; each one after it takes a database to the next version."""
SCHEMA_VERSION = FIRST + len(SCRIPTS) - 1

_LANGGRAPH_TABLES = frozenset({"checkpoints", "writes"})

# Every column, with its place in the primary key and in each unique index.
_FORM = """
    SELECT tables.name, columns.name, columns.pk FROM sqlite_master AS tables, pragma_table_info(tables.name) AS columns
    WHERE tables.type IN ('table', 'view')
    UNION ALL
    SELECT tables.name, columns.name, -1 - columns.seqno
    FROM sqlite_master AS tables, pragma_index_list(tables.name) AS indexes, pragma_index_info(indexes.name) AS columns
    WHERE tables.type = 'table' AND indexes."unique"
"""


def check_version(connection: sqlite3.Connection, path: str) -> int:
    """Return the schema version, 0 for a database that is empty or holds only LangGraph's checkpoints.

    Raises:
        DatabaseTooNew: a newer Segue wrote it.
        DatabaseUnavailable: one before the first published version did, or another program wrote it.
    """
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not (("leases" in tables and version > 0) or (version == 0 and tables <= _LANGGRAPH_TABLES)):
        raise DatabaseUnavailable(
            "The database {path} belongs to another program: name a new file with --db.", path=path
        )
    check_schema_version(path, version, FIRST, SCHEMA_VERSION)
    return version


def upgrade(connection: sqlite3.Connection, path: str) -> None:
    """Bring the schema to SCHEMA_VERSION, inside the transaction that the caller began."""
    version = check_version(connection, path)
    for script in SCRIPTS[version - FIRST + 1 if version else 0 :]:
        for statement in script:
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def check_tables(connection: sqlite3.Connection, path: str) -> None:
    """Make sure that an upgraded database has all that Segue's statements name.

    Raises:
        DatabaseDamaged: it has not.
    """
    try:
        missing: AbstractSet[tuple[str, str, int]] = _whole_form() - set(connection.execute(_FORM))
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
            raise
        missing = {("sqlite_master", "sql", 0)}  # a definition that cannot be read
    if missing:
        table, column, _ = min(missing)
        raise DatabaseDamaged(
            "The database {path} is damaged ({table}.{column} has changed): restore it from a copy, or "
            "name a new file with --db.",
            path=path,
            table=table,
            column=column,
        )


@cache
def _whole_form() -> frozenset[tuple[str, str, int]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        for script in SCRIPTS:
            for statement in script:
                connection.execute(statement)
        return frozenset(connection.execute(_FORM))
