"""One SQLite file and the connections to it: opened here, shared by every module of this package."""

import asyncio
import contextlib
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

import aiosqlite
from langgraph.checkpoint.sqlite import SqliteSaver

from segue.core.errors import DatabaseDamaged, DatabaseUnavailable

from .file import File, check_log
from .schema import check_tables, check_version, upgrade

T = TypeVar("T")
Failed = Callable[[BaseException], None]

LOCK_TIMEOUT = 30.0
"""Seconds to wait for a lock that another process holds."""

LOG_PAGES = 250
"""Pages of the write-ahead log after which a commit copies them into the database, unless a reader still needs them."""

READERS = 4
"""Reads that may be under way at once, besides one of LangGraph's saver."""

_REASONS = {
    sqlite3.SQLITE_BUSY: "is locked by another process: stop that process, or name another file with --db",
    sqlite3.SQLITE_LOCKED: "is locked by another process: stop that process, or name another file with --db",
    sqlite3.SQLITE_PROTOCOL: "is locked by another process: stop that process, or name another file with --db",
    sqlite3.SQLITE_PERM: "may not be used by this user: change its permissions, or name another file with --db",
    sqlite3.SQLITE_READONLY: "is read-only: make it writable, or name another file with --db",
    sqlite3.SQLITE_IOERR: "cannot be read or written: check the disk, then try again",
    sqlite3.SQLITE_CORRUPT: "is damaged: restore it from a copy, or name a new file with --db",
    sqlite3.SQLITE_FULL: "has no room left: free some space on the disk, then resume",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened: check that it is a file you may write, or name another with --db",
    sqlite3.SQLITE_NOTADB: "is not a SQLite database: name another file with --db",
}
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_GARBLED = ("Could not decode to UTF-8", "malformed JSON", "JSON cannot hold BLOB values", "unsupported file format")


@contextlib.contextmanager
def translated(path: str) -> Iterator[None]:
    """Translate SQLite's errors about the file; an error in a statement is raised as it is.

    Raises:
        DatabaseUnavailable: the file is locked, read-only, full, damaged or not a database.
    """
    try:
        yield
    except sqlite3.DatabaseError as error:
        code = sqlite3.SQLITE_CORRUPT if is_garbled(error) else getattr(error, "sqlite_errorcode", None)
        reason = None if code is None else _REASONS.get(code & 0xFF)
        if code is None or reason is None:
            raise
        kind = DatabaseDamaged if code & 0xFF in _DAMAGED else DatabaseUnavailable
        raise kind("The database {path} {reason}.", path=path, reason=reason) from error
    except UnicodeDecodeError as error:  # from sqlite3: the error itself quotes garbled text
        raise DatabaseDamaged(
            "The database {path} {reason}.", path=path, reason=_REASONS[sqlite3.SQLITE_CORRUPT]
        ) from error


def is_garbled(error: sqlite3.Error) -> bool:
    """Whether the error means a malformed value in the file; SQLite has no error code for it, only a message."""
    return isinstance(error, sqlite3.OperationalError) and str(error).startswith(_GARBLED)


class Connections:
    """Connections to one file, each on a thread of its own: work runs there in one piece, whatever the loop does."""

    def __init__(self, path: str, timeout: float, file: File, size: int, *, query_only: bool) -> None:
        self._path = path
        self._file = file
        self._threads = ThreadPoolExecutor(size, thread_name_prefix="segue-sqlite")
        self._connect = partial(_connect, path, timeout, query_only)
        self._local = threading.local()
        self._opened: list[sqlite3.Connection] = []

    def submit(self, work: Callable[[sqlite3.Connection], T], failed: Failed | None = None) -> "asyncio.Future[T]":
        """Begin `work`; shield the future to let it end when the waiter is cancelled."""
        return asyncio.get_running_loop().run_in_executor(self._threads, self._run, work, failed)

    async def close(self) -> None:
        """Finish what was submitted, then close."""
        await asyncio.to_thread(self._shut)

    def _run(self, work: Callable[[sqlite3.Connection], T], failed: Failed | None) -> T:
        try:
            with translated(self._path):
                self._file.check()
                return work(self._connection())
        except BaseException as error:
            if failed is not None:
                failed(error)
            raise

    def _connection(self) -> sqlite3.Connection:
        """The thread's own connection, opened when it is first needed."""
        if not hasattr(self._local, "connection"):
            self._local.connection = self._connect()
            self._opened.append(self._local.connection)
        connection: sqlite3.Connection = self._local.connection
        return connection

    def _shut(self) -> None:
        self._threads.shutdown(wait=True)
        for connection in self._opened:
            connection.close()


