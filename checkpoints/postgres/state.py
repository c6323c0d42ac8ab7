"""The state of threads in PostgreSQL: connections, the schema, checkpoints and the values of their channels."""

import contextlib
import copy
import json
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from hashlib import sha256
from importlib.metadata import distribution
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, cast

import psycopg
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, ChannelVersions, Checkpoint, CheckpointMetadata
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from psycopg import RawCursor, errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import RowMaker, dict_row

from segue.core.errors import Clause, DatabaseDamaged, DatabaseUnavailable, DatabaseUnreachable, InvalidMessage
from segue.core.task import ACTIVE, TaskStatus

from ..database import check_schema_version
from ..ports import CheckpointRow, Connection, Cursor, Decoded, Place, Stored, Values, WriteRow, sql_list
from ..rows import (
    SERDE,
    DecodedOnce,
    Undecodable,
    check_row,
    compressed,
    decompressed,
    drop_superseded_writes,
    named,
    sealed_checkpoint,
    value_checksum,
)
from ..schema import tables

_MOST_INLINE = 256
"""Characters of a text that is stored in the checkpoint itself."""


class RawConnection(Connection, Protocol):
    """A connection with psycopg's own, for statements of others."""

    @property
    def raw(self) -> "psycopg.Connection[Any]": ...


class Statements(PostgresSaver):
    """The statements that LangGraph's saver names for one write."""

    UPSERT_CHECKPOINTS_SQL = """
        INSERT INTO checkpoints (
            thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, checkpoint, metadata,
            kept_writes, checksum, stored_values
        )
        VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)
        ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id) DO UPDATE SET
            parent_checkpoint_id = EXCLUDED.parent_checkpoint_id, checkpoint = EXCLUDED.checkpoint,
            metadata = EXCLUDED.metadata, kept_writes = EXCLUDED.kept_writes, checksum = EXCLUDED.checksum,
            stored_values = EXCLUDED.stored_values
    """
    INSERT_CHECKPOINT_WRITES_SQL = """
        INSERT INTO checkpoint_writes
            (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, blob, checksum)
        VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
        ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id, task_id, idx) DO NOTHING
    """
    UPSERT_CHECKPOINT_WRITES_SQL = """
        INSERT INTO checkpoint_writes
            (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, blob, checksum)
        VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
        ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id, task_id, idx) DO UPDATE SET
            channel = EXCLUDED.channel, type = EXCLUDED.type, blob = EXCLUDED.blob, checksum = EXCLUDED.checksum
    """

    UPSERT_CHECKPOINT_BLOBS_SQL = """
        INSERT INTO checkpoint_blobs (thread_id, checkpoint_ns, channel, version, type, blob, checksum)
        VALUES (%s, %s, %s, %s, %s, %s, %s)
        ON CONFLICT (thread_id, checkpoint_ns, channel, version) DO NOTHING
    """

    def __init__(self) -> None:
        super().__init__(cast(Any, None), serde=SERDE)
        self._collected: list[tuple[str, Sequence[Sequence[Any]]]] = []
        self._values = 0

    def for_write(self) -> Self:
        """A copy for one write: LangGraph's initialisation would take longer than to collect the statements."""
        other = copy.copy(self)
        other._collected = []
        return other

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """As LangGraph, with the texts by themselves that are long, or that JSON in PostgreSQL cannot hold."""
        values = checkpoint["channel_values"]
        versioned = (value for name, value in values.items() if name in checkpoint["channel_versions"])
        self._values = sum(not _is_inline(value) for value in versioned)
        texts = {name: text for name, text in values.items() if isinstance(text, str) and not _is_inline(text)}
        others = {name: value for name, value in values.items() if name not in texts}
        place = config["configurable"]
        new = {name: version for name, version in new_versions.items() if name in texts}
        if new:
            rows = self._dump_blobs(place["thread_id"], place["checkpoint_ns"], texts, new)
            self.executemany(self.UPSERT_CHECKPOINT_BLOBS_SQL, rows)
        return super().put(config, {**checkpoint, "channel_values": others}, metadata, new_versions)

    @contextmanager
    def _cursor(self, *, pipeline: bool = False) -> Iterator[Any]:
        """This, in place of a cursor."""
        yield self

    def execute(self, statement: str, values: Sequence[Any]) -> None:
        self._collected.append((statement, [values]))

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        if collected := [*rows]:
            self._collected.append((statement, collected))

    def run(self, connection: Connection, kept: int | None = None) -> None:
        """Execute what was collected."""
        for key, metadata in self.store(cast(RawConnection, connection), kept):
            drop_superseded_writes(connection, key, metadata, kept)

    def store(self, connection: RawConnection, kept: int | None = None) -> list[tuple[Sequence[Any], str]]:
        """Execute what was collected, each row with its checksum; returns the keys and metadata of checkpoints."""
        stored: list[tuple[Sequence[Any], str]] = []
        with connection.raw.cursor() as cursor:
            for statement, rows in self._collected:
                if "INTO checkpoints" in statement:
                    for *key, checkpoint, metadata in rows:
                        noted = json.dumps(metadata.obj)
                        sealed = sealed_checkpoint(connection, key, noted, key[2], None, kept)
                        cursor.execute(statement.encode(), (*key, checkpoint, metadata, *sealed, self._values))
                        stored.append((key, noted))
                elif "INTO checkpoint_writes" in statement:
                    cursor.executemany(statement.encode(), map(_sealed_write, rows))
                else:
                    cursor.executemany(statement.encode(), map(_sealed_value, rows))
        return stored


