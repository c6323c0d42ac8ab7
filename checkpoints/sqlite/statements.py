"""LangGraph's statements of a write, carried out in a transaction of ours."""

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self, cast

from langgraph.checkpoint.sqlite import SqliteSaver

from ..ports import Connection
from ..state.row_keys import drop_passed, sealed_checkpoint
from ..state.serializer import CheckedSerializer, with_key
from .texts import StateWriter, put_texts

_SERDE = CheckedSerializer(allowed_msgpack_modules=[])


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
                connection.execute(statement, _sealed(connection, statement, row))
        put_texts(cast(sqlite3.Connection, connection), self._thread_id, self._writer.texts)


def _sealed(connection: Connection, statement: str, row: Sequence[Any]) -> Sequence[Any]:
    if "INTO checkpoints" in statement:
        *key, kind, state, metadata = row
        thread_id, ns, _, parent = key
        noted = metadata.decode()
        sealed = sealed_checkpoint(connection, key, kind, noted)
        drop_passed(connection, (thread_id, ns, parent), noted)
        return (*key, sealed, state, metadata)
    if "INTO writes" in statement:
        *place, path, idx, channel, kind, value = row
        return (*place, path, idx, channel, with_key(kind, [*place, idx, channel]), value)
    return row
