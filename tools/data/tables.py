"""The tables of data files, cached for the next question."""

import atexit
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from segue.prompts.language import Language

from .engine import connect, limited, lock, quoted
from .folder import DataFile
from .kinds import Column, Kind
from .sources import load

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

TABLE = "data"
KEPT = 2
"""Tables that stay in memory."""
EXACT = 100_000
"""Different values up to which they are counted exactly; more would not fit into memory."""


@dataclass(frozen=True)
class Table:
    """A file that was read: its columns, its rows, and a way to ask about them."""

    file: DataFile
    columns: tuple[Column, ...]
    rows: int
    _connection: "DuckDBPyConnection" = field(repr=False, compare=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)
    _counts: dict[str, tuple[int, int]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    def of_kind(self, *kinds: Kind) -> list[str]:
        return [column.name for column in self.columns if column.kind in kinds]

    def kind_of(self, name: str) -> Kind:
        return next(column.kind for column in self.columns if column.name == name)

    def ask(self, sql: str, values: Sequence[Any] = (), language: Language = "en") -> list[tuple[Any, ...]]:
        """The rows of a query about the table `data`; several threads may ask at once."""
        with self._lock:
            cursor = self._connection.cursor()
        with limited(cursor, language):
            return cursor.execute(sql, list(values)).fetchall()

    def count(self, name: str, language: Language = "en") -> tuple[int, int]:
        """How many values a column has, and how many different ones: beyond `EXACT` an estimate. Counted once."""
        if name not in self._counts:
            column = quoted(name)
            sql = f"SELECT count({column}), approx_count_distinct({column}) FROM {TABLE}"
            filled, distinct = self.ask(sql, language=language)[0]
            if distinct <= EXACT:
                distinct = self.ask(f"SELECT count(DISTINCT {column}) FROM {TABLE}", language=language)[0][0]
            self._counts[name] = filled, distinct
        return self._counts[name]


class Tables:
    """The most recently used tables; each version of a file is read once, also by concurrent callers."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._lock = threading.Lock()
        self._tables: dict[DataFile, Table] = {}

    def open(self, file: DataFile, language: Language = "en") -> Table:
        """The file's table.

        Raises:
            ValueError: it cannot be read.
        """
        with self._lock:
            table = self._tables.pop(file, None) or _opened(file, language)
            self._tables[file] = table
            for oldest in [*self._tables][: -self._kept]:
                del self._tables[oldest]
            return table

    def clear(self) -> None:
        """Drop every table."""
        with self._lock:
            self._tables.clear()


def _opened(file: DataFile, language: Language) -> Table:
    connection = connect()
    columns = load(connection, file, TABLE, language)
    lock(connection)
    counted = connection.execute(f"SELECT count(*) FROM {TABLE}").fetchone()
    return Table(file, columns, counted[0] if counted else 0, connection)


TABLES = Tables()
atexit.register(TABLES.clear)  # the engine complains of connections that outlive it
