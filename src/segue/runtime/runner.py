"""The runner of background tasks: lease, heartbeat, graph, and final status."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphDrained

from ..checkpoints.storage import Storage
from ..core.actor import SEGUE
from ..core.approval import Grant
from ..core.audit import Act
from ..core.calls import CallResult, CallStatus
from ..core.context import AppContext
from ..core.errors import (
    ConfigurationError,
    DamagedSession,
    DatabaseDamaged,
    DatabaseUnavailable,
    IllegalTransition,
    SegueError,
    StaleOwner,
    ThreadBusy,
)
from ..core.events import (
    Cancelled,
    ErrorRaised,
    Event,
    Paused,
    PauseReason,
    Waiting,
)
from ..core.records import Json, RequestKey, Task
from ..core.reply_options import ReplyOptions
from ..core.spend import Owner
from ..core.task import ACTIVE, ENDED, TaskStatus
from ..memory.folder import MemoryFolder
from ..nodes.chat import ModeGraph
from ..prompts.catalogue import error_text
from ..registry import Registry, services_of
from ..tools.adapters.client import client_tools
from ..tools.calls import left_open
from .capacity import Capacity
from .leases import LeaseHolder, Promised
from .relay import REQUESTS, Hub, Notices, Observer, Relay
from .reply import project
from .run import (
    Run,
    RunInput,
    SaidSoFar,
    asking_events,
    cancelled_result,
    chat_graph,
    close_turn,
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
    wait_of,
)
from .spend import SpendControl

logger = logging.getLogger(__name__)

RELEASE_SECONDS = 0.5
"""Seconds that another process may take to release a session whose task has ended."""
WITHOUT_STEPS = "direct"
"""The mode inside of which there is no recursion and no step to go back to."""

Begin = Callable[[Task], asyncio.Task[Json]]
"""Begins a task under its thread's lease."""


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
        self._storage = storage
        self._registry = registry
        self._runs: dict[str, Run] = {}
        self._watching: asyncio.Task[None] | None = None
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

        Raises:
            ThreadBusy: another owner runs a task on the thread, or will, even after `wait` seconds.
        """
        self.check_loop()
        fence = await (self.leases.take_first(thread_id) if first else self._acquire(thread_id, wait, promised))
        await self._stop_stale_runs(thread_id)
        self.saver.hold(thread_id, fence)
        begun = False

        def begin(row: Task) -> asyncio.Task[Json]:
            nonlocal begun
            begun = True
            return self._begin(row, fence)

        try:
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
            elif run and not run.reason:
                self._pause_run(task_id)
                if newest := await self.log.last(task_id):
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
            return await self._stopped(run, run.reason)
        except StaleOwner:
            raise
        except asyncio.CancelledError:
            result = await self._stopped(run, PauseReason.STOPPED)
            if run.cancelled:
                return result
            raise
        except DatabaseUnavailable as error:
            await self._broken(run, error)
            raise
        except Exception as error:
            await self._fail(run.row, error)
            raise
        if asked := question_of(out.get("__interrupt__", ())):
            return await self._wait(run, asked.id, asked.value)
        return await self._end(run.row, dict(out["result"]))

    async def _enter(self, run: Run) -> None:
        """Wait until the task may run.

        Raises:
            GraphDrained: it was stopped first.
        """
        if not run.slot.done():
            self.hub.publish(Waiting(task_id=run.row.task_id, reason="other tasks run first"))
        if not await run.slot:
            raise GraphDrained(run.reason)
        self.capacity.enter()

    async def _end(self, row: Task, result: Json) -> Json:
        status = TaskStatus.DONE if result.get("success") else TaskStatus.ERROR
        if result.get("mode") == WITHOUT_STEPS:
            await self.saver.drop_inside(row.session_id, WITHOUT_STEPS)
        await self.move(row, status, result=result, error=result.get("error"), next_id=self._registry.ids.task())
        return result

    async def _pause(self, run: Run, reason: str) -> Json:
        await self.move(run.row, TaskStatus.PAUSED, events=[Paused(task_id=run.row.task_id, reason=reason)])
        return stopped(run.row)

    async def _stopped(self, run: Run, reason: str) -> Json:
        """Store a run that was stopped; another worker continues it unless a person asked for the pause."""
        if run.cancelled:
            return await self.end_cancelled(run.row, run.partial, run.cancelled_by)
        if self.for_others and run.reason != PauseReason.REQUESTED:
            logger.info("Task %s is handed over to another worker.", run.row.task_id)
            return stopped(run.row)
        return await self._pause(run, reason)

    async def _broken(self, run: Run, error: DatabaseUnavailable) -> None:
        """Keep what can be kept of a task that the database failed; a worker leaves it until its lease expires."""
        if isinstance(error, DatabaseDamaged):
            await self._fail(run.row, error)
        elif self.for_others:
            run.abandoned = True
        else:
            await self._interrupt(run, str(error))

    async def _interrupt(self, run: Run, reason: str) -> None:
        """Keep a task resumable that the database failed; where even that cannot be stored, its lease expires."""
        paused = Paused(task_id=run.row.task_id, reason=reason)
        with suppress(DatabaseUnavailable):
            await self.move(run.row, TaskStatus.PAUSED, error=reason, events=[paused])

    async def _wait(self, run: Run, interrupt_id: str, question: Json) -> Json:
        asked = asking_events(run.row.task_id, interrupt_id, question)
        await self.move(run.row, TaskStatus.WAITING, events=asked, **wait_of(question))
        return {**stopped(run.row), "status": "waiting", "question": {**question, "interrupt_id": interrupt_id}}

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

    async def _fail(self, row: Task, error: Exception) -> None:
        if isinstance(error, SegueError):
            text = error_text(error, await language_by_now(self.graph, row))
        elif imported := await self._imported(row, error):
            await self._fail(row, imported)
            raise imported from error
        else:
            text = f"{type(error).__name__}: {error}"
            logger.error("Task %s failed on an error that Segue does not know.", row.task_id, exc_info=error)
        failed = ErrorRaised(task_id=row.task_id, message=text, final=True)
        await self.move(row, TaskStatus.ERROR, error=text, events=[failed])

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
        out: Json = await self.graph.ainvoke(
            given, config, context=self._context(run), durability="sync", control=run.control
        )
        self.saver.check_saved(row.session_id)
        if "__interrupt__" in out and not question_of(out["__interrupt__"]):
            raise GraphDrained(run.reason)
        return out

    def _context(self, run: Run) -> AppContext:
        row, registry = run.row, self._registry.of(run.row)

        def emit(event: Event) -> None:
            run.reply.note(event)
            self.hub.publish(event)
            self.relay.send(run, event)

        async def notes(task_id: str) -> list[str]:
            if self.saver.is_without_notes(row.session_id, task_id):
                return []
            return list((await self.tasks.get(task_id)).notes)

        async def permissions(agent_id: str) -> Sequence[Grant]:
            return await self._storage.permissions.in_task(row.session_id, agent_id, row.task_id)

        services = services_of(
            registry,
            emit,
            said=SaidSoFar(self.tasks, row, notes, registry),
            ledger=self._storage.ledger(row.session_id, run.fence),
            executor=registry.executor_of(row.agent_id),
            notes=notes,
            clock=self.clock,
            permissions=permissions,
            pausing=lambda: bool(run.reason),
            cancelled=lambda: run.cancelled,
            files=self._storage.files.get,
            memory=self.memory.of(row.user_id, self._storage.sync),
            client_tools=client_tools(row.client_tools, row.reply_language),
            reply_options=ReplyOptions.of(row.reply_options),
            spending=self.spend.of(row.session_id, row.user_id, self.saver),
        )
        names = {"agent": row.agent_id, "mode": row.mode, "user_id": row.user_id, "model": row.model}
        return AppContext.carrying(registry.for_run(services), **names, language=row.language or "")

    async def request_pause(self, run: Run) -> None:
        """Ask a task that runs here to stop at its next boundary; until then its status is pausing."""
        try:
            with suppress(IllegalTransition):  # it may just have ended
                running = (await self.tasks.get(run.row.task_id)).status == TaskStatus.RUNNING
                status = TaskStatus.PAUSING if running else None
                await self.move(run.row, status, requested="pause", act=Act("asked_to_pause"))
        finally:
            run.pause(PauseReason.REQUESTED)

    async def end_cancelled(self, row: Task, partial: str = "", by: str = SEGUE) -> Json:
        """Cancel a task whose thread is leased and that does not run any more; what it did stays in the history."""
        result = await self.settle_task(row, partial)
        ended = [Cancelled(task_id=row.task_id, partial=partial)]
        await self.move(row, TaskStatus.CANCELLED, result=result, events=ended, act=Act("cancelled", actor=by))
        return result

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
        result = cancelled_result(row, partial, calls, unknown, project(await self.log.read(row.task_id)), agent)
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
        try:
            while self._runs:
                await self.drain(None)
        finally:
            await self.drain(0)
            if self._watching is not None and not self._watching.done():
                self._watching.cancel()
                await asyncio.gather(self._watching, return_exceptions=True)
            await self.notices.close()
            await self.leases.close()
            for observer in self.observers:
                await observer.close()
