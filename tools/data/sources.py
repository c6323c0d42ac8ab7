"""Data files as the engine reads them: their encoding, their columns, and the type of each, judged by every row."""

import codecs
import itertools
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from segue.prompts.data import phrase
from segue.prompts.language import Language

from .engine import connect, limited, quoted
from .folder import DataFile
from .vocabulary import family_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Kind = Literal["number", "date", "text"]
_WHOLE = r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)"
NUMBER = rf"[-+]?[¥￥$€£]? ?(?:{_WHOLE}(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][-+]?[0-9]{{1,3}})?"
_CODE = r"[-+]?0[0-9]+"
"""Digits with a leading zero are a postcode or an order number, not a quantity."""
_MISSING = ("", "na", "n/a", "nan", "null", "none", "-", "--", "—")
"""No value in a column of numbers or dates; in a column of text only the empty text is none."""
_EXACT = 28
"""Characters up to which numbers are stored as decimals, whose sums are exact; longer ones are floating point."""
_LONGEST_DATE = 11
"""Characters of a date without a time of day: 2024年12月31日."""
_DATE = r"\d{4}[-/.年]\d{1,2}.*|\d{1,2}[/.]\d{1,2}[/.]\d{4}.*"
_CLOCKS = ("", " %H:%M", " %H:%M:%S")


def _time(*days: str) -> str:
    formats = [day + clock for day in ("%Y年%m月%d日", "%Y.%m.%d", *days) for clock in _CLOCKS]
    formats += ["%Y-%m", "%Y/%m", "%Y年%m月"]
    time = f"coalesce(TRY_CAST(v AS TIMESTAMP), try_strptime(v, {formats}))"
    return f"CASE WHEN regexp_full_match(v, '{_DATE}') THEN {time} END"


_COMPACT = "CASE WHEN regexp_full_match(v, '(19|20)[0-9]{6}') THEN try_strptime(v, '%Y%m%d') END"
"""Days without separators, in a column whose name mentions dates."""
_TIMES = (_time(), _time("%m/%d/%Y"), _time("%d/%m/%Y", "%d.%m.%Y"))
"""Dates with the year first, the month first, or the day first."""
_IS_NUMBER = (
    "(TRY_CAST(v AS DECIMAL(38, 10)) IS NOT NULL AND left(v, 1) NOT IN ('0', '+', '-'))"
    f" OR (regexp_full_match(v, '{NUMBER}') AND NOT regexp_full_match(v, '{_CODE}'))"
)


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    name: str
    kind: Kind


def typed(connection: "DuckDBPyConnection", table: str, names: Sequence[str]) -> dict[Column, str]:
    """By column the SQL that reads it from a table whose columns c0, c1, … are trimmed texts."""
    return dict(_Texts(connection, table, f"c{place}").read(name) for place, name in enumerate(names))


@dataclass(frozen=True)
class _Texts:
    """The texts of a column; in its SQL each of them is `v`."""

    connection: "DuckDBPyConnection"
    table: str
    column: str

    def read(self, name: str) -> tuple[Column, str]:
        """What the column holds, and the SQL that reads it."""
        if self._any("true"):
            compact = (_COMPACT,) if family_of(name) == "date" else ()
            if time := next((time for time in compact if self._all(f"{time} IS NOT NULL")), None):
                return Column(name, "date"), self._date(time)
            if self._all(_IS_NUMBER):
                return Column(name, "number"), self._number()
            if time := next((time for time in _TIMES if self._all(f"{time} IS NOT NULL")), None):
                return Column(name, "date"), self._date(time)
        return Column(name, "text"), f"nullif({self.column}, '')"

    def _all(self, condition: str) -> bool:
        return not self._any(f"NOT coalesce({condition}, false)")

    def _any(self, condition: str) -> bool:
        """Whether a value meets the condition; the search ends at the first one."""
        return bool(self._ask("1", f"{condition} LIMIT 1"))

    def _ask(self, picked: str, condition: str = "true") -> list[tuple[int, ...]]:
        texts = f"SELECT {self.column} AS v FROM {self.table}"
        sql = f"SELECT {picked} FROM ({texts}) WHERE lower(v) NOT IN {_MISSING} AND {condition}"
        return self.connection.execute(sql).fetchall()

    def _date(self, time: str) -> str:
        ((longest,),) = self._ask("max(length(v))")
        read = time.replace("(v", f"({self.column}")
        return read if longest > _LONGEST_DATE else f"CAST({read} AS DATE)"

    def _number(self) -> str:
        decimals = "CASE WHEN contains(v, '.') THEN strlen(v) - instr(v, '.') ELSE 0 END"
        ((longest, places, powers),) = self._ask(f"max(length(v)), max({decimals}), bool_or(contains(lower(v), 'e'))")
        if powers or longest > _EXACT or places > _EXACT // 2:
            kind = "DOUBLE"
        elif places:
            kind = f"DECIMAL(38, {places})"
        else:
            kind = "BIGINT" if longest <= 18 else "DECIMAL(38, 0)"
        digits = f"translate({self.column}, ',+¥￥$€£ ', '')"
        number = f"coalesce(TRY_CAST({self.column} AS {kind}), TRY_CAST({digits} AS {kind}))"
        return f"CASE WHEN isfinite({number}) THEN {number} END" if kind == "DOUBLE" else number


