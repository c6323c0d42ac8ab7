"""LangGraph's saver, fenced, with the events of a step stored in the same transaction."""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any, TypeVar, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    copy_checkpoint,
    get_checkpoint_id,
)
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT
from langgraph.runtime import get_runtime

from segue.core.actor import OPERATOR
from segue.core.audit import Act
from segue.core.errors import (
    BlockingCall,
    ConfigurationError,
    DamagedCheckpoint,
    DatabaseUnavailable,
    SegueError,
    StaleOwner,
)
from segue.core.events import CallPermitted, Event, PermissionGranted, from_dict
from segue.core.sync import run_sync
from segue.core.task import TaskStatus

from .audit import record
from .events import put_event
from .leases import check_fence, newest_under
from .permissions import grant
from .ports import Connection, Database, Failed, Place, Row
from .rows import (
    SERDE,
    WRITE_KEY,
    DecodedValues,
    Encoded,
    check_chain,
    check_checkpoint,
    check_form,
    check_newest,
    check_row,
    copy_thread,
    decoded_checkpoint,
    decoding,
    delete_rows,
    delete_runs,
    follow,
    keep_newest,
    naming_next,
    unshared,
    writes_kept_after,
    writes_read_after,
)
from .spend import count_calls

EVENTS = "events"
"""The channel whose writes go to the event log."""

STRUCTURED_RESPONSE = "structured_response"
"""The channel of LangChain's agents with the object that they end with: nothing reads it, so any type will do."""

# LangGraph's own mark of a task that finished without output: it takes the place of the events, so that a task which
# wrote nothing else still counts as finished, and the indexes of the other writes stay the same.
_NO_WRITES_MARK = ("__no_writes__", None)

_PAUSABLE = (TaskStatus.RUNNING, TaskStatus.PAUSING)

PAGE = 20
"""Checkpoints of a listing that are read at once."""

T = TypeVar("T")
EventForm = dict[str, Any]
OnEvents = Callable[[list[Event]], None]
OnPause = Callable[[str], None]


@dataclass(frozen=True)
class _Step:
    """What a task of a graph wrote upon a checkpoint, its events apart, and the model calls whose use it stores."""

    config: RunnableConfig
    writes: Sequence[tuple[str, Any]]
    events: Sequence[EventForm]
    task_id: str
    task_path: str
    calls: Sequence[str]

    def save(self, database: Database[Any], connection: Connection) -> list[EventForm]:
        """Store it, and return the events that are new."""
        thread_id, _, checkpoint_id = _key_of(self.config)
        # The thread and the checkpoint belong to the key: a fork repeats task ids, and input always has the same one.
        stored = _insert(connection, thread_id, f"{checkpoint_id}/{self.task_id}", self.events)
        count_calls(connection, self.calls)
        statements = database.statements(_thread_of(self.config))
        statements.put_writes(self.config, self.writes, self.task_id, self.task_path)
        statements.run(connection)
        return stored

    def kept_after(self, metadata: CheckpointMetadata) -> "_Step":
        """What is kept of it once the checkpoint after it is stored, which has these metadata."""
        return replace(self, writes=writes_kept_after(self.writes, self.task_id, _key_of(self.config), metadata))


@dataclass(frozen=True)
class _Deferred:
    """What waits for the checkpoint that is made upon `place`, whose transaction stores it.

    `save` is given its metadata, and returns what stores it there, where the thread is checked once. `writes` are those
    upon `place`.
    """

    place: Place
    save: Callable[[CheckpointMetadata], Callable[[Connection], Any]]
    writes: Sequence[tuple[str, Any]] = ()


