"""The tables of a PostgreSQL database, and the scripts that bring an older one up to date."""

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from importlib.metadata import distribution
from pathlib import Path

from langgraph.checkpoint.postgres import PostgresSaver
from psycopg.rows import dict_row

from segue.core.errors import DatabaseUnavailable

from ..database import check_schema_version
from ..ports import Connection
from ..tables.schema import tables
from .connection import CHANNEL, SCHEMA, PostgresConnection, unavailable
from .state import COLUMNS, WRITES

QUEUED_TASK = "segue.run"
"""The one task of the queue: its jobs carry the id of a task of Segue, and nothing else."""

LONGEST = 32
"""Bytes of an agent's id and version in the name of its queue: that is part of a channel's, which may have 63."""

FIRST_MIGRATION = "03.04.00_50_post_add_retry_failed_job_procedure.sql"
"""The last migration of the oldest procrastinate that is supported; the table's comment names a later one."""

_LAST_MIGRATION = "SELECT obj_description('procrastinate_jobs'::regclass)"

# Which queue a task waits in: its agent's, so that only workers that have the agent fetch it.
_QUEUE = f"""
    CREATE FUNCTION segue_queue(agent text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
        SELECT 'segue:' || CASE WHEN octet_length(agent) <= {LONGEST} THEN agent
            ELSE left(encode(sha256(convert_to(agent, 'UTF8')), 'hex'), {LONGEST}) END
    $$
"""
# One job that nobody fetched yet is enough for a task: who fetches it finds what was committed before. A task that has
# begun goes before those that have not. Of those, tenants take turns (start-time fair queueing): a job comes behind the
# newest one of its tenant, and not before the one that is next. It waits for the workers that have its agent as it was
# when the task began; where a worker with another version of the agent takes it, its job moves to that worker's queue.
_WAKE = f"""
    CREATE FUNCTION segue_wake(task text, agent text, version text, began boolean) RETURNS void LANGUAGE plpgsql AS $$
    DECLARE
        queue text := segue_queue(agent || coalesce(':' || version, ''));
        owner text := (
            SELECT CASE WHEN strpos(thread_id, ':') > 0 THEN split_part(thread_id, ':', 1) ELSE '' END
            FROM tasks WHERE task_id = task
        );
        turn integer := 0;
    BEGIN
        DELETE FROM procrastinate_jobs WHERE queueing_lock = task AND status = 'todo' AND queue_name <> queue;
        IF NOT began THEN
            SELECT 1 + greatest(
                coalesce(min(-priority) - 1, 0), coalesce(max(-priority) FILTER (WHERE args ->> 'tenant' = owner), 0)
            ) INTO turn FROM procrastinate_jobs WHERE status = 'todo' AND priority <= 0;
        END IF;
        PERFORM procrastinate_defer_jobs_v1(ARRAY[ROW(
            queue, '{QUEUED_TASK}', CASE WHEN began THEN 1 ELSE -turn END, NULL, task,
            jsonb_build_object('task_id', task, 'tenant', owner), NULL
        )::procrastinate_job_to_defer_v1]);
    EXCEPTION WHEN unique_violation THEN NULL;
    END $$
"""
# Whoever lets a session go wakes a worker for its task, if that is to continue, in the transaction that does so.
_RELEASED = f"""
    CREATE FUNCTION segue_released() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE newest record;
    BEGIN
        SELECT task_id, agent_id, agent_version, status INTO newest FROM tasks
        WHERE thread_id = NEW.thread_id ORDER BY position DESC LIMIT 1;
        IF newest.status IN ('pending', 'running', 'pausing') THEN
            PERFORM segue_wake(newest.task_id, newest.agent_id, newest.agent_version, newest.status <> 'pending');
        END IF;
        PERFORM pg_notify('{CHANNEL}', json_build_object('thread', NEW.thread_id)::text);
        RETURN NULL;
    END $$
"""
_ON_RELEASE = """
    CREATE TRIGGER segue_released AFTER UPDATE OF owner ON leases
    FOR EACH ROW WHEN (OLD.owner <> '' AND NEW.owner = '') EXECUTE FUNCTION segue_released()
"""
_REQUESTED = f"""
    CREATE FUNCTION segue_requested() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM pg_notify('{CHANNEL}', '{{"of": "requests"}}');
        RETURN NULL;
    END $$
"""
_ON_REQUEST = """
    CREATE TRIGGER segue_requested AFTER UPDATE OF requested ON tasks
    FOR EACH ROW WHEN (NEW.requested IS NOT NULL AND NEW.requested IS DISTINCT FROM OLD.requested)
    EXECUTE FUNCTION segue_requested()
"""
_WORKERS = """
    CREATE TABLE workers (
        owner text COLLATE "C" PRIMARY KEY,
        agents text NOT NULL,
        modes text NOT NULL,
        upgrades text NOT NULL,
        concurrency bigint NOT NULL,
        running bigint NOT NULL,
        started_at double precision NOT NULL,
        seen_at double precision NOT NULL
    )
"""
_TO_RUN = "CREATE INDEX tasks_to_run ON tasks (position) WHERE status IN ('pending', 'running', 'pausing')"

