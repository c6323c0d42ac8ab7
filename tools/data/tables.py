"""The tables of data files, cached for the next question, and the columns that a question names."""

import atexit
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from segue.prompts.data import listing, phrase
from segue.prompts.language import Language

from .engine import connect, limited, lock, quoted
from .folder import DataFile
from .sources import NUMBER, Column, Kind, load
from .vocabulary import MAIN_VALUES, column_of, family_of, nearest

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


FEW = 50
"""Different values up to which a column is one to group by."""
CANDIDATES = 64
"""Columns of text among which one to group by is searched for."""
_NO_VALUES = ("id", "no", "编号", "号", "码", "序号", "年", "year", "month", "月")
"""Ends of the names of numbers that are not worth adding up."""


def column_named(table: Table, requested: str, language: Language) -> str:
    """The column that a name means.

    Raises:
        ValueError: there is none; the message lists the columns.
    """
    if found := column_of(requested, table.names):
        return found
    hint, names = nearest(requested, table.names, language), listing(table.names, language)
    raise ValueError(phrase("no_column", language, name=requested[:80], file=table.file.name, hint=hint, names=names))


def value_column(table: Table, requested: str | None, language: Language) -> str | None:
    """The column of numbers to add up; None if none was requested and there is none.

    Raises:
        ValueError: the requested one does not exist or holds no numbers.
    """
    numeric = table.of_kind("number")
    if not requested:
        return _main_value(numeric)
    name = column_named(table, requested, language)
    if name in numeric:
        return name
    raise ValueError(_wrong_type(table, name, "number", language) + _not_numbers(table, name, language))


def _main_value(numeric: Sequence[str]) -> str | None:
    for family in MAIN_VALUES:
        if found := next((name for name in numeric if family_of(name) == family), None):
            return found
    worth = [name for name in numeric if not name.casefold().endswith(_NO_VALUES)]
    return worth[-1] if worth else None


def group_column(table: Table, requested: str | None, language: Language, *, many: bool = False) -> str:
    """The column to group by; of those that suit the one with the fewest values, or the one with the most.

    Raises:
        ValueError: the requested one does not exist, or there is nothing to group by.
    """
    if requested:
        return column_named(table, requested, language)
    counts = {name: table.count(name, language)[1] for name in table.of_kind("text")[:CANDIDATES]}
    fit = [name for name, count in counts.items() if 1 < count <= FEW and (count < table.rows or table.rows < FEW)]
    repeated = fit or [name for name, count in counts.items() if count < table.rows] or list(counts)
    if repeated:
        return (max if many else min)(repeated, key=counts.__getitem__)
    raise ValueError(phrase("which_column", language, names=listing(table.names, language)))


def date_column(table: Table, requested: str | None, language: Language) -> str:
    """The column of dates.

    Raises:
        ValueError: the requested one does not exist or holds no dates, or there is none.
    """
    dates = table.of_kind("date")
    if requested:
        name = column_named(table, requested, language)
        if name in dates:
            return name
        raise ValueError(_wrong_type(table, name, "date", language))
    if dates:
        return next((name for name in dates if family_of(name) == "date"), dates[0])
    raise ValueError(phrase("no_dates", language, file=table.file.name, names=listing(table.names, language)))


def _wrong_type(table: Table, name: str, requested: Kind, language: Language) -> str:
    found, names = phrase(table.kind_of(name), language), listing(table.of_kind(requested), language)
    return phrase("wrong_type", language, name=name, found=found, requested=phrase(requested, language), names=names)


def _not_numbers(table: Table, name: str, language: Language) -> str:
    """How many values prevent a column of text from being numbers, if most are."""
    if table.kind_of(name) != "text":
        return ""
    odd = f"FILTER (NOT regexp_full_match({quoted(name)}, '{NUMBER}'))"
    sql = f"SELECT count({quoted(name)}), count(*) {odd}, min({quoted(name)}) {odd} FROM {TABLE}"
    filled, bad, sample = table.ask(sql, language=language)[0]
    return phrase("not_numbers", language, count=bad, value=sample[:40]) if 0 < bad <= filled // 2 else ""
