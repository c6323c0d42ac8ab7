"""The public API: an `App` over one database, which `segue.open()` gives."""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Unpack, cast

from langgraph.graph.state import CompiledStateGraph
from pydantic import BaseModel

from .checkpoints.storage import Storage
from .core.agents import Agent
from .core.calls import Executor
from .core.context import Closed
from .core.events import Event, to_dict
from .core.models import Model
from .core.records import Json, Result, SessionChanges, SessionFilter
from .core.timeline import Retention
from .graphs.chat import MODES, UNLISTED
from .memory.folder import MemoryFolder
from .nodes.chat import AUTO, ModeGraph
from .prompts.catalogue import Language, mode_description
from .registry import Registry
from .runtime.audit_log import AuditLog
from .runtime.control import Control, Followed, Waits
from .runtime.history import Pruning
from .runtime.message_files import FileLimits, MessageFiles
from .runtime.notifications import Notifications
from .runtime.rewind import Rewind, newest_form
from .runtime.run import Capacity, wired_graph
from .runtime.runner import Runner
from .runtime.schedules import Schedules, StartOptions
from .runtime.sessions import Sessions
from .runtime.start import MessageOptions, Request, Starter
from .runtime.tasks import Tasks
from .runtime.worker import Dispatch, Dispatching, Due, Worker

if TYPE_CHECKING:
    from .testing.backtest import Backtest, BacktestOptions, UnfinishedTask