if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MOST_COLUMNS = 1_000
MOST_TEXT = 1_500
"""Characters of a list of tables."""
_ENCODINGS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_SEPARATORS = ",;\t|"
_PIECE = 1 << 20
"""Characters that are read at once, and where only the columns are needed, at all."""
_TEXTS = "temp.texts"
"""The table of a CSV file's texts, from which the columns are read."""


def load(
    connection: "DuckDBPyConnection", file: DataFile, name: str, language: Language, *, whole: bool = True
) -> tuple[Column, ...]:
    """Read a file into a table of that name; if not `whole`, the table is empty and its columns are likely ones.

    Raises:
        ValueError: it cannot be read; the message says where and why.
    """
    import duckdb

    try:
        with limited(connection, language):
            columns = _parquet(connection, file) if file.is_parquet else _csv(connection, file, language, whole)
            picked = ", ".join(f"{sql} AS {quoted(column.name)}" for column, sql in columns.items())
            relation = f"read_parquet({_pattern(file.path)})" if file.is_parquet else _TEXTS
            rows = "" if whole else " LIMIT 0"
            connection.execute(f"CREATE TABLE {quoted(name)} AS SELECT {picked} FROM {relation}{rows}")
            connection.execute(f"DROP TABLE IF EXISTS {_TEXTS}")
    except duckdb.Error as error:
        raise ValueError(phrase("file_broken", language, name=file.name, reason=_reason(file, error))) from error
    return tuple(columns)


@lru_cache(maxsize=64)
def peek(file: DataFile, language: Language = "en") -> tuple[Column, ...]:
    """The file's columns, judged by its first rows.

    Raises:
        ValueError: it cannot be read.
    """
    with connect() as connection:
        return load(connection, file, "data", language, whole=False)


def tables_text(files: Iterable[DataFile]) -> str:
    """The files as tables that a query can name, with their columns and what these hold; the first of too many."""
    tables: list[str] = []
    for file in files:
        try:
            columns = ", ".join(f"{quoted(column.name)} {column.kind}" for column in peek(file))
        except ValueError:
            continue  # a question about the file says why
        tables.append(f"{quoted(file.name)} ({columns})")
        if len(text := "; ".join(tables)) > MOST_TEXT:
            return f"{text[:MOST_TEXT]}…"
    return "; ".join(tables)


def _reason(file: DataFile, error: Exception) -> str:
    """What the engine says, without the paths and options that follow."""
    said = str(error).split("Possible", 1)[0].split("\n  file =", 1)[0].replace(str(file.path), file.name)
    return " ".join(said.split("Error:", 1)[-1].split("LINE 1:", 1)[0].split())[:300]


def _pattern(path: Path) -> str:
    """A path as an SQL text, without the meaning that the engine gives to * ? [ {."""
    return "'" + re.sub(r"([*?\[{])", r"[\1]", str(path)).replace("'", "''") + "'"


# Parquet


def _parquet(connection: "DuckDBPyConnection", file: DataFile) -> dict[Column, str]:
    """By column the SQL that reads it."""
    found = connection.execute(f"DESCRIBE FROM read_parquet({_pattern(file.path)})").fetchall()
    return dict(_parquet_column(row[0], row[1]) for row in found)


