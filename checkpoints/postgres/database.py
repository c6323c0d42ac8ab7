"""A database of a PostgreSQL server and the connections to it."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial

import psycopg

from segue.core.environment import without_password
from segue.core.errors import DatabaseUnavailable

from ..database import Connections
from ..state.checkpoint_ids import next_version
from .connection import PostgresConnection, connect
from .errors import refusal, translated, unavailable
from .schema import prepare
from .session import PostgresSession
from .statements import Statements

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
        return self._writer.announce

    @contextlib.asynccontextmanager
    async def listing(self) -> AsyncIterator[PostgresConnection]:
        """One more connection that only reads, for a listing that its reader may leave for a while."""
        await self._writer.settle()
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
        raise unavailable(path, refusal(error)) from error
    with contextlib.closing(connection), translated(path):
        yield connection, path
