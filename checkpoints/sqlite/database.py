"""One SQLite file: the connections to it, its backend, and its write-ahead log."""

import asyncio
import contextlib
import math
import os
import shlex
import sqlite3
import struct
import tempfile
import time
import zlib
from array import array
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import uuid4

from langgraph.checkpoint.sqlite import SqliteSaver

from segue.core.environment import sync_folder
from segue.core.errors import Clause, DatabaseDamaged, DatabaseUnavailable, NotADatabase
from segue.core.sync import run_blocking

from ..audit import KEPT
from ..database import Connections
from ..leases import LEASE_SECONDS
from ..ports import Connection, Workers
from ..rows import is_garbled, next_version
from ..schema import ReadRow, damaged_beside, damaged_rows, session_of
from .state import SCHEMA_VERSION, SqliteState, Statements, check_tables, check_version, upgrade

# One connection to a SQLite file, and SQLite's errors about the file in words that say what to do.


class SqliteConnection(sqlite3.Connection):
    """A connection to the file: a transaction that writes is alone, so that there is nothing to lock and to notify."""

    duplicate: ClassVar[type[Exception]] = sqlite3.IntegrityError
    for_update: ClassVar[str] = ""
    for_key_share: ClassVar[str] = ""

    @property
    def state(self) -> SqliteState:
        return SqliteState(self)

    def fetched(self, statement: str, values: Any = ()) -> list[sqlite3.Row]:
        """The rows of a query; text that is not valid UTF-8 as bytes, so that its row can still be read."""
        self.text_factory = _text
        try:
            return self.execute(statement, values).fetchall()
        finally:
            self.text_factory = str

    def notify(self, task_id: str, thread_id: str) -> None:
        """Do nothing: other processes look into the file."""

    def lock(self, what: str) -> None:
        """Do nothing: a transaction that writes is alone."""

    def together(self) -> contextlib.AbstractContextManager[object]:
        """Do nothing: nothing is sent."""
        return _ALONE

    def lock_task(self, task_id: str) -> None:
        """Do nothing: a transaction that writes is alone."""

    def has_locked(self, task_id: str) -> None:
        """Do nothing: a transaction that writes is alone."""

    def now(self) -> float:
        return time.time()


_ALONE = contextlib.nullcontext()


def _text(stored: bytes) -> str | bytes:
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return stored


_REASONS = {
    sqlite3.SQLITE_BUSY: "is locked by another process: stop that process, or name another file with --db",
    sqlite3.SQLITE_LOCKED: "is locked by another process: stop that process, or name another file with --db",
    sqlite3.SQLITE_PROTOCOL: "is locked by another process: stop that process, or name another file with --db",
    sqlite3.SQLITE_PERM: "may not be used by this user: change its permissions, or name another file with --db",
    sqlite3.SQLITE_READONLY: "is read-only: make it writable, or name another file with --db",
    sqlite3.SQLITE_IOERR: "cannot be read or written: check the disk, then try again",
    sqlite3.SQLITE_CORRUPT: "is damaged: restore it from a copy, or name a new file with --db",
    sqlite3.SQLITE_FULL: "is full: free some space on the disk, then resume",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened: check that it is a file you may write, or name another with --db",
    sqlite3.SQLITE_NOTADB: "is not a SQLite database: name another file with --db",
}
_KINDS = {sqlite3.SQLITE_CORRUPT: DatabaseDamaged, sqlite3.SQLITE_NOTADB: NotADatabase}


class translated:
    """Translate SQLite's errors about the file at a path; an error in a statement is raised as it is."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        code: int | None = None
        if isinstance(error, sqlite3.DatabaseError):
            code = sqlite3.SQLITE_CORRUPT if is_garbled(error) else getattr(error, "sqlite_errorcode", None)
        elif isinstance(error, UnicodeDecodeError):  # from sqlite3: the error itself quotes garbled text
            code = sqlite3.SQLITE_CORRUPT
        if code is None or (reason := _REASONS.get(code & 0xFF)) is None:
            return
        about = _KINDS.get(code & 0xFF, DatabaseUnavailable)
        raise about("The database {path} {reason}.", path=self._path, reason=Clause(reason)) from error


# The write-ahead log: its integrity, and where its last synced commit ends.

_HEADER, _FRAME_HEADER = 32, 24
_SALTS = slice(16, 24)
_FILE_HEADER, _CHANGES = 100, slice(24, 28)
"""The header of a database, and its count of changes, which a log's copy of it continues."""
_MAGIC = 0x377F0682
"""Of a log whose checksums read little-endian words; the next number is that of big-endian ones."""
_ONCE_MORE = 0.05
"""Seconds until a damaged log is read again: another process may have been writing it."""
_ANCHOR = struct.Struct(">8sI")
"""The salts of a log, which each log has its own, and a number of its frames; a checksum follows."""


