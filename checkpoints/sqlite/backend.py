"""A SQLite file as a backend of the storage."""

from pathlib import Path
from typing import ClassVar

from ..ports import Workers
from ..tables.leases import TTL
from .connection import SqliteConnection
from .database import SqliteDatabase, file_of, open_database
from .files import FileFolder
from .maintenance import copy_aside, rewrite, shrink
from .schema import SCHEMA_VERSION


class SqliteBackend:
    """An open SQLite file."""

    schema_version: ClassVar[int] = SCHEMA_VERSION
    lease_ttl: ClassVar[float] = TTL
    workers: Workers | None = None

    def __init__(self, database: SqliteDatabase) -> None:
        self.database = database
        self.contents = FileFolder(Path(f"{file_of(database.path)}.files"))

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
