"""The process that runs a model's SQL: it reads a query from its input and writes rows or an error.

Only the files that the query names are loaded. Then the database is locked: neither files, network nor settings are
within its reach, and whatever it does to the tables ends with the process.
"""

import contextlib
import json
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from segue.prompts.data import phrase
from segue.prompts.language import Language

from .engine import connect, limited, lock
from .folder import DataFile, DataFolder
from .questions import plain
from .sources import load, tables_text

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ADDRESS_SPACE = 5 << 29
"""Bytes of memory, the mapped libraries included."""
_CELL = 200
_TABLE_FUNCTIONS = ("range", "generate_series", "unnest")
_REFUSED = ("current_setting", "getvariable")
LONGEST = 10_000
"""Characters of a query."""


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
    files = _files(folder, *tables_in(connection, sql, language), language)
    for name, file in files.items():
        load(connection, file, name, language)
    lock(connection)
    try:
        with limited(connection, language, seconds):
            return _rows(connection, sql, rows, language)
    except duckdb.Error as error:
        reason = _reason(error)
        if isinstance(error, duckdb.BinderException | duckdb.CatalogException):
            reason += f" [{tables_text(files.values())}]"
        raise ValueError(phrase("query_failed", language, reason=reason)) from error


def tables_in(connection: "DuckDBPyConnection", sql: str, language: Language) -> tuple[list[str], set[str]]:
    """The tables that a query reads from, and the names in lower case that it defines itself; nothing of it is run.

    Raises:
        ValueError: it is not exactly one SELECT, or reads from a function, such as one for files or settings.
    """
    import duckdb

    if len(sql) > LONGEST:
        raise ValueError(phrase("query_long", language, most=LONGEST))
    try:
        statements = connection.extract_statements(sql)
        if len(statements) != 1:
            raise ValueError(phrase("query_one", language))
        if statements[0].type != duckdb.StatementType.SELECT:
            raise ValueError(phrase("query_select", language))
        (text,) = connection.execute("SELECT json_serialize_sql(CAST(? AS VARCHAR))", [sql]).fetchall()[0]
    except duckdb.Error as error:
        raise ValueError(phrase("query_failed", language, reason=_reason(error))) from error
    nodes = _objects(text)
    called = {node["function"]["function_name"] for node in nodes if node.get("type") == "TABLE_FUNCTION"}
    read = {node["function_name"] for node in nodes if str(node.get("function_name")).casefold() in _REFUSED}
    if refused := [name for name in called if name.casefold() not in _TABLE_FUNCTIONS] + [*read]:
        raise ValueError(phrase("query_source", language, name=f"{refused[0]}()"))
    parts = (part for node in nodes if node.get("cte_map") for part in node["cte_map"]["map"])
    tables = dict.fromkeys(node["table_name"] for node in nodes if node.get("type") == "BASE_TABLE")
    return list(tables), {part["key"].casefold() for part in parts}


def _objects(text: str) -> list[dict[str, Any]]:
    """Every object in a JSON text."""
    found: list[dict[str, Any]] = []

    def keep(one: dict[str, Any]) -> dict[str, Any]:
        found.append(one)
        return one

    json.loads(text, object_hook=keep)
    return found


def _reason(error: Exception) -> str:
    """What the engine says, without the query's line."""
    return " ".join(str(error).split("\n\nLINE", 1)[0].split())[:400]


def _files(folder: DataFolder, names: Sequence[str], defined: set[str], language: Language) -> dict[str, DataFile]:
    """The files by the names that a query has for them; a name that it defines need not be a file's."""
    files: dict[str, DataFile] = {}
    for name in names:
        try:
            files[name] = folder.find(name, language)
        except ValueError:
            if name.casefold() not in defined:
                raise
    return files


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
