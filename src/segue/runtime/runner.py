"""The runner of background tasks: lease, heartbeat, graph, and final status."""

import asyncio
import logging
import os
import socket
import sys
import threading
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence, Set
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol

from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphDrained

from ..checkpoints.leases import LEASE_SECONDS
from ..checkpoints.storage import Storage
from ..core.actor import SEGUE
from ..core.agents import Agent
from ..core.approval import Grant
from ..core.audit import Act
from ..core.calls import CallResult, CallStatus
from ..core.context import AgentCalls, AppContext
from ..core.errors import (
    ConfigurationError,
    DamagedSession,
    DatabaseDamaged,
    DatabaseUnavailable,
    IllegalTransition,
    SegueError,
    StaleOwner,
    StorageError,
    ThreadBusy,
)
from ..core.events import (
    Cancelled,
    ErrorRaised,
    Event,
    Paused,
    PauseReason,
    Phase,
    ToolResult,
    Waiting,
)
from ..core.lifecycle import SPAWN
from ..core.message import ReplyOptions
from ..core.models import add_usages
from ..core.records import Json, RequestKey, Task, spawned_data
from ..core.spend import Owner
from ..core.sync import run_blocking
from ..core.task import ACTIVE, ENDED, TaskStatus
from ..memory.folder import MemoryFolder
from ..nodes.chat import ModeGraph
from ..nodes.context import announce
from ..prompts.catalogue import error_text, task_text
from ..registry import Registry, services_of
from ..tools.adapters.client import client_tools
from ..tools.calls import left_open, unknown_outcome
from .modes import chat_graph
from .relay import POLL_SECONDS, REQUESTS, Hub, Notices, Observer, Relay
from .reply import Projection, project
from .run import (
    Afterwards,
    Capacity,
    Run,
    RunInput,
    SaidSoFar,
    answer_events,
    asking_events,
    cancelled_result,
    close_turn,
    describe_question,
    initial_input,
    is_of_task,
    language_by_now,
    question_of,
    recursion_limit,
    resume_input,
    retrieve_error,
    state_at,
    stopped,
    thread_config,
    usage_by_events,
    wait_of,
)
from .spend import SpendControl

# The leases of this process, each the right to run a task on a thread, and the heartbeat that renews them.

logger = logging.getLogger(__name__)

RETRIES = 10
"""How often a renewal that failed is tried again before the leases run out."""


class Renewal(Protocol):
    """What the heartbeat needs of the storage; it is used from the heartbeat's thread alone."""

    def renew(self, fences: Mapping[str, int], ttl: float) -> Set[str]:
        """Prolong the leases of these threads; returns the threads that another owner took."""
        ...

    def close(self) -> None: ...


@dataclass
class _HeldLease:
    fence: int
    renewed_at: float
    overdue: bool = False


