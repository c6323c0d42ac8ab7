"""The tables of data files, kept for the next question."""

import atexit
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .data_engine import connect, limited, lock
from .data_files import DataFile
from .data_loading import load
from .data_typing import BATCH, Column, Kind, quoted
from .data_words import Language

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

TABLE = "data"
KEPT = 2
"""Tables that stay in memory."""


@dataclass(frozen=True)
class Table:
    """A file that was read: its columns, its rows, and a way to ask about them."""

    file: DataFile
    columns: tuple[Column, ...]
    rows: int
    _connection: "DuckDBPyConnection" = field(repr=False, compare=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)
    _distinct: dict[str, int] = field(default_factory=dict, repr=False, compare=False)

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

    def distinct(self, names: Sequence[str]) -> dict[str, int]:
        """How many different values columns have, without the missing ones; counted once."""
        new = [name for name in names if name not in self._distinct]
        for at in range(0, len(new), BATCH):
            some = new[at : at + BATCH]
            counts = ", ".join(f"count(DISTINCT {quoted(name)})" for name in some)
            self._distinct.update(zip(some, self.ask(f"SELECT {counts} FROM {TABLE}")[0], strict=True))
        return {name: self._distinct[name] for name in names}


@dataclass
class _Place:
    lock: threading.Lock = field(default_factory=threading.Lock)
    table: Table | None = None


class Tables:
    """The tables of the files that were asked for last; each version of a file is read once, whoever asks."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._lock = threading.Lock()
        self._places: OrderedDict[DataFile, _Place] = OrderedDict()

    def open(self, file: DataFile, language: Language = "en") -> Table:
        """The file's table.

        Raises:
            ValueError: it cannot be read.
        """
        with self._lock:
            place = self._places.setdefault(file, _Place())
            self._places.move_to_end(file)
            while len(self._places) > self._kept:
                self._places.popitem(last=False)
        with place.lock:
            if place.table is None:
                place.table = _opened(file, language)
            return place.table

    def clear(self) -> None:
        """Let go of every table."""
        with self._lock:
            self._places.clear()


def _opened(file: DataFile, language: Language) -> Table:
    connection = connect()
    columns = load(connection, file, TABLE, language)
    lock(connection)
    counted = connection.execute(f"SELECT count(*) FROM {TABLE}").fetchone()
    return Table(file, columns, counted[0] if counted else 0, connection)


TABLES = Tables()
atexit.register(TABLES.clear)  # the engine complains of connections that outlive it