def _sealed_write(row: Sequence[Any]) -> Sequence[Any]:
    *place, _, idx, channel, kind, value = row
    return (*row, value_checksum((*place, idx, channel), kind, value))


def _sealed_value(row: Sequence[Any]) -> Sequence[Any]:
    *key, version, kind, value = row
    return (*row, value_checksum((*key, str(version)), kind, value))


def _is_inline(value: Any) -> bool:
    """Whether a value is stored in the checkpoint itself."""
    if isinstance(value, str):
        return len(value) <= _MOST_INLINE and "\0" not in value and not any(map(_is_surrogate, value))
    return value is None or isinstance(value, int | float)


def _is_surrogate(character: str) -> bool:
    return "\ud800" <= character <= "\udfff"


# What the other tables call `writes` is LangGraph's table, whose values have another name here.
WRITES = """
    CREATE VIEW writes AS
    SELECT thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, blob AS value, checksum
    FROM checkpoint_writes
"""
# A checksum of each row; how many of the writes that led to a checkpoint are kept, and how many values of it are
# stored by themselves.
COLUMNS = """
    ALTER TABLE checkpoints
        ADD COLUMN kept_writes INTEGER, ADD COLUMN stored_values INTEGER, ADD COLUMN checksum BIGINT;
    ALTER TABLE checkpoint_writes ADD COLUMN checksum BIGINT;
    ALTER TABLE checkpoint_blobs ADD COLUMN checksum BIGINT
"""
_AT = "thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"
_CHECKPOINT = f"SELECT stored_values, checkpoint FROM checkpoints WHERE {_AT}"
_VALUE_KEY = ("thread_id", "checkpoint_ns", "channel", "version")
_VALUES = """
    SELECT {}
    FROM checkpoints
    CROSS JOIN jsonb_each_text(checkpoint -> 'channel_versions') AS versions
    JOIN checkpoint_blobs AS blobs ON blobs.thread_id = checkpoints.thread_id
        AND blobs.checkpoint_ns = checkpoints.checkpoint_ns
        AND blobs.channel = versions.key AND blobs.version = versions.value
    WHERE checkpoints.thread_id = ? AND checkpoints.checkpoint_ns = ? AND checkpoints.checkpoint_id = ?
"""
_CONTENTS = _VALUES.format("blobs.channel, blobs.type, blobs.blob")
_CHECKED = _VALUES.format(
    f"{', '.join(f'blobs.{name}' for name in _VALUE_KEY)}, blobs.type AS kind, blobs.checksum,"
    " substr(blobs.blob, length(blobs.blob) - 7) AS ending"
)
_PUT_WRITE = """
    INSERT INTO writes
        (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value, checksum)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_DROP_STEP = f"DELETE FROM writes WHERE {_AT} AND task_id = ?"
_DROP_UNUSED = """
    DELETE FROM checkpoint_blobs WHERE thread_id = :thread AND (checkpoint_ns, channel, version) NOT IN (
        SELECT checkpoint_ns, versions.key, versions.value
        FROM checkpoints CROSS JOIN jsonb_each_text(checkpoint -> 'channel_versions') AS versions
        WHERE thread_id = :thread
    )