class Anchor:
    """Notes in a file of its own how far a log is on the disk: SQLite takes a log that was cut short for a whole one.

    For the connection that writes: `begin` before it commits a synced transaction, `end` after that.
    """

    def __init__(self, database: str) -> None:
        self._noted = open(anchor_of(database), "wb", buffering=0)  # noqa: SIM115 - as long as the connection
        self._log = open(f"{database}-wal", "rb", buffering=0)  # noqa: SIM115
        self._salts = b""
        self._frames = 0

    def begin(self) -> None:
        """Find the end of what others committed: it may not be on the disk."""
        while self._next():
            pass

    def end(self) -> None:
        """Note the end of the transaction, if it wrote anything."""
        if self._next():
            noted = _ANCHOR.pack(self._salts, self._frames)
            with contextlib.suppress(OSError):  # it is only needed where the log is damaged
                self._noted.seek(0)
                self._noted.write(noted + zlib.crc32(noted).to_bytes(4))

    def close(self) -> None:
        self._noted.close()
        self._log.close()

    def _next(self) -> bool:
        """Go to the end of the next transaction, if there is one."""
        header = self._read(_HEADER, 0)
        if header[_SALTS] != self._salts:
            self._salts, self._frames = header[_SALTS], 0
        place, step = self._frames, _FRAME_HEADER + int.from_bytes(header[8:12])
        while _belongs(frame := self._read(_FRAME_HEADER, _HEADER + place * step), self._salts):
            place += 1
            if _ends_transaction(frame):
                self._frames = place
                return True
        return False

    def _read(self, size: int, start: int) -> bytes:
        self._log.seek(start)
        return self._log.read(size) or b""


def anchor_of(database: str) -> Path:
    """The file of a database's anchor."""
    return Path(f"{database}-anchor")


def drop_anchor(database: str) -> None:
    """Delete the anchor of a log that SQLite deleted with the last connection."""
    if not Path(f"{database}-wal").exists():
        anchor_of(database).unlink(missing_ok=True)


@dataclass(frozen=True)
class DamagedLog:
    """What of a write-ahead log can be read: `whole` of its bytes, `frames` of the frames that were written."""

    whole: int
    frames: int
    written: int


@dataclass(frozen=True)
class ForeignLog:
    """A write-ahead log that has changes of another file than the one that it is beside."""


class _Log:
    """What a write-ahead log has, read once."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.step = _FRAME_HEADER + int.from_bytes(content[8:12])
        """The size of a frame."""
        self.own = [
            start
            for start in range(_HEADER, len(content) - self.step + 1, self.step)
            if _belongs(content[start : start + _FRAME_HEADER], content[_SALTS])
        ]
        """Where the frames begin that belong to this log, and not to one before in the same file."""

    def ends_transaction(self, start: int) -> bool:
        return _ends_transaction(self.content[start : start + _FRAME_HEADER])


def check_log(path: str) -> None:
    """Make sure that the write-ahead log beside a file is whole and its own.

    SQLite would leave out what follows a damaged frame, and delete the log of another file or mix both, silently.
    """
    fault = find_fault(path)
    if fault is None:
        return
    time.sleep(_ONCE_MORE)
    if find_fault(path) != fault:
        return
    if isinstance(fault, ForeignLog):
        raise DatabaseUnavailable(
            "{log} is the write-ahead log of another file than {path}, which was replaced or removed: put the "
            "database that it belongs to back, or, to go on without the log's changes, remove {log} and {shm}.",
            log=f"{path}-wal",
            path=path,
            shm=f"{path}-shm",
        )
    raise DatabaseDamaged(
        "The write-ahead log {log} is damaged ({frames} of its {written} frames can be read), so the newest "
        "changes would be lost: restore both files from a copy. To go on without those changes: cp {log} "
        "{log}.damaged && truncate -s {whole} {log} && rm -f {anchor}",
        log=f"{path}-wal",
        frames=fault.frames,
        written=fault.written,
        whole=fault.whole,
        anchor=anchor_of(path),
    )


def find_fault(path: str) -> ForeignLog | DamagedLog | None:
    """What is wrong with the log beside a file; None if it is whole and the file's own, or not there."""
    anchor = _anchor(path)  # before the log: it may only be behind
    try:
        log = _Log(Path(f"{path}-wal").read_bytes())  # before the file: that is there first
    except FileNotFoundError:
        return None
    if len(log.content) <= _HEADER:
        return None
    if _is_foreign(log, path):
        return ForeignLog()
    return _find_damage(log, *anchor)


