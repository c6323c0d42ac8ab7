"""Reading a data file into a table, or only its first rows."""

import atexit
import re
import threading
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from .data_engine import connect, limited
from .data_files import DataFile
from .data_reading import CsvForm, read_form, readable
from .data_typing import BATCH, SAMPLE, Column, quoted, typed
from .data_words import Language, told

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_peeking = threading.Lock()
HEAD = 1 << 20
"""Bytes of a file that are looked at where only its columns are asked for."""
_NUMBER = re.compile(r"U?(?:TINY|SMALL|BIG|HUGE)?INT(?:EGER)?|DECIMAL\(.*\)|BIGNUM")


def load(connection: "DuckDBPyConnection", file: DataFile, name: str, language: Language) -> tuple[Column, ...]:
    """Read a file into a table of that name.

    Raises:
        ValueError: it cannot be read; the message says where and why.
    """
    import duckdb

    try:
        with limited(connection, language):
            return (_load_parquet if file.is_parquet else _load_csv)(connection, file, name, language)
    except duckdb.Error as error:
        raise ValueError(_unreadable(file, str(error), language)) from error


def _load_csv(connection: "DuckDBPyConnection", file: DataFile, name: str, language: Language) -> tuple[Column, ...]:
    form = read_form(file, language)
    with readable(file, form.encoding) as path:
        source, values = csv_source(str(path), form)
        if len(form.names) > BATCH:
            connection.execute(f"CREATE TEMP TABLE texts AS SELECT * FROM {source}", values)
            source, values = "temp.texts", []
        columns = typed(connection, source, values, form.names)
        _create(connection, name, columns, source, values)
        connection.execute("DROP TABLE IF EXISTS temp.texts")
    return tuple(columns)


def csv_source(path: str, form: CsvForm) -> tuple[str, list[Any]]:
    """SQL, and its values, for a CSV file whose columns are read as the texts c0, c1, …"""
    options = "auto_detect = false, header = true, skip = ?, delim = ?, quote = '\"', escape = '\"', columns = ?"
    columns = {f"c{place}": "VARCHAR" for place in range(len(form.names))}
    return f"read_csv(?, {options})", [path, form.skip, form.separator, columns]


def _load_parquet(connection: "DuckDBPyConnection", file: DataFile, name: str, _: Language) -> tuple[Column, ...]:
    with readable(file) as path:
        columns = _parquet_columns(connection, str(path))
        _create(connection, name, columns, "read_parquet(?)", [str(path)])
    return tuple(columns)


def names_in(file: DataFile, language: Language) -> dict[str, Any]:
    """The file's columns, or why it cannot be read, without reading all of it."""
    try:
        return {"columns": [column.name for column in peek(file, language)]}
    except ValueError as error:
        return {"error": str(error)}


def tables_text(files: Iterable[DataFile], most: int = 1_500) -> str:
    """The files as tables that a query can name, with their columns and what these hold; the first of too many."""
    told_of: list[str] = []
    for file in files:
        try:
            columns = ", ".join(f"{quoted(column.name)} {column.kind}" for column in peek(file))
        except ValueError:
            continue  # whoever asks about it is told why
        told_of.append(f"{quoted(file.name)} ({columns})")
        if len(whole := "; ".join(told_of)) > most:
            return f"{whole[:most]}…"
    return "; ".join(told_of)


@cache
def _peeker() -> "DuckDBPyConnection":
    """A database that nothing is kept in: to look at files takes less time than to make one each time."""
    return connect()


atexit.register(_peeker.cache_clear)  # the engine complains of connections that outlive it


@lru_cache(maxsize=64)
def peek(file: DataFile, language: Language = "en") -> tuple[Column, ...]:
    """The file's columns, judged by its first rows.

    Raises:
        ValueError: it cannot be read.
    """
    import duckdb

    with _peeking:
        cursor = _peeker().cursor()
    try:
        with limited(cursor, language):
            return (_peek_parquet if file.is_parquet else _peek_csv)(cursor, file, language)
    except duckdb.Error as error:
        raise ValueError(_unreadable(file, str(error), language)) from error


def _peek_csv(connection: "DuckDBPyConnection", file: DataFile, language: Language) -> tuple[Column, ...]:
    form = read_form(file, language, most=HEAD)
    with readable(file, form.encoding, most=HEAD) as path:
        source, values = csv_source(str(path), form)
        return tuple(typed(connection, f"(SELECT * FROM {source} LIMIT {SAMPLE})", values, form.names))


def _peek_parquet(connection: "DuckDBPyConnection", file: DataFile, _: Language) -> tuple[Column, ...]:
    with readable(file) as path:
        return tuple(_parquet_columns(connection, str(path)))


def _parquet_columns(connection: "DuckDBPyConnection", path: str) -> dict[Column, str]:
    found = connection.execute("DESCRIBE SELECT * FROM read_parquet(?)", [path]).fetchall()
    return dict(_of_parquet(row[0], row[1]) for row in found)


def _of_parquet(name: str, kind: str) -> tuple[Column, str]:
    """A column of a Parquet file and the SQL that reads it; what is neither number nor date becomes text."""
    there = quoted(name)
    if kind.startswith(("FLOAT", "DOUBLE", "REAL")):
        return Column(name, "number"), f"CASE WHEN isfinite({there}) THEN {there} END"
    if _NUMBER.fullmatch(kind):
        return Column(name, "number"), there
    if kind == "TIMESTAMP WITH TIME ZONE":
        return Column(name, "date"), f"timezone('UTC', {there})"
    if kind == "DATE" or kind.startswith("TIMESTAMP"):
        return Column(name, "date"), there if kind == "DATE" else f"CAST({there} AS TIMESTAMP)"
    return Column(name, "text"), f"nullif(trim(CAST({there} AS VARCHAR)), '')"


def _create(
    connection: "DuckDBPyConnection", name: str, columns: dict[Column, str], source: str, values: Sequence[Any]
) -> None:
    picked = ", ".join(f"{sql} AS {quoted(column.name)}" for column, sql in columns.items())
    connection.execute(f"CREATE TABLE {quoted(name)} AS SELECT {picked} FROM {source}", list(values))


def _unreadable(file: DataFile, error: str, language: Language) -> str:
    """What the engine says, without the paths and options that follow."""
    said = error.split("Possible", 1)[0].split("\n  file =", 1)[0].replace(str(file.path), file.name)
    reason = " ".join(said.split("Error:", 1)[-1].split("LINE 1:", 1)[0].split())[:300]
    return told(language, f"文件「{file.name}」无法读取：{reason}", f"The file «{file.name}» cannot be read: {reason}")
