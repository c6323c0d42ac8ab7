"""A PostgreSQL database as a backend of the storage."""

from typing import ClassVar

from ..ports import Connection
from .database import LEASE_TTL, PostgresDatabase, open_database
from .schema import SCHEMA_VERSION
from .workers import QueueWorkers

_TOUCH = "UPDATE schema_version SET version = version"
# A row that is there is written again, so that a transaction which is about to delete it is waited for.
_STORE = """
    INSERT INTO files (digest, content) VALUES (?, ?) ON CONFLICT (digest) DO UPDATE SET content = excluded.content
"""
_READ = "SELECT content FROM files WHERE digest = ?"
_LOCK = "SELECT digest FROM files WHERE digest = ? FOR UPDATE"
_DELETE = "DELETE FROM files WHERE digest = ?"


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


class FileTable:
    """The contents of messages' files in a table, by their digests."""

    place = "the table files"

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def store(self, digest: str, content: bytes) -> None:
        """Store a content; one that is there is replaced."""
        await self._database.write(lambda connection: connection.execute(_STORE, (digest, content)))

    async def read(self, digest: str) -> bytes | None:
        """The content; None where it is missing."""
        row = await self._database.read(lambda connection: connection.execute(_READ, (digest,)).fetchone())
        return bytes(row["content"]) if row else None

    def lock(self, connection: Connection, digest: str) -> None:
        """Let whoever stores this content wait for the transaction."""
        connection.execute(_LOCK, (digest,))

    def delete(self, connection: Connection, digest: str) -> None:
        """Delete a content."""
        connection.execute(_DELETE, (digest,))


async def open_postgres(url: str) -> PostgresBackend:
    """Open the database that a PostgreSQL URL names."""
    return PostgresBackend(await open_database(url))