"""


class PostgresState:
    """The state of threads on a connection."""

    tables: ClassVar[tuple[str, ...]] = ("checkpoints", "writes", "checkpoint_blobs")
    content: ClassVar[str] = "checkpoints.checkpoint ->> 'id' AS kind, NULL AS ending"

    def __init__(self, connection: RawConnection) -> None:
        self._connection = connection

    @contextmanager
    def view(self) -> Iterator[None]:
        with self._connection.raw.transaction():
            self._connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            yield

    def reader(
        self, serde: SerializerProtocol, thread_id: str | None, decoded: Decoded | None = None
    ) -> BaseCheckpointSaver[str]:
        return PostgresSaver(self._connection.raw, serde=serde if decoded is None else DecodedOnce(serde, decoded))

    def whole(self, thread_id: str, value: Stored) -> Stored:
        with named():
            return decompressed(value[0], bytes(value[1]))

    def checkpoint(self, place: Place) -> Stored:
        self.check_values(place)
        checkpoint = self._connection.execute(_CHECKPOINT, place).fetchone()["checkpoint"]
        values = dict(checkpoint["channel_values"])
        for channel, kind, data in self._connection.execute(_CONTENTS, place):
            value = SERDE.loads_typed((kind, data))
            # A log that was stored whole at another checkpoint has the same version there; its own is marked.
            if channel in values or not isinstance(value, _DeltaSnapshot):
                values[channel] = value
        return SERDE.plain_typed({**checkpoint, "channel_values": values})

    def check_values(self, place: Place) -> None:
        row = self._connection.execute(_CHECKPOINT, place).fetchone()
        if row is None:
            return
        values = self._connection.execute(_CHECKED, place).fetchall()
        for value in values:
            check_row(value, _VALUE_KEY)
        if len(values) < (row["stored_values"] or 0):
            raise Undecodable("the value of a channel of it is missing")

    def put_checkpoint(self, thread_id: str, row: CheckpointRow) -> None:
        with named():
            checkpoint: Any = SERDE.loads_typed(row.state)
        place = {"thread_id": thread_id, "checkpoint_ns": row.inside, "checkpoint_id": row.parent_id}
        statements = Statements()
        statements.put({"configurable": place}, checkpoint, json.loads(row.metadata), checkpoint["channel_versions"])
        statements.store(self._connection)

    def put_write(self, thread_id: str, row: WriteRow) -> None:
        place = (thread_id, row.inside, row.checkpoint_id, row.task_id)
        values = _sealed_write((*place, row.task_path, row.idx, row.channel, *compressed(*row.value)))
        self._connection.execute(_PUT_WRITE, values)

    def drop_step(self, thread_id: str, inside: str, checkpoint_id: str, step: str | bytes | None) -> None:
        self._connection.execute(_DROP_STEP, (thread_id, inside, checkpoint_id, step))

    def drop_unused(self, thread_id: str) -> None:
        self._connection.execute(_DROP_UNUSED, {"thread": thread_id})


# One connection to a PostgreSQL server, read and written as the tables do.

SCHEMA = "segue"
"""The schema of all tables, those of LangGraph and of the queue as well."""
CHANNEL = "segue"
"""The channel of the notifications."""
STREAMS = "segue_streams"
"""The channel of deltas."""

LONGEST_PAYLOAD = 7999
"""Bytes of a notification at most."""

NONE: Mapping[str, str] = {}

_DEFAULTS: Mapping[str, Any] = {
    "application_name": "segue",
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}
"""Of the connection, unless the URL says otherwise: a network that is cut is noticed within seconds."""

# A string, a cast, or a value's place or name.
_TOKEN = re.compile(r"'(?:[^']|'')*'|::\w+|\?|:([a-z_]+)")
_NOW = b"SELECT CAST(extract(epoch FROM clock_timestamp()) AS double precision)"
_NOTIFY = b"SELECT pg_notify(channel, payload) FROM unnest($1::text[], $2::text[]) AS notices (channel, payload)"


class Row(tuple[Any, ...]):
    """A row that is read by the name of a column or by its index."""

    __slots__ = ()
    places: ClassVar[Mapping[str, int]] = {}

    def __getitem__(self, column: Any) -> Any:
        return tuple.__getitem__(self, self.places[column] if isinstance(column, str) else column)

    def keys(self) -> Sequence[str]:
        """The names of the columns."""
        return [*self.places]


class PostgresConnection:
    """A connection, in autocommit mode: transactions begin and end where they are written.

    `raw` is psycopg's, for statements of others. `notices` are sent once the transaction is committed. `locked` are the
    tasks whose rows it has locked.
    """

    for_update: ClassVar[str] = " FOR UPDATE"
    for_key_share: ClassVar[str] = " FOR KEY SHARE"
    duplicate: ClassVar[type[Exception]] = psycopg.IntegrityError

    def __init__(self, raw: "psycopg.Connection[Any]") -> None:
        self.raw = raw
        self.notices: dict[str, None] = {}
        self.locked: set[str] = set()

    @property
    def state(self) -> PostgresState:
        return PostgresState(self)

    def execute(self, statement: str, values: Values = ()) -> Cursor:
        """Carry out a statement; without values it is passed on as it is, and may be several."""
        cursor = RawCursor(self.raw, row_factory=_rows)
        if not values:
            return cursor.execute(statement.encode())
        query, names = _numbered(statement)
        return cursor.execute(query, [values[name] for name in names] if isinstance(values, Mapping) else values)

    def executemany(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Carry out a statement with the values of each row."""
        RawCursor(self.raw, row_factory=_rows).executemany(_numbered(statement)[0], rows)

    def fetched(self, statement: str, values: Values = ()) -> list[Any]:
        return self.execute(statement, values).fetchall()

    def notify(self, task_id: str, thread_id: str) -> None:
        payload = json.dumps({name: value for name, value in (("task", task_id), ("thread", thread_id)) if value})
        if len(payload) <= LONGEST_PAYLOAD:
            self.notices[payload] = None

    def announce(self, deltas: Sequence[str] = ()) -> None:
        """Send deltas, which are ASCII, then the notifications.

        They have a transaction of their own: with them a commit waits for all others. Who misses one, since this
        process ended before, finds the change when it looks again.
        """
        sent = [delta for delta in deltas if len(delta) <= LONGEST_PAYLOAD]
        if sent or self.notices:
            channels = [STREAMS] * len(sent) + [CHANNEL] * len(self.notices)
            RawCursor(self.raw).execute(_NOTIFY, (channels, [*sent, *self.notices]))
            self.notices.clear()

    def lock(self, what: str) -> None:
        self.execute("SELECT pg_advisory_xact_lock(hashtextextended(?, 0))", (what,))

    def together(self) -> AbstractContextManager[object]:
        return self.raw.pipeline()

    def lock_task(self, task_id: str) -> None:
        if task_id not in self.locked:
            self.execute("SELECT 1 FROM tasks WHERE task_id = ? FOR UPDATE", (task_id,))
            self.has_locked(task_id)

    def has_locked(self, task_id: str) -> None:
        self.locked.add(task_id)

    def now(self) -> float:
        row = self.raw.execute(_NOW).fetchone()
        return float(row[0]) if row else 0.0

    def is_lost(self) -> bool:
        """Whether the server cannot be reached over it any more."""
        return self.raw.closed

    def close(self) -> None:
        """Close it, rolling a transaction back that is under way."""
        self.raw.close()


