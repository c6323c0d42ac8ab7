"""LangGraph's SQLite saver, fenced, with the events of a step stored in the same transaction."""

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, cast

import aiosqlite
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    get_checkpoint_id,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from segue.core.errors import DamagedCheckpoint, DatabaseUnavailable
from segue.core.events import Event, from_dict

from .database import Database, one_view
from .event_log import put_event
from .leases import check_fence
from .row_keys import check_chain, check_checkpoint, check_newest, sealed_checkpoint, sealed_write
from .serializer import CheckedSerializer, check_form, decoding

EVENTS = "events"
"""The channel whose writes go to the event log."""

# LangGraph's own mark of a task that finished without output: it takes the place of the events, so that a task which
# wrote nothing else still counts as finished, and the indexes of the other writes stay the same.
_STAND_IN = ("__no_writes__", None)

# A namespace is the node's name, a colon and an id; a semicolon comes next after a colon.
_DROP_INSIDE = tuple(
    f"DELETE FROM {table} WHERE thread_id = ? AND checkpoint_ns > ? AND checkpoint_ns < ?"
    for table in ("checkpoints", "writes")
)

_PAUSE_REQUESTED = """
    SELECT task_id FROM tasks WHERE thread_id = ? AND wanted = 'pause' AND status IN ('running', 'pausing')
"""

VERSION_DIGITS = 8
"""Of a channel's version: versions are compared as text."""

PAGE = 20
"""Checkpoints of a listing that are read at once."""

EventForm = dict[str, Any]
OnEvents = Callable[[list[Event]], None]
OnPause = Callable[[str], None]


class FencedSqliteSaver(AsyncSqliteSaver):
    """Saves checkpoints for the threads that this process holds, and events with them.

    LangGraph's synchronous saver does the reading and names the statements; they run on the database's own connections.

    `on_events` gets the newly stored events with their `seq`, in order, after the commit; `on_pause` gets the task that
    a person requested to pause before a checkpoint was saved; neither may raise. `allowed` names further types that a
    checkpoint may hold, beside JSON values and messages.
    """

    def __init__(
        self,
        database: Database,
        on_events: OnEvents | None = None,
        on_pause: OnPause | None = None,
        allowed: Iterable[tuple[str, ...] | type] = (),
    ) -> None:
        serde = CheckedSerializer(allowed_msgpack_modules=[*allowed])
        super().__init__(cast(aiosqlite.Connection, None), serde=serde)
        self._database = database
        self._on_events = on_events
        self._on_pause = on_pause
        # Shared with the clones that LangGraph makes of a saver: changed in place, never replaced.
        self._fences: dict[str, int] = {}
        self._lost_writes: dict[tuple[str, str, str], BaseException] = {}

    @property
    def checkpointer(self) -> "FencedSqliteSaver":
        """What a graph is compiled with."""
        return self

    def hold(self, thread_id: str, fence: int) -> None:
        """From now on write to the thread only while `fence` is the lease's."""
        self._fences[thread_id] = fence
        for key in [key for key in self._lost_writes if key[0] == thread_id]:
            del self._lost_writes[key]

    def fence(self, thread_id: str) -> int:
        """The fence that the thread is written under; 0 if it is not held."""
        return self._fences.get(thread_id, 0)

    def release(self, thread_id: str) -> None:
        """Write to the thread unfenced again."""
        self._fences.pop(thread_id, None)

    def get_next_version(self, current: str | None, channel: None) -> str:
        """The next version of a channel: shorter than LangGraph's, except in a thread that began with those."""
        if current is not None and "." in str(current):
            return super().get_next_version(current, channel)
        return f"{int(current or 0) + 1:0{VERSION_DIGITS}}"

    async def setup(self) -> None:
        """Do nothing: the tables are created when the database is opened."""

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Save a checkpoint.

        Raises:
            StaleOwner: another owner took the thread; nothing was written.
            DatabaseUnavailable: it cannot be written, or the writes that led to it could not.
        """
        thread_id, key, statements = _thread_of(config), _key_of(config), Statements(self.serde)
        check = self._fenced(thread_id)
        saved = statements.put(config, checkpoint, metadata, new_versions)

        def save(connection: sqlite3.Connection) -> list[str]:
            check(connection)
            self._refuse_gap(key)
            statements.run(connection)
            return [row["task_id"] for row in connection.execute(_PAUSE_REQUESTED, (thread_id,))]

        def forget(_: BaseException) -> None:
            self._lost_writes.pop(key, None)

        for task_id in await asyncio.shield(self._database.submit(save, failed=forget)):
            if self._on_pause is not None:
                self._on_pause(task_id)
        return saved

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Save what a node wrote, its events in the event log.

        What a node that ended wrote is committed with the checkpoint after it, or a moment later. Where it cannot be
        written, that checkpoint and a question of another node fail.

        Raises:
            StaleOwner: another owner took the thread; nothing was written.
            DatabaseUnavailable: it cannot be written.
        """
        key, check = _key_of(config), self._fenced(_thread_of(config))
        kept = [_STAND_IN if channel == EVENTS else (channel, value) for channel, value in writes]
        events = [event for channel, value in writes if channel == EVENTS for event in value]
        deferred = not any(channel in WRITES_IDX_MAP for channel, _ in kept)
        statements, lost = Statements(self.serde), partial(self._lost_writes.__setitem__, key)

        def save(connection: sqlite3.Connection) -> list[EventForm]:
            check(connection)
            if not deferred:
                self._refuse_gap(key)
            stored = _insert(connection, config, task_id, events)
            statements.run(connection)
            return stored

        try:
            statements.put_writes(config, kept, task_id, task_path)
        except BaseException as error:
            lost(error)
            raise
        writing = self._database.submit(save, failed=lost, deferred=deferred)
        writing.add_done_callback(self._tell)  # in the order of the transactions, also when the caller is cancelled
        if not deferred:
            await asyncio.shield(writing)

    def _tell(self, writing: "asyncio.Future[list[EventForm]]") -> None:
        if writing.exception() is None and writing.result() and self._on_events is not None:
            self._on_events([from_dict(form) for form in writing.result()])

    async def drop_inside(self, thread_id: str, node: str) -> None:
        """Delete the checkpoints of the graphs that ran inside a node of a thread whose task has ended.

        Raises:
            StaleOwner: another owner took the thread; nothing was deleted.
        """
        check = self._fenced(thread_id)

        def drop(connection: sqlite3.Connection) -> None:
            check(connection)
            for statement in _DROP_INSIDE:
                connection.execute(statement, (thread_id, f"{node}:", f"{node};"))

        await self._database.write(drop)

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete the checkpoints of a thread; its events, calls and tasks stay."""
        statements, check = Statements(self.serde), self._fenced(thread_id)
        statements.delete_thread(thread_id)

        def delete(connection: sqlite3.Connection) -> None:
            check(connection)
            statements.run(connection)

        await self._database.write(delete)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that `config` names, or the thread's latest.

        Raises:
            DamagedCheckpoint: it, or what was written on it, is not what was stored.
        """
        return await self._database.read(partial(self._tuple, config))

    def _tuple(self, config: RunnableConfig, connection: sqlite3.Connection) -> CheckpointTuple | None:
        with decoding(_thread_of(config)), one_view(connection):
            found = self._reader(connection).get_tuple(config)
            if found is not None:
                check_form(found)
                place = _key_of(found.config)
                if not get_checkpoint_id(config):
                    check_newest(connection, place)
                check_checkpoint(connection, place)
            return found

    def _reader(self, connection: sqlite3.Connection) -> SqliteSaver:
        """LangGraph's synchronous saver over a connection whose tables are there."""
        reader = SqliteSaver(connection, serde=self.serde)
        reader.is_setup = True
        return reader

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield checkpoints, newest first.

        Raises:
            DamagedCheckpoint: the next one, or what was written on it, is not what was stored.
        """
        thread_id = "" if config is None else _thread_of(config)
        async with self._database.listing() as connection:
            found = self._reader(connection).list(config, filter=filter, before=before, limit=limit)
            with contextlib.closing(cast(Generator[CheckpointTuple], found)) as listed:
                while page := await asyncio.to_thread(_page, listed, thread_id):
                    for each in page:
                        if isinstance(each, DamagedCheckpoint):
                            raise each
                        yield each

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return the writes that a DeltaChannel is rebuilt from.

        Raises:
            DamagedCheckpoint: a checkpoint before it, or what was written on one, is not what was stored.
        """

        def read(connection: sqlite3.Connection) -> Mapping[str, DeltaChannelHistory]:
            with decoding(_thread_of(config)), one_view(connection):
                history = self._reader(connection).get_delta_channel_history(config=config, channels=channels)
                check_chain(connection, _key_of(config), channels)
                return history

        return await self._database.read(read)

    def _fenced(self, thread_id: str) -> Callable[[sqlite3.Connection], None]:
        """What makes sure, in a transaction, that the thread is still ours, if it is held now."""
        fence = self._fences.get(thread_id)

        def check(connection: sqlite3.Connection) -> None:
            if fence is not None:
                check_fence(connection, thread_id, fence)

        return check

    def _refuse_gap(self, key: tuple[str, str, str]) -> None:
        """Let no checkpoint and no question pass writes that failed."""
        error = self._lost_writes.get(key)
        if error is not None:
            raise DatabaseUnavailable(
                "A step of session '{thread_id}' could not be saved ({error}): resume its task.",
                thread_id=key[0],
                error=error,
            ) from error


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


