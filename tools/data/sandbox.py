"""A model's SQL in a process of its own, with limits on its time and memory and without our environment.

The database engine interrupts a query only between steps, and one step of a hostile query can take minutes and all of
a machine's memory; a process can be ended. It loads only the files that the query names. Then the database is locked:
neither files, network nor settings are within its reach, and whatever it does to the tables ends with the process.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from segue.core.environment import whole_number
from segue.prompts.catalogue import Language, data_text

from .answers import plain
from .sources import SECONDS, DataFile, DataFolder, connect, limited, load, lock, need_duckdb, tables_text

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ROWS = 100
"""Rows of a result at most."""
GRACE = 5.0
"""Seconds between the interrupt and the end of the process."""
LIMIT = "SEGUE_QUERY_PROCESSES"
ADDRESS_SPACE = 5 << 29
"""Bytes of memory, the mapped libraries included."""
LONGEST = 10_000
"""Characters of a query."""
_CELL = 200
_TABLE_FUNCTIONS = ("range", "generate_series", "unnest")
_REFUSED = ("current_setting", "getvariable")
_KEPT = ("PATH", "SYSTEMROOT", "TMPDIR", "TEMP", "TMP", "LANG", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


@cache
def slots() -> threading.BoundedSemaphore:
    """How many queries this process runs at once: `SEGUE_QUERY_PROCESSES`, 2 by default."""
    return threading.BoundedSemaphore(whole_number(os.environ, LIMIT, 2))


def run_query(folder: DataFolder, sql: str, language: Language, seconds: float = SECONDS) -> dict[str, Any]:
    """The columns and rows of a query over the folder's files, and whether there are more.

    The time includes waiting until fewer than `SEGUE_QUERY_PROCESSES` queries run.
    """
    need_duckdb()
    deadline = time.monotonic() + seconds
    if not slots().acquire(timeout=seconds):
        raise ValueError(data_text("query_busy", language, seconds=seconds))
    try:
        left = max(deadline - time.monotonic(), min(seconds, 1.0))
        asked = {"folder": str(folder.path.absolute()), "sql": sql, "language": language, "seconds": left, "rows": ROWS}
        done = _run(json.dumps(asked).encode(), left + GRACE)
    except subprocess.TimeoutExpired as error:
        raise ValueError(data_text("too_slow", language, seconds=seconds)) from error
    finally:
        slots().release()
    if done.returncode:
        raise ValueError(data_text("query_crashed", language))
    found: dict[str, Any] = json.loads(done.stdout)
    if "error" in found:
        raise ValueError(found["error"])
    return found


def _run(asked: bytes, seconds: float) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-P", "-m", f"{__package__}.sandbox"]
    # What Python needs, and no keys.
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
    environment |= {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONIOENCODING": "utf-8"}
    return subprocess.run(command, input=asked, capture_output=True, timeout=seconds, env=environment, check=False)


# In the process.


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
    """Load the files that the query names, lock the database, and run the query."""
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
        raise ValueError(data_text("query_failed", language, reason=reason)) from error


def tables_in(connection: "DuckDBPyConnection", sql: str, language: Language) -> tuple[list[str], set[str]]:
    """The tables that a query reads from, and the names in lower case that it defines itself; nothing of it is run."""
    import duckdb

    if len(sql) > LONGEST:
        raise ValueError(data_text("query_long", language, most=LONGEST))
    try:
        statements = connection.extract_statements(sql)
        if len(statements) != 1:
            raise ValueError(data_text("query_one", language))
        if statements[0].type != duckdb.StatementType.SELECT:
            raise ValueError(data_text("query_select", language))
        (text,) = connection.execute("SELECT json_serialize_sql(CAST(? AS VARCHAR))", [sql]).fetchall()[0]
    except duckdb.Error as error:
        raise ValueError(data_text("query_failed", language, reason=_reason(error))) from error
    nodes = _objects(text)
    called = {node["function"]["function_name"] for node in nodes if node.get("type") == "TABLE_FUNCTION"}
    read = {node["function_name"] for node in nodes if str(node.get("function_name")).casefold() in _REFUSED}
    if refused := [name for name in called if name.casefold() not in _TABLE_FUNCTIONS] + [*read]:
        raise ValueError(data_text("query_source", language, name=f"{refused[0]}()"))
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
        raise ValueError(data_text("query_zone", language))
    found = done.fetchmany(most + 1)
    rows = [[_truncated(plain(value)) for value in row] for row in found[:most]]
    return {"columns": [str(name)[:_CELL] for name, *_ in description], "rows": rows, "more": len(found) > most}


def _truncated(value: Any) -> Any:
    return f"{value[:_CELL]}…" if isinstance(value, str) and len(value) > _CELL else value


if __name__ == "__main__":
    main()
