"""Runs of LangGraph graphs that Segue did not write, for its server API: one at a time in a thread, under its lease.

submit ── pending ── running ── success | interrupted | error        events are stored before a client gets them
                        │
                        └ the process dies: whoever starts next goes on from the last checkpoint
"""

import asyncio
import logging
import time
import uuid
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Protocol

from langgraph.checkpoint.base import CheckpointTuple
from langgraph.errors import GraphDrained
from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel import Pregel
from langgraph.runtime import RunControl
from langgraph.types import Command, Send

from ..checkpoints.graphs import GraphRows
from ..checkpoints.rows import SERDE
from ..checkpoints.storage import Storage
from ..core.errors import SegueError, StaleOwner, StorageError, ThreadBusy
from ..core.graph_objects import GraphEvent, GraphObject
from ..core.records import Json
from .graph_events import as_json, checkpoint_saved, input_requested, lifecycle, protocol_events, stream_events
from .graph_store import GraphStore
from .modes import kept_types
from .runner import LeaseHolder

logger = logging.getLogger(__name__)

Graph = Pregel[Any, Any, Any, Any]
Rows = GraphRows
"""What the work of a transaction gets."""
Access = Literal["threads.create_run", "threads.update", "threads.read", "assistants.read"]
Action = Literal["interrupt", "rollback"]
OPEN = ("running", "pending")
TENANT = "__segue_tenant"
"""Where the configuration of a run has whose it is, which no client can say."""
LAST = ("completed", "failed", "interrupted")
"""What the last event of a run says."""
ENDED = ("success", "error", "interrupted", "timeout")

CANCELLED = "The run was cancelled."
SWEEP_SECONDS = 2.0
"""Seconds between two looks for runs whose process is gone, and for threads that are no longer kept."""
POLL_SECONDS = 0.5
"""Seconds between two looks for what another process stored or asked for."""
KEPT_SECONDS = 60.0
"""How long the thread of a run without one is kept after its end, for those who read its result."""
KEPT_RUNS = 10
"""Runs of a thread whose events are kept."""
MOST_ATTEMPTS = 5
"""How often a run is taken up whose process died."""
TURNS = 25
"""Turns of the event loop within which an event that a graph has made reaches its run; it takes up to ten."""
MOST_SETTLING = 20
"""How often a write of the saver waits for further events, while another branch makes them without a break."""
BATCH = 256
"""Events that wait to be stored at most, before the graph waits for them."""
PAGE = 500
"""Events that are read at once."""


class Graphs(Protocol):
    """The graphs that a service offers, by their ids."""

    def opened(
        self, graph_id: str, access: Access, config: Json, context: Any, store: GraphStore
    ) -> AbstractAsyncContextManager[Graph]:
        """A graph, without checkpointer; what a factory opened for it is closed at the end."""
        ...


class RunConflict(Exception):
    """The thread is busy, and the run was to be refused then."""


class NoSuchThread(Exception):
    """The thread was deleted meanwhile."""


@dataclass(frozen=True)
class Outcome:
    """How an attempt ended."""

    status: str
    events: Sequence[Json]
    thread: Json
    """What changes in the thread's body."""
    error: Json | None = None