def _insert(
    connection: sqlite3.Connection, config: RunnableConfig, task_id: str, events: Sequence[EventForm]
) -> list[EventForm]:
    """Store the events that are new and return them, numbered."""
    thread_id, _, checkpoint_id = _key_of(config)
    # The thread and the checkpoint belong to the key: a fork repeats task ids, and input always has the same one.
    source = f"{checkpoint_id}/{task_id}"
    stored: list[EventForm] = []
    for ordinal, event in enumerate(events):
        seq = put_event(connection, thread_id, source, ordinal, event)
        stored.extend([] if seq is None else [{**event, "seq": seq}])
    return stored


class Statements(SqliteSaver):
    """LangGraph's own statements of a write, collected here and executed in a transaction of ours."""

    def __init__(self, serde: SerializerProtocol) -> None:
        super().__init__(cast(sqlite3.Connection, None), serde=serde)
        self._collected: list[tuple[str, Sequence[Sequence[Any]]]] = []

    @contextlib.contextmanager
    def cursor(self, transaction: bool = True) -> Iterator[Any]:
        """This, in place of a cursor."""
        yield self

    def execute(self, statement: str, values: Sequence[Any]) -> None:
        self._collected.append((statement, [values]))

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        self._collected.append((statement, [*rows]))

    def run(self, connection: sqlite3.Connection) -> None:
        """Execute what was collected, the keys of the rows sealed."""
        for statement, rows in self._collected:
            connection.executemany(statement, [_sealed(connection, statement, row) for row in rows])


def _sealed(connection: sqlite3.Connection, statement: str, row: Sequence[Any]) -> Sequence[Any]:
    if "INTO checkpoints" in statement:
        return sealed_checkpoint(connection, row)
    return sealed_write(row) if "INTO writes" in statement else row