class App:
    """Agents, modes and sessions over one database.

    The verbs here return JSON; `tasks`, `sessions`, `rewind` and `agents` have more of them, which return records.
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
        self._due = Due(storage.due, clock)
        waits = Waits(storage, self._control, self._due)
        runner.observers.append(waits)
        self.tasks = Tasks(storage, runner, self._starter, self._due, waits)
        """The tasks, as records; `await app.tasks(agent_id="support")` lists them as JSON."""
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

    # Messages. The options are those of `MessageOptions`.

    async def start(self, message: str, **options: Unpack[StartOptions]) -> Json:
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
            return (await self.schedules.create(message, options)).json()
        task, _ = await self._starter.start(Request.of(message, options))
        return task.json()

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

    async def waiting(self, *, prefix: str = "") -> list[Json]:
        """Every task that waits for a person, in sessions whose names begin with `prefix`, the longest waiting first.

        Each says what it asks (`kind`, and `calls` or `question`), since when, and how to `answer`.
        """
        return [task.json() for task in await self.tasks.waiting(prefix)]

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

    async def permissions(self, session_id: str | None = None, *, prefix: str = "") -> list[Json]:
        """The tools that need no further approval, in a session or in all whose names begin with `prefix`."""
        return [permission.json() for permission in await self.sessions.permissions(session_id, prefix)]

    async def revoke(self, session_id: str, *, tool: str = "", agent_id: str = "") -> int:
        """Withdraw the permissions of a session, or only of a tool or agent; returns how many there were."""
        return await self.sessions.revoke(session_id, tool, agent_id)

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

    async def task(self, task_id: str) -> Json:
        """One task.

        Raises:
            UnknownTask.
        """
        return (await self.tasks.get(task_id)).json()

    async def resumable(self) -> list[Json]:
        """Every task to resume, oldest first: paused, or `interrupted` by the end of its process."""
        return [found.json() for found in await self.tasks.resumable()]

    async def events(self, task_id: str, after: int = 0, limit: int | None = None) -> list[Json]:
        """A task's durable events in their dict form, those after number `after`, at most `limit`."""
        return [to_dict(event) for event in await self.tasks.events(task_id, after, limit)]

    async def trace(self, task_id: str) -> Json:
        """Everything about a task: {"task": {…}, "events": […], "calls": […]}.

        Raises:
            UnknownTask: no task has that id.
        """
        return (await self.tasks.trace(task_id)).json()

    async def usage(self, agent_id: str | None = None) -> Json:
        """Tokens, calls and cost of an agent's tasks that have a result, or of all."""
        return await self.tasks.usage(agent_id)

    async def history(self, session_id: str) -> list[Json]:
        """The session's messages in OpenAI's format: user, assistant (with tool_calls), tool.

        Raises:
            UnknownThread: nothing was said in it.
        """
        return [*await self.sessions.history(session_id)]

    async def threads(self, *, limit: int = -1, prefix: str = "", search: str = "") -> list[Json]:
        """The sessions whose names begin with `prefix`, the last used first: title, turns, last message and status.

        `search` is a text in the title or in the first message, which is the title of a session that was not renamed.
        Of a damaged record lists show what can be read, with the status error; of a task, its error says what to do.
        """
        which = SessionFilter(prefix=prefix, search=search)
        return [thread.json() for thread in await self.sessions.list(limit, which)]

    async def rename(self, session_id: str, title: str) -> None:
        """Give a session a title; an empty one takes it back. Raises UnknownThread."""
        await self.sessions.change(session_id, SessionChanges(title=title))

    async def snapshots(self, session_id: str, *, limit: int = 50, before: str | None = None) -> list[Json]:
        """A session's snapshots, the latest first; `before` is the checkpoint_id that the last page ended with."""
        return [found.json() for found in await self.sessions.snapshots(session_id, limit, before)]

    async def fork(self, from_session: str, checkpoint_id: str, *, session_id: str) -> Json:
        """Copy a session as it was at a snapshot into a new one; returns the copy's newest task.

        A task that had not ended there can be resumed in the copy: what had run is not run again.

        Raises:
            InvalidMessage, UnknownThread, UnknownSnapshot, ThreadExists, ThreadBusy, DamagedSession.
        """
        return newest_form(await self.rewind.fork(from_session, checkpoint_id, session_id), session_id)

    # Going back. A snapshot's id may be shortened to its last six characters.

    async def timeline(self, session_id: str, *, limit: int = -1) -> list[Json]:
        """The `limit` newest snapshots of turns, recursions and steps, oldest first: what happened, and the effects.

        Raises:
            UnknownThread, DamagedSession.
        """
        return [entry.json() for entry in await self.rewind.timeline(session_id, limit)]

    async def effects(self, session_id: str, checkpoint_id: str) -> list[Json]:
        """The calls after a snapshot that are not read-only: their effects stay, whoever goes back to it.

        `undo` says whether one can be undone: available, done, failed, unknown, or empty if its tool declares none.

        Raises:
            UnknownThread, UnknownSnapshot.
        """
        return [effect.json() for effect in await self.rewind.effects(session_id, checkpoint_id)]

    async def undo(self, session_id: str, checkpoint_id: str) -> list[Json]:
        """Undo those effects, newest first, by the `undo` of their tools; each is undone at most once.

        Returns each with `undo`, which is done, failed or unknown now, and `result`, the outcome of its undo, which is
        also among the calls of the task's trace. An error after the first undo is the `result` of the last one.

        Raises:
            UnknownThread, UnknownSnapshot.
            ThreadBusy: a task runs on the session.
        """
        undone = await self.rewind.undo(session_id, checkpoint_id)
        return [{**effect.json(), "result": result} for effect, result in undone]

    async def diff(self, session_id: str, a: str, b: str, *, other_session: str = "") -> Json:
        """What differs between snapshots: {a, b, state, plan, messages, results, prompt}; `b` may be of another one.

        Raises:
            UnknownThread, UnknownSnapshot, DamagedSession.
        """
        return (await self.rewind.diff(session_id, a, b, other_session)).json()

    async def edit(
        self,
        from_session: str,
        checkpoint_id: str,
        *,
        session_id: str = "",
        message: str = "",
        state: Json | None = None,
    ) -> Json:
        """Continue from a snapshot in a new branch of the conversation, with another message or a changed state.

        A `message` takes the place of the one that began the snapshot's turn, which starts again; `state` has the
        fields that change. The branch is a session, by default with a name of its own; the one before it stays as it
        is. Returns the branch's task, which runs in the background.

        Raises:
            InvalidMessage, UnknownThread, UnknownSnapshot, ThreadExists, DamagedSession.
            TaskError: the state is not valid.
        """
        new = session_id or self.sessions.new_id()
        return (await self.rewind.edit(from_session, checkpoint_id, new, message, state)).json()

    async def prune(
        self, retention: Retention | str | int, *, session_id: str | None = None, dry_run: bool = False
    ) -> Json:
        """Merge the snapshots of a session, or of all, that are older than `retention`; the file shrinks.

        `retention` is an age such as "30d", the number of snapshots that each session keeps, or both: "30d,100".
        History, traces and unfinished tasks stay; a `dry_run` removes none. Returns {snapshots, sessions, busy}:
        how many were removed, from how many sessions, and those that are busy.

        Raises:
            ConfigurationError: the retention is not valid.
            UnknownThread, DamagedSession: of the session that is named.
        """
        return asdict(await self.sessions.prune(Retention.of(retention), session_id, dry_run=dry_run, compact=True))

    async def export(self, session_id: str) -> Json:
        """A session as a JSON document that `import_` takes, here or elsewhere.

        Raises:
            UnknownThread, DamagedSession.
        """
        return await self.sessions.export(session_id)

    async def import_(self, document: Any, *, session_id: str, user_id: str | None = None) -> Json:
        """Store an exported session as a new one; returns its newest task.

        Raises:
            InvalidMessage, InvalidExport, ThreadExists, ThreadBusy: nothing was stored.
        """
        return newest_form(await self.sessions.import_(document, session_id, user_id), session_id)

    async def recover(self, session_id: str, *, language: Language = "en") -> Json:
        """Repair a damaged session and go back to its newest readable state; first the database is copied.

        Returns {checkpoint_id, readable, created_at, dropped, copy, repaired}; `dropped` is 0 and `repaired`, a
        sentence in `language` for each record, is empty where nothing was damaged. What ran since is not run again.
        Where only the records could be repaired, `readable` is False and the last sentence says why.

        Raises:
            UnknownThread, ThreadBusy, NothingReadable, DatabaseUnavailable: nothing was changed.
        """
        return (await self.sessions.recover(session_id, language)).json()

    async def delete(self, session_id: str, *, keep_memory: bool = False) -> None:
        """Delete a session and its branches: tasks, messages, snapshots, events and calls; forks and exports stay.

        So do memory files, but without the entries that its tasks wrote, unless `keep_memory` keeps them.
        The database's file is rewritten without them. A copy that `recover` made beside it is not changed.

        Raises:
            UnknownThread, MemoryUnavailable.
            ThreadBusy: a task runs on it; nothing was changed.
        """
        await self.sessions.delete(session_id, keep_memory)

    async def backtest(self, *session_ids: str, **options: "Unpack[BacktestOptions]") -> "Backtest":
        """What this app's agents would do otherwise in recorded sessions, all or these; errors as `BacktestOptions`."""
        from .testing.backtest import backtest

        return await backtest(self._storage, self.agents, {**self._modes, **UNLISTED}, session_ids, options)

    async def check_unfinished(
        self, task_ids: Sequence[str] | None = None, *, language: Language = "en"
    ) -> "list[UnfinishedTask]":
        """What these tasks, else all unfinished ones, would meet with this app's agents; nothing runs or is stored.

        Raises UnknownTask, TaskError where a task has ended, ToolServerUnavailable and MissingExtra.
        """
        from .testing.backtest import check_unfinished

        modes = {**self._modes, **UNLISTED}
        return await check_unfinished(self._storage, modes, self.agents, task_ids, language)

    async def preferences(self, user_id: str) -> Json:
        """{"default_mode", "mode_history": [{"query", "mode", "rating"}]}, the latest first."""
        return await self.sessions.preferences(user_id)

    async def set_preferences(self, user_id: str, *, default_mode: str) -> None:
        """Set the mode of the user's messages that name none, or remove it with an empty one; UnknownMode."""
        if default_mode:
            self._starter.check_mode(default_mode)
        await self.sessions.set_default_mode(user_id, default_mode)

    async def rate(self, task_id: str, rating: int) -> None:
        """Rate a task's answer from 1 to 5.

        Raises:
            UnknownTask, InvalidAnswer.
        """
        await self.sessions.rate(task_id, rating)

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
