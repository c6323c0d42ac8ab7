"""The process that runs a model's SQL: it reads a query from its input and writes rows or an error."""

import contextlib
import json
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from segue.prompts.data import phrase
from segue.prompts.language import Language

from .engine import connect, limited, lock, quoted
from .folder import DataFolder
from .questions import plain
from .sources import load, tables_text
from .sql import tables_in

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
    """Make an allocation beyond the limit fail, where the system supports it."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def answer(folder: DataFolder, sql: str, language: Language, seconds: float, rows: int) -> dict[str, Any]:
    """Load the files that the query names, lock the database, and run the query.

    Raises:
        ValueError: it is refused, it fails, or it takes too long.
    """
    import duckdb

    connection = connect()
    files, common = tables_in(connection, sql, language)
    _load(connection, folder, [*files, *(name for name in common if _is_file(folder, name))], language)
    lock(connection)
    try:
        with limited(connection, language, seconds):
            return _rows(connection, sql, rows, language)
    except duckdb.Error as error:
        reason = " ".join(str(error).split("\n\nLINE", 1)[0].split())[:400]
        if isinstance(error, duckdb.BinderException | duckdb.CatalogException):
            reason += f" [{tables_text(folder.find(name, language) for name in files)}]"
        raise ValueError(phrase("query_failed", language, reason=reason)) from error


def _is_file(folder: DataFolder, name: str) -> bool:
    try:
        return bool(folder.find(name))
    except ValueError:
        return False


def _load(connection: "DuckDBPyConnection", folder: DataFolder, names: Sequence[str], language: Language) -> None:
    """Load a table for each file, under the name that the query has for it."""
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
    description = done.description or []
    if any("WITH TIME ZONE" in str(kind) for _, kind, *_ in description):
        raise ValueError(phrase("query_zone", language))
    found = done.fetchmany(most + 1)
    rows = [[_truncated(plain(value)) for value in row] for row in found[:most]]
    return {"columns": [str(name)[:_CELL] for name, *_ in description], "rows": rows, "more": len(found) > most}


def _truncated(value: Any) -> Any:
    return f"{value[:_CELL]}…" if isinstance(value, str) and len(value) > _CELL else value


if __name__ == "__main__":
    main()
