"""What the app needs of a database, and what a backend provides for it."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from functools import cache
from operator import methodcaller
from typing import Any, ClassVar, Protocol, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, ChannelVersions, Checkpoint, CheckpointMetadata
from langgraph.checkpoint.serde.base import SerializerProtocol

from segue.core.records import Json, Unowned, Worker
from segue.core.task import TaskStatus

T = TypeVar("T")
C_co = TypeVar("C_co", bound="Connection", covariant=True)

Values = Sequence[Any] | Mapping[str, Any]
Failed = Callable[[BaseException], None]

ALL = 2**62
"""The limit of a query that has none."""

Place = tuple[str, str, str]
"""A checkpoint: its thread, namespace and id."""
Stored = tuple[str, bytes]
"""The type and the bytes of a stored value."""


class Row(Protocol):
    """A row, read by the name of a column or by its index."""

    def __getitem__(self, column: Any, /) -> Any: ...

    def keys(self) -> Iterable[str]: ...


class Cursor(Protocol):
    """The rows of a statement."""

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...

    def close(self) -> None: ...


class Connection(Protocol):
    """A connection. Statements name their values with `?` or `:name`, and are understood by every database.

    A transaction that writes is alone in SQLite's file. In a server it is not, so it locks the rows that it reads
    before it changes them: `for_update` and `for_key_share` end such a query, and are empty where nothing is to lock.
    """

    duplicate: ClassVar[type[Exception]]
    """What a row raises that contradicts another one."""
    for_update: ClassVar[str]
    for_key_share: ClassVar[str]

    @property
    def state(self) -> "State":
        """The rows of LangGraph's checkpoints, which databases store differently."""
        ...

    def execute(self, statement: str, values: Values = ..., /) -> Cursor: ...

    def fetched(self, statement: str, values: Values = ...) -> list[Any]:
        """The rows of a query, whatever they hold."""
        ...

    def notify(self, task_id: str, thread_id: str) -> None:
        """Tell every process, once this transaction is committed, that a task changed or has new events."""
        ...

    def lock(self, what: str) -> None:
        """Let every other transaction that locks the same wait for the end of this one."""
        ...

    def together(self) -> AbstractContextManager[object]:
        """Send statements whose rows are not read with the next one whose rows are: errors come as late."""
        ...

    def lock_task(self, task_id: str) -> None:
        """As `lock`, for a task's row: whoever numbers its events has it."""
        ...

    def has_locked(self, task_id: str) -> None:
        """A query of this transaction has locked a task's row."""
        ...

    def now(self) -> float:
        """Unix time in seconds, by the one clock that leases expire by."""
        ...


@cache
def insert_into(table: str, columns: tuple[str, ...]) -> str:
    """The statement that inserts a row of these columns."""
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join(f':{name}' for name in columns)})"


def set_columns(columns: Iterable[str]) -> str:
    """What follows SET in a statement that changes these columns."""
    return ", ".join(f"{name} = :{name}" for name in columns)


def sql_list(statuses: Iterable[TaskStatus]) -> str:
    """The statuses between the brackets of SQL's IN."""
    return ", ".join(f"'{status}'" for status in sorted(statuses)) or "NULL"


def lease_clock(clock: Callable[[], float] | None) -> Callable[[Connection], float]:
    """The time that leases expire by, in a transaction: the connection's, or that of `clock`."""
    return methodcaller("now") if clock is None else lambda _: clock()


class NotRepeatable(Exception):
    """Transactions failed and must not be tried one by one; `error` is for who waits for them."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class Session(Protocol[C_co]):
    """A connection for one thread, opened when it is first needed and again where it was lost."""

    def begin(self, *, synced: bool, waiting: bool = True) -> None:
        """Begin a transaction; where it is not `waiting` and another process writes, fail at once."""
        ...

    def commit(self, works: Sequence[Callable[[C_co], Any]]) -> list[Any]:
        """Carry out `works` in the transaction that was begun, and commit it; with an error it is rolled back.

        NotRepeatable: it may be committed anyway, or trying again is futile.
        """
        ...

    def announce(self) -> None:
        """Tell other processes what was committed."""
        ...

    def read(self, work: Callable[[C_co], T]) -> T:
        """Carry out `work`, which only reads."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class CheckpointRow:
    """A checkpoint of a thread, serialized with the values of its channels; `metadata` is JSON."""

    inside: str
    checkpoint_id: str
    parent_id: str | None
    state: Stored
    metadata: str


