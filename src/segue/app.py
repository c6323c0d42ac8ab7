"""The public API: an `App` over one database, which `segue.open()` gives."""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Unpack, cast, overload

from langgraph.graph.state import CompiledStateGraph
from pydantic import BaseModel

from .checkpoints.storage import Storage
from .core.agents import Agent
from .core.calls import Executor
from .core.context import Closed
from .core.events import Event
from .core.models import Model
from .core.records import Json, Result, SessionFilter, Task, TaskTrace, Thread, UserPreferences, WaitingTask
from .core.schedules import Schedule
from .graphs.chat import MODES, UNLISTED
from .memory.folder import MemoryFolder
from .nodes.chat import AUTO, ModeGraph
from .prompts.catalogue import Language, mode_description
from .registry import Registry
from .runtime.audit_log import AuditLog
from .runtime.called_agents import CalledAgents
from .runtime.control import Control, Followed, Waits
from .runtime.history import Pruning
from .runtime.message_files import FileLimits, MessageFiles
from .runtime.modes import wired_graph
from .runtime.notifications import Notifications
from .runtime.rewind import Rewind
from .runtime.run import MAX_RUNNING, Capacity
from .runtime.runner import Runner
from .runtime.schedules import Schedules, StartOptions
from .runtime.sessions import Sessions
from .runtime.start import MessageOptions, Request, Starter
from .runtime.tasks import ResumableTask, Tasks
from .runtime.worker import Dispatch, Dispatching, Due, Worker

if TYPE_CHECKING:
    from .runtime.graph_runs import GraphRuns, Graphs
    from .testing.backtest import Backtest, BacktestOptions, Cost, UnfinishedTask