WAKING = (_WORKERS, _TO_RUN, _QUEUE, _WAKE, _RELEASED, _ON_RELEASE, _REQUESTED, _ON_REQUEST)
"""After procrastinate's own tables, which have their own versions."""


def queues_of(agents: Mapping[str, Collection[str]]) -> list[str]:
    """The names of the queues of these agents' tasks, as `segue_wake` gives them; `agents` are versions by id."""
    names = [*agents, *(f"{agent}:{version}" for agent, versions in agents.items() for version in versions)]
    return [f"segue:{name if len(name.encode()) <= LONGEST else _short(name)}" for name in names]


def _short(name: str) -> str:
    return sha256(name.encode()).hexdigest()[:LONGEST]


def missing_migrations(connection: Connection, path: str) -> list[Path]:
    """The files of the installed procrastinate that its tables lack.

    Raises:
        DatabaseUnavailable: a newer procrastinate created or upgraded them.
    """
    stored = connection.execute(_LAST_MIGRATION).fetchone()[0] or FIRST_MIGRATION
    folder = Path(str(distribution("procrastinate").locate_file("procrastinate/sql/migrations")))
    installed = sorted(folder.glob("*.sql"))
    if stored > installed[-1].name:
        raise unavailable(
            path,
            "has the queue of a newer procrastinate than the one that is installed: install the version of that "
            "package that the other processes have",
        )
    return [file for file in installed if file.name > stored]


def install_queue(connection: Connection, path: str) -> None:
    """Create procrastinate's tables, or bring them up to date."""
    from procrastinate.schema import SchemaManager

    if connection.execute("SELECT to_regclass('procrastinate_jobs')").fetchone()[0] is None:
        connection.execute(SchemaManager.get_schema())
        missing = missing_migrations(connection, path)[-1:]
    else:
        missing = missing_migrations(connection, path)
        for file in missing:
            connection.execute(file.read_text(encoding="utf-8"))
    if missing:
        connection.execute(f"COMMENT ON TABLE procrastinate_jobs IS '{missing[-1].name}'")


OLDEST_SERVER = 14
"""The first major version of PostgreSQL that is supported."""
LOCK_TIMEOUT = 30.0
"""Seconds to wait for another process that creates or upgrades the schema."""

_LOCK = 0x5E90E
"""The advisory lock under which the schema changes."""

# The text of a row's own result stays as it was written: `json`, unlike `jsonb`, keeps it.
_EVENT_LOG = """CREATE VIEW event_log AS
    SELECT events.task_id, seq, events.thread_id, source, ordinal, CASE WHEN events.scope IS NULL THEN event ELSE (
        SELECT json_object_agg(part.key, CASE WHEN part.key <> 'data' THEN part.value ELSE (
            SELECT json_object_agg(field.key, CASE
                WHEN field.key = 'result' THEN CAST(coalesce(result, outcome) AS json)
                WHEN field.key = 'scope' THEN to_json(events.scope) ELSE field.value
            END) FROM json_each(part.value) AS field
        ) END) FROM json_each(CAST(event AS json)) AS part
    )::text END AS event
    FROM events LEFT JOIN calls ON (calls.thread_id, calls.task_id, calls.scope, calls.idx)
        = (events.thread_id, events.task_id, events.scope, events.idx)
    LEFT JOIN tasks ON tasks.task_id = events.task_id AND events.scope = ''"""

FIRST = 16
"""The schema version that the first published Segue begins with: earlier ones were never published."""

# A key has the collation "C", as in SQLite: it is compared by its bytes, whatever the database's language.
_TYPES = {
    "key": 'TEXT COLLATE "C"',
    "position": "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY",
    "serial": "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY",
    "clustered": "",
}
_BASELINE = (
    *tables(_TYPES),
    _EVENT_LOG,
    # A change of `fence` waits for the transactions that checked it; one of `expires_at` does not, since it is in
    # no unique index.
    "CREATE UNIQUE INDEX leases_with_fence ON leases (thread_id, fence)",
    "ALTER TABLE leases SET (fillfactor = 70)",
    "INSERT INTO leases (thread_id, owner, fence, expires_at) VALUES ('', '', 0, 0)",
    "ALTER TABLE tasks SET (fillfactor = 85)",
    "CREATE INDEX tasks_of_user ON tasks (user_id, position)",
    "CREATE INDEX request_keys_of_thread ON request_keys (thread_id)",
    # Contents of files.
    'CREATE TABLE files (digest TEXT COLLATE "C" PRIMARY KEY, content BYTEA NOT NULL)',
    COLUMNS,
    WRITES,
    *WAKING,
)