@dataclass(frozen=True)
class WriteRow:
    """What a node wrote to a channel."""

    inside: str
    checkpoint_id: str
    task_id: str
    task_path: str
    idx: int
    channel: str
    value: Stored


class Decoded(Protocol):
    """Values that were decoded recently, by what is stored."""

    def get(self, stored: Stored) -> Any:
        """The value, or None where it is not kept."""
        ...

    def keep(self, stored: Stored, value: Any, size: int) -> None:
        """Keep a value; `size` is the number of bytes that it was decoded from."""
        ...


class State(Protocol):
    """The state of threads on a connection: what LangGraph's savers store differently.

    Each has the tables `checkpoints` and `writes`, with keys, parents, types and metadata in columns of these names.
    What is damaged raises Undecodable.
    """

    tables: ClassVar[tuple[str, ...]]
    """Those with rows of a thread."""
    content: ClassVar[str]
    """SQL of the columns `kind` and `ending`: what a checkpoint's checksum covers of its state."""

    def view(self) -> AbstractContextManager[None]:
        """Read from the database as it is at the first statement."""
        ...

    def reader(
        self, serde: SerializerProtocol, thread_id: str | None, decoded: Decoded | None = None
    ) -> BaseCheckpointSaver[str]:
        """LangGraph's synchronous saver over the connection; without a thread it reads those of all."""
        ...

    def whole(self, thread_id: str, value: Stored) -> Stored:
        """A stored value of a thread by itself, not compressed."""
        ...

    def checkpoint(self, place: Place) -> Stored:
        """A checkpoint that is there, serialized, as `whole` values are."""
        ...

    def check_values(self, place: Place) -> None:
        """Make sure that what is stored beside a checkpoint is there, as far as that is not noticed when it is read."""
        ...

    def put_checkpoint(self, thread_id: str, row: CheckpointRow) -> None:
        """Store a checkpoint, or replace it; after the writes that led to it."""
        ...

    def put_write(self, thread_id: str, row: WriteRow) -> None:
        """Store a write that is not there yet."""
        ...

    def drop_step(self, thread_id: str, inside: str, checkpoint_id: str, step: str | bytes | None) -> None:
        """Delete what a step wrote upon a checkpoint; its name may be one that cannot be read."""
        ...

    def drop_unused(self, thread_id: str) -> None:
        """Delete what no checkpoint of the thread refers to any more."""
        ...


class Statements(Protocol):
    """The statements of one write, which LangGraph's saver names and a transaction of ours carries out."""

    def put(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, versions: ChannelVersions, /
    ) -> RunnableConfig: ...

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str, /
    ) -> None: ...

    def run(self, connection: Connection, kept: int | None = None) -> None:
        """Carry them out; of the writes that led to a checkpoint so many are stored that are read after it.

        Without the number it is looked up, and inside a node the others are deleted.
        """
        ...


class Contents(Protocol):
    """The contents of messages' files, by their digests."""

    @property
    def place(self) -> str:
        """Where they are, as people call it."""
        ...

    async def store(self, digest: str, content: bytes) -> None:
        """Store a content as a whole or not at all; one that is damaged is replaced."""
        ...

    async def read(self, digest: str) -> bytes | None: ...

    def lock(self, connection: Connection, digest: str) -> None:
        """Let whoever stores this content wait for the transaction."""
        ...

    def delete(self, connection: Connection, digest: str) -> None:
        """Delete a content in the transaction that found that nothing names it."""
        ...


class Workers(Protocol):
    """The processes that run the tasks of a database, the queue that wakes them, and its notifications."""

    async def report(self, worker: Worker) -> None:
        """Store that a worker is there."""
        ...

    async def leave(self, owner: str) -> None: ...

    async def list(self) -> list[Worker]:
        """The workers that reported recently."""
        ...

    async def is_queued(self, task_id: str) -> bool:
        """Whether a worker will be woken for the task."""
        ...

    async def unowned(self, worker: Worker | None = None) -> Iterable[Unowned]:
        """The tasks to run without a live owner; with a worker, those that it takes and nobody will be woken for."""
        ...

    async def wake(self, tasks: Iterable[Unowned]) -> None: ...

    async def serve(
        self, agents: Mapping[str, Collection[str]], concurrency: int, run: Callable[[str], Awaitable[None]]
    ) -> None:
        """Call `run` with the id of each task that this worker is woken for, until cancelled or disconnected."""
        ...

    def relay(self, deltas: Callable[[], Sequence[str]]) -> Callable[[], None]:
        """Send what `deltas` gives to `hear` of every process, in order with `tell`; returns what sends it at once."""
        ...

    async def listen(
        self, tell: Callable[..., None], hear: Callable[[Json], None], connected: Callable[[bool], None]
    ) -> None:
        """Tell of the ids of threads and tasks that are changed, until cancelled; connects again by itself."""
        ...


