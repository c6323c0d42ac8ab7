"""A SQLite file as a backend of the storage."""

import asyncio
import contextlib
import math
import os
import shlex
import sqlite3
import time
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

from segue.core.errors import DatabaseUnavailable
from segue.core.files import sync_folder

from ..ports import Connection, Workers
from ..tables.leases import TTL
from ..tables.rows import ReadRow, damaged_rows, session_of
from .connection import SqliteConnection, translated
from .database import LOCK_TIMEOUT, USE_FREE_PAGES, SqliteDatabase, file_of, open_database
from .log import check_log
from .schema import SCHEMA_VERSION


class FileFolder:
    """Contents in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def place(self) -> str:
        return str(self._folder)

    async def store(self, digest: str, content: bytes) -> None:
        await asyncio.to_thread(self._store, digest, content)

    async def read(self, digest: str) -> bytes | None:
        return await asyncio.to_thread(self._read, digest)

    def lock(self, _: Connection, digest: str) -> None:
        """Do nothing: a transaction that writes is alone."""

    def delete(self, _: Connection, digest: str) -> None:
        """Delete a content, and what a process that was killed wrote of it."""
        path = self._path(digest)
        with _translated(self._folder):
            for file in (path, *path.parent.glob(f".{digest}.*")):
                file.unlink(missing_ok=True)

    def _path(self, digest: str) -> Path:
        return self._folder / digest[:2] / digest

    def _read(self, digest: str) -> bytes | None:
        with _translated(self._folder):
            try:
                return self._path(digest).read_bytes()
            except FileNotFoundError:
                return None

    def _store(self, digest: str, content: bytes) -> None:
        """Write a content as a whole or not at all; one that is damaged is replaced."""
        if (stored := self._read(digest)) is not None and sha256(stored).hexdigest() == digest:
            return
        path = self._path(digest)
        with _translated(self._folder):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            temporary = path.with_name(f".{digest}.{uuid4().hex}")
            try:
                _write(temporary, content)
                os.replace(temporary, path)
            finally:
                temporary.unlink(missing_ok=True)
            for folder in (path.parent, self._folder, self._folder.parent):
                sync_folder(folder)


def _write(path: Path, content: bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def _translated(folder: Path) -> Iterator[None]:
    """Raise what the file system says as an error that says what to do.

    Raises:
        DatabaseUnavailable.
    """
    try:
        yield
    except OSError as error:
        raise DatabaseUnavailable(
            "The files of messages in {folder} cannot be read or written ({reason}): check the disk and the "
            "permissions, then try again.",
            folder=folder,
            reason=error.strerror or error,
        ) from error


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
    """Rewrite the file without deleted rows and free pages, and empty the write-ahead log."""
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


class SqliteBackend:
    """An open SQLite file."""

    schema_version: ClassVar[int] = SCHEMA_VERSION
    lease_ttl: ClassVar[float] = TTL
    workers: Workers | None = None

    def __init__(self, database: SqliteDatabase) -> None:
        self.database = database
        self.contents = FileFolder(Path(f"{file_of(database.path)}.files"))

    def touch(self, connection: SqliteConnection) -> None:
        """Write a page of the file as it is, so that what would hinder a write shows."""
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        connection.execute(f"PRAGMA user_version = {int(version)}")

    async def sync(self) -> None:
        await self.database.write(self.touch, synced=True)

    async def compact(self) -> None:
        await rewrite(self.database)

    async def shrink(self) -> None:
        await shrink(self.database)

    async def copy_aside(self, now: float) -> str:
        return await copy_aside(self.database, now)


async def open_sqlite(path: str) -> SqliteBackend:
    """Open the SQLite file at `path`."""
    return SqliteBackend(await open_database(path))


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
