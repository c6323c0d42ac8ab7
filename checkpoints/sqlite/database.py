"""One SQLite file and the connections to it: opened here, shared by every module of this package."""

import asyncio
import contextlib
import os
import sqlite3
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

from langgraph.checkpoint.sqlite import SqliteSaver

from segue.core.errors import DatabaseUnavailable

from ..database import Connections
from ..state.checkpoint_ids import next_version
from .connection import SqliteConnection, translated
from .log import Anchor, check_log, drop_anchor
from .schema import SCHEMA_VERSION, check_tables, check_version, upgrade
from .state import Statements

T = TypeVar("T")

LOCK_TIMEOUT = 30.0
"""Seconds to wait for a lock that another process holds."""

LOG_PAGES = 250
"""Pages of the write-ahead log after which a commit copies them into the database, unless a reader still needs them."""

USE_FREE_PAGES = "PRAGMA auto_vacuum = INCREMENTAL"
"""Lets `shrink` return free pages to the file system."""


class _File:
    """The file at a path, as it was when it was opened."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._identity = _identity(path)

    def check(self) -> None:
        """Make sure that the path still names the file that was opened.

        Raises:
            DatabaseUnavailable: it was deleted or replaced; what is written now would be lost.
        """
        if _identity(self._path) != self._identity:
            raise DatabaseUnavailable(
                "The database {path} was deleted or replaced while it was open: nothing more is written. Restore "
                "the file, then start this process again.",
                path=self._path,
            )


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


class SqliteSession:
    """A connection to a file, opened when it is first needed and again after an error."""

    def __init__(self, path: str, file: _File, timeout: float, connect: Callable[[], SqliteConnection]) -> None:
        self._path = path
        self._file = file
        self._connect = connect
        self._connection: SqliteConnection | None = None
        self._timeout = timeout
        self._synchronous = ""
        self._waiting = True
        self._anchor: Anchor | None = None

    def begin(self, *, synced: bool, waiting: bool = True) -> None:
        with translated(self._path):
            self._file.check()
            connection = self._opened()
            synchronous = "FULL" if synced else "NORMAL"
            if synchronous != self._synchronous:
                connection.execute(f"PRAGMA synchronous = {synchronous}")
                self._synchronous = synchronous
            if waiting != self._waiting:
                connection.execute(f"PRAGMA busy_timeout = {int(self._timeout * 1000) if waiting else 0}")
                # Copying the log into the database waits for the disk.
                connection.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES if waiting else 0}")
                self._waiting = waiting
            connection.execute("BEGIN IMMEDIATE")

    def commit(self, works: Sequence[Callable[[SqliteConnection], Any]]) -> list[Any]:
        connection = self._opened()
        try:
            with translated(self._path):
                results = [work(connection) for work in works]
                with self._anchored():
                    connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):  # closing it rolls back as well
                connection.rollback()
            self.close()  # the error may keep a cursor open, which would hinder later transactions
            raise
        return results

    @contextlib.contextmanager
    def _anchored(self) -> Iterator[None]:
        """Note how far the log is synced, if this syncs it."""
        if self._synchronous != "FULL":
            yield
            return
        if self._anchor is None:
            self._anchor = Anchor(file_of(self._path))
        self._anchor.begin()
        yield
        self._anchor.end()

    def announce(self) -> None:
        """Do nothing: other processes look into the file."""

    def read(self, work: Callable[[SqliteConnection], T]) -> T:
        with translated(self._path):
            self._file.check()
            try:
                return work(self._opened())
            except BaseException:
                self.close()  # its error may keep a cursor open: later reads would see nothing newer
                raise

    def close(self) -> None:
        connection, self._connection, self._synchronous, self._waiting = self._connection, None, "", True
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()
        if self._anchor is not None:
            self._anchor.close()
            self._anchor = None

    def _opened(self) -> SqliteConnection:
        if self._connection is None:
            self._connection = self._connect()
        return self._connection


class SqliteDatabase(Connections[SqliteConnection]):
    """An open file. A `temporary` one is deleted on close."""

    def __init__(self, path: str, timeout: float, temporary: bool = False) -> None:
        self.path = path
        self.temporary = temporary
        self.timeout = timeout
        self._file = _File(file_of(path))
        self._closing = contextlib.ExitStack()
        self._statements = Statements()
        super().__init__(
            path,
            self._open(timeout),
            partial(self._open, timeout, query_only=True),
            self._open,
            sqlite3.Error,
            inline=True,
        )

    def _open(self, timeout: float, query_only: bool = False) -> SqliteSession:
        return SqliteSession(self.path, self._file, timeout, partial(_connect, self.path, timeout, query_only))

    def statements(self, thread_id: str) -> Statements:
        return self._statements.for_write(thread_id)

    def next_version(self, current: str | None) -> str:
        return next_version(current)

    @contextlib.asynccontextmanager
    async def listing(self) -> AsyncIterator[SqliteConnection]:
        await self.settle()
        with translated(self.path), contextlib.closing(_connect(self.path, self.timeout, query_only=True)) as opened:
            self._file.check()
            yield opened

    def connect(self) -> SqliteConnection:
        """Open one more plain connection, for a thread of its own; the caller closes it."""
        return _connect(self.path, self.timeout, query_only=False)

    async def close(self) -> None:
        """Finish what is under way, then close every connection; an in-memory database is gone."""
        with self._closing:
            await super().close()
            if not is_read_only(self.path):
                await asyncio.to_thread(drop_anchor, file_of(self.path))


async def open_database(path: str, lock_timeout: float = LOCK_TIMEOUT) -> SqliteDatabase:
    """Open the database at `path`, creating or upgrading it; `file:` URIs are understood, `?mode=ro` only reads.

    `:memory:` is a temporary file, deleted on close, since several connections must see the same data. `lock_timeout`
    is in seconds.

    Raises:
        DatabaseUnavailable: the file cannot be written; the message says what to do.
        DatabaseTooNew: a newer Segue wrote it.
    """
    with contextlib.ExitStack() as opened:
        temporary = path == ":memory:"
        if temporary:
            folder = opened.enter_context(tempfile.TemporaryDirectory(prefix="segue-", ignore_cleanup_errors=True))
            path = str(Path(folder, "memory.db"))
        _check_place(path)
        with translated(path):
            await asyncio.to_thread(check_log, file_of(path))
            if is_read_only(path):
                if not _has_log(file_of(path)):
                    opened.callback(_remove_log, file_of(path))
                path = await asyncio.to_thread(_readable, path)
            prepare = _check if is_read_only(path) else _prepare
            await asyncio.to_thread(prepare, path, lock_timeout)
        database = SqliteDatabase(path, lock_timeout, temporary)
        database._closing = opened.pop_all()
        return database


def _is_uri(path: str) -> bool:
    return path.startswith("file:")


def is_read_only(path: str) -> bool:
    """Whether the path is a URI that opens a file for reading only."""
    return _is_uri(path) and parse_qs(urlsplit(path).query).get("mode") == ["ro"]


def file_of(path: str) -> str:
    """The file that a path or a URI names."""
    return unquote(urlsplit(path).path) if _is_uri(path) else path


def _check_place(path: str) -> None:
    """Name the cause where SQLite would only say that it is unable to open the file."""
    if _is_uri(path):
        return
    folder = Path(path).parent
    if not path or Path(path).is_dir():
        raise DatabaseUnavailable("'{path}' is a folder, not a database: name a file in it with --db.", path=path)
    if not folder.is_dir():
        raise DatabaseUnavailable(
            "The folder {folder} does not exist: create it, or name another file with --db.", folder=folder
        )


def _connect(path: str, timeout: float, query_only: bool) -> SqliteConnection:
    """Open a connection in autocommit mode: transactions begin and end where they are written."""
    connection = sqlite3.connect(
        path,
        timeout=timeout,
        isolation_level=None,
        check_same_thread=False,
        uri=_is_uri(path),
        factory=SqliteConnection,
    )
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")
    connection.execute(f"PRAGMA query_only = {int(query_only)}")
    return connection


def _has_log(file: str) -> bool:
    """Whether the database has a log beside it, as it has while it is in use."""
    return Path(f"{file}-wal").exists()


def _readable(path: str) -> str:
    """The URI that reads a file: beside one of a folder that cannot be written, SQLite cannot create its log.

    Raises:
        DatabaseUnavailable: it has a log, so that it cannot be read without one.
    """
    try:
        with contextlib.closing(sqlite3.connect(path, uri=True)) as connection:
            connection.execute("SELECT 1 FROM sqlite_master").fetchall()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
            raise
        file = file_of(path)
        if _has_log(file):
            raise DatabaseUnavailable(
                "The database {path} was not closed, and its folder cannot be written: copy it together with "
                "{path}-wal into another folder, and name the copy with --db.",
                path=file,
            ) from error
        return f"{path}&immutable=1"
    return path


def _remove_log(file: str) -> None:
    """Have SQLite remove the log's files, which reading creates; it keeps them where another process has the file."""
    address = f"{Path(file).absolute().as_uri()}?mode=rw"
    with (
        contextlib.suppress(sqlite3.Error),  # the file may not be written: then they stay, and are empty
        contextlib.closing(sqlite3.connect(address, uri=True)) as connection,
    ):
        connection.execute("SELECT 1 FROM sqlite_master").fetchall()


