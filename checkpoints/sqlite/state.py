"""The state of threads in LangGraph's SQLite tables, and the schema."""

import contextlib
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import closing
from functools import cache
from hashlib import blake2b
from typing import Any, ClassVar, Self, cast

import ormsgpack
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.sqlite import SqliteSaver

from segue.core.errors import DatabaseDamaged, DatabaseUnavailable

from ..database import check_schema_version
from ..ports import CheckpointRow, Connection, Decoded, Place, Stored, WriteRow
from ..rows import (
    DIGEST_BYTES,
    SERDE,
    TEXT,
    Undecodable,
    compressed,
    decompressed,
    deflated,
    drop_superseded_writes,
    may_hold_digest,
    may_hold_long_text,
    named,
    rewritten,
    same,
    sealed_checkpoint,
    value_checksum,
)
from ..schema import tables

Texts = dict[bytes, bytes]
"""Texts in UTF-8 by their digests."""

_REFERS = "+texts"
"""Marks the type of state that refers to texts."""
_LEAST = 256
"""Bytes from which on a text is long."""

_FIND = "SELECT text FROM texts WHERE thread_id = ? AND digest = ?"
_FIND_ANYWHERE = "SELECT text FROM texts WHERE digest = ? LIMIT 1"
_INSERT = "INSERT INTO texts (thread_id, digest, text) VALUES (?, ?, ?)"
_DELETE = "DELETE FROM texts WHERE thread_id = ? AND digest = ?"
_STATE = {"checkpoints": "checkpoint", "writes": "value"}
"""The tables of state, with the columns that hold it."""


class StateWriter(SerializerProtocol):
    """A serializer that takes long texts out of state; `put_texts` stores them in the same transaction."""

    def __init__(self) -> None:
        self.texts: Texts = {}

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        return compressed(*self._referring(*SERDE.plain_typed(obj)))

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        return SERDE.loads_typed(data)

    def _referring(self, kind: str, data: bytes) -> tuple[str, bytes]:
        if kind != "msgpack" or len(data) <= _LEAST:
            return kind, data
        texts: Texts = {}

        def refer(text: str) -> Any:
            if len(text) < _LEAST and (text.isascii() or len(text.encode()) < _LEAST):
                return text
            plain = text.encode()
            digest = blake2b(plain, digest_size=DIGEST_BYTES).digest()
            texts[digest] = plain
            return ormsgpack.Ext(TEXT, digest)

        rest = rewritten(data, refer, among=may_hold_long_text)
        self.texts |= texts
        return (kind + _REFERS, rest) if texts else (kind, data)

    def rewritten(self, kind: str, data: bytes) -> tuple[str, bytes]:
        """The type and bytes of a whole value as they are stored, with its long texts taken out."""
        return compressed(*self._referring(kind, data))


