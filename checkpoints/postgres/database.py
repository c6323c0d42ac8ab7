"""A database of a PostgreSQL server and the connections to it."""

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import psycopg
from psycopg import errors
from psycopg.pq import TransactionStatus

from segue.core.environment import without_password
from segue.core.errors import DatabaseUnavailable, DatabaseUnreachable

from ..database import Connections
from ..ports import NotRepeatable
from ..state.checkpoint_ids import next_version
from .connection import NONE, PostgresConnection, connect, refusal, translated
from .schema import prepare
from .state import Statements

T = TypeVar("T")

PATIENCE = 20.0
"""Seconds to wait for a server that is gone: it may be restarting."""
RETRY_EVERY = 0.1
ATTEMPTS = 5
"""How often transactions are carried out that the server rolls back because of others."""

# The transaction's id, and the server's timeline: another server that takes over begins another one.
_BEGIN = b"BEGIN; SELECT CAST(pg_current_xact_id() AS text), substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)"
_OUTCOME = b"SELECT pg_xact_status(CAST(%s AS xid8)), substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)"
# Who loses a race for a new row finds that row when it tries again.
_TRANSIENT = (errors.DeadlockDetected, errors.SerializationFailure, errors.LockNotAvailable, errors.UniqueViolation)


class _RolledBack(Exception):
    """The server rolled a transaction back, for a reason that may not come again."""

    def __init__(self, error: psycopg.Error) -> None:
        super().__init__(str(error))
        self.error = error


class PostgresSession:
    """A connection to a server. It waits up to `patience` seconds for one that was there and is gone.

    `path` names the server in messages; `settings` are the server's, of this connection alone.
    """

    def __init__(self, url: str, path: str, settings: Mapping[str, str] = NONE, *, patience: float = PATIENCE) -> None:
        self._url = url
        self._path = path
        self._patience = patience
        self._settings = settings
        self._connection: PostgresConnection | None = None
        self._gone_since: float | None = None
        self._transaction = ("", "")
        self.deltas: Callable[[], Sequence[str]] = tuple
        """Gives what is to be sent of streams, before what was committed after it."""

    def begin(self, *, synced: bool, waiting: bool = True) -> None:
        """Begin a transaction, which is always synced.

        Raises:
            DatabaseUnavailable: the server cannot be reached, or is read-only.
        """
        with translated(self._path):
            connection = self._opened()
            try:
                self._begin(connection)
            except psycopg.Error:
                lost = connection.is_lost()
                self.close()
                if not lost:
                    raise
                self._begin(self._opened())

    def commit(self, works: Sequence[Callable[[PostgresConnection], Any]]) -> list[Any]:
        """Carry out `works` in the transaction that was begun, and commit it.

        They are carried out again where the server rolled them back because of others, or was stopped meanwhile.

        Raises:
            NotRepeatable: nobody knows whether it was committed, or the server is gone.
            DatabaseUnavailable: nothing was changed.
        """
        with translated(self._path):
            for _ in range(ATTEMPTS - 1):
                try:
                    return self._commit(works)
                except _RolledBack:
                    self._restart()
            try:
                return self._commit(works)
            except _RolledBack as failure:
                raise failure.error from failure

    def announce(self) -> None:
        """Notify other processes of deltas, and of what was committed; who misses that looks again."""
        deltas = self.deltas()
        if deltas or self._connection is not None:
            with contextlib.suppress(psycopg.Error, DatabaseUnavailable):
                self._opened().announce(deltas)

    def read(self, work: Callable[[PostgresConnection], T]) -> T:
        """Carry out `work`, which only reads; again if the connection was lost."""
        with translated(self._path):
            connection = self._opened()
            try:
                return self._read(connection, work)
            except psycopg.OperationalError:
                if not connection.is_lost():
                    raise
            return self._read(self._opened(), work)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(psycopg.Error):
                connection.close()

    def _read(self, connection: PostgresConnection, work: Callable[[PostgresConnection], T]) -> T:
        try:
            return work(connection)
        finally:
            if connection.raw.info.transaction_status is not TransactionStatus.IDLE:
                self.close()

    def _begin(self, connection: PostgresConnection) -> None:
        cursor = connection.raw.execute(_BEGIN)
        cursor.nextset()
        self._transaction = cursor.fetchone() or ("", "")
        connection.notices.clear()

    def _restart(self) -> None:
        try:
            self.begin(synced=True)
        except DatabaseUnavailable as error:
            raise NotRepeatable(error) from error

    def _commit(self, works: Sequence[Callable[[PostgresConnection], Any]]) -> list[Any]:
        connection = self._begun()
        try:
            results = [work(connection) for work in works]
        except BaseException as error:
            self._roll_back(connection)
            if isinstance(error, psycopg.Error) and (connection.is_lost() or isinstance(error, _TRANSIENT)):
                raise _RolledBack(error) from error
            raise
        try:
            ended = connection.raw.execute(b"COMMIT").statusmessage
        except psycopg.OperationalError as error:
            if not connection.is_lost():
                self._roll_back(connection)
                raise
            self.close()
            self._require_commit(error)
            return results
        if ended != "COMMIT":
            raise psycopg.InternalError("The transaction was rolled back, since an error in it was passed over.")
        return results

    def _roll_back(self, connection: PostgresConnection) -> None:
        try:
            connection.raw.execute(b"ROLLBACK")
        except psycopg.Error:
            self.close()

    def _require_commit(self, error: psycopg.OperationalError) -> None:
        """Find out how a transaction ended whose connection was lost while it was committed.

        Raises:
            _RolledBack: it was not committed.
            NotRepeatable: nobody knows.
        """
        outcome = "unknown"
        with contextlib.suppress(psycopg.Error, DatabaseUnavailable):
            outcome = self._outcome()
        if outcome == "aborted":
            raise _RolledBack(error)
        if outcome != "committed":
            raise NotRepeatable(
                DatabaseUnavailable(
                    "The connection to the database {path} was lost during a write, which may or may not "
                    "have been stored: resume the task.",
                    path=self._path,
                )
            ) from error

    def _outcome(self) -> str:
        number, timeline = self._transaction
        deadline = time.monotonic() + self._patience
        while True:
            found = self._opened().raw.execute(_OUTCOME, (number,)).fetchone()
            outcome = str(found[0]) if found and found[1] == timeline else "unknown"
            if outcome != "in progress" or time.monotonic() > deadline:
                return outcome
            time.sleep(RETRY_EVERY)

    def _begun(self) -> PostgresConnection:
        """The connection that the transaction was begun on."""
        if self._connection is None or self._connection.is_lost():
            raise _RolledBack(psycopg.OperationalError("The connection was lost."))
        return self._connection

    def _opened(self) -> PostgresConnection:
        """The connection, opened where there is none.

        Raises:
            DatabaseUnavailable: the server cannot be reached, or refuses.
        """
        if self._connection is not None and self._connection.is_lost():
            self.close()
        while self._connection is None:
            try:
                self._connection = connect(self._url, self._settings)
            except psycopg.OperationalError as error:
                self._wait(error)
        self._gone_since = None
        return self._connection

    def _wait(self, error: psycopg.OperationalError) -> None:
        """Wait a moment for a server that is gone; once it was away for too long, every try fails at once."""
        now = time.monotonic()
        self._gone_since = self._gone_since or now
        refused = refusal(self._path, error)
        if not isinstance(refused, DatabaseUnreachable) or now - self._gone_since > self._patience:
            raise refused from error
        time.sleep(RETRY_EVERY)