SCRIPTS: tuple[tuple[str, ...], ...] = (_BASELINE,)
"""The first creates the tables; each one after it takes a database to the next version."""
SCHEMA_VERSION = FIRST + len(SCRIPTS) - 1

_BEGINNING = f"""
    CREATE SCHEMA IF NOT EXISTS {SCHEMA};
    CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL);
    INSERT INTO schema_version SELECT 0 WHERE NOT EXISTS (SELECT FROM schema_version);
"""
_VERSION = "SELECT version FROM schema_version"
_TABLES = f"SELECT count(*) FROM pg_tables WHERE schemaname = '{SCHEMA}'"
_LANGGRAPH = "SELECT coalesce(max(v), -1) FROM checkpoint_migrations"


def check_server(connection: PostgresConnection, path: str) -> None:
    """Make sure that the server can hold a database of ours.

    Raises:
        DatabaseUnavailable: it is too old, or the database has another encoding than UTF-8.
    """
    found = connection.raw.info.server_version // 10_000
    if found < OLDEST_SERVER:
        raise DatabaseUnavailable(
            "The server of the database {path} runs PostgreSQL {found} and Segue needs {oldest} or newer: upgrade the "
            "server, or name another one with --db.",
            path=path,
            found=found,
            oldest=OLDEST_SERVER,
        )
    encoding = connection.raw.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise DatabaseUnavailable(
            "The database {path} has the encoding {encoding} and Segue needs UTF8: create one with "
            "`createdb --encoding=UTF8 --template=template0`, and name it with --db.",
            path=path,
            encoding=encoding,
        )


def version_of(connection: PostgresConnection, path: str) -> int:
    """Return the schema version, 0 for a database without Segue's schema.

    Raises:
        DatabaseTooNew: a newer Segue wrote it.
        DatabaseUnavailable: one before the first published version did, or the schema belongs to another program.
    """
    if connection.execute(f"SELECT to_regclass('{SCHEMA}.schema_version')").fetchone()[0] is None:
        if connection.execute(_TABLES).fetchone()[0]:
            raise unavailable(path, 'has a schema "segue" of another program: name another one with --db')
        return 0
    version = int(connection.execute(_VERSION).fetchone()[0])
    check_schema_version(path, version, FIRST, SCHEMA_VERSION)
    return version


def prepare(connection: PostgresConnection, path: str) -> None:
    """Create the tables, or bring them up to date; of several processes one does so, and the others wait."""
    check_server(connection, path)
    if _is_current(connection, path):
        return
    with _locked(connection, path):
        if not _is_current(connection, path):
            with connection.raw.transaction():
                connection.execute(_BEGINNING)
            _langgraph(connection)
            install_queue(connection, path)
            with connection.raw.transaction():
                upgrade(connection, version_of(connection, path))


def upgrade(connection: PostgresConnection, version: int) -> None:
    """Bring the schema to SCHEMA_VERSION, inside the transaction that the caller began."""
    for script in SCRIPTS[version - FIRST + 1 if version else 0 :]:
        for statement in script:
            connection.execute(statement)
    connection.execute("UPDATE schema_version SET version = ?", (SCHEMA_VERSION,))


def _is_current(connection: PostgresConnection, path: str) -> bool:
    return (
        version_of(connection, path) == SCHEMA_VERSION
        and connection.execute(_LANGGRAPH).fetchone()[0] == len(PostgresSaver.MIGRATIONS) - 1
        and not missing_migrations(connection, path)
    )


def _langgraph(connection: PostgresConnection) -> None:
    """Create LangGraph's own tables; some of its statements refuse to run inside a transaction."""
    raw = connection.raw
    factory, raw.row_factory = raw.row_factory, dict_row
    try:
        PostgresSaver(raw).setup()
    finally:
        raw.row_factory = factory


@contextmanager
def _locked(connection: PostgresConnection, path: str) -> Iterator[None]:
    """Hold the lock of the schema, asking for it again and again: whoever waits for it would hinder LangGraph's set-up.

    Raises:
        DatabaseUnavailable: another process holds it.
    """
    deadline = time.monotonic() + LOCK_TIMEOUT
    while not connection.execute("SELECT pg_try_advisory_lock(?)", (_LOCK,)).fetchone()[0]:
        if time.monotonic() > deadline:
            raise unavailable(path, "is locked by another process: end that process's transaction, then resume")
        time.sleep(0.05)
    try:
        yield
    finally:
        connection.execute("SELECT pg_advisory_unlock(?)", (_LOCK,))
