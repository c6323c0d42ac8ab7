"""An open database as the app uses it, and how it is opened."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from segue.core.environment import foreign_scheme, is_server, need_extra
from segue.core.errors import DatabaseUnavailable
from segue.core.events import Event
from segue.core.notifications import Receivers
from segue.core.records import Session, Task

from .audit import Audit
from .due import DueMoments, Schedules
from .events import EventLog, SentEvents
from .files import Files
from .graphs import GraphTables
from .habits import EndpointHabits
from .leases import Lease, Renewal
from .ledger import ToolLedger
from .outbox import Outbox, Webhooks
from .permissions import Permissions
from .ports import Backend, Connection
from .saver import FencedSaver
from .search import Search
from .sessions import Preferences, ThreadList, Threads, chosen_for, default_mode
from .shares import Shares
from .spend import Spend
from .tasks import RequestKeys, Tasks, caller_of, conversation_of

if TYPE_CHECKING:
    from .sqlite.backup import Backup as Backup


@dataclass(frozen=True)
class Beginning:
    """What is stored before a thread's next task begins."""

    chosen: Session | None
    """What was chosen for the thread."""
    default_mode: str
    """The user's; empty where none is set."""
    conversation: Task | None
    """The newest conversation whose bot has the thread."""
    caller: Task | None
    """The outermost task that called the thread's agent as a tool."""


class Storage:
    """An open database. `workers` is None where no process can leave its tasks to another.

    A lease lives `lease_ttl` seconds without being renewed. `receivers` are told what becomes of tasks, which
    `clock` dates.
    """

    def __init__(
        self, backend: Backend, receivers: Receivers | None = None, clock: Callable[[], float] | None = None
    ) -> None:
        self._backend = backend
        self.database = database = backend.database
        self.schema_version = backend.schema_version
        self.lease_ttl = backend.lease_ttl
        self.workers = backend.workers
        self.tasks = Tasks(database, clock, receivers or Receivers())
        self.requests = RequestKeys(database)
        self.events = EventLog(database)
        self.leases = Lease(database)
        self.permissions = Permissions(database)
        self.preferences = Preferences(database)
        self.habits = EndpointHabits(database)
        self.webhooks = Webhooks(database, clock)
        self.outbox = Outbox(database, clock)
        self.shares = Shares(database)
        self.schedules = Schedules(database)
        self.due = DueMoments(database)
        self.spend = Spend(database)
        self.sent_events = SentEvents(database, clock)
        self.sessions = Threads(backend)
        self.threads = ThreadList(database)
        self.search = Search(database)
        self.audit = Audit(database)
        self.files = Files(database, backend.contents)
        self.graphs = GraphTables(database)

    def ledger(self, thread_id: str, fence: int = 0, above: Sequence[str] = ()) -> ToolLedger:
        """The tool calls of one thread, written under its fence; it knows those of the threads `above`, too."""
        return ToolLedger(self.database, thread_id, fence, above=above)

    def renewal(self) -> Renewal:
        """What prolongs leases, synchronously and from one thread."""
        return Renewal(self.database)

    def graph_saver(self) -> FencedSaver:
        """A saver for graphs that Segue did not write, whose states are checked as a whole."""
        return FencedSaver(self.database, is_foreign=True)

    def saver(
        self, on_events: Callable[[list[Event]], None] | None = None, on_pause: Callable[[str], None] | None = None
    ) -> FencedSaver:
        """A saver for this process, which holds no thread yet."""
        return FencedSaver(self.database, on_events, on_pause)

    async def beginning(self, thread_id: str, user_id: str) -> Beginning:
        """Read what the next task of a user in a thread begins with."""

        def read(connection: Connection) -> Beginning:
            chosen = chosen_for(connection, thread_id)
            conversation, caller = conversation_of(connection, thread_id), caller_of(connection, thread_id)
            return Beginning(chosen, default_mode(connection, user_id), conversation, caller)

        return await self.database.read(read, brief=True)

    async def check_writable(self) -> None:
        """Make sure that the database can be written."""
        await self.database.write(self._backend.touch)

    async def sync(self) -> None:
        """Make sure that everything that was written is on the disk."""
        await self._backend.sync()

    async def compact(self) -> None:
        """Rewrite a file without the rows that were deleted."""
        await self._backend.compact()

    async def shrink(self) -> None:
        """Return free pages of a file to the file system while others write."""
        await self._backend.shrink()

    async def close(self) -> None:
        """Finish what is under way, then close every connection."""
        await self.database.close()


# Backups of a whole SQLite database.


def back_up(database: str, file: str | Path, memory: Path) -> "Backup":
    """Write a SQLite database with its files and memory files into one file; errors as those of `sqlite.backup`."""
    from .sqlite import backup

    return backup.back_up(database, file, memory)


def restore_files(file: str | Path, database: str, memory: Path) -> "Backup":
    """Write a backup's database with its files where none is yet; errors as those of `sqlite.backup`."""
    from .sqlite import backup

    return backup.restore(file, database, memory)


# The choice between SQLite and PostgreSQL, by the name of the database.


async def open_storage(
    url: str, receivers: Receivers | None = None, clock: Callable[[], float] | None = None
) -> Storage:
    """Open the database that `url` names: a `postgresql://` URL, or a SQLite file's path, `file:` URI or `:memory:`.

    `receivers` are told what becomes of tasks, which `clock` dates.
    """
    if is_server(url):
        need_extra("A PostgreSQL database", "postgres", "psycopg", "langgraph.checkpoint.postgres", "procrastinate")
        from .postgres.database import open_postgres

        return Storage(await open_postgres(url), receivers, clock)
    if scheme := foreign_scheme(url):
        raise DatabaseUnavailable(
            "A database named {scheme}://… cannot be opened: name a SQLite file, or postgresql://USER@HOST/NAME.",
            scheme=scheme,
        )
    from .sqlite.database import open_sqlite

    return Storage(await open_sqlite(url), receivers, clock)
