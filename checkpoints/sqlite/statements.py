"""LangGraph's statements of a write, carried out in a transaction of ours."""

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self, cast

from langgraph.checkpoint.sqlite import SqliteSaver

from ..ports import Connection
from ..state.row_keys import drop_passed, sealed_checkpoint
from ..state.serializer import CheckedSerializer, key_checksum
from .texts import StateWriter, put_texts

_SERDE = CheckedSerializer(allowed_msgpack_modules=[])
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


class Statements(SqliteSaver):
    """LangGraph's own statements of a write, collected here and executed in a transaction of ours."""

    def __init__(self) -> None:
        self._writer = StateWriter(_SERDE)
        super().__init__(cast(sqlite3.Connection, None), serde=self._writer)
        self._thread_id = ""
        self._collected: list[tuple[str, Sequence[Sequence[Any]]]] = []

    def for_write(self, thread_id: str) -> Self:
        """A copy for one write: LangGraph's initialisation would take longer than to collect the statements."""
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        other._writer = other.serde = StateWriter(_SERDE)
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
        put_texts(cast(sqlite3.Connection, connection), self._thread_id, self._writer.texts)


def _put(connection: Connection, statement: str, row: Sequence[Any]) -> None:
    if "INTO checkpoints" in statement:
        *key, kind, state, metadata = row
        thread_id, ns, _, parent = key
        put_checkpoint(connection, key, kind, state, metadata)
        drop_passed(connection, (thread_id, ns, parent), metadata.decode())
    else:
        *place, path, idx, channel, kind, value = row
        conflict = "REPLACE" if "OR REPLACE" in statement else "IGNORE"
        put_write(connection, conflict, (*place, idx, channel), path, kind, value)


def put_checkpoint(connection: Connection, key: Sequence[Any], kind: str, state: bytes, metadata: bytes) -> None:
    """Store a checkpoint, or replace it; after the writes that led to it."""
    sealed = sealed_checkpoint(connection, key, metadata.decode())
    connection.execute(_PUT_CHECKPOINT, (*key, kind, state, metadata, *sealed))


def put_write(
    connection: Connection, conflict: str, key: Sequence[Any], path: str, kind: str | None, value: bytes | None
) -> None:
    """Store a write; `conflict` says what happens to one that is there: ABORT, IGNORE or REPLACE."""
    checksum = None if kind is None else key_checksum(*key)
    connection.execute(_PUT_WRITE.format(conflict), (*key, path, kind, value, checksum))
