"""Data files as the engine reads them: their encoding, their columns, and what each column holds."""

import atexit
import codecs
import re
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from segue.prompts.data import phrase
from segue.prompts.language import Language

from .engine import connect, limited, quoted
from .folder import DataFile
from .kinds import Column, typed

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MOST_COLUMNS = 1_000
_ENCODINGS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_SEPARATORS = ",;\t|"
HEAD = 1 << 20
"""Characters that are read where only the columns are needed."""


@dataclass(frozen=True)
class Source:
    """A file as a relation with its parameters, and by column the expression that reads it."""

    relation: str
    values: Sequence[Any]
    columns: dict[Column, str]


def load(connection: "DuckDBPyConnection", file: DataFile, name: str, language: Language) -> tuple[Column, ...]:
    """Read a file into a table of that name.

    Raises:
        ValueError: it cannot be read; the message says where and why.
    """
    with _source(connection, file, language) as source:
        picked = ", ".join(f"{sql} AS {quoted(column.name)}" for column, sql in source.columns.items())
        sql = f"CREATE TABLE {quoted(name)} AS SELECT {picked} FROM {source.relation}"
        connection.execute(sql, list(source.values))
    return tuple(source.columns)


@lru_cache(maxsize=64)
def peek(file: DataFile, language: Language = "en") -> tuple[Column, ...]:
    """The file's columns, judged by its first rows.

    Raises:
        ValueError: it cannot be read.
    """
    with _peeking:
        cursor = _peeker().cursor()
    with _source(cursor, file, language, HEAD) as source:
        return tuple(source.columns)


_peeking = threading.Lock()


@cache
def _peeker() -> "DuckDBPyConnection":
    return connect()


atexit.register(_peeker.cache_clear)  # the engine complains of connections that outlive it


def tables_text(files: Iterable[DataFile], most: int = 1_500) -> str:
    """The files as tables that a query can name, with their columns and what these hold; the first of too many."""
    tables: list[str] = []
    for file in files:
        try:
            columns = ", ".join(f"{quoted(column.name)} {column.kind}" for column in peek(file))
        except ValueError:
            continue  # a question about the file says why
        tables.append(f"{quoted(file.name)} ({columns})")
        if len(text := "; ".join(tables)) > most:
            return f"{text[:most]}…"
    return "; ".join(tables)


@contextmanager
def _source(
    connection: "DuckDBPyConnection", file: DataFile, language: Language, head: int | None = None
) -> Iterator[Source]:
    import duckdb

    try:
        with limited(connection, language):
            if file.is_parquet:
                yield _parquet(connection, file)
            else:
                with _utf8(file, language, head) as path:
                    yield _csv(connection, file, path, language, whole=head is None)
    except duckdb.Error as error:
        raise ValueError(phrase("file_broken", language, name=file.name, reason=_reason(file, error))) from error


def _reason(file: DataFile, error: Exception) -> str:
    """What the engine says, without the paths and options that follow."""
    said = str(error).split("Possible", 1)[0].split("\n  file =", 1)[0].replace(str(file.path), file.name)
    return " ".join(said.split("Error:", 1)[-1].split("LINE 1:", 1)[0].split())[:300]


def _pattern(path: Path) -> str:
    """A path without the meaning that the engine gives to * ? [ {."""
    return re.sub(r"([*?\[{])", r"[\1]", str(path))


# Parquet


def _parquet(connection: "DuckDBPyConnection", file: DataFile) -> Source:
    values = [_pattern(file.path)]
    found = connection.execute("DESCRIBE FROM read_parquet(?)", values).fetchall()
    return Source("read_parquet(?)", values, dict(_parquet_column(row[0], row[1]) for row in found))


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


def _csv(connection: "DuckDBPyConnection", file: DataFile, path: Path, language: Language, *, whole: bool) -> Source:
    skip = _blank_lines(path)
    separator, names = _dialect(connection, path, skip) if skip is not None else ("", [])
    if not 0 < len(names) <= MOST_COLUMNS:
        raise ValueError(phrase("file_header", language, name=file.name, most=MOST_COLUMNS))
    options = "auto_detect = false, header = true, skip = ?, delim = ?, quote = '\"', escape = '\"', columns = ?"
    columns = {f"c{place}": "VARCHAR" for place in range(len(names))}
    relation, values = f"read_csv(?, {options})", [_pattern(path), skip, separator, columns]
    return Source(relation, values, typed(connection, relation, values, names, whole=whole))


def _blank_lines(path: Path) -> int | None:
    """How many lines without a value precede the one with the names; None if there is no other line."""
    with path.open(encoding="utf-8-sig") as text:
        for place, line in enumerate(iter(lambda: text.readline(HEAD), "")):
            if line.strip(f" \r\n{_SEPARATORS}"):
                return place
    return None


def _dialect(connection: "DuckDBPyConnection", path: Path, skip: int) -> tuple[str, list[str]]:
    """The separator and the columns' names."""
    sql = (
        "SELECT Delimiter, list_transform(Columns, lambda c: c.name) "
        "FROM sniff_csv(?, header = true, skip = ?, quote = '\"', escape = '\"')"
    )
    separator, names = connection.execute(sql, [_pattern(path), skip]).fetchall()[0]
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
def _utf8(file: DataFile, language: Language, head: int | None) -> Iterator[Path]:
    """The file in UTF-8: a copy if it is in another encoding, of which the first `head` characters may be enough."""
    encoding = _encoding(file, language, head)
    if encoding.startswith("utf-8"):
        yield file.path
        return
    with tempfile.TemporaryDirectory(prefix="segue-data-") as folder:
        copy = Path(folder) / "data.csv"
        with file.path.open(encoding=encoding, newline="") as read, copy.open("w", encoding="utf-8", newline="") as out:
            out.writelines(_chunks(read, head))
            if head is not None:
                out.write(read.readline())
        yield copy


def _encoding(file: DataFile, language: Language, head: int | None) -> str:
    if file.size == 0:
        raise ValueError(phrase("file_empty", language, name=file.name))
    with file.path.open("rb") as raw:
        start = raw.read(4)
    marked = next((encoding for mark, encoding in _ENCODINGS.items() if start.startswith(mark)), None)
    for encoding in (marked,) if marked else ("utf-8", "gb18030"):
        if _is_text(file.path, encoding, head):
            return encoding
    raise ValueError(phrase("file_encoding", language, name=file.name))


def _is_text(path: Path, encoding: str, head: int | None) -> bool:
    try:
        with path.open(encoding=encoding, newline="") as text:
            return all("\0" not in chunk for chunk in _chunks(text, head))
    except UnicodeDecodeError:
        return False


def _chunks(text: Any, head: int | None) -> Iterator[str]:
    """The text in pieces, or its first `head` characters."""
    while chunk := text.read(HEAD if head is None else head):
        yield chunk
        if head is not None:
            return
