"""The storage of a PostgreSQL server."""

from collections.abc import Callable

from segue.core.events import Event

from ..connection import Connection
from ..sessions.threads import Threads
from ..storage import Storage
from .database import LEASE_TTL, PostgresDatabase, open_database
from .files import FileTable
from .saver import FencedPostgresSaver
from .schema import SCHEMA_VERSION
from .workers import Workers

_TOUCH = "UPDATE schema_version SET version = version"


class PostgresStorage(Storage):
    """An open PostgreSQL database."""

    database: PostgresDatabase
    schema_version = SCHEMA_VERSION
    lease_ttl = LEASE_TTL

    def __init__(self, database: PostgresDatabase) -> None:
        super().__init__(database, Threads(database), FileTable(database))
        self.workers = Workers(database)

    def saver(
        self, on_events: Callable[[list[Event]], None] | None = None, on_pause: Callable[[str], None] | None = None
    ) -> FencedPostgresSaver:
        return FencedPostgresSaver(self.database, on_events, on_pause)

    @staticmethod
    def touch(connection: Connection) -> None:
        connection.execute(_TOUCH)

    async def sync(self) -> None:
        """Wait for what was submitted: every commit is synced."""
        await self.database.write(lambda _: None)

    async def compact(self) -> None:
        """Do nothing: the server's autovacuum reuses the room of deleted rows."""

    async def shrink(self) -> None:
        """Do nothing, as `compact`."""


async def open_postgres(url: str) -> PostgresStorage:
    """Open the database that a PostgreSQL URL names."""
    return PostgresStorage(await open_database(url))