class _Writer:
    """Stores the events of a run in the order in which they come, many at once."""

    def __init__(self, store: Callable[[list[Json]], Any]) -> None:
        self._store = store
        self._waiting: list[Json] = []
        self._writing: asyncio.Task[None] | None = None
        self._count = 0

    async def put(self, event: Json) -> None:
        self._waiting.append(event)
        self._count += 1
        if self._writing is None or self._writing.done():
            if self._writing is not None:
                self._writing.result()
            self._writing = asyncio.create_task(self._write(), name="graph events")
        if len(self._waiting) >= BATCH:
            await self.flush()

    async def flush(self) -> None:
        """Wait until all is stored, and raise what went wrong."""
        if self._writing is not None:
            await asyncio.shield(self._writing)

    async def settle(self) -> None:
        """Store what the graph has made so far, also what is still on its way here.

        A checkpoint waits for it: a step that is stored does not run again, so that its events would be lost.
        """
        for _ in range(MOST_SETTLING):
            count = self._count
            await self.flush()
            for _ in range(TURNS):
                await asyncio.sleep(0)
            if count == self._count:
                return

    async def close(self) -> None:
        """Wait until nothing more is stored, whatever went wrong: `flush` says it."""
        if self._writing is not None:
            await asyncio.wait([self._writing])
            self._writing.exception()  # it is not logged as an error that nobody handled

    async def _write(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            await self._store(batch)


class GraphRuns:
    """Runs graphs in this process, and goes on with those that another one left."""

    def __init__(self, storage: Storage, leases: LeaseHolder, graphs: Graphs, most: int) -> None:
        self.tables = storage.graphs
        self.saver = storage.graph_saver()
        self._leases = leases
        self.graphs = graphs
        self._places = asyncio.Semaphore(most)
        self._threads: dict[str, asyncio.Task[None]] = {}
        self._asked: set[str] = set()
        self._stopping: dict[str, asyncio.Event] = {}
        self._controls: dict[str, RunControl] = {}
        self._changed: dict[str, set[asyncio.Event]] = defaultdict(set)
        self.draining = False

    def store(self, owner: str) -> GraphStore:
        """The store of a tenant."""
        return GraphStore(self.tables, owner)

    # Submitting, cancelling and waiting.

    async def submit(self, run: GraphObject, strategy: str) -> int:
        """Store a run and begin it once its turn comes; returns the number of the thread's last event before it."""

        def work(rows: GraphRows) -> int:
            rows.lock(run.thread_id)
            thread = rows.get("thread", run.thread_id)
            if thread is None:
                raise NoSuchThread
            if rows.get("run", run.object_id) is not None:  # another process began the run of a cron
                return rows.last_event(run.thread_id)
            before = [each for each in rows.of_thread("run", run.thread_id) if each.status in OPEN]
            if before and strategy == "reject":
                raise RunConflict
            if strategy in ("interrupt", "rollback"):
                for each in before:
                    _request(rows, each, "rollback" if strategy == "rollback" else "interrupt")
            about = {name: run.body[name] for name in ("graph_id", "assistant_id")}
            body = {**thread.body, "metadata": {**thread.body["metadata"], **about}}
            rows.add(run)
            rows.put(replace(thread, status="busy", updated_at=run.created_at, body=body))
            return rows.last_event(run.thread_id)

        last = await self.tables.write(work)
        self._notify(run.thread_id)
        self.ensure(run.thread_id)
        return last

    async def cancel(self, thread_id: str, run_id: str, action: Action = "interrupt") -> bool:
        """Ask for the end of a run, wherever it runs; False where it has ended."""

        def work(rows: GraphRows) -> bool:
            rows.lock(thread_id)
            run = rows.get("run", run_id)
            if run is None or run.thread_id != thread_id or run.status not in OPEN:
                return False
            _request(rows, run, action)
            return True

        found = await self.tables.write(work)
        if found:
            self._notify(thread_id)
            self.ensure(thread_id)
        return found

    async def wait(self, thread_id: str, run_id: str) -> GraphObject | None:
        """Wait for the end of a run, and return it; None where it is gone."""
        with self.watching(thread_id) as changed:
            while not self.draining:
                run = await self.tables.read(lambda rows: rows.get("run", run_id))
                if run is None or run.status in ENDED:
                    return run
                await pause(changed)
        return None

    # Reading events.

    async def follow(self, thread_id: str, after: int) -> AsyncGenerator[GraphEvent, None]:
        """The events of a thread after a number, as they are stored, until the service stops or the thread is gone."""
        begun = False
        with self.watching(thread_id) as changed:
            while not self.draining:
                page = await self.tables.read(partial(_page, thread_id=thread_id, after=after))
                for event in page:
                    yield event
                    after, begun = event.seq, True
                if page:
                    continue
                if begun and await self.tables.read(lambda rows: rows.get("thread", thread_id)) is None:
                    return
                await pause(changed)

    @contextmanager
    def watching(self, thread_id: str) -> Iterator[asyncio.Event]:
        """What is set once something of the thread changes here."""
        changed = asyncio.Event()
        self._changed[thread_id].add(changed)
        try:
            yield changed
        finally:
            self._changed[thread_id].discard(changed)
            if not self._changed[thread_id]:
                del self._changed[thread_id]

    def _notify(self, thread_id: str) -> None:
        for changed in self._changed.get(thread_id, ()):
            changed.set()

    # Carrying out.

    async def sweep(self) -> None:
        """Take up the runs that nobody runs, and delete the threads that are no longer kept, until cancelled."""
        while not self.draining:
            try:
                await self._sweep_once()
            except SegueError:
                logger.exception("graph runs were not looked for")
            await asyncio.sleep(SWEEP_SECONDS)

    async def _sweep_once(self) -> None:
        now = time.time()
        found = await self.tables.read(lambda rows: (rows.of_status("run", *OPEN), rows.of_status("thread", "over")))
        for run in found[0]:
            if run.body.get("due", 0.0) <= now:
                self.ensure(run.thread_id)
        for thread in found[1]:
            if thread.updated_at + KEPT_SECONDS < now:
                await self.delete_thread(thread.object_id)

    def ensure(self, thread_id: str) -> None:
        """Have the runs of a thread carried out, here unless another process has the thread."""
        self._asked.add(thread_id)
        if not self.draining and thread_id not in self._threads:
            task = asyncio.create_task(self._carry_out_all(thread_id), name=f"graph thread {thread_id}")
            self._threads[thread_id] = task
            task.add_done_callback(partial(self._carried_out, thread_id))

    def _carried_out(self, thread_id: str, _: "asyncio.Task[None]") -> None:
        self._threads.pop(thread_id, None)
        if thread_id in self._asked:
            self.ensure(thread_id)

    async def _carry_out_all(self, thread_id: str) -> None:
        try:
            while thread_id in self._asked and not self.draining:
                self._asked.discard(thread_id)
                fence = await self._leases.take(thread_id)
                self.saver.hold(thread_id, fence)
                try:
                    while run := await self._next(thread_id):
                        async with self._places:
                            await self._carry_out(run, fence)
                finally:
                    self.saver.release(thread_id)
                    await self._leases.release(thread_id, fence)
        except (ThreadBusy, StaleOwner):  # another process carries them out
            pass
        except Exception:
            logger.exception("graph thread stopped", extra={"thread_id": thread_id})

    async def _next(self, thread_id: str) -> GraphObject | None:
        """The first run that has not ended; what waits for a later moment does not hold up the others."""
        if self.draining:
            return None
        now = time.time()
        runs = await self.tables.read(lambda rows: rows.of_thread("run", thread_id))
        due = [run for run in runs if run.status in OPEN and run.body.get("due", 0.0) <= now]
        later = [run.body["due"] for run in runs if run.status == "pending" and run not in due]
        if later:
            asyncio.get_running_loop().call_later(min(later) - now, self.ensure, thread_id)
        return min(due, key=lambda run: run.status == "pending", default=None)

    async def _carry_out(self, run: GraphObject, fence: int) -> None:
        """Attempt a run, and store how it ended, unless the service stops first."""
        begun = await self._begin(run, fence)
        if begun is None:
            return
        if _requested(begun):  # the process died that was to end it
            return await self._end(begun, fence, await self._cancelled(begun))
        stopping = self._stopping[run.object_id] = asyncio.Event()
        attempt = asyncio.create_task(self._attempt(begun, fence), name=f"graph run {run.object_id}")
        try:
            requested = await self._until_stopped(begun, attempt, stopping)
        finally:
            if not attempt.done():
                attempt.cancel()
                await asyncio.wait([attempt])
            self._stopping.pop(run.object_id, None)
            self._controls.pop(run.object_id, None)
        outcome = None if attempt.cancelled() else attempt.result()
        if outcome is None and requested:
            outcome = await self._cancelled(begun)
        if outcome is None:
            return await self._take_back(begun, fence)
        await self._end(begun, fence, outcome)

    async def _until_stopped(self, run: GraphObject, attempt: "asyncio.Task[Any]", stopping: asyncio.Event) -> str:
        """Wait for the end of an attempt, or for what asks for it; returns what was requested."""
        with self.watching(run.thread_id) as changed:
            while not attempt.done():
                waiting = [asyncio.ensure_future(changed.wait()), asyncio.ensure_future(stopping.wait())]
                await asyncio.wait([attempt, *waiting], timeout=POLL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                for each in waiting:
                    each.cancel()
                changed.clear()
                if attempt.done() or stopping.is_set():
                    break
                stored = await self.tables.read(lambda rows: rows.get("run", run.object_id))
                if stored is None or _requested(stored):
                    attempt.cancel()
                    await asyncio.wait([attempt])
                    return _requested(stored) if stored else "deleted"
        return ""

    async def _begin(self, run: GraphObject, fence: int) -> GraphObject | None:
        """Note that a run is running, and tell its clients; None where it was tried too often or is gone."""
        if run.body.get("attempts", 0) >= MOST_ATTEMPTS:
            message = f"The process ended {MOST_ATTEMPTS} times while this run was running."
            error = {"error": "TooManyAttempts", "message": message}
            events = (lifecycle("failed", run.body["graph_id"], message),)
            await self._end(run, fence, Outcome("error", events, {"error": error}, error))
            return None

        def work(rows: GraphRows) -> GraphObject | None:
            rows.check_fence(run.thread_id, fence)
            rows.lock(run.thread_id)
            stored = rows.get("run", run.object_id)
            if stored is None or stored.status in ENDED:
                return None
            begun = _attempted(stored, 1)
            rows.put(begun)
            rows.append(run.thread_id, run.object_id, [lifecycle("running", run.body["graph_id"])])
            return begun

        begun = await self.tables.write(work)
        self._notify(run.thread_id)
        return begun

    async def _take_back(self, run: GraphObject, fence: int) -> None:
        """Count no attempt that only ended because the service stops."""

        def work(rows: GraphRows) -> None:
            rows.check_fence(run.thread_id, fence)
            rows.lock(run.thread_id)
            if stored := rows.get("run", run.object_id):
                rows.put(_attempted(stored, -1))

        await self.tables.write(work)

    async def _attempt(self, run: GraphObject, fence: int) -> Outcome | None:
        """Run the graph from its last checkpoint of this run, or from its beginning; None where the service stops."""
        kwargs, graph_id = run.body["kwargs"], run.body["graph_id"]

        async def store(events: list[Json]) -> None:
            def work(rows: GraphRows) -> None:
                rows.check_fence(run.thread_id, fence)
                rows.append(run.thread_id, run.object_id, events)

            await self.tables.write(work, brief=True)
            self._notify(run.thread_id)

        writer = _Writer(store)
        self.saver.wait_before_writes(run.thread_id, writer.settle)
        control = self._controls[run.object_id] = RunControl()
        config = run_config(run)
        try:
            async with self.opened(run.owner, graph_id, "threads.create_run", config, kwargs.get("context")) as graph:
                given, config = await self._input(run, fence, config)
                options: Json = {
                    "context": kwargs.get("context") or None,
                    "interrupt_before": kwargs.get("interrupt_before"),
                    "interrupt_after": kwargs.get("interrupt_after"),
                    "durability": "sync",
                    "control": control,
                }
                modes = kwargs.get("stream_mode")
                events: AsyncGenerator[Json, None] = (
                    stream_events(graph, given, config, modes, **options)
                    if modes
                    else protocol_events(graph, given, config, **options)
                )
                async with aclosing(events):
                    async for event in events:
                        await writer.put(event)
                await writer.flush()
                self.saver.check_saved(run.thread_id)
                return await self._success(graph, run)
        except (StaleOwner, StorageError):
            raise
        except GraphDrained:
            await writer.flush()
            return None
        except Exception as error:  # noqa: BLE001  a graph may raise anything: the run's clients are told
            logger.info("graph run failed", extra={"run_id": run.object_id, "type": type(error).__name__})
            await writer.flush()
            form = as_json(error)
            events_ = [lifecycle("failed", graph_id, form["message"] or form["error"])]
            return Outcome("error", events_, {"error": form}, form)
        finally:
            await writer.close()

    async def _input(self, run: GraphObject, fence: int, config: Json) -> tuple[Any, Json]:
        """What the graph gets: nothing where it goes on from a checkpoint that this run made."""
        latest = await self.saver.aget_tuple({"configurable": {"thread_id": run.thread_id}})
        if latest is not None and latest.metadata.get("run_id") == run.object_id:
            if not run.body["kwargs"].get("stream_mode"):
                await self._tell_of(latest, run, fence)
            place = {name: value for name, value in config["configurable"].items() if not name.startswith("checkpoint")}
            return None, {**config, "configurable": place}
        kwargs = run.body["kwargs"]
        return (command_of(kwargs["command"]) if kwargs.get("command") else kwargs.get("input")), config

    async def _tell_of(self, latest: CheckpointTuple, run: GraphObject, fence: int) -> None:
        """Add the event of a checkpoint that was stored as the process died, unless it is there."""
        event = checkpoint_saved(latest._asdict())

        def work(rows: GraphRows) -> None:
            rows.check_fence(run.thread_id, fence)
            known = [each.event for each in rows.events(run.thread_id, run_id=run.object_id)]
            if not any(each["method"] == "checkpoints" and each["data"]["id"] == event["data"]["id"] for each in known):
                rows.append(run.thread_id, run.object_id, [event])

        await self.tables.write(work)

    async def _success(self, graph: Graph, run: GraphObject) -> Outcome:
        thread = await _thread_of(graph, run.thread_id)
        asked = [input_requested(each) for listed in thread["interrupts"].values() for each in listed]
        event = lifecycle("completed" if thread["status"] == "idle" else "interrupted", run.body["graph_id"])
        return Outcome("success", [*asked, event], thread)

    async def _cancelled(self, run: GraphObject) -> Outcome:
        """What is left of a run that was cancelled; a rollback takes back its checkpoints, too."""
        stored = await self.tables.read(lambda rows: rows.get("run", run.object_id))
        if stored is None or _requested(stored) == "rollback":
            try:
                await self.saver.delete_run(run.thread_id, run.object_id)
            except ValueError:
                logger.warning("checkpoints of a run stay: later ones need them", extra={"run_id": run.object_id})
        graph_id, context = run.body["graph_id"], run.body["kwargs"].get("context")
        event = lifecycle("failed", graph_id, CANCELLED)
        try:
            async with self.opened(run.owner, graph_id, "threads.read", run_config(run), context) as graph:
                return Outcome("interrupted", [event], await _thread_of(graph, run.thread_id))
        except (StaleOwner, StorageError):
            raise
        except Exception as error:  # noqa: BLE001  what opens a graph may raise anything
            return Outcome("interrupted", [event], {"status": "error", "error": as_json(error)})

    async def _end(self, run: GraphObject, fence: int, outcome: Outcome) -> None:
        """Store how a run ended with its last events and what becomes of its thread, as one transaction."""
        now = time.time()

        def work(rows: GraphRows) -> None:
            rows.check_fence(run.thread_id, fence)
            rows.lock(run.thread_id)
            thread = rows.get("thread", run.thread_id)
            if thread is None:  # another process deleted it: so is what this one stored since
                return rows.delete_thread(run.thread_id)
            rows.append(run.thread_id, run.object_id, outcome.events)
            rows.drop_runs(run.thread_id, KEPT_RUNS)
            stored = rows.get("run", run.object_id)
            body = {**(stored or run).body, "error": outcome.error}
            if stored is not None and _requested(stored) == "rollback":
                rows.delete("run", run.object_id)
            else:
                rows.put(replace(run, status=outcome.status, updated_at=now, body=body))
            changes = {**outcome.thread}
            status = "error" if outcome.status == "error" else changes.pop("status", "idle")
            if any(each.status in OPEN for each in rows.of_thread("run", run.thread_id)):
                status = "busy"
            elif run.body["kwargs"].get("temporary"):
                status = "over"
            rows.put(replace(thread, status=status, updated_at=now, body={**thread.body, **changes}))

        await self.tables.write(work)
        self._notify(run.thread_id)

    def opened(
        self, owner: str, graph_id: str, access: Access, config: Json | None = None, context: Any = None
    ) -> AbstractAsyncContextManager[Graph]:
        """A graph of the service over its checkpoints and a tenant's store."""
        return _Opened(self, owner, graph_id, access, config or {}, context)

    # Threads.

    async def delete_thread(self, thread_id: str) -> None:
        """Delete a thread with all that it has; a run that is under way ends."""
        if task := self._threads.get(thread_id):
            self._asked.discard(thread_id)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        await self.tables.write(lambda rows: rows.delete_thread(thread_id))
        self._notify(thread_id)

    async def writing(self, thread_id: str) -> int:
        """Take a thread to write to its state; ThreadBusy where a run is under way. `release` lets it go."""
        fence = await self._leases.take(thread_id)
        self.saver.hold(thread_id, fence)
        return fence

    async def release(self, thread_id: str, fence: int) -> None:
        """Let a thread go."""
        self.saver.release(thread_id)
        await self._leases.release(thread_id, fence)
        self.ensure(thread_id)

    async def refresh(self, thread: GraphObject, graph: Graph) -> None:
        """Note in a thread what became of its state, after it was changed without a run."""
        changes = await _thread_of(graph, thread.object_id)
        status = changes.pop("status")

        def work(rows: GraphRows) -> None:
            rows.lock(thread.object_id)
            if now := rows.get("thread", thread.object_id):
                kept = now.status if now.status == "busy" else status
                rows.put(replace(now, status=kept, updated_at=time.time(), body={**now.body, **changes}))

        await self.tables.write(work)

    async def drain(self, seconds: float) -> None:
        """Let what runs reach a checkpoint, and stop it; it goes on where the service starts next."""
        self.draining = True
        for control in self._controls.values():
            control.request_drain()
        for thread_id in [*self._changed]:
            self._notify(thread_id)
        tasks = [*self._threads.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
        for stopping in [*self._stopping.values()]:
            stopping.set()
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)


class _Opened(AbstractAsyncContextManager[Graph]):
    """A graph while it is used."""

    def __init__(self, runs: GraphRuns, owner: str, graph_id: str, access: Access, config: Json, context: Any) -> None:
        self._runs = runs
        self._store = runs.store(owner)
        self._opening = runs.graphs.opened(graph_id, access, {"configurable": {}, **config}, context, self._store)

    async def __aenter__(self) -> Graph:
        graph = await self._opening.__aenter__()
        return graph.copy({"checkpointer": self._runs.saver, "store": self._store})

    async def __aexit__(self, *error: Any) -> bool | None:
        return await self._opening.__aexit__(*error)


def keep_types(graph_id: str, graph: Graph) -> None:
    """From now on, know the types of a graph's state, which is read without them otherwise."""
    if isinstance(graph, CompiledStateGraph):
        SERDE.keep(kept_types({graph_id: graph}), ())


def _page(rows: GraphRows, thread_id: str, after: int) -> Sequence[GraphEvent]:
    return rows.events(thread_id, after, PAGE)


def is_end(event: GraphEvent) -> bool:
    """Whether an event is the last one of its run."""
    form = event.event
    return form["method"] == "lifecycle" and not form["namespace"] and form["data"]["event"] in LAST


async def pause(changed: asyncio.Event) -> None:
    """Wait until something changes here, or until it is time to look for what other processes changed."""
    with suppress(TimeoutError):
        async with asyncio.timeout(POLL_SECONDS):  # a cancellation gets lost in Python 3.11's wait_for at times
            await changed.wait()
    changed.clear()


async def _thread_of(graph: Graph, thread_id: str) -> Json:
    """What a thread's body has of its state."""
    state = await graph.aget_state({"configurable": {"thread_id": thread_id}})
    return {
        "status": "interrupted" if state.next else "idle",
        "values": as_json(state.values) or None,
        "interrupts": {task.id: as_json(task.interrupts) for task in state.tasks if task.interrupts},
        "error": None,
    }


def _attempted(run: GraphObject, more: int) -> GraphObject:
    attempts = max(0, run.body.get("attempts", 0) + more)
    return replace(run, status="running", updated_at=time.time(), body={**run.body, "attempts": attempts})


def _request(rows: GraphRows, run: GraphObject, action: Action) -> None:
    """Note that a run is to end; one that has not begun ends at once."""
    if run.status == "running":
        rows.put(replace(run, body={**run.body, "requested": action}))
        return
    rows.append(run.thread_id, run.object_id, [lifecycle("failed", run.body["graph_id"], CANCELLED)])
    if action == "rollback":
        rows.delete("run", run.object_id)
    else:
        rows.put(replace(run, status="interrupted", updated_at=time.time()))
    thread, runs = rows.get("thread", run.thread_id), rows.of_thread("run", run.thread_id)
    if thread is not None and not any(each.status in OPEN for each in runs):
        rows.put(replace(thread, status="interrupted" if thread.body.get("interrupts") else "idle"))


def _requested(run: GraphObject) -> str:
    return str(run.body.get("requested") or "")


def run_config(run: GraphObject) -> Json:
    """The configuration that a graph runs with."""
    given = run.body["kwargs"].get("config") or {}
    own = {"thread_id": run.thread_id, "run_id": run.object_id}
    about = {name: run.body[name] for name in ("graph_id", "assistant_id")}
    metadata = {**(given.get("metadata") or {}), **run.body["metadata"], **about, **own}
    return {
        **given,
        "configurable": {**(given.get("configurable") or {}), **about, **own, TENANT: run.body.get("tenant")},
        "metadata": {**metadata, "run_attempt": run.body["attempts"]},
        "run_id": uuid.UUID(run.object_id),
    }


def command_of(given: Mapping[str, Any]) -> Command[Any]:
    """The command of a request."""
    goto = given.get("goto") or ()
    listed = goto if isinstance(goto, list) else [goto] if goto else []
    return Command(
        update=given.get("update"),
        resume=given.get("resume"),
        goto=[Send(each["node"], each.get("input")) if isinstance(each, Mapping) else each for each in listed],
    )
