"""A PostgreSQL database as a backend of the storage."""

from typing import ClassVar

from ..ports import Connection
from .database import LEASE_TTL, PostgresDatabase, open_database
from .files import FileTable
from .schema import SCHEMA_VERSION
from .workers import QueueWorkers

_TOUCH = "UPDATE schema_version SET version = version"


class PostgresBackend:
    """An open PostgreSQL database."""

    schema_version: ClassVar[int] = SCHEMA_VERSION
    lease_ttl: ClassVar[float] = LEASE_TTL

    def __init__(self, database: PostgresDatabase) -> None:
        self.database = database
        self.contents = FileTable(database)
        self.workers = QueueWorkers(database)

    def touch(self, connection: Connection) -> None:
        """Write a row as it is."""
        connection.execute(_TOUCH)

    async def sync(self) -> None:
        """Wait for what was submitted: every commit is synced."""
        await self.database.write(lambda _: None)

    async def compact(self) -> None:
        """Do nothing: the server's autovacuum reuses the room of deleted rows."""

    async def shrink(self) -> None:
        """Do nothing, as `compact`."""

    async def copy_aside(self, now: float) -> str:
        """Copy nothing: a server has backups of its own."""
        return ""


async def open_postgres(url: str) -> PostgresBackend:
    """Open the database that a PostgreSQL URL names."""
    return PostgresBackend(await open_database(url))
