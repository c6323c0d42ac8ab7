"""The state of threads in LangGraph's SQLite tables: its long texts are in a table of their own."""

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Self, cast

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.sqlite import SqliteSaver

from ..ports import CheckpointRow, Connection, Decoded, Place, Stored, WriteRow
from ..state.checksums import drop_superseded_writes, sealed_checkpoint, value_checksum
from ..state.serializer import SERDE, Undecodable, named
from .texts import StateReader, StateWriter, drop_unused_texts, put_texts

_CHECKPOINT = """
    SELECT type, checkpoint FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?
"""
# A namespace is the node's name, a colon and an id; a semicolon comes next after a colon.
_DROP_INSIDE = "DELETE FROM {} WHERE thread_id = ? AND checkpoint_ns > ? AND checkpoint_ns < ?"
# A text may be none any more: as bytes it can be compared all the same.
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

    def drop_inside(self, thread_id: str, node: str) -> None:
        for table in ("checkpoints", "writes"):
            self._connection.execute(_DROP_INSIDE.format(table), (thread_id, f"{node}:", f"{node};"))

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

    @contextlib.contextmanager
    def cursor(self, transaction: bool = True) -> Iterator[Any]:
        """This, in place of a cursor."""
        yield self

    def execute(self, statement: str, values: Sequence[Any]) -> None:
        self._collected.append((statement, [values]))

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        self._collected.append((statement, [*rows]))

    def run(self, connection: Connection) -> None:
        """Execute what was collected, the keys of the rows sealed."""
        for statement, rows in self._collected:
            for row in rows:
                _put(connection, statement, row)
        put_texts(connection, self._thread_id, self._writer.texts)


def _put(connection: Connection, statement: str, row: Sequence[Any]) -> None:
    if "INTO checkpoints" in statement:
        *key, kind, state, metadata = row
        thread_id, ns, _, parent = key
        put_checkpoint(connection, key, kind, state, metadata)
        drop_superseded_writes(connection, (thread_id, ns, parent), metadata.decode())
    else:
        *place, path, idx, channel, kind, value = row
        conflict = "REPLACE" if "OR REPLACE" in statement else "IGNORE"
        put_write(connection, conflict, (*place, idx, channel), path, kind, value)


def put_checkpoint(connection: Connection, key: Sequence[Any], kind: str, state: bytes, metadata: bytes) -> None:
    """Store a checkpoint, or replace it; after the writes that led to it."""
    sealed = sealed_checkpoint(connection, key, metadata.decode(), kind, state[-8:])
    connection.execute(_PUT_CHECKPOINT, (*key, kind, state, metadata, *sealed))


def put_write(connection: Connection, conflict: str, key: Sequence[Any], path: str, kind: str, value: bytes) -> None:
    """Store a write; `conflict` says what happens to one that is there: ABORT, IGNORE or REPLACE."""
    values = (*key, path, kind, value, value_checksum(key, kind, value))
    connection.execute(_PUT_WRITE.format(conflict), values)
