"""One SQLite file and the connections to it: opened here, shared by every module of this package."""

import asyncio
import contextlib
import sqlite3
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from langgraph.checkpoint.sqlite import SqliteSaver

from segue.core.errors import DatabaseUnavailable

from .errors import translated
from .file import File, check_log
from .schema import check_tables, check_version, upgrade
from .writer import Failed, Writer

T = TypeVar("T")

LOCK_TIMEOUT = 30.0
"""Seconds to wait for a lock that another process holds."""

LOG_PAGES = 250
"""Pages of the write-ahead log after which a commit copies them into the database, unless a reader still needs them."""

READERS = 4
"""Reads that may be under way at once."""


class Readers:
    """Connections that only read, each on a thread of its own."""

    def __init__(self, path: str, file: File, connect: Callable[[], sqlite3.Connection]) -> None:
        self._path = path
        self._file = file
        self._connect = connect
        self._threads = ThreadPoolExecutor(READERS, thread_name_prefix="segue-sqlite")
        self._local = threading.local()
        self._opened: set[sqlite3.Connection] = set()

    def submit(self, work: Callable[[sqlite3.Connection], T]) -> "asyncio.Future[T]":
        """Begin `work`."""
        return asyncio.get_running_loop().run_in_executor(self._threads, self._run, work)

    def close(self) -> None:
        """Finish what was submitted, then close the connections."""
        self._threads.shutdown(wait=True)
        for connection in self._opened:
            connection.close()

    def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with translated(self._path):
            self._file.check()
            connection = self._connection()
            try:
                return work(connection)
            except BaseException:
                self._close(connection)  # its error may keep a cursor open: later reads would see nothing newer
                raise

    def _connection(self) -> sqlite3.Connection:
        """The thread's own connection, opened when it is first needed."""
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._connect()
            self._opened.add(connection)
        return connection

    def _close(self, connection: sqlite3.Connection) -> None:
        self._local.connection = None
        self._opened.discard(connection)
        connection.close()


class Database:
    """An open database.

    One connection writes; others read. So no read keeps a write from beginning, and a lock that a write waits for is
    another process's. A `temporary` one is deleted on close.
    """

    def __init__(self, path: str, timeout: float, temporary: bool = False) -> None:
        self.path = path
        self.temporary = temporary
        self.timeout = timeout
        self._file = File(_place(path))
        self._writer = Writer(path, self._file, self.connect)
        self._readers = Readers(path, self._file, partial(_connect, path, timeout, query_only=True))
        self._closing = contextlib.AsyncExitStack()

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Carry out `work`, which only reads; it sees every write that was waited for."""
        await self._writer.settle()
        return await self._readers.submit(work)

    def submit(
        self,
        work: Callable[[sqlite3.Connection], T],
        *,
        synced: bool = False,
        failed: Failed | None = None,
        deferred: bool = False,
    ) -> "asyncio.Future[T]":
        """Begin `work` as one immediate transaction, after those that were begun before.

        It may run twice, of which one is rolled back. `synced` puts it on the disk, and with it all that was written
        before. `failed` gets the error, before the next transaction begins. A `deferred` one waits a moment for the
        next one, to be committed with it. Shield the future to let it end when the waiter is cancelled.
        """
        return self._writer.submit(work, synced=synced, failed=failed, deferred=deferred)

    async def write(self, work: Callable[[sqlite3.Connection], T], *, synced: bool = False) -> T:
        """Carry out `work` as one immediate transaction, to its end even if the caller is cancelled.

        Raises:
            DatabaseUnavailable: the database cannot be written; nothing was changed.
        """
        return await asyncio.shield(self.submit(work, synced=synced))

    @contextlib.asynccontextmanager
    async def listing(self) -> AsyncIterator[sqlite3.Connection]:
        """One more connection that only reads, for a listing that its reader may leave for a while."""
        await self._writer.settle()
        with translated(self.path), contextlib.closing(_connect(self.path, self.timeout, query_only=True)) as opened:
            self._file.check()
            yield opened

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
        database = Database(path, lock_timeout, temporary)
        opened.push_async_callback(asyncio.to_thread, database._readers.close)
        opened.push_async_callback(asyncio.to_thread, database._writer.close)
        database._closing = opened.pop_all()
        return database


@contextlib.contextmanager
def one_view(connection: sqlite3.Connection) -> Iterator[None]:
    """Read from the database as it is at the first statement."""
    connection.execute("SAVEPOINT view")
    try:
        yield
        connection.execute("RELEASE view")
    except BaseException:
        connection.rollback()
        raise


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