def connect(url: str, settings: Mapping[str, str] = NONE) -> PostgresConnection:
    """Open a connection; `settings` are the server's, of this connection alone."""
    return PostgresConnection(psycopg.connect(conninfo(url, settings), autocommit=True))


def conninfo(url: str, settings: Mapping[str, str] = NONE) -> str:
    """What psycopg connects with: the URL, Segue's schema and what makes a lost connection show."""
    given: dict[str, Any] = {**_DEFAULTS, **conninfo_to_dict(url)}
    options = [str(given.get("options") or "")]
    options += [f"-c {name}={value}" for name, value in {"search_path": SCHEMA, **settings}.items()]
    return make_conninfo(**{**given, "options": " ".join(options).strip()})


@lru_cache(maxsize=1024)
def _numbered(statement: str) -> tuple[bytes, tuple[str, ...]]:
    """The statement with numbered places, and the names of its values in their order."""
    names: dict[str, int] = {}
    places = 0

    def number(token: "re.Match[str]") -> str:
        nonlocal places
        if token[0] == "?":
            places += 1
            return f"${places}"
        return f"${names.setdefault(token[1], len(names) + 1)}" if token[1] else token[0]

    return _TOKEN.sub(number, statement).encode(), tuple(names)


@lru_cache(maxsize=1024)
def _kind(names: tuple[str, ...]) -> type[Row]:
    return type("Row", (Row,), {"__slots__": (), "places": {name: place for place, name in enumerate(names)}})


