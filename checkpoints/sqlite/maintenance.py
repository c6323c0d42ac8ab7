"""Work on the whole file: a copy before a repair, and the return of free pages."""

import asyncio
import contextlib
import math
import sqlite3
import time
from pathlib import Path

from .database import USE_FREE_PAGES, SqliteDatabase
from .errors import translated

_AT_ONCE = 250
"""Pages that one transaction returns: others wait for a few milliseconds."""


async def shrink(database: SqliteDatabase) -> None:
    """Return the file's free pages to the file system, some at a time; not of a file that another program began."""

    def work(connection: sqlite3.Connection) -> int:
        connection.execute(f"PRAGMA incremental_vacuum({_AT_ONCE})").fetchall()
        return int(connection.execute("PRAGMA freelist_count").fetchone()[0])

    left, before = await database.write(work), math.inf
    while left < before and left:
        left, before = await database.write(work), left


async def rewrite(database: SqliteDatabase) -> None:
    """Write the file anew, without deleted rows and free pages, and empty the write-ahead log."""
    if not database.temporary:
        await database.read(lambda _: _rewrite(database))


def _rewrite(database: SqliteDatabase) -> None:
    with translated(database.path), contextlib.closing(database.connect()) as connection:
        connection.execute(USE_FREE_PAGES)
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


async def copy_aside(database: SqliteDatabase, now: float) -> str:
    """Copy the whole database to a file beside it, and return its path; an in-memory database is not copied."""
    return await asyncio.to_thread(_copy, database, now)


def _copy(database: SqliteDatabase, now: float) -> str:
    with translated(database.path), contextlib.closing(database.connect()) as connection:
        file = "" if database.temporary else connection.execute("PRAGMA database_list").fetchone()["file"]
        if not file:
            return ""
        path = _free(f"{file}.damaged-{time.strftime('%Y%m%d-%H%M%S', time.localtime(now))}")
        try:
            with contextlib.closing(sqlite3.connect(path)) as copy:
                connection.backup(copy)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return str(path)


def _free(path: str) -> Path:
    """The path, with a number if there is such a file."""
    number, free = 1, Path(path)
    while free.exists():
        number += 1
        free = Path(f"{path}-{number}")
    return free