class StateReader(SerializerProtocol):
    """A serializer that puts the texts of a thread back into its state; without a thread, those of any."""

    def __init__(
        self,
        serde: SerializerProtocol,
        connection: Connection,
        thread_id: str | None,
        decoded: Decoded | None = None,
    ) -> None:
        self._serde = serde
        self._decoded = decoded
        self._connection = connection
        self._thread_id = thread_id
        self._known: dict[bytes, str] = {}

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        return self._serde.dumps_typed(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Decode what was stored."""
        if self._decoded is None:
            return self._serde.loads_typed(self.whole(*data))
        value = self._decoded.get(data)
        if value is None:
            whole = self.whole(*data)
            value = self._serde.loads_typed(whole)
            self._decoded.keep(data, value, len(whole[1]))
        return value

    def whole(self, kind: str, data: bytes) -> tuple[str, bytes]:
        """The type and bytes of stored state, neither compressed nor referring to texts."""
        with named():
            kind, plain = decompressed(kind, data)
            if not kind.endswith(_REFERS):
                return kind, plain
            return kind.removesuffix(_REFERS), rewritten(plain, same, text_of=self._text, among=may_hold_digest)

    def _text(self, digest: bytes) -> str:
        if digest not in self._known:
            place = (_FIND_ANYWHERE, (digest,)) if self._thread_id is None else (_FIND, (self._thread_id, digest))
            rows = self._connection.fetched(*place)
            if not rows:
                raise Undecodable("a text of it is missing")
            try:
                text = zlib.decompress(rows[0][0])
            except (zlib.error, TypeError) as error:
                raise Undecodable("a text of it has changed since it was stored") from error
            if blake2b(text, digest_size=DIGEST_BYTES).digest() != digest:
                raise Undecodable("a text of it has changed since it was stored")
            self._known[digest] = text.decode()
        return self._known[digest]


def put_texts(connection: Connection, thread_id: str, texts: Mapping[bytes, bytes]) -> None:
    """Store the texts that the thread does not have yet."""
    for digest, text in texts.items():
        if connection.execute(_FIND, (thread_id, digest)).fetchone() is None:
            connection.execute(_INSERT, (thread_id, digest, deflated(text)))


def drop_unused_texts(connection: Connection, thread_id: str) -> None:
    """Delete the texts that no state of the thread refers to any more; none where some of it cannot be read."""
    used: set[bytes] = set()
    for table, column in _STATE.items():
        for kind, data in connection.execute(
            f"SELECT type, {column} FROM {table} WHERE thread_id = ? AND type LIKE '%{_REFERS}%'", (thread_id,)
        ):
            try:
                with named():
                    used |= _references(decompressed(kind, data)[1])
            except Undecodable:
                return
    stored = [row[0] for row in connection.execute("SELECT digest FROM texts WHERE thread_id = ?", (thread_id,))]
    for digest in stored:
        if digest not in used:
            connection.execute(_DELETE, (thread_id, digest))


def _references(data: bytes) -> set[bytes]:
    """The digests of the texts that state refers to."""
    found: set[bytes] = set()

    def note(digest: bytes) -> str:
        found.add(digest)
        return ""

    rewritten(data, same, text_of=note, among=may_hold_digest)
    return found


_CHECKPOINT = """
    SELECT type, checkpoint FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?
"""
# A text may be none any more: as bytes it can be compared anyway.
_DROP_STEP = """
    DELETE FROM writes WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?
        AND CAST(task_id AS BLOB) IS CAST(? AS BLOB)
"""
_PUT_CHECKPOINT = """
    INSERT OR REPLACE INTO checkpoints (
        thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata, kept_writes, checksum
    ) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_PUT_WRITE = """
    INSERT OR {} INTO writes (
        thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, task_path, type, value, checksum
    ) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


class SqliteState:
    """The state of threads on a connection."""

    tables: ClassVar[tuple[str, ...]] = ("checkpoints", "writes", "texts")
    content: ClassVar[str] = "checkpoints.type AS kind, substr(checkpoints.checkpoint, -8) AS ending"

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @contextlib.contextmanager
    def view(self) -> Iterator[None]:
        raw = cast(sqlite3.Connection, self._connection)
        raw.execute("SAVEPOINT view")
        try:
            yield
            raw.execute("RELEASE view")
        except BaseException:
            raw.rollback()
            raise

    def reader(
        self, serde: SerializerProtocol, thread_id: str | None, decoded: Decoded | None = None
    ) -> BaseCheckpointSaver[str]:
        reader = SqliteSaver(
            cast(sqlite3.Connection, self._connection), serde=StateReader(serde, self._connection, thread_id, decoded)
        )
        reader.is_setup = True
        return reader

    def whole(self, thread_id: str, value: Stored) -> Stored:
        """What cannot be read stays as it is."""
        try:
            return StateReader(SERDE, self._connection, thread_id).whole(*value)
        except Undecodable:
            return value

    def checkpoint(self, place: Place) -> Stored:
        """What cannot be read stays as it is."""
        ((kind, data),) = self._connection.fetched(_CHECKPOINT, place)
        if not isinstance(kind, str):
            raise Undecodable("its type is no text")
        return self.whole(place[0], (kind, data))

    def check_values(self, place: Place) -> None:
        """Do nothing: a text that is missing is noticed."""

    def put_checkpoint(self, thread_id: str, row: CheckpointRow) -> None:
        key = (thread_id, row.inside, row.checkpoint_id, row.parent_id)
        put_checkpoint(self._connection, key, *self._shared(thread_id, row.state), row.metadata.encode())

    def put_write(self, thread_id: str, row: WriteRow) -> None:
        key = (thread_id, row.inside, row.checkpoint_id, row.task_id, row.idx, row.channel)
        put_write(self._connection, "ABORT", key, row.task_path, *self._shared(thread_id, row.value))

    def drop_step(self, thread_id: str, inside: str, checkpoint_id: str, step: str | bytes | None) -> None:
        self._connection.execute(_DROP_STEP, (thread_id, inside, checkpoint_id, step))

    def drop_unused(self, thread_id: str) -> None:
        drop_unused_texts(self._connection, thread_id)

    def _shared(self, thread_id: str, value: Stored) -> Stored:
        """A value with its long texts taken out and compressed; what cannot be read stays as it is."""
        writer = StateWriter()
        with contextlib.suppress(Undecodable), named():
            value = writer.rewritten(*value)
        put_texts(self._connection, thread_id, writer.texts)
        return value


class Statements(SqliteSaver):
    """LangGraph's own statements of a write, collected here and executed in a transaction of ours."""

    def __init__(self) -> None:
        self._writer = StateWriter()
        super().__init__(cast(sqlite3.Connection, None), serde=self._writer)
        self._thread_id = ""
        self._collected: list[tuple[str, Sequence[Sequence[Any]]]] = []

    def for_write(self, thread_id: str) -> Self:
        """A copy for one write: LangGraph's initialisation would take longer than to collect the statements."""
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        other._writer = other.serde = StateWriter()
        other._thread_id, other._collected = thread_id, []
        return other

    def cursor(self, transaction: bool = True) -> Any:
        """This, in place of a cursor."""
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def execute(self, statement: str, values: Sequence[Any]) -> None:
        self._collected.append((statement, [values]))

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        self._collected.append((statement, [*rows]))

    def run(self, connection: Connection, kept: int | None = None) -> None:
        """Execute what was collected, the keys of the rows sealed."""
        for statement, rows in self._collected:
            for row in rows:
                if "INTO checkpoints" in statement:
                    *key, kind, state, metadata = row
                    put_checkpoint(connection, key, kind, state, metadata, kept)
                    drop_superseded_writes(connection, key, metadata.decode(), kept)
                else:
                    *place, path, idx, channel, kind, value = row
                    conflict = "REPLACE" if "OR REPLACE" in statement else "IGNORE"
                    put_write(connection, conflict, (*place, idx, channel), path, kind, value)
        put_texts(connection, self._thread_id, self._writer.texts)


def put_checkpoint(
    connection: Connection,
    key: Sequence[Any],
    kind: str,
    state: bytes,
    metadata: bytes,
    kept: int | None = None,
) -> None:
    """Store a checkpoint, or replace it; after the writes that led to it, of which so many are read."""
    sealed = sealed_checkpoint(connection, key, metadata.decode(), kind, state[-8:], kept)
    connection.execute(_PUT_CHECKPOINT, (*key, kind, state, metadata, *sealed))


def put_write(connection: Connection, conflict: str, key: Sequence[Any], path: str, kind: str, value: bytes) -> None:
    """Store a write; `conflict` says what happens to one that is there: ABORT, IGNORE or REPLACE."""
    values = (*key, path, kind, value, value_checksum(key, kind, value))
    connection.execute(_PUT_WRITE.format(conflict), values)


# The tables of a SQLite file, and the scripts that bring an older database up to date.

FIRST = 28
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
    """Return the schema version, 0 for a database that is empty or holds only LangGraph's checkpoints."""
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
    """Make sure that an upgraded database has all that Segue's statements name."""
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
