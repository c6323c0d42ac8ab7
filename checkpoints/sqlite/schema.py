"""Segue's own tables, and the scripts that bring an older database up to date."""

import sqlite3
from collections.abc import Set as AbstractSet
from contextlib import closing
from functools import cache

from segue.core.errors import DatabaseUnavailable

from ..database import check_schema_version

FIRST = 14
"""The schema version that the first published Segue begins with: earlier ones were never published."""

# A call's result is stored with the call alone, that of a task with the task: the view has the events as they are.
_EVENT_LOG = """CREATE VIEW event_log AS
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

_BASELINE = (
    # LangGraph's own tables, which its saver may have created. Added are a checksum of each row's key
    # and how many of the writes that led to a checkpoint are kept.
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
    """CREATE TABLE leases (
        thread_id TEXT PRIMARY KEY,
        owner TEXT NOT NULL,
        fence INTEGER NOT NULL,
        expires_at REAL NOT NULL
    )""",
    # Who waits for a thread's lease, first come first served.
    """CREATE TABLE lease_queue (
        position INTEGER PRIMARY KEY AUTOINCREMENT,
        thread_id TEXT NOT NULL,
        expires_at REAL NOT NULL
    )""",
    "CREATE INDEX lease_queue_of_thread ON lease_queue (thread_id, position)",
    # `requested` is pause or cancel where a person asked for it, `notes` a list of texts that steer the task, `answer`
    # what a person said to the question that it waited with: {"interrupt_id", "value"}. `copy_of` is the ended task
    # that this one repeats, in a thread that was forked or imported: it did not run here. `agents_file` is the absolute
    # path of the agents file that the task was started with, `attachments` a list of the files of its message, whose
    # contents are beside the database, `client_tools` the tools that its client carries out. `agent_digest` identifies
    # the definition of the agent that the task began with.
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
        updated_at REAL NOT NULL,
        requested TEXT,
        notes TEXT NOT NULL DEFAULT '[]',
        answer TEXT,
        rating INTEGER,
        copy_of TEXT,
        language TEXT,
        agents_file TEXT,
        attachments TEXT NOT NULL DEFAULT '[]',
        client_tools TEXT NOT NULL DEFAULT '[]',
        agent_digest TEXT
    )""",
    "CREATE INDEX tasks_of_thread ON tasks (thread_id, position)",
    "CREATE INDEX tasks_of_agent ON tasks (agent_id, position)",
    # What is counted for metrics: without the copies that forks and imports make.
    "CREATE INDEX tasks_of_status ON tasks (status, updated_at) WHERE copy_of IS NULL",
    "CREATE INDEX tasks_with_files ON tasks (position) WHERE attachments <> '[]'",
    # `source` is NULL for the runner's own events, which are never put twice. With row ids: without them SQLite moves
    # the end of a row of more than a kilobyte to a page of its own.
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
    # A call that is `orphaned` is unknown to the state, since its thread went back to an older checkpoint.
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
        orphaned INTEGER NOT NULL DEFAULT 0,
        checksum INTEGER NOT NULL,
        UNIQUE (thread_id, task_id, scope, idx)
    )""",
    _EVENT_LOG,
    "CREATE TABLE preferences (user_id TEXT PRIMARY KEY, default_mode TEXT NOT NULL)",
    # A tool that runs without approval for the rest of a task or of its session; `task_id` is where it was allowed,
    # `version` the digest of the tool that was allowed.
    """CREATE TABLE permissions (
        thread_id TEXT NOT NULL,
        agent_id TEXT NOT NULL,
        tool TEXT NOT NULL,
        scope TEXT NOT NULL,
        task_id TEXT NOT NULL,
        granted_at REAL NOT NULL,
        version TEXT NOT NULL DEFAULT '',
        PRIMARY KEY (thread_id, agent_id, tool, scope, task_id)
    ) WITHOUT ROWID""",
    # Names that persons gave to threads.
    "CREATE TABLE titles (thread_id TEXT PRIMARY KEY, title TEXT NOT NULL) WITHOUT ROWID",
    # What a client's idempotency key stands for: a task, what continued it after its event `seq`, or with no task a
    # thread. `digest` is of the request, `about` what its client reads back of it.
    """CREATE TABLE request_keys (
        key TEXT PRIMARY KEY,
        task_id TEXT NOT NULL,
        thread_id TEXT NOT NULL,
        seq INTEGER NOT NULL DEFAULT 0,
        digest TEXT NOT NULL DEFAULT '',
        about TEXT NOT NULL DEFAULT '{}'
    ) WITHOUT ROWID""",
    "CREATE INDEX request_keys_of_task ON request_keys (task_id, seq)",
    # What a person or a client chose for a thread, which may have no task yet.
    """CREATE TABLE sessions (
        thread_id TEXT PRIMARY KEY,
        agent_id TEXT NOT NULL,
        model TEXT NOT NULL,
        metadata TEXT NOT NULL,
        created_at REAL NOT NULL
    )""",
    # Contents of files that are kept though no task names them yet.
    """CREATE TABLE uploads (
        upload_id TEXT PRIMARY KEY,
        owner TEXT NOT NULL,
        digest TEXT NOT NULL,
        attachment TEXT NOT NULL,
        created_at REAL NOT NULL
    )""",
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
        DatabaseUnavailable: it has not, so its schema is damaged.
    """
    try:
        missing: AbstractSet[tuple[str, str, int]] = _whole_form() - set(connection.execute(_FORM))
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
            raise
        missing = {("sqlite_master", "sql", 0)}  # a definition that cannot be read
    if missing:
        table, column, _ = min(missing)
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
