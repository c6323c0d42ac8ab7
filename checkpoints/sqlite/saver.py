"""LangGraph's SQLite saver, fenced, with the events of a step stored in the same transaction."""

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import aiosqlite
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from segue.core.errors import DatabaseUnavailable, StaleOwner

from .database import Database, translated
from .event_log import INSERT_EVENT, event_row
from .leases import CHECK_FENCE
from .serializer import CheckedSerializer, Undecodable, check_form, decoding

EVENTS = "events"
"""The channel whose writes go to the event log."""

# LangGraph's own mark of a task that finished without output: it stands where the events stood, so that a task which
# wrote nothing else still counts as finished, and the places of the other writes stay the same.
_STAND_IN = ("__no_writes__", None)

_DROP_SUBGRAPHS = (
    "DELETE FROM checkpoints WHERE thread_id = ? AND checkpoint_ns != ''",
    "DELETE FROM writes WHERE thread_id = ? AND checkpoint_ns != ''",
)

_PAUSE_WANTED = """
    SELECT task_id FROM tasks WHERE thread_id = ? AND wanted = 'pause' AND status IN ('running', 'pausing')
"""

# The parents on the way to the root that are not there.
_BROKEN_CHAIN = """
    WITH RECURSIVE ancestors(id, parent) AS (
        SELECT checkpoint_id, parent_checkpoint_id FROM checkpoints
        WHERE thread_id = :thread_id AND checkpoint_ns = :ns AND checkpoint_id = :id
        UNION
        SELECT checkpoint_id, parent_checkpoint_id FROM ancestors CROSS JOIN checkpoints ON checkpoint_id = parent
        WHERE thread_id = :thread_id AND checkpoint_ns = :ns
    )
    SELECT parent FROM ancestors WHERE parent NOT IN (SELECT id FROM ancestors)
"""

EventForm = dict[str, Any]
OnEvents = Callable[[list[EventForm]], None]
OnPause = Callable[[str], None]


class FencedSqliteSaver(AsyncSqliteSaver):
    """Saves checkpoints for the threads that this process holds, and events with them.

    `on_events` gets the newly stored events with their `seq`, in order, after the commit; `on_pause` gets the task that
    a person wanted to pause before a checkpoint was saved; neither may raise. `allowed` names further types that a
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
        """Create LangGraph's tables."""
        if self.is_setup:
            return
        async with self._database.writing:
            with translated(self._database.path):
                await super().setup()

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
        await self.setup()
        async with self._transaction(_thread_of(config)) as connection:
            self._refuse_gap(_key_of(config))
            if self._on_pause is not None:
                for row in await connection.execute_fetchall(_PAUSE_WANTED, (_thread_of(config),)):
                    self._on_pause(row[0])
            return await super().aput(config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Save what a node wrote, its events in the event log.

        Raises:
            StaleOwner: another owner took the thread; nothing was written.
            DatabaseUnavailable: it cannot be written.
        """
        await self.setup()
        kept = [_STAND_IN if channel == EVENTS else (channel, value) for channel, value in writes]
        events = [event for channel, value in writes if channel == EVENTS for event in value]
        try:
            async with self._transaction(_thread_of(config)) as connection:
                stored = await _insert(connection, config, task_id, events)
                await super().aput_writes(config, kept, task_id, task_path)
                # Committed; still under the lock, so that events are told in the order of their numbers.
                if stored and self._on_events is not None:
                    self._on_events(stored)
        except BaseException as error:
            self._lost_writes[_key_of(config)] = error
            raise

    async def drop_subgraphs(self, thread_id: str) -> None:
        """Delete the checkpoints of the subgraphs of a thread whose task is finished.

        Raises:
            StaleOwner: another owner took the thread; nothing was deleted.
        """
        await self.setup()
        async with self._transaction(thread_id) as connection:
            for statement in _DROP_SUBGRAPHS:
                await connection.execute(statement, (thread_id,))

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete the checkpoints of a thread; its events, calls and tasks stay."""
        await self.setup()
        async with self._transaction(thread_id):
            await super().adelete_thread(thread_id)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that `config` names, or the thread's latest.

        Raises:
            DamagedCheckpoint: it, or what was written on it, is not what was stored.
        """
        with translated(self._database.path), decoding(_thread_of(config)):
            found = await super().aget_tuple(config)
            if found is not None:
                check_form(found)
            return found

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield checkpoints, newest first; write nothing meanwhile, LangGraph's lock is held between them.

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
            if any("seed" not in found for found in history.values()):
                await self._refuse_broken_chain(config)
            return history

    async def _refuse_broken_chain(self, config: RunnableConfig) -> None:
        """LangGraph takes a checkpoint that is missing for the beginning, and the history would come back shorter."""
        thread_id, ns, checkpoint_id = _key_of(config)
        values = {"thread_id": thread_id, "ns": ns, "id": checkpoint_id}
        async with self.lock:
            missing = list(await self.conn.execute_fetchall(_BROKEN_CHAIN, values))
        if missing:
            raise Undecodable(f"it builds on checkpoint {missing[0][0]}, which is missing")

    @contextlib.asynccontextmanager
    async def _transaction(self, thread_id: str) -> AsyncIterator[aiosqlite.Connection]:
        """Begin a write to a thread by checking that it is still ours, if it is held."""
        async with self._database.transaction() as connection:
            fence = self._fences.get(thread_id)
            if fence is not None and (await connection.execute(CHECK_FENCE, (thread_id, fence))).rowcount != 1:
                raise StaleOwner(thread_id)
            yield connection

    def _refuse_gap(self, key: tuple[str, str, str]) -> None:
        """Let no checkpoint pass writes that failed: LangGraph itself waits only for those of a DeltaChannel."""
        error = self._lost_writes.pop(key, None)
        if error is not None:
            what = f"A step of session «{key[0]}» could not be saved ({error}): resume its task."
            raise DatabaseUnavailable(what) from error


def _thread_of(config: RunnableConfig) -> str:
    return str(config["configurable"]["thread_id"])


def _key_of(config: RunnableConfig) -> tuple[str, str, str]:
    """The checkpoint that writes belong to, and that the next checkpoint names as its parent."""
    place = config["configurable"]
    return (str(place["thread_id"]), str(place.get("checkpoint_ns", "")), str(place.get("checkpoint_id")))


async def _insert(
    connection: aiosqlite.Connection, config: RunnableConfig, task_id: str, events: Sequence[EventForm]
) -> list[EventForm]:
    """Store the events that are new and return them, numbered."""
    thread_id, _, checkpoint_id = _key_of(config)
    # The thread and the checkpoint belong to the key: a fork repeats task ids, and input always has the same one.
    source = f"{checkpoint_id}/{task_id}"
    stored: list[EventForm] = []
    for ordinal, event in enumerate(events):
        rows = await connection.execute_fetchall(INSERT_EVENT, event_row(thread_id, source, ordinal, event))
        stored.extend({**event, "seq": row[0]} for row in rows)
    return stored
