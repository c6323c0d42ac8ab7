"""Segue's own tables, and the scripts that bring an older database up to date."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from functools import cache

from segue.core.errors import DatabaseTooNew, DatabaseUnavailable

_EVENT_LOG_4 = """CREATE VIEW event_log AS
    SELECT events.task_id, seq, events.thread_id, source, ordinal, iif(
        events.scope IS NULL OR iif(typeof(event) = 'text', NOT json_valid(event), 1), event, json_set(
            event, '$.data.result',
            json(iif(json_valid(outcome), outcome, '{"error": "This result cannot be read any more."}'))
        )
    ) AS event
    FROM events LEFT JOIN calls ON (calls.thread_id, calls.task_id, calls.scope, calls.idx)
        = (events.thread_id, events.task_id, events.scope, events.idx)"""

_EVENT_LOG_8 = """CREATE VIEW event_log AS
    SELECT events.task_id, seq, events.thread_id, source, ordinal, iif(
        events.scope IS NULL OR iif(typeof(event) = 'text', NOT json_valid(event), 1), event, json_set(
            event, '$.data.result', json(iif(
                json_valid(coalesce(result, outcome)), coalesce(result, outcome),
                '{"error": "This result cannot be read any more."}'
            ))
        )
    ) AS event
    FROM events LEFT JOIN calls ON (calls.thread_id, calls.task_id, calls.scope, calls.idx)
        = (events.thread_id, events.task_id, events.scope, events.idx)
    LEFT JOIN tasks ON tasks.task_id = events.task_id AND events.scope = ''"""

# One script per version, in order: SCRIPTS[n] takes a database from version n to n + 1.
SCRIPTS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE leases (
            thread_id TEXT PRIMARY KEY,
            owner TEXT NOT NULL,
            fence INTEGER NOT NULL,
            expires_at REAL NOT NULL
        )""",
        """CREATE TABLE tasks (
            position INTEGER PRIMARY KEY,
            task_id TEXT NOT NULL UNIQUE,
            thread_id TEXT NOT NULL,
            agent_id TEXT NOT NULL,
            user_id TEXT NOT NULL,
            mode TEXT NOT NULL,
            model TEXT NOT NULL,
            status TEXT NOT NULL,
            message TEXT NOT NULL,
            error TEXT,
            result TEXT,
            created_at REAL NOT NULL,
            updated_at REAL NOT NULL
        )""",
        "CREATE INDEX tasks_of_thread ON tasks (thread_id, position)",
        "CREATE INDEX tasks_of_agent ON tasks (agent_id, position)",
        # `source` is NULL for the runner's own events, which are never put twice.
        """CREATE TABLE events (
            task_id TEXT NOT NULL,
            seq INTEGER NOT NULL,
            thread_id TEXT NOT NULL,
            source TEXT,
            ordinal INTEGER NOT NULL,
            event TEXT NOT NULL,
            PRIMARY KEY (task_id, seq),
            UNIQUE (thread_id, source, ordinal)
        ) WITHOUT ROWID""",
        """CREATE TABLE calls (
            position INTEGER PRIMARY KEY,
            thread_id TEXT NOT NULL,
            task_id TEXT NOT NULL,
            scope TEXT NOT NULL,
            idx INTEGER NOT NULL,
            name TEXT NOT NULL,
            arguments TEXT NOT NULL,
            state TEXT NOT NULL,
            outcome TEXT,
            fence INTEGER NOT NULL,
            started_at REAL NOT NULL,
            finished_at REAL,
            UNIQUE (thread_id, task_id, scope, idx)
        )""",
    ),
    (
        # `wanted` is pause or cancel where a person asked for it, `notes` a list of texts that steer the task,
        # `answer` what a person said to the question that it waited with: {"interrupt_id", "value"}.
        "ALTER TABLE tasks ADD COLUMN wanted TEXT",
        "ALTER TABLE tasks ADD COLUMN notes TEXT NOT NULL DEFAULT '[]'",
        "ALTER TABLE tasks ADD COLUMN answer TEXT",
        "ALTER TABLE tasks ADD COLUMN rating INTEGER",
        # The ended task that this one repeats, in a thread that was forked or imported: it did not run here.
        "ALTER TABLE tasks ADD COLUMN copy_of TEXT",
        # A call that the state knows nothing of any more, since its thread went back to an older checkpoint.
        "ALTER TABLE calls ADD COLUMN orphaned INTEGER NOT NULL DEFAULT 0",
        # Who waits for a thread's lease, first come first served.
        """CREATE TABLE line (
            position INTEGER PRIMARY KEY AUTOINCREMENT,
            thread_id TEXT NOT NULL,
            expires_at REAL NOT NULL
        )""",
        "CREATE INDEX line_of_thread ON line (thread_id, position)",
        """CREATE TABLE preferences (
            user_id TEXT PRIMARY KEY,
            default_mode TEXT NOT NULL
        )""",
    ),
    ("ALTER TABLE tasks ADD COLUMN language TEXT",),
    (
        # A result that is the outcome of a call is stored with the call alone, which has this scope and index.
        "ALTER TABLE events ADD COLUMN scope TEXT",
        "ALTER TABLE events ADD COLUMN idx INTEGER",
        _EVENT_LOG_4,
    ),
    (
        # The agents file that the task was started with, as an absolute path.
        "ALTER TABLE tasks ADD COLUMN agents_file TEXT",
        # A tool that runs without approval for the rest of a task or of its session; `task_id` is where it was allowed.
        """CREATE TABLE permissions (
            thread_id TEXT NOT NULL,
            agent_id TEXT NOT NULL,
            tool TEXT NOT NULL,
            scope TEXT NOT NULL,
            task_id TEXT NOT NULL,
            granted_at REAL NOT NULL,
            PRIMARY KEY (thread_id, agent_id, tool, scope, task_id)
        ) WITHOUT ROWID""",
    ),
    # Names that persons gave to threads.
    ("CREATE TABLE titles (thread_id TEXT PRIMARY KEY, title TEXT NOT NULL) WITHOUT ROWID",),
    (
        # The task that a client's idempotency key began.
        """CREATE TABLE request_keys (
            key TEXT PRIMARY KEY,
            task_id TEXT NOT NULL,
            thread_id TEXT NOT NULL
        ) WITHOUT ROWID""",
    ),
    (
        "DROP VIEW event_log",
        "ALTER TABLE events RENAME TO events_7",
        # With row ids: without them SQLite moves the end of a row of more than a kilobyte to a page of its own.
        """CREATE TABLE events (
            task_id TEXT NOT NULL,
            seq INTEGER NOT NULL,
            thread_id TEXT NOT NULL,
            source TEXT,
            ordinal INTEGER NOT NULL,
            event TEXT NOT NULL,
            scope TEXT,
            idx INTEGER,
            PRIMARY KEY (task_id, seq),
            UNIQUE (thread_id, source, ordinal)
        )""",
        """INSERT INTO events (task_id, seq, thread_id, source, ordinal, event, scope, idx)
            SELECT task_id, seq, thread_id, source, ordinal, event, scope, idx FROM events_7""",
        "DROP TABLE events_7",
        # The result of a task that is complete is stored with the task alone: its event has an empty scope.
        _EVENT_LOG_8,
        # The long texts of a thread's state, compressed; `digest` is BLAKE2b's of 16 bytes.
        """CREATE TABLE texts (
            thread_id TEXT NOT NULL,
            digest BLOB NOT NULL,
            text BLOB NOT NULL,
            PRIMARY KEY (thread_id, digest)
        )""",
    ),
    (
        # A key also stands for what continued a task after its event `seq`, or for a thread, with no task. `digest` is
        # of the request, `about` what its client reads back of it.
        "ALTER TABLE request_keys ADD COLUMN seq INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE request_keys ADD COLUMN digest TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE request_keys ADD COLUMN about TEXT NOT NULL DEFAULT '{}'",
        "CREATE INDEX request_keys_of_task ON request_keys (task_id, seq)",
        # What a person or a client chose for a thread, which may have no task yet.
        """CREATE TABLE sessions (
            thread_id TEXT PRIMARY KEY,
            agent_id TEXT NOT NULL,
            model TEXT NOT NULL,
            metadata TEXT NOT NULL,
            created_at REAL NOT NULL
        )""",
    ),
    # What is counted for metrics: without the copies that forks and imports make.
    ("CREATE INDEX tasks_of_status ON tasks (status, updated_at) WHERE copy_of IS NULL",),
    (
        # The files of a message, as a list; their contents are beside the database.
        "ALTER TABLE tasks ADD COLUMN attachments TEXT NOT NULL DEFAULT '[]'",
        "CREATE INDEX tasks_with_files ON tasks (position) WHERE attachments <> '[]'",
        # Contents that are kept though no task names them yet.
        """CREATE TABLE uploads (
            upload_id TEXT PRIMARY KEY,
            owner TEXT NOT NULL,
            digest TEXT NOT NULL,
            attachment TEXT NOT NULL,
            created_at REAL NOT NULL
        )""",
    ),
    # The tools that a task's client carries out.
    ("ALTER TABLE tasks ADD COLUMN client_tools TEXT NOT NULL DEFAULT '[]'",),
    # Identifies the definition of the agent that the task began with.
    ("ALTER TABLE tasks ADD COLUMN agent_digest TEXT",),
)
SCHEMA_VERSION = len(SCRIPTS)

