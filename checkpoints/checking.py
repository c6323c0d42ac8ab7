"""Look over a database file for damage, without changing it."""

import contextlib
import sqlite3
from pathlib import Path

from .database import LOCK_TIMEOUT, translated


def check_pages(file: Path, most: int = 100, timeout: float = LOCK_TIMEOUT) -> tuple[int, list[str]]:
    """Return the schema version and what SQLite finds wrong with the file's structure, at most that many findings.

    Raises:
        DatabaseUnavailable: it cannot even be read that far.
    """
    address = f"{file.absolute().as_uri()}?mode=ro"
    with (
        translated(str(file)),
        contextlib.closing(sqlite3.connect(address, uri=True, timeout=timeout)) as connection,
    ):
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        found = [str(row[0]) for row in connection.execute(f"PRAGMA quick_check({int(most)})")]
        return version, [] if found == ["ok"] else found
