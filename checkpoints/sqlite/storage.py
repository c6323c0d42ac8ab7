"""The SQLite implementation of the storage port."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from segue.core.events import Event
from segue.core.records import Json, Recovery, Snapshot
from segue.core.timeline import CallOrigin, Place
from segue.prompts.language import Language

from ..ports import Readable, Saver, Values
from .database import Database, open_database, touch
from .event_log import EventLog
from .leases import Lease, Renewal
from .ledger import ToolLedger
from .preferences import Preferences
from .repair.recover import recover
from .saver import FencedSqliteSaver
from .schema import SCHEMA_VERSION
from .sessions.deletion import delete, rewrite
from .sessions.export import export, import_
from .sessions.fork import fork
from .sessions.origins import origins
from .sessions.retention import prune
from .sessions.snapshots import find_place, snapshots
from .tasks import Tasks


class SqliteSessions:
    """Whole threads of a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def snapshots(self, thread_id: str, limit: int = 50, before: str | None = None) -> list[Snapshot]:
        return await snapshots(self._database, thread_id, limit, before)

    async def find_place(self, text: str, thread_id: str | None = None) -> Place:
        return await find_place(self._database, text, thread_id)

    async def origins(self, thread_id: str) -> Mapping[tuple[str, str, int], CallOrigin]:
        return await origins(self._database, thread_id)

    async def fork(
        self, thread_id: str, checkpoint_id: str, new_thread_id: str, beside: Iterable[tuple[str, str]] = ()
    ) -> str | None:
        return await fork(self._database, thread_id, checkpoint_id, new_thread_id, beside)

    async def export(self, thread_id: str) -> Json:
        return await export(self._database, thread_id)

    async def import_(self, document: Any, thread_id: str, user_id: str | None = None) -> str | None:
        return await import_(self._database, document, thread_id, user_id)

    async def prune(self, thread_id: str, checkpoint_id: str, fence: int, values: Values, since: float) -> int:
        return await prune(self._database, thread_id, checkpoint_id, fence, values, since)

    async def delete(self, thread_id: str, fence: int) -> None:
        await delete(self._database, thread_id, fence)

    async def recover(self, saver: Saver, readable: Readable, thread_id: str, language: Language) -> Recovery:
        return await recover(self._database, cast(FencedSqliteSaver, saver), readable, thread_id, language)


class SqliteStorage:
    """An open SQLite database."""

    schema_version = SCHEMA_VERSION

    def __init__(self, database: Database) -> None:
        self.database = database
        self.tasks = Tasks(database)
        self.events = EventLog(database)
        self.leases = Lease(database)
        self.preferences = Preferences(database)
        self.sessions = SqliteSessions(database)

    def ledger(self, thread_id: str, fence: int = 0) -> ToolLedger:
        return ToolLedger(self.database, thread_id, fence)

    def renewal(self) -> Renewal:
        return Renewal(self.database)

    def saver(
        self, on_events: Callable[[list[Event]], None] | None = None, on_pause: Callable[[str], None] | None = None
    ) -> FencedSqliteSaver:
        return FencedSqliteSaver(self.database, on_events, on_pause)

    async def check_writable(self) -> None:
        """Make sure that the database can be written.

        Raises:
            DatabaseUnavailable: saying why it cannot.
        """
        await self.database.write(touch)

    async def compact(self) -> None:
        """Rewrite the file without the rows that were deleted."""
        await rewrite(self.database)

    async def close(self) -> None:
        await self.database.close()


async def open_sqlite(path: str) -> SqliteStorage:
    """Open the SQLite file at `path`."""
    return SqliteStorage(await open_database(path))
