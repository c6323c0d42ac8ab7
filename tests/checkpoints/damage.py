"""Damage to single rows, as a disk or a stray program does it: with nothing but sqlite3."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

NULL = "NULL"
BLOB = "x'00ff'"
NO_TEXT = "CAST(x'ff41' AS TEXT)"
CUT_OFF = "'{\"answer\": '"
ANOTHER = "'[7]'"
"""What a column is damaged to."""


def damage(path: Path, *statements: str) -> None:
    """Carry out statements on a file, whose tables take NULL in every column."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', '') WHERE name IN ('tasks', 'calls')"
        )
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            assert connection.execute(statement).rowcount > 0, f"nothing was damaged by {statement}"


def copied(path: Path, folder: Path) -> Path:
    """A copy of a database in a folder of its own."""
    folder.mkdir(exist_ok=True)
    return Path(shutil.copy(path, folder / "segue.db"))


def stored(path: Path, *tables: str) -> list[list[Any]]:
    """Everything that tables hold, also what is no text."""
    with closing(sqlite3.connect(path)) as connection:
        connection.text_factory = bytes
        return [connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2, 3, 4").fetchall() for table in tables]
