"""One connection to a PostgreSQL server, read and written as the tables do."""

import contextlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar

import psycopg
from psycopg import RawCursor, errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import RowMaker

from segue.core.clause import Clause
from segue.core.errors import DatabaseDamaged, DatabaseUnavailable, DatabaseUnreachable

from ..ports import Cursor, Values
from .state import PostgresState

SCHEMA = "segue"
"""The schema of all tables, those of LangGraph and of the queue as well."""
CHANNEL = "segue"
"""The channel of the notifications."""
STREAMS = "segue_streams"
"""The channel of deltas."""

LONGEST_PAYLOAD = 7999
"""Bytes of a notification at most."""

NONE: Mapping[str, str] = {}

_DEFAULTS: Mapping[str, Any] = {
    "application_name": "segue",
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}
"""Of the connection, unless the URL says otherwise: a network that is cut is noticed within seconds."""

# A string, a cast, or a value's place or name.
_TOKEN = re.compile(r"'(?:[^']|'')*'|::\w+|\?|:([a-z_]+)")
_NOW = b"SELECT CAST(extract(epoch FROM clock_timestamp()) AS double precision)"
_NOTIFY = b"SELECT pg_notify(channel, payload) FROM unnest($1::text[], $2::text[]) AS notices (channel, payload)"


class Row(tuple[Any, ...]):
    """A row that is read by the name of a column or by its index."""

    __slots__ = ()
    places: ClassVar[Mapping[str, int]] = {}

    def __getitem__(self, column: Any) -> Any:
        return tuple.__getitem__(self, self.places[column] if isinstance(column, str) else column)

    def keys(self) -> Sequence[str]:
        """The names of the columns."""
        return [*self.places]