def _check(path: str, timeout: float) -> None:
    """Check that a file that is only read is one of this Segue's."""
    with contextlib.closing(sqlite3.connect(path, timeout=timeout, uri=True)) as connection:
        if check_version(connection, file_of(path)) != SCHEMA_VERSION:
            raise DatabaseUnavailable(
                "The database {path} has an older schema version: `segue sessions` upgrades it.", path=file_of(path)
            )
        check_tables(connection, file_of(path))


def _prepare(path: str, timeout: float) -> None:
    """Check that the file is Segue's, then create or upgrade the tables in one transaction."""
    with contextlib.closing(
        sqlite3.connect(path, timeout=timeout, isolation_level=None, uri=_is_uri(path))
    ) as connection:
        check_version(connection, path)
        connection.execute(USE_FREE_PAGES)  # of a new file: another one takes it over when it is rewritten
        _use_wal(connection, time.monotonic() + timeout)
        connection.execute("BEGIN IMMEDIATE")
        try:
            upgrade(connection, path)
            check_tables(connection, path)
            connection.execute("COMMIT")
        except BaseException:
            connection.rollback()
            raise
        SqliteSaver(connection).setup()  # LangGraph's own tables


def _use_wal(connection: sqlite3.Connection, deadline: float) -> None:
    """Switch to write-ahead logging; SQLite's own timeout does not cover two processes that do so at once."""
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        time.sleep(0.02)
