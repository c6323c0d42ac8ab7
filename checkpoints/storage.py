"""An open database as the app uses it, and the choice between SQLite and PostgreSQL."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from segue.core.databases import foreign_scheme, is_server
from segue.core.environment import need_extra
from segue.core.errors import DatabaseUnavailable
from segue.core.events import Event

from .database import Database
from .sessions.threads import Threads
from .state.saver import FencedSaver
from .tables.event_log import EventLog
from .tables.files import Contents, Files
from .tables.leases import Lease, Renewal
from .tables.ledger import ToolLedger
from .tables.permissions import Permissions
from .tables.preferences import Preferences
from .tables.request_keys import RequestKeys
from .tables.tasks import Tasks

if TYPE_CHECKING:
    from .postgres.workers import Workers


class Storage(ABC):
    """An open database: its tables, which are the same in every one, and what a file does unlike a server."""

    schema_version: ClassVar[int]
    lease_ttl: ClassVar[float]
    """Seconds that a lease lives without being renewed."""
    workers: "Workers | None" = None
    """None where no process can leave its tasks to another."""

    def __init__(self, database: Database[Any], sessions: Threads, contents: Contents) -> None:
        self.database = database
        self.tasks = Tasks(database)
        self.requests = RequestKeys(database)
        self.events = EventLog(database)
        self.leases = Lease(database)
        self.permissions = Permissions(database)
        self.preferences = Preferences(database)
        self.sessions = sessions
        self.files = Files(database, contents)

    def ledger(self, thread_id: str, fence: int = 0) -> ToolLedger:
        """The tool calls of one thread, written under its fence."""
        return ToolLedger(self.database, thread_id, fence)

    def renewal(self) -> Renewal:
        """What prolongs leases, synchronously and from one thread."""
        return Renewal(self.database)

    @abstractmethod
    def saver(
        self, on_events: Callable[[list[Event]], None] | None = None, on_pause: Callable[[str], None] | None = None
    ) -> FencedSaver:
        """A saver for this process, which holds no thread yet."""

    @staticmethod
    @abstractmethod
    def touch(connection: Any) -> None:
        """Write something as it is."""

    async def check_writable(self) -> None:
        """Make sure that the database can be written.

        Raises:
            DatabaseUnavailable: saying why it cannot.
        """
        await self.database.write(self.touch)

    async def sync(self) -> None:
        """Make sure that everything that was written is on the disk.

        Raises:
            DatabaseUnavailable: it is not.
        """
        await self.database.write(self.touch, synced=True)

    @abstractmethod
    async def compact(self) -> None:
        """Rewrite a file without the rows that were deleted."""

    @abstractmethod
    async def shrink(self) -> None:
        """Return free pages of a file to the file system while others write."""

    async def close(self) -> None:
        """Finish what is under way, then close every connection."""
        await self.database.close()


async def open_storage(url: str) -> Storage:
    """Open the database that `url` names: a `postgresql://` URL, or a SQLite file's path, `file:` URI or `:memory:`.

    Raises:
        MissingExtra, DatabaseUnavailable, DatabaseTooNew: saying what to do.
    """
    if is_server(url):
        need_extra("A PostgreSQL database", "postgres", "psycopg", "langgraph.checkpoint.postgres", "procrastinate")
        from .postgres.storage import open_postgres

        return await open_postgres(url)
    if scheme := foreign_scheme(url):
        raise DatabaseUnavailable(
            "A database named {scheme}://… cannot be opened: name a SQLite file, or postgresql://USER@HOST/NAME.",
            scheme=scheme,
        )
    from .sqlite.storage import open_sqlite

    return await open_sqlite(url)
