"""One connection to a SQLite file, and the state of threads on it: its long texts are in a table of their own."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, ClassVar

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.sqlite import SqliteSaver

from ..ports import CheckpointRow, Decoded, Place, Stored, WriteRow
from ..state.compression import Undecodable
from ..state.serializer import CheckedSerializer, named
from .statements import put_checkpoint, put_write
from .texts import StateReader, StateWriter, drop_unused_texts, put_texts

_SERDE = CheckedSerializer(allowed_msgpack_modules=[])
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


class SqliteState:
    """The state of threads on a connection."""

    tables: ClassVar[tuple[str, ...]] = ("checkpoints", "writes", "texts")

    def __init__(self, connection: "SqliteConnection") -> None:
        self._connection = connection

    def view(self) -> AbstractContextManager[None]:
        return one_view(self._connection)

    def reader(
        self, serde: SerializerProtocol, thread_id: str | None, decoded: Decoded | None = None
    ) -> BaseCheckpointSaver[str]:
        reader = SqliteSaver(self._connection, serde=StateReader(serde, self._connection, thread_id, decoded))
        reader.is_setup = True
        return reader

    def whole(self, thread_id: str, value: Stored) -> Stored:
        """What cannot be read stays as it is."""
        try:
            return StateReader(_SERDE, self._connection, thread_id).whole(*value)
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
        kind, data = self._shared(thread_id, row.value) if row.value else (None, None)
        put_write(self._connection, "ABORT", key, row.task_path, kind, data)

    def drop_inside(self, thread_id: str, node: str) -> None:
        for table in ("checkpoints", "writes"):
            self._connection.execute(_DROP_INSIDE.format(table), (thread_id, f"{node}:", f"{node};"))

    def drop_step(self, thread_id: str, inside: str, checkpoint_id: str, step: str | bytes | None) -> None:
        self._connection.execute(_DROP_STEP, (thread_id, inside, checkpoint_id, step))

    def drop_unused(self, thread_id: str) -> None:
        drop_unused_texts(self._connection, thread_id)

    def _shared(self, thread_id: str, value: Stored) -> Stored:
        """A value with its long texts taken out and compressed; what cannot be read stays as it is."""
        writer = StateWriter(_SERDE)
        with suppress(Undecodable), named():
            value = writer.rewritten(*value)
        put_texts(self._connection, thread_id, writer.texts)
        return value


class SqliteConnection(sqlite3.Connection):
    """A connection to the file: a transaction that writes is alone, so that there is nothing to lock and to notify."""

    duplicate: ClassVar[type[Exception]] = sqlite3.IntegrityError
    for_update: ClassVar[str] = ""
    for_key_share: ClassVar[str] = ""

    @property
    def state(self) -> SqliteState:
        """The rows of LangGraph's checkpoints."""
        return SqliteState(self)

    def fetched(self, statement: str, values: Any = ()) -> list[sqlite3.Row]:
        """The rows of a query, whatever they hold."""
        with lenient(self):
            return self.execute(statement, values).fetchall()

    def notify(self, task_id: str, thread_id: str) -> None:
        """Do nothing: other processes look into the file."""

    def now(self) -> float:
        """Unix time in seconds."""
        return time.time()


@contextmanager
def lenient(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Return text that is not valid UTF-8 as bytes, so that its row can still be read."""
    connection.text_factory = _text
    try:
        yield connection
    finally:
        connection.text_factory = str


def _text(stored: bytes) -> str | bytes:
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return stored


@contextmanager
def one_view(connection: sqlite3.Connection) -> Iterator[None]:
    """Read from the database as it is at the first statement."""
    connection.execute("SAVEPOINT view")
    try:
        yield
        connection.execute("RELEASE view")
    except BaseException:
        connection.rollback()
        raise