def _rows(cursor: "psycopg.Cursor[Any]") -> RowMaker[Row]:
    return _kind(tuple(column.name for column in cursor.description or ()))


_UNREACHABLE = "cannot be reached: check that the server runs and that host and port are right"
_PASSWORD = "refuses the password or the user: check both; the password is in PGPASSWORD, ~/.pgpass or the URL"
_ENCRYPTION = "cannot be reached with this encryption: check the URL's sslmode, and the certificates that it names"
_MISSING = "does not exist: create it with `createdb`, or name another one with --db"
_CROWDED = "has no connection left: close others, or raise the server's max_connections"
_RIGHTS = "may not be used by this user: grant it CREATE on the database, or let the owner of the schema open it"
_READ_ONLY = "is read-only: name the primary server with --db, or turn default_transaction_read_only off"

_INCOMPLETE = "lacks a part of Segue's schema: restore it from a copy, or name another one with --db"
_CORRUPT = "is damaged: restore it from a copy, or name another one with --db"

_REASONS: tuple[tuple[type[psycopg.Error] | tuple[type[psycopg.Error], ...], str], ...] = (
    (errors.ReadOnlySqlTransaction, _READ_ONLY),
    (errors.DiskFull, "is full: free some space on the server's disk, then resume"),
    ((errors.OutOfMemory, errors.ProgramLimitExceeded), "has no memory left: free some on the server, then resume"),
    (errors.TooManyConnections, _CROWDED),
    (errors.InsufficientPrivilege, _RIGHTS),
    (
        (errors.LockNotAvailable, errors.DeadlockDetected, errors.SerializationFailure),
        "is locked by another process: end that process's transaction, then resume",
    ),
    (errors.QueryCanceled, "did not answer in time: raise statement_timeout, then resume"),
    ((errors.UndefinedTable, errors.UndefinedColumn, errors.UndefinedFunction, errors.InvalidSchemaName), _INCOMPLETE),
    ((errors.DataCorrupted, errors.IndexCorrupted), _CORRUPT),
    (errors.IoError, "cannot be read or written: check the server's disk, then resume"),
)
# Errors of a connection that fails have no code, only the server's or libpq's message.
_REFUSALS = (
    (("too many connections", "too many clients", "remaining connection slots"), _CROWDED),
    (("permission denied",), _RIGHTS),
    (("authentication failed", "no password supplied", "no pg_hba.conf entry", 'role "'), _PASSWORD),
    (('database "',), _MISSING),
    (("SSL", "sslmode", "certificate"), _ENCRYPTION),
)
_KINDS = {
    _UNREACHABLE: DatabaseUnreachable,
    _CROWDED: DatabaseUnreachable,
    _INCOMPLETE: DatabaseDamaged,
    _CORRUPT: DatabaseDamaged,
}
"""The errors of reasons; of the others it is `DatabaseUnavailable`."""