class Heartbeat:
    """Renews every lease each third of its life, from one thread, and tries again sooner where that fails.

    From that thread `on_lost` is called with the id of a thread that another owner took, and `on_overdue` with the id
    of one whose lease could not be renewed in time, and why.
    """

    def __init__(
        self,
        renewal: Renewal,
        on_lost: Callable[[str], None],
        on_overdue: Callable[[str, str], None],
        *,
        ttl: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.ttl = ttl
        self._renewal = renewal
        self._on_lost = on_lost
        self._on_overdue = on_overdue
        self._clock = clock
        self._held: dict[str, _HeldLease] = {}
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def hold(self, thread_id: str, fence: int) -> None:
        """Keep the lease of a thread from now on."""
        self._held[thread_id] = _HeldLease(fence, self._clock())
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="segue-heartbeat", daemon=True)
            self._thread.start()

    def drop(self, thread_id: str) -> None:
        """Renew the lease of the thread no more."""
        self._held.pop(thread_id, None)

    def fence_of(self, thread_id: str) -> int:
        """The fence under which the lease of the thread is kept, as far as this process knows; 0 where it is not."""
        held = self._held.get(thread_id)
        return held.fence if held else 0

    def close(self) -> None:
        """End the thread, once a renewal that is under way is done."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        pause = self.ttl / 3
        while not self._closed.wait(pause):
            pause = self.ttl / 3 if self.beat() else self.ttl / 3 / RETRIES
        self._renewal.close()

    def beat(self) -> bool:
        """Renew what is held; returns whether that was possible."""
        held = dict(self._held)
        if not held:
            return True
        try:
            lost = self._renewal.renew({thread_id: each.fence for thread_id, each in held.items()}, self.ttl)
        except StorageError as error:
            self._failed(held, error)
            return False
        now = self._clock()
        for thread_id, each in held.items():
            if thread_id not in lost:
                each.renewed_at, each.overdue = now, False
            elif self._held.get(thread_id) is each:  # else it was released meanwhile
                self.drop(thread_id)
                self._on_lost(thread_id)
        return True

    def _failed(self, held: Mapping[str, _HeldLease], error: StorageError) -> None:
        logger.warning("Leases could not be renewed: %s", error)
        now = self._clock()
        for thread_id, each in held.items():
            if not each.overdue and now - each.renewed_at >= self.ttl:
                each.overdue = True
                self._on_overdue(thread_id, str(error))


FIRST = 0
"""A position in the queue before all that are given."""

Promised = Callable[[str], Awaitable[bool]]
"""Whether a worker will take a thread that is free now."""


class LeaseHolder:
    """Takes leases for this process and keeps them.

    A lease whose owner is a process of this machine that is gone counts as free. One that has expired by the clock,
    while its process lives, is left for as long as that process takes to renew it: the clock may have jumped.
    """

    def __init__(
        self,
        storage: Storage,
        notices: Notices,
        on_lost: Callable[[str], None],
        on_overdue: Callable[[str, str], None],
        ttl: float | None = None,
        on_takeover: Callable[[], None] = lambda: None,
    ) -> None:
        self._lease = storage.leases
        self._notices = notices
        self._on_takeover = on_takeover
        self._heartbeat = Heartbeat(storage.renewal(), on_lost, on_overdue, ttl=ttl or storage.lease_ttl)
        self.owner = f"{_this_machine()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"

    async def take(self, thread_id: str, wait: float = 0.0, promised: Promised | None = None) -> int:
        """Take the lease and return its fence; wait up to `wait` seconds for it, first come first served."""
        fence = await self._wait_for(thread_id, wait, promised)
        self._heartbeat.hold(thread_id, fence)
        return fence

    async def take_first(self, thread_id: str) -> int:
        """Take the lease for a task that the thread has already, ahead of those who wait with a new one."""
        fence = await self._try(thread_id, FIRST)
        self._heartbeat.hold(thread_id, fence)
        return fence

    async def _wait_for(self, thread_id: str, wait: float, promised: Promised | None) -> int:
        try:
            return await self._try(thread_id, promised=promised)
        except ThreadBusy:
            if wait <= 0:
                raise
        deadline = time.monotonic() + wait
        place = await self._lease.join_queue(thread_id)
        try:
            with self._notices.subscribe(thread_id) as notice:
                while True:
                    try:
                        return await self._try(thread_id, place, promised)
                    except ThreadBusy:
                        if time.monotonic() > deadline:
                            raise
                    await notice.wait(deadline - time.monotonic())
        finally:
            await self._lease.leave_queue(place)

    async def _try(self, thread_id: str, place: int | None = None, promised: Promised | None = None) -> int:
        """Take the lease unless it is promised, which may show only under it."""
        if promised and await promised(thread_id):
            raise ThreadBusy(thread_id)
        fence = await self._acquire(thread_id, place)
        if promised and await promised(thread_id):
            await self._lease.release(thread_id, fence)
            raise ThreadBusy(thread_id)
        return fence

    async def _acquire(self, thread_id: str, place: int | None) -> int:
        found = await self._lease.acquire_released(thread_id, self.owner, place=place, ttl=self._heartbeat.ttl)
        if found.fence:
            return found.fence
        owner, left = found.owner, found.left
        if self._heartbeat.fence_of(thread_id) and owner == self.owner:
            raise ThreadBusy(thread_id)
        if owner and is_dead(owner):
            await self._lease.expire(thread_id, owner)
        elif owner and left <= 0 and is_local(owner):
            await self._until_renewed(thread_id)
        fence = await self._lease.acquire(thread_id, self.owner, place=place, ttl=self._heartbeat.ttl)
        if owner not in ("", self.owner):
            self._on_takeover()
        return fence

    async def _until_renewed(self, thread_id: str) -> None:
        """Give the owner the time of a heartbeat."""
        for _ in range(round(self._heartbeat.ttl / 2 / POLL_SECONDS)):
            if await self._lease.holder(thread_id) is not None:
                return
            await asyncio.sleep(POLL_SECONDS)

    async def release(self, thread_id: str, fence: int) -> None:
        """Let the thread go, after the last write."""
        self.forget(thread_id)
        await self._lease.release(thread_id, fence)

    def forget(self, thread_id: str) -> None:
        """Renew the lease no more: it was released with the last write, or is left to expire."""
        self._heartbeat.drop(thread_id)

    def keeps(self, thread_id: str, fence: int) -> bool:
        """Whether the lease is renewed under this fence."""
        return self._heartbeat.fence_of(thread_id) == fence

    async def expire(self, thread_id: str, owner: str) -> None:
        """End the lease of an owner whose process is gone."""
        await self._lease.expire(thread_id, owner)

    async def last_owner(self, thread_id: str) -> str:
        """Who had the lease and did not release it; empty where there is nobody."""
        return (await self._lease.last_owner(thread_id))[0]

    async def held(self, thread_id: str) -> bool:
        """Whether a live process, this one or another, runs a task on the thread."""
        return is_alive(await self._lease.holder(thread_id) or "")

    async def close(self) -> None:
        """End the heartbeat."""
        await run_blocking(self._heartbeat.close)


def _this_machine() -> str:
    """This machine and, where it has several, this container: process ids mean something only here."""
    try:
        return f"{socket.gethostname()}/{os.readlink('/proc/self/ns/pid')}".replace(":", "")
    except OSError:
        return socket.gethostname()


def is_local(owner: str) -> bool:
    """Whether an owner, place:pid:random, is or was a process of this machine."""
    place, _, pid = owner.rpartition(":")[0].rpartition(":")
    return place == _this_machine() and pid.isdigit()


def is_dead(owner: str) -> bool:
    """Whether an owner was a process of this machine that is no more."""
    if not is_local(owner) or sys.platform == "win32":  # signal 0 is Ctrl-C there: its lease has to expire
        return False
    try:
        os.kill(int(owner.split(":")[-2]), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def describe_owner(owner: str) -> str:
    """An owner in a log: its process, and the machine of that."""
    place, _, pid = owner.rpartition(":")[0].rpartition(":")
    return f"process {pid} of {place.partition('/')[0]}"


def is_alive(owner: str) -> bool:
    """Whether an owner of a lease is there, and not a process of this machine that is no more."""
    return bool(owner) and not is_dead(owner)


# Tasks in the background: lease, graph, and final status.


RELEASE_SECONDS = 0.5
"""Seconds that another process may take to release a session whose task has ended."""

TAKEOVER_SECONDS = 2 * LEASE_SECONDS
"""Seconds between two looks for tasks of other processes that are gone: their leases have run out by the second."""

Begin = Callable[[Task], asyncio.Task[Json]]
"""Begins a task under its thread's lease."""