class App:
    """Agents, modes and sessions over one database.

    What is stored is read through `tasks`, `sessions`, `rewind`, `schedules` and `audit`. All of them return records.
    """

    def __init__(
        self,
        storage: Storage,
        registry: Registry,
        modes: Mapping[str, ModeGraph],
        capacity: Capacity,
        memory: MemoryFolder | None = None,
        dispatching: Dispatching = Dispatching.AUTO,
        limits: FileLimits | None = None,
        clock: Callable[[], float] = time.time,
        audit: AuditLog | None = None,
    ) -> None:
        self._storage = storage
        self._closed = False
        self._before_close: list[Callable[[], Awaitable[None]]] = []
        self._modes = modes
        self.memory = memory or MemoryFolder()
        """The memory files of each user."""
        self._runner = runner = Runner(storage, registry, {**modes, **UNLISTED}, capacity, self.memory, clock)
        self._pruning = Pruning(storage, runner)
        names = [*modes, AUTO]
        self.agents = registry
        """The registered agents, by id, with their tools and models."""
        self.files = MessageFiles(storage.files, limits)
        """The files of messages."""
        self._control = Control(storage, registry, runner, Dispatch(dispatching, storage.workers), names)
        self._starter = Starter(storage, registry, runner, self._control, self.files, names)
        runner.called_agents = CalledAgents(storage, runner, self._control, self._starter)
        self._due = Due(storage.due, clock)
        waits = Waits(storage, self._control, self._due)
        runner.observers.append(waits)
        self.tasks = Tasks(storage, runner, self._starter, self._due, waits)
        """The tasks, as records: `await app.tasks.list(agent_id="support")`."""
        self.sessions = Sessions(storage, runner, registry.ids, self._pruning)
        """The sessions, as records."""
        self.rewind = Rewind(storage, runner, registry, self._starter, self.sessions)
        """Going back in a session, as records."""
        self.schedules = Schedules(storage, self._starter, self._due, self.tasks)
        """Messages for later and repeated ones, as records."""
        self.audit = audit or AuditLog(storage)
        """Who decided what, and whether the database is as it was stored, as records."""
        self.notifications = Notifications(storage, self._control, self._due)
        """What receivers are still to be told."""
        self.tasks.observe(self.notifications)

    # Agents and modes.

    @property
    def database(self) -> str:
        """The path or URL of the database."""
        return self._storage.database.url

    @property
    def modes(self) -> list[str]:
        """Every mode that a message may ask for."""
        return [*self._starter.modes]

    def mode_description(self, name: str, language: str) -> str:
        """What a mode does, in a language; of a flow its own description, where it has one."""
        flow = self.agents.flows.get(name)
        return (flow.description if flow else "") or mode_description(name, language)

    @property
    def own_modes(self) -> Mapping[str, ModeGraph]:
        """The graphs of the modes beside the built-in ones."""
        return {name: graph for name, graph in self._modes.items() if name not in MODES}

    def register(self, agent: Agent, executor: Executor | None = None) -> None:
        """Add an agent, or replace the one of that id; UnknownTool where one of its tools is not there.

        `executor` carries out the calls of its tasks; None: the tools. Register it again before a resume elsewhere.
        """
        self.agents.register(agent, executor)

    def model_for(self, agent: str = "", model: str = "") -> Model:
        """The model that a message to this agent would be answered by; UnknownAgent, UnknownModel or MissingKey."""
        return self.agents.model_for(self.agents.agent(agent), model)

    def get_graph(self, agent: str = "") -> CompiledStateGraph[Any, Any, Any, Any]:
        """The chat graph with this app's agents and tools, for LangGraph: without lease, ledger and event log."""
        return wired_graph(self.agents, self.agents.agent(agent).agent_id, self._modes)

    def graph_runs(self, graphs: "Graphs") -> "GraphRuns":
        """What runs graphs that Segue did not write, over this app's database."""
        from .runtime.graph_runs import GraphRuns

        return GraphRuns(self._storage, self._runner.leases, graphs, MAX_RUNNING)

    # Messages. The options are those of `MessageOptions`.

    @overload
    async def start(self, message: str, **options: Unpack[MessageOptions]) -> Task: ...

    @overload
    async def start(self, message: str, **options: Unpack[StartOptions]) -> Task | Schedule: ...

    async def start(self, message: str, **options: Unpack[StartOptions]) -> Task | Schedule:
        """Run a message's task in the background; returns the task. `wait` is the seconds to wait for a busy session.

        With `steer` the message joins the session's unfinished task, if there is one, which continues with it. With
        `at` or `every` it is sent later, or again and again: this returns the schedule, as `schedules.get` does.

        Raises:
            InvalidMessage, UnknownAgent, UnknownMode, MissingKey, ToolServerUnavailable: nothing was stored.
            TaskUnfinished: the session has a task to resume, steer or cancel first.
            DamagedSession: the session has to be recovered first.
            ThreadBusy: another owner runs a task on the session.
            TooManyTasks: the queue of this process is full.
            KeyUsed: the idempotency key began a task with another message.
        """
        if options.keys() & {"at", "every"}:
            return await self.schedules.create(message, options)
        task, _ = await self._starter.start(Request.of(message, options))
        return task

    def chat(self, message: str, **options: Unpack[MessageOptions]) -> AsyncGenerator[Event, None]:
        """Send a message and follow its task; errors as in `start`. Leaving does not stop the task."""

        async def begin() -> Followed:
            task, _ = await self._starter.start(Request.of(message, options))
            return task.task_id, 0

        return self._control.begin_and_follow(begin)

    async def ask(
        self, message: str, *, response_model: type[BaseModel] | None = None, **options: Unpack[MessageOptions]
    ) -> Result:
        """Send a message and wait for its result, with `task_id`, `session_id` and `status` added.

        With `response_model` the answer is also given as an object of it, under `object`.

        Raises:
            ModelError: the model failed; the task can be resumed. Otherwise as in `start`.
        """
        return await self._starter.ask(Request.of(message, options), response_model)

    # Tasks under way.

    def follow(self, task_id: str, after: int = 0, *, so_far: bool = False) -> AsyncGenerator[Event, None]:
        """The task's durable events from `after` on, then what happens until it ends, pauses or waits.

        With `so_far` the live events begin with what was streamed of the answer before, as one token.

        Raises:
            DatabaseDamaged: so that not even this could be stored with the task.
        """
        return self._control.follow(task_id, after, so_far)

    async def pause(self, task_id: str) -> None:
        """Stop a task, of this process or another, at its next boundary; until then its status is pausing.

        Raises:
            UnknownTask.
            TaskError: it does not run.
        """
        await self._control.pause(task_id)

    async def resume(self, task_id: str, *, model: str = "") -> Result:
        """Continue a task that was paused, interrupted or failed; returns its result when it ends.

        `model` takes the place of the one that it began with.

        Raises:
            UnknownTask, ThreadBusy, ModelError.
            TaskError: it ended for good, waits for an answer, or a later task runs on its session.
        """
        return await self._control.result(*await self._control.resume(task_id, model=model))

    def resume_and_follow(self, task_id: str, *, model: str = "") -> AsyncGenerator[Event, None]:
        """As `resume`, but yields what happens from now on."""
        return self.tasks.resume_and_follow(task_id, model=model)

    async def waiting(self, *, prefix: str = "") -> Sequence[WaitingTask]:
        """Every task that waits for a person, in sessions whose names begin with `prefix`, the longest waiting first.

        Each says what it asks (`kind`, and `calls` or `question`), since when, and how to `answer`.
        """
        return await self.tasks.waiting(prefix)

    async def question(self, task_id: str) -> Json:
        """What a task waits with: {"interrupt_id", "kind"}, and "calls" of an approval, "question" of a question.

        Raises:
            UnknownTask.
            TaskError: it does not wait.
        """
        return await self.tasks.question(task_id)

    async def answer(self, task_id: str, answer: Any, *, interrupt_id: str = "") -> Result:
        """Answer the question that a task waits with, and continue; returns its result when it ends.

        To an approval `answer` is {"verdicts": [{"index", "verdict": approve | edit | reject, "arguments"?,
        "reason"?, "always"?: task | session}]}, or "approve" or "reject" for all calls; to a question a text, or
        {"manual_finish": True}. A tool that is approved with `always` is not asked about again in that task or session.
        With `interrupt_id` it answers that question only.

        Raises:
            UnknownTask, ThreadBusy, ModelError.
            InvalidAnswer: it does not fit the question; nothing was stored.
            QuestionClosed: the question was answered already, or is not open any more.
            TaskError: the task does not wait.
        """
        started = await self._control.resume(task_id, answer=answer, interrupt_id=interrupt_id)
        return await self._control.result(*started)

    def answer_and_follow(self, task_id: str, answer: Any, *, interrupt_id: str = "") -> AsyncGenerator[Event, None]:
        """As `answer`, but yields what happens from now on."""
        return self.tasks.resume_and_follow(task_id, answer=answer, interrupt_id=interrupt_id)

    async def send_event(self, task_id: str, name: str, data: Any = None) -> None:
        """Send an event to a task: one that waits for it continues, else it is kept until then."""
        await self.tasks.send_event(task_id, name, data)

    async def cancel(self, task_id: str) -> None:
        """Cancel a task, wherever it runs: what it did stays in the history, and its session takes the next message.

        Raises:
            UnknownTask.
            TaskError: it ended already, or the process that runs it does not answer.
        """
        await self._control.cancel(task_id)

    def worker(self, concurrency: int) -> Worker:
        """What runs the tasks that other processes leave to this one; ConfigurationError over SQLite."""
        return Worker(self._storage, self.agents, self._runner, self.modes, concurrency, self._due)

    def stop_now(self, task_id: str) -> None:
        """Stop a running task without waiting for a boundary; it stays resumable."""
        self._control.stop_now(task_id)

    async def drain(self, seconds: float) -> None:
        """Pause the tasks of this process, so that another one continues them; after `seconds` interrupt them."""
        await self._due.drain()
        await self._runner.drain(seconds)

    # What is stored: the most frequent verbs of `tasks` and `sessions`, which have the others.

    async def task(self, task_id: str) -> Task:
        """One task.

        Raises:
            UnknownTask.
        """
        return await self._control.task(task_id)

    async def resumable(self) -> Sequence[ResumableTask]:
        """Every task to resume, oldest first: paused, or `interrupted` by the end of its process."""
        return await self.tasks.resumable()

    async def events(self, task_id: str, after: int = 0, limit: int | None = None) -> Sequence[Event]:
        """A task's durable events, those after number `after`, at most `limit`."""
        return await self.tasks.events(task_id, after, limit)

    async def trace(self, task_id: str) -> TaskTrace:
        """Everything about a task: the task, its events and its calls, and the traces of the agents that it called.

        Raises:
            UnknownTask: no task has that id.
        """
        return await self.tasks.whole_trace(task_id)

    async def history(self, session_id: str) -> Sequence[Json]:
        """The session's messages in OpenAI's format: user, assistant (with tool_calls), tool.

        Raises:
            UnknownThread: nothing was said in it.
        """
        return await self.sessions.history(session_id)

    async def threads(self, *, limit: int = -1, prefix: str = "", search: str = "") -> Sequence[Thread]:
        """The sessions whose names begin with `prefix`, the last used first: title, turns, last message and status.

        `search` is a text in the title or in the first message, which is the title of a session that was not renamed.
        Of a damaged record lists show what can be read, with the status error; of a task, its error says what to do.
        """
        return await self.sessions.list(limit, SessionFilter(prefix=prefix, search=search))

    async def backtest(self, *session_ids: str, **options: "Unpack[BacktestOptions]") -> "Backtest":
        """What this app's agents would do otherwise in recorded sessions, all or these; errors as `BacktestOptions`."""
        from .testing.backtest import backtest

        return await backtest(self._storage, self.agents, {**self._modes, **UNLISTED}, session_ids, options)

    async def estimate_backtest(self, *session_ids: str, **options: "Unpack[BacktestOptions]") -> "Cost":
        """What such a backtest would cost, by what its tasks cost when they were recorded; nothing is answered."""
        from .testing.backtest import estimate

        return await estimate(self._storage, self.agents, {**self._modes, **UNLISTED}, session_ids, options)

    async def check_unfinished(
        self, task_ids: Sequence[str] | None = None, *, language: Language = "en"
    ) -> "list[UnfinishedTask]":
        """What these tasks, else all unfinished ones, would meet with this app's agents; nothing runs or is stored.

        Raises UnknownTask, TaskError where a task has ended, ToolServerUnavailable and MissingExtra.
        """
        from .testing.backtest import check_unfinished

        modes = {**self._modes, **UNLISTED}
        return await check_unfinished(self._storage, modes, self.agents, task_ids, language)

    async def preferences(self, user_id: str) -> UserPreferences:
        """The user's default mode, and how they rated the answers that they had, the latest first."""
        return await self._storage.preferences.get(user_id)

    async def set_preferences(self, user_id: str, *, default_mode: str) -> None:
        """Set the mode of the user's messages that name none, or remove it with an empty one; UnknownMode."""
        if default_mode:
            self._starter.check_mode(default_mode)
        await self._storage.preferences.put(user_id, default_mode)

    def before_close(self, stop: Callable[[], Awaitable[None]]) -> None:
        """Have `close` wait first for what serves this app."""
        self._before_close.append(stop)

    async def close(self) -> None:
        """Pause what runs, end the MCP servers' sessions and close the database; cancelled, it stops what runs.

        An app that is closed stays closed.

        Raises:
            OtherProcess: the app was opened in another process, and stays open there.
        """
        if self._closed:
            return
        self._storage.database.check_usable()
        self._runner.check_loop()
        while self._before_close:
            await self._before_close.pop()()
        self._closed = True
        async with AsyncExitStack() as closing:
            closing.callback(self.memory.close)
            for part in (self._storage, self.agents, self.audit, self._runner, self._starter, self._pruning, self._due):
                closing.push_async_callback(part.close)
        self.tasks = self.sessions = self.rewind = self.schedules = self._control = self._starter = cast(Any, Closed())