def _parquet_column(name: str, kind: str) -> tuple[Column, str]:
    """A column and the SQL that reads it; what is neither number nor date becomes text."""
    there = quoted(name)
    if kind.startswith(("FLOAT", "DOUBLE", "REAL")):
        return Column(name, "number"), f"CASE WHEN isfinite({there}) THEN {there} END"
    if re.fullmatch(r"U?(?:TINY|SMALL|BIG|HUGE)?INT(?:EGER)?|DECIMAL\(.*\)|BIGNUM", kind):
        return Column(name, "number"), there
    if kind == "TIMESTAMP WITH TIME ZONE":
        return Column(name, "date"), f"timezone('UTC', {there})"
    if kind == "DATE" or kind.startswith("TIMESTAMP"):
        return Column(name, "date"), there if kind == "DATE" else f"CAST({there} AS TIMESTAMP)"
    return Column(name, "text"), f"nullif(trim(CAST({there} AS VARCHAR)), '')"


# CSV


def _csv(connection: "DuckDBPyConnection", file: DataFile, language: Language, whole: bool) -> dict[Column, str]:
    """Read the texts into a table; by column the SQL that reads it from there."""
    with _utf8(file, language, whole) as path:
        separator, names = _dialect(connection, path)
        if not 0 < len(names) <= MOST_COLUMNS:
            raise ValueError(phrase("file_header", language, name=file.name, most=MOST_COLUMNS))
        options = "auto_detect = false, header = true, delim = ?, quote = '\"', escape = '\"', columns = ?"
        columns = {f"c{place}": "VARCHAR" for place in range(len(names))}
        trimmed = ", ".join(f"trim({column}) AS {column}" for column in columns)
        sql = f"CREATE TEMP TABLE texts AS SELECT {trimmed} FROM read_csv(?, {options})"
        connection.execute(sql, [str(path), separator, columns])
    return typed(connection, _TEXTS, names)


def _dialect(connection: "DuckDBPyConnection", path: Path) -> tuple[str, list[str]]:
    """The separator and the columns' names, of which an empty file has none."""
    if not path.stat().st_size:
        return "", []
    sql = (
        "SELECT Delimiter, list_transform(Columns, lambda c: c.name) "
        "FROM sniff_csv(?, header = true, skip = 0, quote = '\"', escape = '\"')"
    )
    separator, names = connection.execute(sql, [str(path)]).fetchall()[0]
    if len(names) == 1 and separator not in names[0]:
        for other in _SEPARATORS:
            if other in names[0]:  # rows of different lengths: reading them says which
                separator, names = other, names[0].split(other)
                break
    return separator, list(_distinct(names))


def _distinct(names: Sequence[str]) -> Iterator[str]:
    """The names on one line each, without blanks around them, and no two the same."""
    taken: set[str] = set()
    for place, name in enumerate(names):
        chosen = " ".join(name.split())[:200] or f"column{place}"
        chosen = chosen if chosen.casefold() not in taken else f"{chosen}_{place}"
        taken.add(chosen.casefold())
        yield chosen


@contextmanager
def _utf8(file: DataFile, language: Language, whole: bool) -> Iterator[Path]:
    """A copy of the file, or of its beginning, in UTF-8 and without blank lines before the names.

    Raises:
        ValueError: it is empty or not text.
    """
    with file.path.open("rb") as raw:
        start = raw.read(4)
    if not start:
        raise ValueError(phrase("file_empty", language, name=file.name))
    marked = next((encoding for mark, encoding in _ENCODINGS.items() if start.startswith(mark)), None)
    with tempfile.TemporaryDirectory(prefix="segue-data-") as folder:
        copy = Path(folder) / "data.csv"
        for encoding in (marked,) if marked else ("utf-8", "gb18030"):
            try:
                _copy(file.path, encoding, copy, whole)
            except UnicodeError:
                continue
            break
        else:
            raise ValueError(phrase("file_encoding", language, name=file.name))
        yield copy


def _copy(source: Path, encoding: str, target: Path, whole: bool) -> None:
    with source.open(encoding=encoding, newline="") as read, target.open("w", encoding="utf-8", newline="") as out:
        lines = iter(lambda: read.readline(_PIECE), "")
        names = next((line for line in lines if line.strip(f" \r\n{_SEPARATORS}")), "")
        pieces = iter(lambda: read.read(_PIECE), "")
        rest = pieces if whole else itertools.chain(itertools.islice(pieces, 1), itertools.islice(lines, 1))
        for piece in itertools.chain([names], rest):
            if "\0" in piece:
                raise UnicodeError("text has no NUL")
            out.write(piece)