class CalledAgents(Protocol):
    """What the runner needs of calls of tools that are agents."""

    def of(self, caller: Task) -> AgentCalls: ...

    async def used_below(self, task: Task, known: Projection) -> Sequence[Json]: ...

    async def cancel_below(self, task: Task) -> None: ...

    async def pause_below(self, task: Task, requested: Literal["pause", "stop"]) -> None: ...

    async def continue_below(self, task: Task) -> None: ...


class Runner:
    """Owns the running tasks of one process."""

    def __init__(
        self,
        storage: Storage,
        registry: Registry,
        modes: Mapping[str, ModeGraph],
        capacity: Capacity | None = None,
        memory: MemoryFolder | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.clock, self.memory = clock, memory or MemoryFolder()
        self.capacity = capacity or Capacity()
        self.hub = Hub()
        self.observers: list[Observer] = []
        self.tasks = storage.tasks
        self.log = storage.events
        self.notices = Notices(storage.workers)
        self.relay = Relay(storage.workers, self.notices)
        self.leases = LeaseHolder(storage, self.notices, self._lost, self._overdue, on_takeover=self._taken_over)
        self.saver = storage.saver(self._publish, self._pause_run)
        self.graph = chat_graph(modes).copy({"checkpointer": self.saver})
        self.spend = SpendControl(storage.spend, registry.spend)
        self.afterwards = Afterwards(storage, registry, self.memory, self.spend, clock)
        self._storage = storage
        self._registry = registry
        self._runs: dict[str, Run] = {}
        self._watching: asyncio.Task[None] | None = None
        self.called_agents: CalledAgents | None = None
        """What carries out the calls of tools that are agents."""
        self.for_others = False
        """Whether what is stopped here is left to other processes, without being paused: a worker's tasks."""

    def _publish(self, stored: Iterable[Event]) -> None:
        for event in stored:
            self.hub.publish(event)
            if run := self.run_of(event.task_id):
                run.note(event)
                for observer in self.observers:
                    observer.stored(run.row, event)

    async def move(self, row: Task, status: TaskStatus | None, *, events: Iterable[Event] = (), **changes: Any) -> Task:
        """Change a task, under the thread's lease if this process holds it, and publish its events."""
        fence = self.saver.fence(row.session_id) or None
        moved, stored = await self.tasks.move(row.task_id, status, events=events, fence=fence, **changes)
        if changes.get("steered"):
            self.saver.forget_notes(row.session_id)
        self._publish(stored)
        if status is not None and moved.status not in ACTIVE:
            for observer in self.observers:
                observer.stopped(moved)
        return moved

    async def add_note(self, row: Task, text: str, event: Event, key: RequestKey | None = None) -> Task:
        """Add a text that steers an open task, under its idempotency key if it has one, and publish its event."""
        added, stored = await self.tasks.add_note(row.task_id, text, event, key)
        self.saver.forget_notes(row.session_id)
        self._publish(stored)
        return added

    def _pause_run(self, task_id: str) -> None:
        if run := self.run_of(task_id):
            run.pause(PauseReason.REQUESTED)

    def run_of(self, task_id: str) -> Run | None:
        """The run of a task that runs in this process."""
        return self._runs.get(task_id)

    def agent_of(self, row: Task) -> Agent | None:
        """The agent of a task as it is here; None where it is not."""
        return self._registry.of(row).get(row.agent_id)

    def running(self) -> list[str]:
        """The threads whose tasks run in this process, or wait for their turn."""
        return [run.row.session_id for run in self._runs.values()]

    def _taken_over(self) -> None:
        for observer in self.observers:
            observer.session_taken_over()

    def _lost(self, thread_id: str) -> None:
        """Another owner took the thread; called from the heartbeat's thread."""
        self._pause_runs_on(thread_id, PauseReason.LEASE_LOST)

    def _overdue(self, thread_id: str, why: str) -> None:
        """The lease may run out at any moment; called from the heartbeat's thread."""
        self._pause_runs_on(thread_id, f"the session's lease could not be renewed: {why}")

    def _pause_runs_on(self, thread_id: str, reason: str) -> None:
        for run in list(self._runs.values()):
            if run.row.session_id == thread_id:
                run.pause(reason)

    @asynccontextmanager
    async def leased(
        self, thread_id: str, wait: float = 0.0, promised: Promised | None = None, *, first: bool = False
    ) -> AsyncIterator[Begin]:
        """Take the thread's lease and give the function that begins a task under it; without a task it is released.

        With `first` it is taken ahead of those who wait for it.
        """
        self.check_loop()
        fence = await (self.leases.take_first(thread_id) if first else self._acquire(thread_id, wait, promised))
        begun = False

        def begin(row: Task) -> asyncio.Task[Json]:
            nonlocal begun
            begun = True
            return self._begin(row, fence)

        try:
            await self._stop_stale_runs(thread_id)
            self.saver.hold(thread_id, fence)
            yield begin
        finally:
            if not begun and self.leases.keeps(thread_id, fence):
                await self._release(thread_id, fence)

    def _begin(self, row: Task, fence: int) -> asyncio.Task[Json]:
        """Begin a task whose thread's lease is held."""
        slot = self.capacity.reserve(Owner.of(row.session_id, row.user_id))
        run = self._runs[row.task_id] = Run(row, fence, slot)
        run.task = asyncio.create_task(self._run(run), name=f"task {row.task_id}")
        run.task.add_done_callback(retrieve_error)
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._watch(), name="watch")
        return run.task

    def check_loop(self) -> None:
        """Raise ConfigurationError where the app runs tasks in another event loop."""
        watching = self._watching
        if watching and not watching.done() and watching.get_loop() is not asyncio.get_running_loop():
            raise ConfigurationError("The app runs tasks in another event loop: use one app in each loop.")

    async def _acquire(self, thread_id: str, wait: float, promised: Promised | None) -> int:
        try:
            return await self.leases.take(thread_id, wait, promised)
        except ThreadBusy:
            last = None if wait else await self.tasks.latest_of(thread_id)
            if last is None or last.status not in ENDED:
                raise
        return await self.leases.take(thread_id, RELEASE_SECONDS, promised)

    def forget(self, thread_id: str) -> None:
        """Hold the thread's lease no more: it was released with the last write, or is left to expire."""
        self.saver.release(thread_id)
        self.leases.forget(thread_id)

    async def _stop_stale_runs(self, thread_id: str) -> None:
        """Stop a run of ours whose lease ran out before we took the thread again; it cannot write any more."""
        for run in [run for run in self._runs.values() if run.row.session_id == thread_id]:
            run.pause(PauseReason.LEASE_LOST)
            run.stop()
            if run.task:
                await asyncio.wait([run.task])

    async def _release(self, thread_id: str, fence: int) -> None:
        self.saver.release(thread_id)
        await self.leases.release(thread_id, fence)

    async def _watch(self) -> None:
        """Carry out what other processes want of the tasks that run here, as long as any does."""
        with self.notices.subscribe(REQUESTS) as notice:
            while self._runs:
                with suppress(DatabaseUnavailable):
                    await self._apply_requests()
                await notice.wait()

    async def _apply_requests(self) -> None:
        for task_id, what in (await self.tasks.requested(self._runs)).items():
            run = self.run_of(task_id)
            if run and what == "cancel":
                run.cancel()
            elif run:
                is_known = bool(run.reason)
                run.pause(PauseReason.REQUESTED)
                if what == "stop":  # also one that was asked to pause before
                    run.model_calls.stop()
                if not is_known and (newest := await self.log.last(task_id)):
                    self._publish([newest])  # its status, which another process changed

    async def _run(self, run: Run) -> Json:
        thread_id, fence = run.row.session_id, run.fence
        try:
            return await self._execute(run)
        finally:
            self.capacity.release(run.slot)
            try:
                if run.abandoned:
                    self.forget(thread_id)
                elif not (run.next_id and await self._begin_next(run)):
                    await self._release(thread_id, fence)
            finally:
                del self._runs[run.row.task_id]
                self.hub.end(run.row.task_id)

    async def _begin_next(self, run: Run) -> bool:
        """Begin the task of what was added too late, under the same lease; one that cannot be begun is resumable."""
        if self.for_others:
            return False  # a worker takes it as any other
        try:
            self._begin(await self.tasks.get(run.next_id), run.fence)
        except SegueError as error:
            logger.warning("Task %s was not begun, and can be resumed: %s", run.next_id, error)
            return False
        return True

    async def _execute(self, run: Run) -> Json:
        """Run the graph to its end or to a boundary, and store the outcome."""
        try:
            await self._enter(run)
            if run.row.status == TaskStatus.PENDING:
                await self.move(run.row, TaskStatus.RUNNING)
            run.stoppable = True
            try:
                out = await self._invoke(run)
            finally:
                run.stoppable = False
        except GraphDrained:
            if run.reason == PauseReason.LEASE_LOST:
                raise StaleOwner(run.row.session_id) from None
            return await self._stop(run, run.reason)
        except StaleOwner:
            raise
        except asyncio.CancelledError:
            result = await self._stop(run, PauseReason.STOPPED)
            if run.cancelled:
                return result
            raise
        except DatabaseUnavailable as error:
            await self._keep(run, error)
            raise
        except Exception as error:
            await self._fail(run, error)
            raise
        if asked := question_of(out.get("__interrupt__", ())):
            return await self._wait(run, asked.id, asked.value)
        return await self._finish(run, dict(out["result"]))

    async def _enter(self, run: Run) -> None:
        """Wait until the task may run."""
        if not run.slot.done():
            self.hub.publish(Waiting(task_id=run.row.task_id, reason="other tasks run first"))
        if not await run.slot:
            raise GraphDrained(run.reason)
        self.capacity.enter()

    async def _finish(self, run: Run, result: Json) -> Json:
        """Store a run that has its result, and begin what follows it."""
        row = run.row
        if self.called_agents and self._registry.calls_agents:
            await self.called_agents.cancel_below(row)  # what is left of them in the background
            if left := await self.called_agents.used_below(row, project(await self.log.read(row.task_id))):
                result["usage"] = add_usages([result.get("usage") or {}, *left])
        if error := result.get("error"):
            self._say(run, await language_by_now(self.graph, row), "task_failed", why=error)
        status = TaskStatus.DONE if result.get("success") else TaskStatus.ERROR
        await self.afterwards.remember(row)
        await self.move(row, status, result=result, error=result.get("error"), next_id=self._registry.ids.task())
        self.afterwards.begin(row)
        return result

    def _say(self, run: Run, language: str, name: str, **values: str) -> None:
        """Stream a last banner, for those who read only `thinking`."""
        content = task_text(name, language, **values)
        self._emit(run, Phase(task_id=run.row.task_id, content=content, call=True))

    def _emit(self, run: Run, event: Event) -> None:
        run.reply.note(event)
        self.hub.publish(event)
        self.relay.send(run, event)

    async def _stop(self, run: Run, reason: str) -> Json:
        """Store a run that was stopped; another worker continues it unless a person asked for the pause."""
        if run.cancelled:
            return await self.end_cancelled(run.row, run.partial, run.cancelled_by)
        if self.for_others and run.reason != PauseReason.REQUESTED:
            logger.info("Task %s is handed over to another worker.", run.row.task_id)
            return stopped(run.row)
        if self.called_agents and reason == PauseReason.REQUESTED:
            await self.called_agents.pause_below(run.row, "stop" if run.model_calls.stopped else "pause")
        paused = Paused(task_id=run.row.task_id, reason=reason, partial=run.partial)
        await self.move(run.row, TaskStatus.PAUSED, events=[paused])
        return stopped(run.row)

    async def _keep(self, run: Run, error: DatabaseUnavailable) -> None:
        """Keep a task resumable that the database failed, where that can be stored; else its lease expires.

        A worker leaves it until then. A damaged database ends it.
        """
        if isinstance(error, DatabaseDamaged):
            await self._fail(run, error)
        elif self.for_others:
            run.abandoned = True
        else:
            paused = Paused(task_id=run.row.task_id, reason=str(error))
            with suppress(DatabaseUnavailable):
                await self.move(run.row, TaskStatus.PAUSED, error=str(error), events=[paused])

    async def _wait(self, run: Run, interrupt_id: str, question: Json) -> Json:
        """Store a run that waits for an answer, a moment or an event."""
        asked = asking_events(run.row.task_id, interrupt_id, question)
        if asked:
            language = await language_by_now(self.graph, run.row)
            self._say(run, language, "task_waits", what=describe_question(question))
        await self.move(run.row, TaskStatus.WAITING, events=asked, **wait_of(question))
        return {
            **stopped(run.row),
            "status": TaskStatus.WAITING.value,
            "question": {**question, "interrupt_id": interrupt_id},
        }

    async def _imported(self, row: Task, error: Exception) -> SegueError | None:
        """What an unknown error means in an imported session: a document may hold any state."""
        if not await self._storage.sessions.is_imported(row.session_id):
            return None
        return DamagedSession(
            row.session_id,
            f"{type(error).__name__}: {error}",
            "The imported state of session '{session_id}' is not valid ({reason}): import the session again, or send "
            "its message to a new one.",
        )

    async def _fail(self, run: Run, error: Exception) -> None:
        """Store a run that failed, and that its open calls have an unknown outcome."""
        row, internal, language = run.row, False, await language_by_now(self.graph, run.row)
        if isinstance(error, SegueError):
            text = error_text(error, language)
        elif imported := await self._imported(row, error):
            await self._fail(run, imported)
            raise imported from error
        else:
            text, internal = f"{type(error).__name__}: {error}", True
            logger.error("Task %s failed on an error that Segue does not know.", row.task_id, exc_info=error)
        left: Sequence[Event] = ()
        with suppress(StorageError):
            self._say(run, language, "task_failed", why=text)
            left = await self._open_calls(
                row, lambda name: unknown_outcome("call_stopped_unknown", language, tool=name, why=text)
            )
        failed = ErrorRaised(task_id=row.task_id, message=text, final=True, internal=internal)
        await self.move(row, TaskStatus.ERROR, error=text, events=[*left, failed])

    async def _invoke(self, run: Run) -> Json:
        """What the graph returns, or the result of a task that had ended before its status was stored."""
        row = run.row
        config: RunnableConfig = {
            **thread_config(row.session_id),
            "recursion_limit": recursion_limit(self._registry.of(row).agent(row.agent_id)),
            "metadata": {"segue_schema": self._storage.schema_version, "segue_task": row.task_id},
        }
        if row.status == TaskStatus.PENDING:  # its graph never ran
            given: RunInput = initial_input(row)
        else:
            self.saver.keep_reads(row.session_id)  # the graph continues from the same state
            state = await state_at(self.graph, thread_config(row.session_id))
            if is_of_task(state, row.task_id) and not state.tasks and state.values.get("result"):
                return {"result": state.values["result"]}
            given = resume_input(state, row)
            if self.called_agents and self._registry.calls_agents:
                await self.called_agents.continue_below(row)
            if row.answer and (answered := answer_events(state, row)):
                source = f"{state.config['configurable']['checkpoint_id']}/{row.answer['interrupt_id']}"
                await self.saver.record(row.session_id, source, announce(*answered))
        above = await self.callers(row)
        out: Json = await self.graph.ainvoke(
            given, config, context=self._context(run, above), durability="sync", control=run.control
        )
        self.saver.check_saved(row.session_id)
        if "__interrupt__" in out and not question_of(out["__interrupt__"]):
            raise GraphDrained(run.reason)
        return out

    async def callers(self, row: Task) -> list[Task]:
        """The tasks that called this one, the nearest first."""
        found: list[Task] = []
        while row.called_by:
            found.append(row := await self.tasks.get(row.called_by))
        return found

    def _context(self, run: Run, above: Sequence[Task]) -> AppContext:
        row, registry = run.row, self._registry.of(run.row)

        async def notes(task_id: str) -> list[str]:
            if self.saver.is_without_notes(row.session_id, task_id):
                return []
            return list((await self.tasks.get(task_id)).notes)

        async def subtasks(task_id: str) -> Sequence[Mapping[str, Any]]:
            return spawned_data(await self._storage.sent_events.all(task_id, SPAWN))

        async def permissions(agent_id: str) -> Sequence[Grant]:
            rows = [row, *above]
            found = [await self._storage.permissions.in_task(r.session_id, agent_id, r.task_id) for r in rows]
            return [grant for grants in found for grant in grants]

        async def used_before() -> Json:
            return usage_by_events(project(await self.log.read(row.task_id)), registry.get(row.agent_id))

        services = services_of(
            registry,
            partial(self._emit, run),
            used_before=used_before,
            said=SaidSoFar(self.tasks, row, notes, registry),
            ledger=self._storage.ledger(row.session_id, run.fence, [each.session_id for each in above]),
            agent_calls=self.called_agents.of(row) if self.called_agents and registry.calls_agents else None,
            executor=registry.executor_of(row.agent_id),
            notes=notes,
            subtasks=subtasks,
            clock=self.clock,
            permissions=permissions,
            record=partial(self.saver.record, row.session_id),
            pausing=lambda: bool(run.reason),
            cancelled=lambda: run.cancelled,
            model_calls=run.model_calls,
            files=self._storage.files.get,
            memory=self.memory.of(row.user_id, self._storage.sync),
            client_tools=client_tools(row.client_tools, row.reply_language),
            reply_options=ReplyOptions.of(row.reply_options),
            spending=self.spend.of(row.session_id, row.user_id, self.saver, above[-1] if above else None),
        )
        names = {"agent": row.agent_id, "mode": row.mode, "user_id": row.user_id, "model": row.model}
        return AppContext.carrying(registry.for_run(services), **names, language=row.language or "")

    async def request_pause(self, run: Run, requested: str) -> None:
        """Ask a task that runs here to stop at its next boundary; until then its status is pausing.

        A stop also ends its model calls, which are made again if it is resumed.
        """
        try:
            with suppress(IllegalTransition):  # it may just have ended
                running = (await self.tasks.get(run.row.task_id)).status == TaskStatus.RUNNING
                status = TaskStatus.PAUSING if running else None
                await self.move(run.row, status, requested=requested, act=Act("asked_to_pause"))
        finally:
            run.pause(PauseReason.REQUESTED)
            if requested == "stop":
                run.model_calls.stop()

    async def end_cancelled(self, row: Task, partial: str = "", by: str = SEGUE) -> Json:
        """Cancel a task whose thread is leased and that does not run any more; what it did stays in the history.

        First what it called is cancelled.
        """
        if self.called_agents:
            await self.called_agents.cancel_below(row)
        result = await self.settle_task(row, partial)
        language = await language_by_now(self.graph, row)
        left = await self._open_calls(row, lambda name: left_open(name, {}, language))
        ended = [*left, Cancelled(task_id=row.task_id, partial=result["answer"])]
        await self.move(row, TaskStatus.CANCELLED, result=result, events=ended, act=Act("cancelled", actor=by))
        return result

    async def _open_calls(self, row: Task, result: Callable[[str], CallResult]) -> list[Event]:
        """The results of calls that have none; of a graph of one's own, since the ledger has those of Segue's."""
        running = project(await self.log.read(row.task_id)).running.values()
        return [
            ToolResult(
                task_id=row.task_id,
                index=call.index,
                name=call.name,
                arguments=call.arguments,
                result=result(call.name).json(),
            )
            for call in running
            if not (call.trace_id or call.step_id)
        ]

    async def settle_task(self, row: Task, partial: str = "") -> Json:
        """Put what a task did into its thread's history, so that the thread can take another message."""
        row = await self.tasks.get(row.task_id)
        fence = self.saver.fence(row.session_id)
        ledger = self._storage.ledger(row.session_id, fence)
        self.saver.hold(row.session_id, fence)  # what could not be saved counts no more
        registry = self._registry.of(row)
        agent = registry.get(row.agent_id)  # it may be gone by now
        tools = registry.tools_for(agent) if agent else {}
        language = await language_by_now(self.graph, row)
        calls = await ledger.settle_all(row.task_id, lambda name: left_open(name, tools, language).json())
        for call in calls:
            if call.fence == fence and CallResult.of(call.outcome or {}).status is CallStatus.LEFT_OPEN:
                for observer in self.observers:
                    observer.left_open(row, call)
        unknown = await ledger.unknown(row.task_id)
        known = project(await self.log.read(row.task_id))
        for used in await self.called_agents.used_below(row, known) if self.called_agents else ():
            known.usage.add(used)
        partial = partial or known.partial
        result = cancelled_result(row, partial, calls, unknown, known, agent)
        config = thread_config(row.session_id)
        state = await state_at(self.graph, config)
        if is_of_task(state, row.task_id):  # else the thread has gone on, or the task never began
            await close_turn(self.graph, config, state, row, calls, partial, result)
        return result

    async def drain(self, seconds: float | None) -> None:
        """Pause what runs; what reaches no boundary within `seconds` is stopped where it is."""
        tasks = [run.task for run in self._runs.values() if run.task]
        for run in self._runs.values():
            run.pause(PauseReason.CLOSED)
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
        self.stop_all()
        await asyncio.gather(*tasks, return_exceptions=True)

    def stop_all(self) -> None:
        """Stop what runs where it is."""
        for run in self._runs.values():
            run.stop()

    async def close(self) -> None:
        """Pause what runs, wait until it has stopped, and end the heartbeat; cancelled, stop it where it is."""
        for task_id in self._runs:
            logger.warning(
                "Task %s pauses after its current step. Press Ctrl-C to stop it now. To resume it: %s",
                task_id,
                f"segue resume {task_id} --db {self._storage.database.url}",
            )
        try:
            while self._runs:
                await self.drain(None)
        finally:
            await self.drain(0)
            if self._watching is not None and not self._watching.done():
                self._watching.cancel()
                await asyncio.gather(self._watching, return_exceptions=True)
            await self.afterwards.close()
            await self.notices.close()
            await self.leases.close()
            for observer in self.observers:
                await observer.close()