LEASE_TTL = 5.0
"""Seconds that a lease lives without being renewed: the server's clock counts them, whichever machine asks."""

_LIMITS = {"lock_timeout": "10s", "idle_in_transaction_session_timeout": "5s"}
"""A process that stands still in a transaction keeps its locks so long: then the server rolls it back."""
_WRITING = {**_LIMITS, "synchronous_commit": "on"}
_READING = {"default_transaction_read_only": "on"}


class PostgresDatabase(Connections[PostgresConnection]):
    """An open database; `address` is what it was opened with, `url` what messages name."""

    def __init__(self, address: str) -> None:
        self.address = address
        path = without_password(address)
        self._writing = PostgresSession(address, path, _WRITING)
        self._statements = Statements()
        super().__init__(
            path,
            self._writing,
            partial(PostgresSession, address, path, _READING),
            partial(_renewing, address, path),
            psycopg.Error,
        )

    def statements(self, _: str) -> Statements:
        return self._statements.for_write()

    def next_version(self, current: str | None) -> str:
        """Another one in each branch, since values are stored by their versions."""
        return next_version(current, secrets.token_hex(4))

    def relay(self, deltas: Callable[[], Sequence[str]]) -> Callable[[], None]:
        """Send what `deltas` gives before each notification of a change; returns what sends it at once."""
        self._writing.deltas = deltas
        return self.announce

    @contextlib.asynccontextmanager
    async def listing(self) -> AsyncIterator[PostgresConnection]:
        await self.settle()
        with translated(self.url):
            opened = await asyncio.to_thread(connect, self.address, _READING)
            with contextlib.closing(opened):
                yield opened


def _renewing(address: str, path: str, timeout: float) -> PostgresSession:
    """A connection for renewals, which a crash of the server may undo: the fence holds."""
    settings = {**_LIMITS, "lock_timeout": f"{int(timeout * 1000)}ms", "synchronous_commit": "off"}
    return PostgresSession(address, path, settings, patience=timeout)


async def open_database(address: str) -> PostgresDatabase:
    """Open the database that a URL names, creating or upgrading its tables.

    Raises:
        DatabaseUnavailable: the server cannot be reached, or the database not be written; the message says what to do.
        DatabaseTooNew: a newer Segue wrote it.
    """
    await asyncio.to_thread(_prepare, address)
    return PostgresDatabase(address)


def _prepare(address: str) -> None:
    with reached(address) as (connection, path):
        prepare(connection, path)


@contextlib.contextmanager
def reached(address: str) -> Iterator[tuple[PostgresConnection, str]]:
    """A connection to the database that a URL names, and the database's name in messages.

    Raises:
        DatabaseUnavailable: the server cannot be reached, or refuses.
    """
    path = without_password(address)
    try:
        connection = connect(address)
    except psycopg.ProgrammingError:  # which quotes the URL, with its password
        raise DatabaseUnavailable(
            "The database's URL is not valid: write it as postgresql://USER@HOST:PORT/DATABASE, with special "
            "characters as %XX."
        ) from None
    except psycopg.OperationalError as error:
        raise refusal(path, error) from error
    with contextlib.closing(connection), translated(path):
        yield connection, path