class Database(Protocol[C_co]):
    """An open database: one connection that writes, others that read."""

    @property
    def url(self) -> str:
        """What messages call it."""
        ...

    @property
    def errors(self) -> type[Exception]:
        """The driver's."""
        ...

    def check_usable(self) -> None:
        """Refuse a database that is closed, and one that this process inherited by a fork, which copies no threads."""
        ...

    def open_renewing(self, timeout: float, /) -> Session[C_co]:
        """A connection that renews leases, and waits for locks for so many seconds at most."""
        ...

    def held(self) -> AbstractContextManager[None]:
        """Let no further write of this process begin meanwhile, for a moment at most.

        SQLite's lock goes to whoever asks first, and a process that writes without a break always does.
        """
        ...

    async def read(self, work: Callable[[C_co], T], *, brief: bool = False) -> T:
        """Carry out `work`, which only reads; it sees every write that was waited for.

        `brief` work reads a few rows by their key: it may be carried out on the event loop.
        """
        ...

    def submit(
        self,
        work: Callable[[C_co], T],
        *,
        synced: bool = False,
        brief: bool = False,
        failed: Failed | None = None,
        deferred: bool = False,
        joined: Mapping["asyncio.Future[Any]", Callable[[C_co], Any]] = ...,
        together: bool = False,
        first: Callable[[C_co], Any] | None = None,
    ) -> "asyncio.Future[T]":
        """Begin `work` as one transaction, after those that were begun before.

        It may run several times, of which all but one are rolled back. `synced` puts it on the disk, and with it all
        that was written before. `brief` work changes a few rows by their key: it may be carried out on the event loop.
        `failed` gets the error, before the next transaction begins. A `deferred` one, which is brief, too, waits a
        moment for the next one, to be committed with it. Deferred ones of `joined` that have not begun become its
        first parts, behind `first`, each with another work than before, where only deferred ones were begun since.
        `together`: its statements are sent so, and it counts no rows and handles no errors of theirs. Shield the future
        to let it end when the waiter is cancelled.
        """
        ...

    async def write(self, work: Callable[[C_co], T], *, synced: bool = False, brief: bool = False) -> T:
        """Carry out `work` as one transaction, to its end even if the caller is cancelled.

        With DatabaseUnavailable nothing was changed, unless its message says otherwise.
        """
        ...

    def statements(self, thread_id: str) -> Statements:
        """Begin to collect the statements of a write to a thread."""
        ...

    def next_version(self, current: str | None) -> str:
        """The version of a channel after another one."""
        ...

    def listing(self) -> AbstractAsyncContextManager[Connection]:
        """One more connection that only reads, for a listing that its reader may leave for a while."""
        ...

    async def close(self) -> None:
        """Finish what is under way, then close every connection."""
        ...


class Backend(Protocol):
    """A kind of database: what a file does unlike a server."""

    schema_version: ClassVar[int]
    lease_ttl: ClassVar[float]
    """Seconds that a lease lives without being renewed."""

    @property
    def database(self) -> Database[Any]: ...

    @property
    def contents(self) -> Contents: ...

    @property
    def workers(self) -> Workers | None:
        """None where no process can leave its tasks to another."""
        ...

    def touch(self, connection: Any) -> None:
        """Write something as it is."""
        ...

    async def sync(self) -> None:
        """Make sure that everything that was written is on the disk."""
        ...

    async def compact(self) -> None:
        """Rewrite a file without the rows that were deleted."""
        ...

    async def shrink(self) -> None:
        """Return free pages of a file to the file system while others write."""
        ...

    async def copy_aside(self, now: float) -> str:
        """Copy a file before a repair, and return the copy's path; a server has backups of its own."""
        ...