def _is_foreign(log: _Log, path: str) -> bool:
    """Whether it has changes of another file: this one is not there, is too short, or is newer than the log."""
    ends = [place for place, start in enumerate(log.own) if log.ends_transaction(start)]
    if not ends or log.step == _FRAME_HEADER:  # a damaged header has no size of pages
        return False
    try:
        with open(path, "rb") as file:
            size, first = os.fstat(file.fileno()).st_size, file.read(_FILE_HEADER)
    except FileNotFoundError:
        return True
    frames = [log.content[start : start + log.step] for start in log.own[: ends[-1] + 1]]
    pages = {int.from_bytes(frame[:4]): frame for frame in frames}
    length = int.from_bytes(frames[-1][4:8])
    here = size // (log.step - _FRAME_HEADER)
    if any(page not in pages for page in range(here + 1, length + 1)) or not size:
        return True
    return 1 in pages and first[_CHANGES] > pages[1][_FRAME_HEADER:][_CHANGES]


def _find_damage(log: _Log, salts: bytes, synced: int) -> DamagedLog | None:
    """What of a log can be read, if it once had more that was on the disk; None if it is whole.

    A frame that does not fit is the normal end of a log: the process was killed while it wrote, or older frames
    follow, also those of a transaction in which an earlier process was killed. It is damage where the last frame of a
    transaction of the same log comes after it, or where the log's anchor does.
    """
    content = log.content
    order = "<" if content[:4] == _MAGIC.to_bytes(4) else ">"
    sums = _checksum(content[:24], (0, 0), order)
    if struct.unpack_from(">I", content)[0] & ~1 != _MAGIC or sums != struct.unpack_from(">II", content, 24):
        frames = (len(content) - _HEADER) // (_FRAME_HEADER + 4096)
        return DamagedLog(0, 0, frames) if frames else None
    whole = _whole(content, log.own, log.step, sums, order)
    end = _HEADER + whole * log.step
    committed = any(log.ends_transaction(start) for start in log.own if start > end)
    written = max(len(log.own) if committed else whole, synced if salts == content[_SALTS] else 0)
    return DamagedLog(end, whole, written) if written > whole else None


def _whole(content: bytes, own: list[int], step: int, sums: tuple[int, int], order: str) -> int:
    """How many frames, from the first one on, are there and fit the ones before."""
    for place, start in enumerate(own):
        sums = _checksum(content[start : start + 8], sums, order)
        sums = _checksum(content[start + _FRAME_HEADER : start + step], sums, order)
        if start != _HEADER + place * step or sums != struct.unpack_from(">II", content, start + 16):
            return place
    return len(own)


def _anchor(database: str) -> tuple[bytes, int]:
    """The salts of the log that was synced last, and how many of its frames were; nothing where that is not known."""
    try:
        noted = anchor_of(database).read_bytes()
    except OSError:
        return b"", 0
    if len(noted) != _ANCHOR.size + 4 or noted[-4:] != zlib.crc32(noted[:-4]).to_bytes(4):
        return b"", 0
    salts, frames = _ANCHOR.unpack(noted[:-4])
    return salts, frames


def _belongs(frame: bytes, salts: bytes) -> bool:
    return len(frame) == _FRAME_HEADER and frame[8:16] == salts


def _ends_transaction(frame: bytes) -> bool:
    """Whether it is the last frame of a transaction, which has the size of the database."""
    return any(frame[4:8])


def _checksum(content: bytes, sums: tuple[int, int], order: str) -> tuple[int, int]:
    """SQLite's checksum of a log, continued from `sums`."""
    words = array("I", content)
    if (order == "<") != (array("H", b"\x01\x00")[0] == 1):
        words.byteswap()
    first, second = sums
    pairs = iter(words)
    for one, two in zip(pairs, pairs, strict=True):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + two + first) & 0xFFFFFFFF
    return first, second


