"""The contents of messages' files: a table, by their digests."""

from ..ports import Connection
from .database import PostgresDatabase

# A row that is there is written again, so that a transaction which is about to delete it is waited for.
_STORE = """
    INSERT INTO files (digest, content) VALUES (?, ?) ON CONFLICT (digest) DO UPDATE SET content = excluded.content
"""
_READ = "SELECT content FROM files WHERE digest = ?"
_LOCK = "SELECT digest FROM files WHERE digest = ? FOR UPDATE"
_DELETE = "DELETE FROM files WHERE digest = ?"


class FileTable:
    """Contents in a table."""

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
