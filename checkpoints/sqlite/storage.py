"""The storage of a SQLite file."""

from collections.abc import Callable
from pathlib import Path

from segue.core.events import Event

from ..sessions.threads import Threads
from ..storage import Storage
from ..tables.leases import TTL
from .database import SqliteDatabase, file_of, open_database, touch
from .files import FileFolder
from .maintenance import copy_aside, rewrite, shrink
from .saver import FencedSqliteSaver
from .schema import SCHEMA_VERSION


class SqliteSessions(Threads):
    """Whole threads of a file."""

    def __init__(self, database: SqliteDatabase) -> None:
        super().__init__(database)
        self._file = database

    async def delete(self, thread_id: str, fence: int) -> None:
        """Delete a thread, and rewrite the file without it.

        Raises:
            DatabaseUnavailable: the rows are deleted or nothing was changed; the file may still hold their bytes.
        """
        await super().delete(thread_id, fence)
        await rewrite(self._file)

    async def copy_aside(self, now: float) -> str:
        return await copy_aside(self._file, now)


class SqliteStorage(Storage):
    """An open SQLite database."""

    database: SqliteDatabase
    schema_version = SCHEMA_VERSION
    lease_ttl = TTL
    touch = staticmethod(touch)

    def __init__(self, database: SqliteDatabase) -> None:
        folder = Path(f"{file_of(database.path)}.files")
        super().__init__(database, SqliteSessions(database), FileFolder(folder))

    def saver(
        self, on_events: Callable[[list[Event]], None] | None = None, on_pause: Callable[[str], None] | None = None
    ) -> FencedSqliteSaver:
        return FencedSqliteSaver(self.database, on_events, on_pause)

    async def compact(self) -> None:
        await rewrite(self.database)

    async def shrink(self) -> None:
        await shrink(self.database)


async def open_sqlite(path: str) -> SqliteStorage:
    """Open the SQLite file at `path`."""
    return SqliteStorage(await open_database(path))