class PostgresConnection:
    """A connection, in autocommit mode: transactions begin and end where they are written.

    `raw` is psycopg's, for statements of others. `notices` are sent once the transaction is committed.
    """

    for_update: ClassVar[str] = " FOR UPDATE"
    for_key_share: ClassVar[str] = " FOR KEY SHARE"
    duplicate: ClassVar[type[Exception]] = psycopg.IntegrityError

    def __init__(self, raw: "psycopg.Connection[Any]") -> None:
        self.raw = raw
        self.notices: dict[str, None] = {}

    @property
    def state(self) -> PostgresState:
        return PostgresState(self)

    def execute(self, statement: str, values: Values = ()) -> Cursor:
        """Carry out a statement; without values it is passed on as it is, and may be several."""
        cursor = RawCursor(self.raw, row_factory=_rows)
        if not values:
            return cursor.execute(statement.encode())
        query, names = _numbered(statement)
        return cursor.execute(query, [values[name] for name in names] if isinstance(values, Mapping) else values)

    def executemany(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Carry out a statement with the values of each row."""
        RawCursor(self.raw, row_factory=_rows).executemany(_numbered(statement)[0], rows)

    def fetched(self, statement: str, values: Values = ()) -> list[Any]:
        return self.execute(statement, values).fetchall()

    def notify(self, task_id: str, thread_id: str) -> None:
        payload = json.dumps({name: value for name, value in (("task", task_id), ("thread", thread_id)) if value})
        if len(payload) <= LONGEST_PAYLOAD:
            self.notices[payload] = None

    def announce(self, deltas: Sequence[str] = ()) -> None:
        """Send deltas, which are ASCII, then the notifications.

        They have a transaction of their own: with them a commit waits for all others. Who misses one, since this
        process ended before, finds the change when it looks again.
        """
        sent = [delta for delta in deltas if len(delta) <= LONGEST_PAYLOAD]
        if sent or self.notices:
            channels = [STREAMS] * len(sent) + [CHANNEL] * len(self.notices)
            RawCursor(self.raw).execute(_NOTIFY, (channels, [*sent, *self.notices]))
            self.notices.clear()

    def lock(self, what: str) -> None:
        self.execute("SELECT pg_advisory_xact_lock(hashtextextended(?, 0))", (what,))

    def now(self) -> float:
        row = self.raw.execute(_NOW).fetchone()
        return float(row[0]) if row else 0.0

    def is_lost(self) -> bool:
        """Whether the server cannot be reached over it any more."""
        return self.raw.closed

    def close(self) -> None:
        """Close it, rolling a transaction back that is under way."""
        self.raw.close()


def connect(url: str, settings: Mapping[str, str] = NONE) -> PostgresConnection:
    """Open a connection; `settings` are the server's, of this connection alone."""
    return PostgresConnection(psycopg.connect(conninfo(url, settings), autocommit=True))


def conninfo(url: str, settings: Mapping[str, str] = NONE) -> str:
    """What psycopg connects with: the URL, Segue's schema and what makes a lost connection show."""
    given: dict[str, Any] = {**_DEFAULTS, **conninfo_to_dict(url)}
    options = [str(given.get("options") or "")]
    options += [f"-c {name}={value}" for name, value in {"search_path": SCHEMA, **settings}.items()]
    return make_conninfo(**{**given, "options": " ".join(options).strip()})


@lru_cache(maxsize=1024)
def _numbered(statement: str) -> tuple[bytes, tuple[str, ...]]:
    """The statement with numbered places, and the names of its values in their order."""
    names: dict[str, int] = {}
    places = 0

    def number(token: "re.Match[str]") -> str:
        nonlocal places
        if token[0] == "?":
            places += 1
            return f"${places}"
        return f"${names.setdefault(token[1], len(names) + 1)}" if token[1] else token[0]

    return _TOKEN.sub(number, statement).encode(), tuple(names)


@lru_cache(maxsize=1024)
def _kind(names: tuple[str, ...]) -> type[Row]:
    return type("Row", (Row,), {"__slots__": (), "places": {name: place for place, name in enumerate(names)}})


def _rows(cursor: "psycopg.Cursor[Any]") -> RowMaker[Row]:
    return _kind(tuple(column.name for column in cursor.description or ()))


_UNREACHABLE = "cannot be reached: check that the server runs and that host and port are right"
_PASSWORD = "refuses the password or the user: check both; the password is in PGPASSWORD, ~/.pgpass or the URL"
_MISSING = "does not exist: create it with `createdb`, or name another one with --db"
_CROWDED = "has no connection left: close others, or raise the server's max_connections"
_RIGHTS = "may not be used by this user: grant it CREATE on the database, or let the owner of the schema open it"
_READ_ONLY = "is read-only: name the primary server with --db, or turn default_transaction_read_only off"

_INCOMPLETE = "lacks a part of Segue's schema: restore it from a copy, or name another one with --db"
_CORRUPT = "is damaged: restore it from a copy, or name another one with --db"

_REASONS: tuple[tuple[type[psycopg.Error] | tuple[type[psycopg.Error], ...], str], ...] = (
    (errors.ReadOnlySqlTransaction, _READ_ONLY),
    (errors.DiskFull, "is full: free some space on the server's disk, then resume"),
    ((errors.OutOfMemory, errors.ProgramLimitExceeded), "has no memory left: free some on the server, then resume"),
    (errors.TooManyConnections, _CROWDED),
    (errors.InsufficientPrivilege, _RIGHTS),
    (
        (errors.LockNotAvailable, errors.DeadlockDetected, errors.SerializationFailure),
        "is locked by another process: end that process's transaction, then resume",
    ),
    (errors.QueryCanceled, "did not answer in time: raise statement_timeout, then resume"),
    ((errors.UndefinedTable, errors.UndefinedColumn, errors.UndefinedFunction, errors.InvalidSchemaName), _INCOMPLETE),
    ((errors.DataCorrupted, errors.IndexCorrupted), _CORRUPT),
    (errors.IoError, "cannot be read or written: check the server's disk, then resume"),
)
# Errors of a connection that fails have no code, only the server's or libpq's message.
_REFUSALS = (
    (("too many connections", "too many clients", "remaining connection slots"), _CROWDED),
    (("permission denied",), _RIGHTS),
    (("authentication failed", "no password supplied", "no pg_hba.conf entry", 'role "'), _PASSWORD),
    (('database "',), _MISSING),
)
_KINDS = {
    _UNREACHABLE: DatabaseUnreachable,
    _CROWDED: DatabaseUnreachable,
    _INCOMPLETE: DatabaseDamaged,
    _CORRUPT: DatabaseDamaged,
}
"""The errors of reasons; of the others it is `DatabaseUnavailable`."""


@contextlib.contextmanager
def translated(path: str) -> Iterator[None]:
    """Translate errors about the server and the database; an error in a statement is raised as it is.

    Raises:
        DatabaseUnavailable: it is unreachable, read-only, full, damaged or not ours.
    """
    try:
        yield
    except psycopg.Error as error:
        if isinstance(error, psycopg.DataError) and "NUL (0x00)" in str(error):
            raise DatabaseUnavailable(
                "The text contains a NUL character, which PostgreSQL cannot store: leave it out."
            ) from error
        reason = _reason(error)
        if not reason:
            raise
        raise unavailable(path, reason) from error


def refusal(path: str, error: psycopg.OperationalError) -> DatabaseUnavailable:
    """The error for a connection that could not be opened."""
    text = str(error)
    reasons = (reason for phrases, reason in _REFUSALS if any(phrase in text for phrase in phrases))
    return unavailable(path, next(reasons, _UNREACHABLE))


def unavailable(path: str, reason: str) -> DatabaseUnavailable:
    """The error for a database that cannot be used."""
    kind = _KINDS.get(reason, DatabaseUnavailable)
    return kind("The database {path} {reason}.", path=path, reason=Clause(reason))


def _reason(error: psycopg.Error) -> str:
    for kind, reason in _REASONS:
        if isinstance(error, kind):
            return reason
    is_of_connection = isinstance(error, psycopg.OperationalError) and (
        error.sqlstate is None or error.sqlstate.startswith(("08", "57P"))
    )
    return _UNREACHABLE if is_of_connection else ""