_OF_BOTH = ("thread_id", "checkpoint_ns", "checkpoint_id", "type")
_LANGGRAPH_TABLES: Mapping[str, tuple[str, ...]] = {
    "checkpoints": (*_OF_BOTH, "parent_checkpoint_id", "checkpoint", "metadata"),
    "writes": (*_OF_BOTH, "task_id", "idx", "channel", "value"),
}
"""LangGraph's own tables, with the columns that its saver names; it creates them when it first needs them."""

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
        DatabaseUnavailable: another program wrote it.
    """
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not ("leases" in tables or (version == 0 and tables <= set(_LANGGRAPH_TABLES))):
        raise DatabaseUnavailable(
            "The database {path} belongs to another program: name a new file with --db.", path=path
        )
    if version > SCHEMA_VERSION:
        raise DatabaseTooNew(path, version, SCHEMA_VERSION)
    return version


def upgrade(connection: sqlite3.Connection, path: str) -> None:
    """Bring the schema to SCHEMA_VERSION, inside the transaction that the caller began."""
    for version in range(check_version(connection, path), SCHEMA_VERSION):
        for statement in SCRIPTS[version]:
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def check_tables(connection: sqlite3.Connection, path: str) -> None:
    """Make sure that an upgraded database has all that Segue's statements name.

    Raises:
        DatabaseUnavailable: it has not, so its schema is damaged.
    """
    found = set(connection.execute(_FORM))
    columns = {(table, column) for table, column, _ in found}
    missing = [place[:2] for place in _whole_form() - found]
    for table in _LANGGRAPH_TABLES.keys() & {table for table, _ in columns}:
        missing += [(table, column) for column in _LANGGRAPH_TABLES[table] if (table, column) not in columns]
    if missing:
        table, column = min(missing)
        raise DatabaseUnavailable(
            "The database {path} is damaged ({table}.{column} is not what it was): restore it from a copy, or "
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