@dataclass
class _Hold:
    """A thread as this process writes it: under a fence, and only until a write fails; unfenced where it is 0.

    `deferred` has what waits for the next checkpoint, `running` the row of the thread's newest task, as
    it was when a checkpoint was saved last, `loop` the one that runs it, and `calls` the model calls that are settled,
    by the graph's task that made them and has not ended. `made` has the newest checkpoint of each namespace that was
    made here, `apart` those upon which writes were stored before the next one.
    """

    thread_id: str
    fence: int = 0
    loop: asyncio.AbstractEventLoop | None = None
    deferred: dict[asyncio.Future[Any], _Deferred] = field(default_factory=dict)
    running: Row | None = None
    calls: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    before: Callable[[], Awaitable[None]] | None = None
    made: dict[str, str] = field(default_factory=dict)
    apart: set[Place] = field(default_factory=set)
    _order: asyncio.Lock = field(default_factory=asyncio.Lock)
    _error: BaseException | None = None

    async def wait_before(self) -> None:
        """Wait for what is to be stored before the next write; writes keep their order."""
        if self.before is not None:
            async with self._order:
                await self.before()

    def defer(self, writing: asyncio.Future[Any], what: _Deferred) -> None:
        """Let the next checkpoint store it, if it has not been stored by then."""
        self.deferred[writing] = what
        writing.add_done_callback(self.deferred.pop)

    def check(self, connection: Connection) -> None:
        """Make sure, in a transaction, that the thread is still ours."""
        if self.fence:
            check_fence(connection, self.thread_id, self.fence)

    def newest(self, connection: Connection) -> Row | None:
        """As `check`; returns the thread's newest task, which is the one that runs."""
        return newest_under(connection, self.thread_id, self.fence) if self.fence else None

    def has_apart(self, place: Place) -> bool:
        """Whether writes upon a checkpoint may be stored that are not in the transaction of the one after it."""
        return self.made.get(place[1]) != place[2] or place in self.apart

    def follow(self, place: Place, made: Place) -> None:
        """A checkpoint was made upon the one at `place`."""
        self.apart.discard(place)
        self.made[made[1]] = made[2]

    def note(self, error: BaseException) -> None:
        """From now on, let nothing be written that builds on a write that failed."""
        if self.fence:
            self._error = self._error or error

    def check_no_gap(self) -> None:
        """Raise DatabaseUnavailable where an earlier write failed, or why it was refused."""
        if isinstance(self._error, ConfigurationError):
            raise self._error
        if self._error is not None:
            raise DatabaseUnavailable(
                "A step of session '{session_id}' could not be saved ({error}): resume its task.",
                session_id=self.thread_id,
                error=self._error,
            ) from self._error