@contextlib.contextmanager
def translated(path: str) -> Iterator[None]:
    """Translate errors about the server and the database; an error in a statement is raised as it is."""
    try:
        yield
    except psycopg.Error as error:
        if isinstance(error, psycopg.DataError) and "NUL (0x00)" in str(error):
            raise InvalidMessage(
                "The text contains a NUL character, which PostgreSQL cannot store: leave it out."
            ) from error
        reason = _reason(error)
        if not reason:
            raise
        raise unavailable(path, reason) from error


def refusal(path: str, error: psycopg.OperationalError) -> DatabaseUnavailable:
    """The error for a connection that could not be opened."""
    text = str(error)
    reasons = (reason for phrases, reason in _REFUSALS if any(phrase in text for phrase in phrases))
    return unavailable(path, next(reasons, _UNREACHABLE))


def unavailable(path: str, reason: str) -> DatabaseUnavailable:
    """The error for a database that cannot be used."""
    kind = _KINDS.get(reason, DatabaseUnavailable)
    return kind("The database {path} {reason}.", path=path, reason=Clause(reason))


def _reason(error: psycopg.Error) -> str:
    for kind, reason in _REASONS:
        if isinstance(error, kind):
            return reason
    is_of_connection = isinstance(error, psycopg.OperationalError) and (
        error.sqlstate is None or error.sqlstate.startswith(("08", "57P"))
    )
    return _UNREACHABLE if is_of_connection else ""


# The tables of a PostgreSQL database, and the scripts that bring an older one up to date.

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
        IF newest.status IN ({sql_list(ACTIVE)}) THEN
            PERFORM segue_wake(
                newest.task_id, newest.agent_id, newest.agent_version, newest.status <> '{TaskStatus.PENDING}'
            );
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
_TO_RUN = f"CREATE INDEX tasks_to_run ON tasks (position) WHERE status IN ({sql_list(ACTIVE)})"

WAKING = (_WORKERS, _TO_RUN, _QUEUE, _WAKE, _RELEASED, _ON_RELEASE, _REQUESTED, _ON_REQUEST)
"""After procrastinate's own tables, which have their own versions."""


def queues_of(agents: Mapping[str, Collection[str]]) -> list[str]:
    """The names of the queues of these agents' tasks, as `segue_wake` gives them; `agents` are versions by id."""
    names = [*agents, *(f"{agent}:{version}" for agent, versions in agents.items() for version in versions)]
    for place, name in enumerate(names):
        if len(name.encode()) > LONGEST:
            names[place] = sha256(name.encode()).hexdigest()[:LONGEST]
    return [f"segue:{name}" for name in names]


def missing_migrations(connection: Connection, path: str) -> list[Path]:
    """The files of the installed procrastinate that its tables lack."""
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

FIRST = 20
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
_FOUND = f"""
    SELECT (SELECT count(*) FROM pg_tables WHERE schemaname = '{SCHEMA}'), to_regclass('{SCHEMA}.schema_version')
"""
_LANGGRAPH = "SELECT coalesce(max(v), -1) FROM checkpoint_migrations"


def check_server(connection: PostgresConnection, path: str) -> None:
    """Make sure that the server can hold a database of ours."""
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
    """Return the schema version, 0 for a database without Segue's schema."""
    count, versioned = connection.execute(_FOUND).fetchone()
    if versioned is None:
        if count:  # of the statement's snapshot: what another process creates meanwhile does not count
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
    """Hold the lock of the schema, asking for it again and again: who waits for it would hinder LangGraph's set-up."""
    deadline = time.monotonic() + LOCK_TIMEOUT
    while not connection.execute("SELECT pg_try_advisory_lock(?)", (_LOCK,)).fetchone()[0]:
        if time.monotonic() > deadline:
            raise unavailable(path, "is locked by another process: end that process's transaction, then resume")
        time.sleep(0.05)
    try:
        yield
    finally:
        connection.execute("SELECT pg_advisory_unlock(?)", (_LOCK,))