class Database:
    """An open database.

    One connection writes; others read, `checkpoints` for LangGraph's saver among them. So no read keeps a write from
    beginning, and a lock that a write waits for is another process's. A `temporary` one is deleted on close.
    """

    def __init__(self, path: str, timeout: float, checkpoints: aiosqlite.Connection, temporary: bool = False) -> None:
        self.path = path
        self.temporary = temporary
        self.timeout = timeout
        self.checkpoints = checkpoints
        self._file = File(_place(path))
        self._writer = Connections(path, timeout, self._file, 1, query_only=False)
        self._readers = Connections(path, timeout, self._file, READERS, query_only=True)
        self._closing = contextlib.AsyncExitStack()

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Carry out `work`, which only reads; it sees every write that was waited for."""
        return await self._readers.submit(work)

    def submit(
        self,
        work: Callable[[sqlite3.Connection], T],
        *,
        synced: bool = False,
        failed: Failed | None = None,
    ) -> "asyncio.Future[T]":
        """Begin `work` as one immediate transaction, after those that were begun before.

        `synced` puts it on the disk, and with it all that was written before. `failed` gets the error, before the next
        transaction begins. Shield the future to let it end when the waiter is cancelled.
        """
        return self._writer.submit(partial(_transact, work, "FULL" if synced else "NORMAL"), failed)

    async def write(self, work: Callable[[sqlite3.Connection], T], *, synced: bool = False) -> T:
        """Carry out `work` as one immediate transaction, to its end even if the caller is cancelled.

        Raises:
            DatabaseUnavailable: the database cannot be written; nothing was changed.
        """
        return await asyncio.shield(self.submit(work, synced=synced))

    def connect(self) -> sqlite3.Connection:
        """Open one more plain connection, for a thread of its own; the caller closes it."""
        return _connect(self.path, self.timeout, query_only=False)

    def check_file(self) -> None:
        """Make sure that the file is still the one that was opened; from any thread.

        Raises:
            DatabaseUnavailable: it was deleted or replaced.
        """
        self._file.check()

    async def close(self) -> None:
        """Finish what is under way, then close every connection; an in-memory database is gone."""
        await self._closing.aclose()

    async def __aenter__(self) -> "Database":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


async def open_database(path: str, lock_timeout: float = LOCK_TIMEOUT) -> Database:
    """Open the database at `path`, creating or upgrading it; `file:` URIs are understood.

    `:memory:` is a temporary file, deleted on close, since several connections must see the same data. `lock_timeout`
    is in seconds.

    Raises:
        DatabaseUnavailable: the file cannot be written; the message says what to do.
        DatabaseTooNew: a newer Segue wrote it.
    """
    async with contextlib.AsyncExitStack() as opened:
        temporary = path == ":memory:"
        if temporary:
            folder = opened.enter_context(tempfile.TemporaryDirectory(prefix="segue-"))
            path = str(Path(folder, "memory.db"))
        _check_place(path)
        with translated(path):
            await asyncio.to_thread(check_log, _place(path))
            await asyncio.to_thread(_prepare, path, lock_timeout)
            connecting = aiosqlite.connect(path, timeout=lock_timeout, uri=_is_uri(path))
            connecting._thread.daemon = True  # it must not keep a process alive that forgot to close its app
            checkpoints = await opened.enter_async_context(connecting)
            await checkpoints.execute("PRAGMA query_only = ON")
        database = Database(path, lock_timeout, checkpoints, temporary)
        opened.push_async_callback(database._readers.close)
        opened.push_async_callback(database._writer.close)
        database._closing = opened.pop_all()
        return database


@contextlib.contextmanager
def lenient(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Return text that is not valid UTF-8 as bytes, so that its row can still be read."""
    connection.text_factory = _text
    try:
        yield connection
    finally:
        connection.text_factory = str


def fetched(connection: sqlite3.Connection, statement: str, values: Any = ()) -> list[sqlite3.Row]:
    """The rows of a query, whatever they hold."""
    with lenient(connection):
        return connection.execute(statement, values).fetchall()


def _text(stored: bytes) -> str | bytes:
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return stored


def touch(connection: sqlite3.Connection) -> None:
    """Write a page of the file as it is, so that what would hinder a write shows."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    connection.execute(f"PRAGMA user_version = {int(version)}")


def _is_uri(path: str) -> bool:
    return path.startswith("file:")


def _place(path: str) -> str:
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


def _connect(path: str, timeout: float, query_only: bool) -> sqlite3.Connection:
    """Open a connection in autocommit mode: transactions begin and end where they are written."""
    connection = sqlite3.connect(
        path, timeout=timeout, isolation_level=None, check_same_thread=False, uri=_is_uri(path)
    )
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")
    connection.execute(f"PRAGMA query_only = {int(query_only)}")
    return connection


def _transact(work: Callable[[sqlite3.Connection], T], synchronous: str, connection: sqlite3.Connection) -> T:
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    try:
        connection.execute("BEGIN IMMEDIATE")
        result = work(connection)
        connection.execute("COMMIT")
    except BaseException:
        connection.rollback()
        raise
    return result


def _prepare(path: str, timeout: float) -> None:
    """Check that the file is Segue's, then create or upgrade the tables in one transaction."""
    with contextlib.closing(
        sqlite3.connect(path, timeout=timeout, isolation_level=None, uri=_is_uri(path))
    ) as connection:
        check_version(connection, path)
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