class FencedSaver(BaseCheckpointSaver[str]):
    """Saves checkpoints for the threads that this process holds, and events with them.

    LangGraph's synchronous saver does the reading and names the statements; they run on the database's own connections.

    `on_events` gets the newly stored events with their `seq`, in order, after the commit; `on_pause` gets the task that
    a person requested to pause before a checkpoint was saved; neither may raise.

    A graph that `is_foreign` may have a channel of any name, and each of its values is checked.
    """

    def __init__(
        self,
        database: Database[Any],
        on_events: OnEvents | None = None,
        on_pause: OnPause | None = None,
        *,
        is_foreign: bool = False,
    ) -> None:
        super().__init__(serde=SERDE)
        self._is_foreign = is_foreign
        self._database = database
        self._on_events = on_events
        self._on_pause = on_pause
        self._decoded = DecodedValues()
        # Shared with the clones that LangGraph makes of a saver: changed in place, never replaced.
        self._holds: dict[str, _Hold] = {}
        self._kept_reads: dict[str, dict[object, Any]] = {}

    def hold(self, thread_id: str, fence: int) -> None:
        """From now on write to the thread only while `fence` is the lease's, and only until a write fails."""
        self._holds[thread_id] = _Hold(thread_id, fence, loop=asyncio.get_running_loop())
        self._kept_reads.pop(thread_id, None)

    def fence(self, thread_id: str) -> int:
        """The fence that the thread is written under; 0 if it is not held."""
        hold = self._holds.get(thread_id)
        return hold.fence if hold else 0

    def wait_before_writes(self, thread_id: str, before: Callable[[], Awaitable[None]]) -> None:
        """From now on, await `before` before each write to a thread that is held."""
        self._holds[thread_id].before = before

    def release(self, thread_id: str) -> None:
        """Write to the thread unfenced again."""
        self._holds.pop(thread_id, None)
        self._kept_reads.pop(thread_id, None)

    def check_saved(self, thread_id: str) -> None:
        """Make sure that every write to the thread since it was held is stored; LangGraph drops some errors."""
        if hold := self._holds.get(thread_id):
            hold.check_no_gap()

    def is_without_notes(self, thread_id: str, task_id: str) -> bool:
        """Whether a task of a thread that is held is known to have had no notes when its last checkpoint was saved."""
        row = hold.running if (hold := self._holds.get(thread_id)) else None
        return row is not None and (row["task_id"], row["notes"]) == (task_id, "[]")

    def forget_notes(self, thread_id: str) -> None:
        """From now on it is not known whether the task of a thread has notes, until its next checkpoint is saved."""
        if hold := self._holds.get(thread_id):
            hold.running = None

    def count_call(self, thread_id: str, call_id: str) -> Failed:
        """Count a model call in the step of the node that runs now on a thread that is held, which stores what it used.

        Returns who is to be told where that could not be stored for the limits: then the step cannot be, either.
        """
        hold, running = self._hold(thread_id), get_runtime().execution_info
        assert running is not None  # a node runs
        hold.calls[running.task_id].append(call_id)
        return hold.note

    def keep_reads(self, thread_id: str) -> None:
        """Until the next write to a thread that is held, read each of its checkpoints once."""
        self._kept_reads[thread_id] = {}

    def get_next_version(self, current: str | None, channel: None) -> str:
        return self._database.next_version(current)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Save a checkpoint.

        One of the input alone, upon which no node has run yet, is committed with the one after it, or a moment later.
        """
        thread_id = _thread_of(config)
        hold, statements = self._hold(thread_id), self._database.statements(thread_id)
        await hold.wait_before()
        if hold.fence and not self._is_foreign:
            metadata = naming_next(metadata, checkpoint)
        try:
            saved = statements.put(config, checkpoint, metadata, new_versions)
        except BaseException as error:
            hold.note(error)
            raise

        place, read, row = _key_of(config), 0, None

        def check(connection: Connection) -> None:
            nonlocal row
            row = hold.newest(connection)
            hold.check_no_gap()

        def save(connection: Connection) -> None:
            statements.run(connection, None if hold.has_apart(place) else read)

        submit = partial(self._database.submit, save, brief=True, failed=hold.note, together=True, first=check)
        if hold.fence and metadata.get("source") == "input":
            hold.defer(submit(deferred=True), _Deferred(_key_of(saved), lambda _: statements.run))
            hold.follow(place, _key_of(saved))
            return saved
        upon = {future: waiting for future, waiting in hold.deferred.items() if waiting.place == place}
        read = sum(len(writes_read_after(waiting.writes, metadata)) for waiting in upon.values())
        try:
            await asyncio.shield(submit(joined={future: waiting.save(metadata) for future, waiting in upon.items()}))
        except Exception as error:
            if upon and not isinstance(error, SegueError):
                hold.check_no_gap()
            raise
        hold.running = row
        hold.follow(place, _key_of(saved))
        if row and row["requested"] in ("pause", "stop") and row["status"] in _PAUSABLE and self._on_pause is not None:
            self._on_pause(row["task_id"])
        return saved

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Save what a node wrote, its events in the event log.

        What a node of a held thread wrote that ended is committed with the checkpoint after it, or a moment later.
        """
        hold = self._hold(_thread_of(config))
        logged = "" if self._is_foreign else EVENTS
        kept = [_NO_WRITES_MARK if channel == logged else (channel, value) for channel, value in writes]
        events = [event for channel, value in writes if channel == logged for event in value]
        calls = hold.calls.pop(task_id, [])
        channels = {channel for channel, _ in kept}
        if not channels.isdisjoint((ERROR, INTERRUPT)):
            calls = []  # the node has no output: it runs again, or its task failed
        deferred = hold.fence > 0 and channels.isdisjoint(WRITES_IDX_MAP)
        place = _key_of(config)
        try:  # encoded at once: nodes that run until it is stored may change its values
            if self._is_foreign or SERDE.checks(place[1]):
                for channel, value in kept:
                    if not channel.startswith("__") and channel != STRUCTURED_RESPONSE:
                        SERDE.check(value)
            encoded = [(channel, Encoded(*SERDE.plain_typed(value))) for channel, value in kept]
        except BaseException as error:
            hold.note(error)
            raise
        await hold.wait_before()
        step = _Step(config, encoded, events, task_id, task_path, calls)

        def save(connection: Connection) -> list[EventForm]:
            hold.check(connection)
            hold.check_no_gap()
            hold.apart.add(place)
            return step.save(self._database, connection)

        writing = self._database.submit(save, brief=True, failed=hold.note, deferred=deferred, together=True)
        writing.add_done_callback(self._publish)  # in the order of the transactions, also when the caller is cancelled
        if deferred:
            after = lambda metadata: partial(step.kept_after(metadata).save, self._database)  # noqa: E731
            hold.defer(writing, _Deferred(place, after, encoded))
        else:
            await asyncio.shield(writing)

    async def record(self, thread_id: str, source: str, events: Sequence[EventForm]) -> None:
        """Save events of a node that still runs, those of one source once.

        The source begins with the id of the checkpoint that the node runs upon.
        """
        hold = self._hold(thread_id)

        def save(connection: Connection) -> list[EventForm]:
            hold.check(connection)
            hold.check_no_gap()
            return _insert(connection, thread_id, source, events)

        writing = self._database.submit(save, brief=True, failed=hold.note, together=True)
        writing.add_done_callback(self._publish)
        await asyncio.shield(writing)

    def _publish(self, writing: "asyncio.Future[list[EventForm]]") -> None:
        if writing.exception() is None and writing.result() and self._on_events is not None:
            self._on_events([from_dict(form) for form in writing.result()])

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete the checkpoints of a thread; its events, calls and tasks stay."""
        check = self._hold(thread_id).check

        def delete(connection: Connection) -> None:
            check(connection)
            delete_rows(connection, thread_id)

        await self._database.write(delete)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy the checkpoints of a thread to one that has none; a session is copied with `App.fork`."""
        check = self._hold(target_thread_id).check

        def copy(connection: Connection) -> None:
            check(connection)
            copy_thread(connection, source_thread_id, target_thread_id)

        await self._database.write(copy)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete the checkpoints of threads, with `keep_latest` all but the newest and what it is rebuilt from."""
        steps: dict[str, Callable[[Connection, str], object]] = {"keep_latest": keep_newest, "delete": delete_rows}
        if strategy not in steps:
            raise ValueError(f"There is no strategy {strategy!r}: use one of {', '.join(steps)}.")
        checks = {thread_id: self._hold(thread_id).check for thread_id in thread_ids}

        def prune(connection: Connection) -> None:
            for thread_id, check in checks.items():
                check(connection)
                steps[strategy](connection, thread_id)

        await self._database.write(prune)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints that runs made."""

        def check(connection: Connection, thread_id: str) -> None:
            self._hold(thread_id).check(connection)

        await self._database.write(lambda connection: delete_runs(connection, run_ids, check))

    async def delete_run(self, thread_id: str, run_id: str) -> None:
        """As `adelete_for_runs`, in one thread."""
        check = self._hold(thread_id).check
        await self._database.write(
            lambda connection: delete_runs(connection, [run_id], lambda inside, _: check(inside), thread_id)
        )

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that `config` names, or the thread's latest."""
        found: CheckpointTuple | None = await self._read(config, "checkpoint", partial(self._tuple, config))
        if found is None:
            return None
        follow(found.checkpoint["id"])
        return found._replace(checkpoint=copy_checkpoint(found.checkpoint))

    def _tuple(self, config: RunnableConfig, connection: Connection) -> CheckpointTuple | None:
        with decoding(_thread_of(config)), connection.state.view():
            found = connection.state.reader(self.serde, _thread_of(config)).get_tuple(config)
            if found is not None:
                check_form(found)
                place = _key_of(found.config)
                if not get_checkpoint_id(config):
                    check_newest(connection, place)
                check_checkpoint(connection, place)
            return found

    async def load_checkpoint(self, place: Place) -> Any:
        """Decode a checkpoint that is there."""
        return await self._database.read(lambda connection: decoded_checkpoint(connection, self.serde, place))

    async def load_write(self, row: Row) -> Any:
        """Check and decode what was written upon a checkpoint; the row has WRITE_COLUMNS and the value."""
        check_row(row, WRITE_KEY)
        stored = (row["kind"], row["value"])
        return self.serde.loads_typed(
            await self._database.read(lambda connection: connection.state.whole(row["thread_id"], stored))
        )

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield checkpoints, newest first."""
        thread_id = None if config is None else _thread_of(config)
        async with self._database.listing() as connection:
            found = connection.state.reader(self.serde, thread_id).list(
                config, filter=filter, before=before, limit=limit
            )
            with contextlib.closing(cast(Generator[CheckpointTuple], found)) as listed:
                while page := await asyncio.to_thread(_page, listed, thread_id or ""):
                    for each in page:
                        if isinstance(each, DamagedCheckpoint):
                            raise each
                        yield each

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return the writes that a DeltaChannel is rebuilt from."""

        def read(connection: Connection) -> Mapping[str, DeltaChannelHistory]:
            with decoding(_thread_of(config)), connection.state.view():
                reader = connection.state.reader(self.serde, _thread_of(config), self._decoded)
                history = reader.get_delta_channel_history(config=config, channels=channels)
                check_chain(connection, _key_of(config), channels)
                return history

        history = await self._read(config, tuple(channels), read)
        return {channel: unshared(each) for channel, each in history.items()}

    # For graphs that a synchronous node calls, in a thread of its own.

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """As `aget_tuple`; BlockingCall on the loop that runs the thread."""
        return self._wait(config, self.aget_tuple(config))

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """As `aput`."""
        return self._wait(config, self.aput(config, checkpoint, metadata, new_versions))

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """As `aput_writes`."""
        self._wait(config, self.aput_writes(config, writes, task_id, task_path))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """As `aget_delta_channel_history`."""
        return self._wait(config, self.aget_delta_channel_history(config=config, channels=channels))

    def _wait(self, config: RunnableConfig, work: Coroutine[Any, Any, T]) -> T:
        """Have the loop that runs the thread carry the work out."""
        hold = self._holds.get(_thread_of(config))
        running = asyncio._get_running_loop()
        if hold is None or hold.loop is None or running is hold.loop:
            work.close()
            raise BlockingCall if running else StaleOwner(_thread_of(config))
        return run_sync(work, hold.loop)

    async def _read(self, config: RunnableConfig, what: object, work: Callable[[Connection], T]) -> T:
        kept = self._kept_reads.get(_thread_of(config))
        if kept is None:
            return await self._database.read(work)
        key = (what, _key_of(config))
        if key not in kept:
            kept[key] = await self._database.read(work)
        return cast(T, kept[key])

    def _hold(self, thread_id: str) -> "_Hold":
        """How the thread is held now, for a write to it."""
        self._kept_reads.pop(thread_id, None)
        return self._holds.get(thread_id) or _Hold(thread_id)


