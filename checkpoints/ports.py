"""The storage port: what the app needs of a database. Each method is one transaction."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence, Set
from typing import Any, Protocol

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

from segue.core.events import Event
from segue.core.records import Call, Json, NewTask, Recovery, Snapshot, Task, Thread
from segue.core.task_status import TaskStatus
from segue.core.timeline import CallOrigin, Place
from segue.core.tools import CallKey, Claim
from segue.prompts.language import Language

Readable = Callable[[RunnableConfig], Any]
"""Reads the whole state at a checkpoint, asynchronously; raises DamagedCheckpoint where it cannot."""
Values = Callable[[Place], Awaitable[Mapping[str, Any]]]
"""Gives the values of all channels at a snapshot; raises DamagedCheckpoint where its graph is not known."""
Changed = tuple[Task, list[Event]]
"""A task, and the events that were stored with the change."""


class Tasks(Protocol):
    """The tasks, one for each message. `sqlite.tasks` describes the methods."""

    async def create(self, new: NewTask, *, fence: int | None = None) -> Task: ...

    async def get(self, task_id: str) -> Task: ...

    async def show(self, task_id: str) -> Task: ...

    async def move(
        self,
        task_id: str,
        status: TaskStatus | None,
        *,
        events: Iterable[Event] = (),
        fence: int | None = None,
        **changes: Any,
    ) -> Changed: ...

    async def add_note(self, task_id: str, text: str, event: Event) -> Changed: ...

    async def find(self, text: str) -> str: ...

    async def requested(self, task_ids: Collection[str]) -> dict[str, str]: ...

    async def unfinished(self) -> Sequence[tuple[Task, str]]: ...

    async def waiting(self, prefix: str = "") -> Sequence[Task]: ...

    async def latest_of(self, thread_id: str) -> Task | None: ...

    async def threads(self, limit: int = 50, prefix: str = "") -> list[Thread]: ...

    async def list(
        self,
        agent_id: str | None = None,
        thread_id: str | None = None,
        limit: int = 50,
        before: str | None = None,
        prefix: str = "",
    ) -> list[Task]: ...


class EventLog(Protocol):
    """The durable events of every task."""

    async def read(self, task_id: str, after: int = 0, limit: int | None = None) -> list[Event]: ...


class Ledger(Protocol):
    """The tool calls of one thread, written under its fence."""

    async def read(self, key: CallKey) -> Json | None: ...

    async def claim(self, key: CallKey, name: str, arguments: Mapping[str, Any]) -> Claim: ...

    async def settle(self, key: CallKey, outcome: Mapping[str, Any]) -> None: ...

    async def settle_all(self, task_id: str, outcome_of: Callable[[str], Mapping[str, Any]]) -> list[Call]: ...

    async def calls(self, task_id: str) -> list[Call]: ...

    async def unknown(self, task_id: str) -> list[Json]: ...

    async def finished(self) -> list[Call]: ...


class Leases(Protocol):
    """The right to run a task on a thread, and the queue for it."""

    async def acquire(self, thread_id: str, owner: str, ttl: float = ..., place: int | None = None) -> int: ...

    async def join_queue(self, thread_id: str) -> int: ...

    async def leave_queue(self, place: int) -> None: ...

    async def release(self, thread_id: str, fence: int) -> None: ...

    async def expire(self, thread_id: str, owner: str) -> None: ...

    async def holder(self, thread_id: str) -> str | None: ...

    async def last_owner(self, thread_id: str) -> tuple[str, float]: ...

    @property
    def now(self) -> float: ...


class Renewal(Protocol):
    """Prolongs leases, synchronously and from one thread."""

    def renew(self, fences: Mapping[str, int], ttl: float) -> Set[str]: ...

    def close(self) -> None: ...


class Saver(Protocol):
    """LangGraph's saver, which writes only to threads that are held under a fence that is valid."""

    @property
    def checkpointer(self) -> BaseCheckpointSaver[str]: ...

    def hold(self, thread_id: str, fence: int) -> None: ...

    def fence(self, thread_id: str) -> int: ...

    def release(self, thread_id: str) -> None: ...

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None: ...

    async def drop_inside(self, thread_id: str, node: str) -> None: ...


class Preferences(Protocol):
    """What users prefer, and how they rated answers."""

    async def default_mode(self, user_id: str) -> str: ...

    async def get(self, user_id: str, limit: int = 50) -> Json: ...

    async def put(self, user_id: str, default_mode: str) -> None: ...

    async def rate(self, task_id: str, rating: object) -> None: ...


class Sessions(Protocol):
    """Whole threads: their snapshots, copies, documents and repair."""

    async def snapshots(self, thread_id: str, limit: int = 50, before: str | None = None) -> list[Snapshot]: ...

    async def find_place(self, text: str, thread_id: str | None = None) -> Place: ...

    async def origins(self, thread_id: str) -> Mapping[tuple[str, str, int], CallOrigin]: ...

    async def fork(
        self, thread_id: str, checkpoint_id: str, new_thread_id: str, beside: Iterable[tuple[str, str]] = ()
    ) -> str | None: ...

    async def export(self, thread_id: str) -> Json: ...

    async def import_(self, document: Any, thread_id: str, user_id: str | None = None) -> str | None: ...

    async def prune(self, thread_id: str, checkpoint_id: str, fence: int, values: Values, since: float) -> int: ...

    async def delete(self, thread_id: str, fence: int) -> None: ...

    async def recover(self, saver: Saver, readable: Readable, thread_id: str, language: Language) -> Recovery: ...


class Storage(Protocol):
    """An open database."""

    @property
    def schema_version(self) -> int: ...

    @property
    def tasks(self) -> Tasks: ...

    @property
    def events(self) -> EventLog: ...

    @property
    def leases(self) -> Leases: ...

    @property
    def preferences(self) -> Preferences: ...

    @property
    def sessions(self) -> Sessions: ...

    def ledger(self, thread_id: str, fence: int = 0) -> Ledger: ...

    def renewal(self) -> Renewal: ...

    def saver(
        self, on_events: Callable[[list[Event]], None] | None = None, on_pause: Callable[[str], None] | None = None
    ) -> Saver: ...

    async def check_writable(self) -> None: ...

    async def compact(self) -> None: ...

    async def close(self) -> None: ...
