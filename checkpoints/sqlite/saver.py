"""LangGraph's SQLite saver, fenced, with the events of a step stored in the same transaction."""

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
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

from segue.core.errors import DatabaseUnavailable
from segue.core.events import Event, from_dict

from .database import Database, translated
from .event_log import INSERT_EVENT, event_row
from .leases import check_fence
from .row_keys import check_chain, check_checkpoint, check_newest, sealed_checkpoint, sealed_write
from .serializer import CheckedSerializer, check_form, decoding

EVENTS = "events"
"""The channel whose writes go to the event log."""

# LangGraph's own mark of a task that finished without output: it takes the place of the events, so that a task which
# wrote nothing else still counts as finished, and the indexes of the other writes stay the same.
_STAND_IN = ("__no_writes__", None)

_DROP_SUBGRAPHS = (
    "DELETE FROM checkpoints WHERE thread_id = ? AND checkpoint_ns != ''",
    "DELETE FROM writes WHERE thread_id = ? AND checkpoint_ns != ''",
)

_PAUSE_REQUESTED = """
    SELECT task_id FROM tasks WHERE thread_id = ? AND wanted = 'pause' AND status IN ('running', 'pausing')
"""

EventForm = dict[str, Any]
OnEvents = Callable[[list[Event]], None]
OnPause = Callable[[str], None]


class FencedSqliteSaver(AsyncSqliteSaver):
    """Saves checkpoints for the threads that this process holds, and events with them.

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
        super().__init__(database.checkpoints, serde=CheckedSerializer(allowed_msgpack_modules=[*allowed]))
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
        thread_id, statements = _thread_of(config), Statements(self.serde)
        saved = statements.put(config, checkpoint, metadata, new_versions)

        def save(connection: sqlite3.Connection) -> list[str]:
            self._check(connection, thread_id)
            self._refuse_gap(_key_of(config))
            statements.run(connection)
            return [row["task_id"] for row in connection.execute(_PAUSE_REQUESTED, (thread_id,))]

        for task_id in await self._database.write(save):
            if self._on_pause is not None:
                self._on_pause(task_id)
        return saved

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Save what a node wrote, its events in the event log.

        Raises:
            StaleOwner: another owner took the thread; nothing was written.
            DatabaseUnavailable: it cannot be written.
        """
        kept = [_STAND_IN if channel == EVENTS else (channel, value) for channel, value in writes]
        events = [event for channel, value in writes if channel == EVENTS for event in value]
        statements, lost = Statements(self.serde), partial(self._lost_writes.__setitem__, _key_of(config))

        def save(connection: sqlite3.Connection) -> list[EventForm]:
            self._check(connection, _thread_of(config))
            stored = _insert(connection, config, task_id, events)
            statements.run(connection)
            return stored

        try:
            statements.put_writes(config, kept, task_id, task_path)
        except BaseException as error:
            lost(error)
            raise
        writing = self._database.submit(save, failed=lost)
        writing.add_done_callback(self._tell)  # in the order of the transactions, also when the caller is cancelled
        await asyncio.shield(writing)

    def _tell(self, writing: "asyncio.Future[list[EventForm]]") -> None:
        if writing.exception() is None and writing.result() and self._on_events is not None:
            self._on_events([from_dict(form) for form in writing.result()])

    async def drop_subgraphs(self, thread_id: str) -> None:
        """Delete the checkpoints of the subgraphs of a thread whose task is finished.

        Raises:
            StaleOwner: another owner took the thread; nothing was deleted.
        """

        def drop(connection: sqlite3.Connection) -> None:
            self._check(connection, thread_id)
            for statement in _DROP_SUBGRAPHS:
                connection.execute(statement, (thread_id,))

        await self._database.write(drop)

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete the checkpoints of a thread; its events, calls and tasks stay."""
        statements = Statements(self.serde)
        statements.delete_thread(thread_id)

        def delete(connection: sqlite3.Connection) -> None:
            self._check(connection, thread_id)
            statements.run(connection)

        await self._database.write(delete)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that `config` names, or the thread's latest.

        Raises:
            DamagedCheckpoint: it, or what was written on it, is not what was stored.
        """
        with translated(self._database.path), decoding(_thread_of(config)):
            found = await super().aget_tuple(config)
            if found is not None:
                check_form(found)
                await self._check_rows(config, found)
            return found

    async def _check_rows(self, config: RunnableConfig, found: CheckpointTuple) -> None:
        place = _key_of(found.config)

        def check(connection: sqlite3.Connection) -> None:
            if not get_checkpoint_id(config):
                check_newest(connection, place)
            check_checkpoint(connection, place)

        await self._database.read(check)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield checkpoints, newest first; LangGraph's saver reads nothing else meanwhile.

        Raises:
            DamagedCheckpoint: the next one, or what was written on it, is not what was stored.
        """
        found = super().alist(config, filter=filter, before=before, limit=limit)
        async with contextlib.aclosing(cast(AsyncGenerator[CheckpointTuple], found)) as listed:
            while (each := await self._next(listed, "" if config is None else _thread_of(config))) is not None:
                yield each

    async def _next(self, listed: AsyncGenerator[CheckpointTuple], thread_id: str) -> CheckpointTuple | None:
        with translated(self._database.path), decoding(thread_id):
            found = await anext(listed, None)
            if found is not None:
                check_form(found)
            return found

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return the writes that a DeltaChannel is rebuilt from.

        Raises:
            DamagedCheckpoint: a checkpoint before it, or what was written on one, is not what was stored.
        """
        with translated(self._database.path), decoding(_thread_of(config)):
            history = await super().aget_delta_channel_history(config=config, channels=channels)
            await self._database.read(lambda connection: check_chain(connection, _key_of(config), channels))
            return history

    def _check(self, connection: sqlite3.Connection, thread_id: str) -> None:
        """Make sure that the thread is still ours, if it is held."""
        fence = self._fences.get(thread_id)
        if fence is not None:
            check_fence(connection, thread_id, fence)

    def _refuse_gap(self, key: tuple[str, str, str]) -> None:
        """Let no checkpoint pass writes that failed: LangGraph itself waits only for those of a DeltaChannel."""
        error = self._lost_writes.pop(key, None)
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


def _insert(
    connection: sqlite3.Connection, config: RunnableConfig, task_id: str, events: Sequence[EventForm]
) -> list[EventForm]:
    """Store the events that are new and return them, numbered."""
    thread_id, _, checkpoint_id = _key_of(config)
    # The thread and the checkpoint belong to the key: a fork repeats task ids, and input always has the same one.
    source = f"{checkpoint_id}/{task_id}"
    stored: list[EventForm] = []
    for ordinal, event in enumerate(events):
        row = connection.execute(INSERT_EVENT, event_row(thread_id, source, ordinal, event)).fetchone()
        stored.extend([] if row is None else [{**event, "seq": row["seq"]}])
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
