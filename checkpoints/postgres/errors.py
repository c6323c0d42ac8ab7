"""PostgreSQL's errors about the server and the database, in words that say what to do."""

import contextlib
from collections.abc import Iterator

import psycopg
from psycopg import errors

from segue.core.errors import DatabaseDamaged, DatabaseUnavailable, DatabaseUnreachable

UNREACHABLE = "cannot be reached: check that the server runs and that host and port are right"
_PASSWORD = "refuses the password or the user: check both; the password is in PGPASSWORD, ~/.pgpass or the URL"
_MISSING = "does not exist: create it with `createdb`, or name another one with --db"
_CROWDED = "has no connection left: close others, or raise the server's max_connections"
_RIGHTS = "may not be used by this user: grant it CREATE on the database, or let the owner of the schema open it"
_READ_ONLY = "is read-only: name the primary server with --db, or turn default_transaction_read_only off"

_REASONS: tuple[tuple[type[psycopg.Error] | tuple[type[psycopg.Error], ...], str], ...] = (
    (errors.ReadOnlySqlTransaction, _READ_ONLY),
    (errors.DiskFull, "has no room left: free some space on the server's disk, then resume"),
    ((errors.OutOfMemory, errors.ProgramLimitExceeded), "has no memory left: free some on the server, then resume"),
    (errors.TooManyConnections, _CROWDED),
    (errors.InsufficientPrivilege, _RIGHTS),
    (
        (errors.LockNotAvailable, errors.DeadlockDetected, errors.SerializationFailure),
        "is locked by another process: end that process's transaction, then resume",
    ),
    (errors.QueryCanceled, "did not answer in time: raise statement_timeout, then resume"),
    (
        (errors.UndefinedTable, errors.UndefinedColumn, errors.UndefinedFunction, errors.InvalidSchemaName),
        "lacks a part of Segue's schema: restore it from a copy, or name another one with --db",
    ),
    (errors.IoError, "cannot be read or written: check the server's disk, then resume"),
)
_DAMAGED = (errors.DataCorrupted, errors.IndexCorrupted)

# Errors of a connection that fails have no code, only the server's or libpq's message.
_REFUSALS = (
    (("too many connections", "too many clients", "remaining connection slots"), _CROWDED),
    (("permission denied",), _RIGHTS),
    (("authentication failed", "no password supplied", "no pg_hba.conf entry", 'role "'), _PASSWORD),
    (('database "',), _MISSING),
)
PASSING = (UNREACHABLE, _CROWDED)
"""Reasons that may be gone in a moment: a server that starts anew says so."""


@contextlib.contextmanager
def translated(path: str) -> Iterator[None]:
    """Translate errors about the server and the database; an error in a statement is raised as it is.

    Raises:
        DatabaseUnavailable: it is unreachable, read-only, full, damaged or not ours.
    """
    try:
        yield
    except psycopg.Error as error:
        if isinstance(error, _DAMAGED):
            reason = "is damaged: restore it from a copy, or name another one with --db"
            raise DatabaseDamaged("The database {path} {reason}.", path=path, reason=reason) from error
        if isinstance(error, psycopg.DataError) and "NUL (0x00)" in str(error):
            raise DatabaseUnavailable(
                "The text holds a NUL character, which PostgreSQL cannot store: leave it out."
            ) from error
        reason = _reason(error)
        if not reason:
            raise
        raise unavailable(path, reason) from error


def refusal(error: psycopg.OperationalError) -> str:
    """Why no connection could be opened."""
    text = str(error)
    for phrases, reason in _REFUSALS:
        if any(phrase in text for phrase in phrases):
            return reason
    return UNREACHABLE


def unavailable(path: str, reason: str) -> DatabaseUnavailable:
    """The error for a database that cannot be used."""
    kind = DatabaseUnreachable if reason in PASSING else DatabaseUnavailable
    return kind("The database {path} {reason}.", path=path, reason=reason)


def _reason(error: psycopg.Error) -> str:
    for kind, reason in _REASONS:
        if isinstance(error, kind):
            return reason
    is_of_connection = isinstance(error, psycopg.OperationalError) and (
        error.sqlstate is None or error.sqlstate.startswith(("08", "57P"))
    )
    return UNREACHABLE if is_of_connection else ""
