"""The process that runs a model's SQL: it reads what is asked from its input and writes rows or an error."""

import contextlib
import json
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .data_engine import connect, limited, lock
from .data_files import DataFolder
from .data_loading import load, tables_text
from .data_questions import plain
from .data_sql import tables_in
from .data_typing import quoted
from .data_words import Language, told

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ADDRESS_SPACE = 5 << 29
"""Bytes of memory, the mapped libraries included."""
_CELL = 200


def main() -> None:
    """Answer one query."""
    asked = json.load(sys.stdin.buffer)
    bound_memory()
    try:
        found = answer(DataFolder.of(asked["folder"]), asked["sql"], asked["language"], asked["seconds"], asked["rows"])
    except ValueError as error:
        found = {"error": str(error)}
    sys.stdout.buffer.write(json.dumps(found).encode())
    sys.stdout.buffer.flush()
    os._exit(0)  # the engine's own threads may break down while the interpreter takes itself apart


def bound_memory() -> None:
    """Make an allocation beyond the limit fail, where the system can."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def answer(folder: DataFolder, sql: str, language: Language, seconds: float, rows: int) -> dict[str, Any]:
    """Load the files that the query names, lock the database, and run it.

    Raises:
        ValueError: it is refused, it fails, or it takes too long.
    """
    import duckdb

    connection = connect()
    names = tables_in(connection, sql, language)
    _load(connection, folder, names, language)
    lock(connection)
    try:
        with limited(connection, language, seconds):
            return _rows(connection, sql, rows, language)
    except duckdb.Error as error:
        tables = tables_text(folder.find(name, language) for name in names)
        raise ValueError(_reason(str(error), tables, language)) from error


def _load(connection: "DuckDBPyConnection", folder: DataFolder, names: Sequence[str], language: Language) -> None:
    """A table for each file, under the name that the query has for it."""
    loaded: dict[str, str] = {}
    for name in names:
        file = folder.find(name, language)
        if file.name in loaded:
            connection.execute(f"CREATE VIEW {quoted(name)} AS FROM {quoted(loaded[file.name])}")
        else:
            load(connection, file, name, language)
            loaded[file.name] = name


def _rows(connection: "DuckDBPyConnection", sql: str, most: int, language: Language) -> dict[str, Any]:
    done = connection.execute(sql)
    columns = [str(column[0])[:_CELL] for column in done.description or ()]
    if any("WITH TIME ZONE" in str(column[1]) for column in done.description or ()):
        raise ValueError(
            told(
                language,
                "带时区的时间请先转换：CAST(… AS TIMESTAMP)。",
                "Cast times with a zone first: CAST(… AS TIMESTAMP).",
            )
        )
    found = done.fetchmany(most + 1)
    shown = [[_cut(plain(value)) for value in row] for row in found[:most]]
    return {"columns": columns, "rows": shown, "more": len(found) > most}


def _cut(value: Any) -> Any:
    return f"{value[:_CELL]}…" if isinstance(value, str) and len(value) > _CELL else value


def _reason(error: str, tables: str, language: Language) -> str:
    said = " ".join(error.split("\n\nLINE", 1)[0].split())[:400]
    if error.startswith(("Binder", "Catalog")):
        said = f"{said} [{tables}]"
    return told(language, f"查询失败：{said}", f"The query failed: {said}")


if __name__ == "__main__":
    main()
