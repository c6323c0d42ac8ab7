"""Read-only damage checks of a database file."""

import contextlib
import shlex
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..tables.integrity import ReadRow, damaged_rows, session_of
from .connection import SqliteConnection
from .database import LOCK_TIMEOUT
from .errors import translated
from .log import check_log
from .schema import SCHEMA_VERSION


def check_pages(file: Path, most: int = 100, timeout: float = LOCK_TIMEOUT) -> tuple[int, list[str]]:
    """Return the schema version and what SQLite finds wrong with the file's structure, at most that many findings.

    Raises:
        DatabaseUnavailable: it cannot even be read that far, or its write-ahead log is damaged.
    """
    check_log(str(file))
    with _opened(file, timeout) as connection:
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        found = [str(row[0]) for row in connection.execute(f"PRAGMA integrity_check({int(most)})")]
        return version, [] if found == ["ok"] else found


def check_rows(file: Path, timeout: float = LOCK_TIMEOUT) -> dict[str, list[ReadRow]]:
    """Return the damaged rows by session; an unknown session is empty.

    Raises:
        DatabaseUnavailable: the file itself is damaged.
    """
    found: dict[str, list[ReadRow]] = {}
    with _opened(file, timeout) as connection:
        connection.row_factory = sqlite3.Row
        for row in damaged_rows(connection):
            found.setdefault(session_of(connection, row), []).append(row)
    return found


def saving(file: Path) -> str:
    """The commands that copy what can be read of a damaged file: `.recover` is not compiled into every sqlite3."""
    saved = str(file.with_name(f"{file.stem}-saved{file.suffix}"))
    quoted = saved.replace("\\", "\\\\").replace('"', '\\"')
    clone = shlex.join(["sqlite3", str(file), f'.clone "{quoted}"'])
    return f"{clone} && {shlex.join(['sqlite3', saved, f'PRAGMA user_version = {SCHEMA_VERSION}'])}"


def removing(file: Path, rows: Iterable[ReadRow]) -> str:
    """The command that deletes rows whose session is unknown."""
    return shlex.join(["sqlite3", str(file), "; ".join(f"DELETE FROM {row.table} WHERE {_place(row)}" for row in rows)])


def _place(row: ReadRow) -> str:
    if row.table in ("tasks", "calls"):
        return f"position = {row.stored['position']}"
    columns = ("task_id", "seq") if row.table == "events" else ("thread_id",)
    return " AND ".join(f"hex({column}) = '{_hex(row.stored[column])}'" for column in columns)


def _hex(value: Any) -> str:
    """What SQLite's hex() makes of a value."""
    return (value if isinstance(value, bytes) else b"" if value is None else str(value).encode()).hex().upper()


@contextlib.contextmanager
def _opened(file: Path, timeout: float) -> Iterator[SqliteConnection]:
    address = f"{file.absolute().as_uri()}?mode=ro"
    with (
        translated(str(file)),
        contextlib.closing(sqlite3.connect(address, uri=True, timeout=timeout, factory=SqliteConnection)) as connection,
    ):
        yield connection