# One SQLite file and the connections to it: opened here, shared by every module of this package.

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
        """Make sure that the path still names the file that was opened."""
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
                if self._synchronous == "FULL":
                    if self._anchor is None:
                        self._anchor = Anchor(file_of(self._path))
                    self._anchor.begin()
                    connection.execute("COMMIT")  # which syncs the log
                    self._anchor.end()
                else:
                    connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):  # closing it rolls back as well
                connection.rollback()
            self.close()  # the error may keep a cursor open, which would hinder later transactions
            raise
        return results

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
                await run_blocking(partial(drop_anchor, file_of(self.path)))


async def open_database(path: str, lock_timeout: float = LOCK_TIMEOUT) -> SqliteDatabase:
    """Open the database at `path`, creating or upgrading it; `file:` URIs are understood, `?mode=ro` only reads.

    `:memory:` is a temporary file, deleted on close, since several connections must see the same data. `lock_timeout`
    is in seconds.
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
    """The URI that reads a file: beside one of a folder that cannot be written, SQLite cannot create its log."""
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


# A SQLite file as a backend of the storage.


def find_folder(path: str) -> Path:
    """Where the contents of a database's files are: beside it."""
    return Path(f"{file_of(path)}.files")


def write_synced(path: Path, content: bytes) -> None:
    """Write a new file that only this user may read, and sync it."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


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
                write_synced(temporary, content)
                os.replace(temporary, path)
            finally:
                temporary.unlink(missing_ok=True)
            for folder in (path.parent, self._folder, self._folder.parent):
                sync_folder(folder)


@contextlib.contextmanager
def _translated(folder: Path) -> Iterator[None]:
    """Raise what the file system says as an error that says what to do."""
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
    lease_ttl: ClassVar[float] = LEASE_SECONDS
    workers: Workers | None = None

    def __init__(self, database: SqliteDatabase) -> None:
        self.database = database
        self.contents = FileFolder(find_folder(database.path))

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
    """Return the schema version and what SQLite finds wrong with the file's structure, at most that many findings."""
    check_log(str(file))
    with _opened(file, timeout) as connection:
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        found = [str(row[0]) for row in connection.execute(f"PRAGMA integrity_check({int(most)})")]
        return version, [] if found == ["ok"] else found


def check_rows(file: Path, timeout: float = LOCK_TIMEOUT) -> dict[str, list[ReadRow]]:
    """Return the damaged rows by session; an unknown session is empty."""
    found: dict[str, list[ReadRow]] = {}
    with _opened(file, timeout) as connection:
        connection.row_factory = sqlite3.Row
        for row in damaged_rows(connection):
            found.setdefault(session_of(connection, row), []).append(row)
    return found


def check_rows_beside(file: Path, timeout: float = LOCK_TIMEOUT) -> list[ReadRow]:
    """Return the damaged rows that no recovery of a session repairs."""
    with _opened(file, timeout) as connection:
        connection.row_factory = sqlite3.Row
        return damaged_beside(connection)


def saving(file: Path) -> str:
    """The commands that copy what can be read of a damaged file: `.recover` is not compiled into every sqlite3."""
    saved = str(file.with_name(f"{file.stem}-saved{file.suffix}"))
    quoted = saved.replace("\\", "\\\\").replace('"', '\\"')
    clone = shlex.join(["sqlite3", str(file), f'.clone "{quoted}"'])
    return f"{clone} && {shlex.join(['sqlite3', saved, f'PRAGMA user_version = {SCHEMA_VERSION}'])}"


def removing(file: Path, rows: Iterable[ReadRow]) -> str:
    """The command that deletes rows which no recovery repairs."""
    return shlex.join(["sqlite3", str(file), "; ".join(f"DELETE FROM {row.table} WHERE {_place(row)}" for row in rows)])


_KEYS = {
    **KEPT,
    "events": ("task_id", "seq"),
    "lease_queue": ("position",),
    "preferences": ("user_id",),
    "request_keys": ("key",),
    "webhooks": ("task_id", "webhook_id"),
    "sent_events": ("position",),
    "notifications": ("notification_id",),
    "uploads": ("upload_id",),
    "spend_calls": ("call_id",),
    "habits": ("endpoint",),
    "graph_objects": ("kind", "object_id"),
    "graph_events": ("thread_id", "seq"),
}
"""What names a row, where it is not its session."""


def _place(row: ReadRow) -> str:
    if row.table in ("tasks", "calls"):
        return f"position = {row.stored['position']}"
    columns = _KEYS.get(row.table, ("thread_id",))
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