def _thread_of(config: RunnableConfig) -> str:
    return str(config["configurable"]["thread_id"])


def _key_of(config: RunnableConfig) -> tuple[str, str, str]:
    """The checkpoint that writes belong to, and that the next checkpoint names as its parent."""
    place = config["configurable"]
    return (str(place["thread_id"]), str(place.get("checkpoint_ns", "")), str(place.get("checkpoint_id")))


def _page(listed: Iterator[CheckpointTuple], thread_id: str) -> list[CheckpointTuple | DamagedCheckpoint]:
    """The next checkpoints of a listing, which ends with one that is damaged."""
    page: list[CheckpointTuple | DamagedCheckpoint] = []
    try:
        with decoding(thread_id):
            for found in islice(listed, PAGE):
                check_form(found)
                page.append(found)
    except DamagedCheckpoint as error:
        page.append(error)
    return page


def _insert(connection: Connection, thread_id: str, source: str, events: Sequence[EventForm]) -> list[EventForm]:
    """Store the events that are new and return them, numbered."""
    stored: list[EventForm] = []
    for ordinal, event in enumerate(events):
        seq = put_event(connection, thread_id, source, ordinal, event)
        if seq is None:
            continue
        stored.append({**event, "seq": seq})
    for event in stored:  # the audit log is locked after the tasks, as everywhere
        if event["type"] == PermissionGranted.type:
            grant(connection, thread_id, event)
        if event["type"] == CallPermitted.type and event["data"]["scope"] == OPERATOR:
            act = Act(
                "permitted", {"tool": event["data"]["name"], "by": "approvals.auto_approve_conversations"}, OPERATOR
            )
            record(connection, act, thread_id, event["task_id"], opens=True)
    return stored
