"""One connection to a SQLite file, and SQLite's errors about the file in words that say what to do."""

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from typing import Any, ClassVar

from segue.core.clause import Clause
from segue.core.errors import DatabaseDamaged, DatabaseUnavailable, NotADatabase

from ..state.serializer import is_garbled
from .state import SqliteState


class SqliteConnection(sqlite3.Connection):
    """A connection to the file: a transaction that writes is alone, so that there is nothing to lock and to notify."""

    duplicate: ClassVar[type[Exception]] = sqlite3.IntegrityError
    for_update: ClassVar[str] = ""
    for_key_share: ClassVar[str] = ""

    @property
    def state(self) -> SqliteState:
        return SqliteState(self)

    def fetched(self, statement: str, values: Any = ()) -> list[sqlite3.Row]:
        with lenient(self):
            return self.execute(statement, values).fetchall()

    def notify(self, task_id: str, thread_id: str) -> None:
        """Do nothing: other processes look into the file."""

    def lock(self, what: str) -> None:
        """Do nothing: a transaction that writes is alone."""

    def now(self) -> float:
        return time.time()


@contextlib.contextmanager
def lenient(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Return text that is not valid UTF-8 as bytes, so that its row can still be read."""
    connection.text_factory = _text
    try:
        yield connection
    finally:
        connection.text_factory = str


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
        kind = _KINDS.get(code & 0xFF, DatabaseUnavailable)
        raise kind("The database {path} {reason}.", path=path, reason=Clause(reason)) from error
    except UnicodeDecodeError as error:  # from sqlite3: the error itself quotes garbled text
        raise DatabaseDamaged(
            "The database {path} {reason}.", path=path, reason=Clause(_REASONS[sqlite3.SQLITE_CORRUPT])
        ) from error
