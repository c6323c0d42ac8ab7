"""The run that an engine follows: a task of an app, the engine's own or a given one."""

import asyncio
import inspect
import shutil
import tempfile
import weakref
from collections.abc import AsyncGenerator, Coroutine, Iterable, Mapping
from contextlib import suppress
from contextvars import copy_context
from pathlib import Path
from typing import Any, Protocol, TypedDict

from langchain_core.language_models import BaseChatModel

from ..app import App
from ..core.agents import Agent
from ..core.errors import ConfigurationError, TaskError
from ..core.events import Event, Lifecycle
from ..core.lifecycle import Context, Coordinator
from ..core.task_status import ENDED, TaskStatus
from ..entry import open_app
from ..graphs.lifecycle import build_lifecycle
from ..nodes.lifecycle.decomposing import Decompose
from ..nodes.lifecycle.gate import GATE, Gate
from ..nodes.lifecycle.state import Restored
from ..registry import Registry
from ..runtime.control import Started
from ..runtime.start import MessageOptions, Request


class EngineOptions(TypedDict, total=False):
    """The options of an engine with an app; those of a message mean what they mean in `App.start`."""

    mode: str
    session_id: str
    user_id: str
    model: str
    task_id: str
    """A task of the app to continue."""


class AppSource(Protocol):
    """Gives the app that a run is followed in."""

    private: bool
    """Whether only the engine knows its tasks."""
    options: MessageOptions

    async def open(self, restored: Restored | None) -> App: ...

    async def close(self, app: App) -> None: ...


class GivenApp:
    """An app that is opened and closed elsewhere."""

    private = False

    def __init__(self, app: App, agent: str, options: EngineOptions) -> None:
        self._app = app
        self.options: MessageOptions = {"mode": "lifecycle", "agent": agent}
        for name in ("mode", "session_id", "user_id", "model"):
            if name in options:
                self.options[name] = options[name]

    async def open(self, restored: Restored | None) -> App:
        return self._app

    async def close(self, app: App) -> None:
        """Leave it open."""


class OwnApp:
    """An app over a temporary database, which is deleted with the engine; it is open while a run is followed."""

    private = True

    def __init__(self, agent: Agent, coordinator: Coordinator, decompose: Decompose | None, concurrency: int) -> None:
        self._agent = agent
        self._coordinator = coordinator
        self._decompose = decompose
        self._concurrency = concurrency
        self._folder = ""
        self.options: MessageOptions = {"mode": "engine", "agent": agent.agent_id}

    async def open(self, restored: Restored | None) -> App:
        if not self._folder:
            self._folder = tempfile.mkdtemp(prefix="segue-")
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        graph = build_lifecycle(self._coordinator, self._decompose, self._concurrency, restored)
        return await open_app(Path(self._folder, "engine.db"), [self._agent], {"engine": graph})

    async def close(self, app: App) -> None:
        await app.close()


class NoContext:
    """The coordinator of an engine that was given none."""

    async def get_context_async(self, text: str, /) -> Context:
        return Context()


def app_source(
    coordinator: Coordinator | None,
    llm: Any,
    agent: Agent | str | None,
    tools: Iterable[Any],
    concurrency: int,
    app: App | None,
    options: EngineOptions,
) -> AppSource:
    """The app that an engine's arguments ask for.

    Raises:
        ConfigurationError: the arguments do not go together; UnknownModel, MissingKey, UnknownTool.
    """
    known = tuple(EngineOptions.__annotations__)
    if unknown := [name for name in options if name not in known]:
        raise ConfigurationError(
            "An engine has no option {unknown}; use one of: {known}.",
            unknown=", ".join(unknown),
            known=", ".join(known),
        )
    if concurrency < 1:
        raise ConfigurationError("The concurrency must be at least 1, not {concurrency}.", concurrency=concurrency)
    if app is not None:
        if coordinator is not None or llm is not None or tuple(tools) or concurrency != 1 or isinstance(agent, Agent):
            raise ConfigurationError(
                "With an app its agent and mode decide: register the agent, and for a coordinator or a concurrency of "
                "your own open the app with modes={'mine': build_lifecycle(coordinator)} and name that mode."
            )
        return GivenApp(app, agent or "", options)
    if options or isinstance(agent, str):
        raise ConfigurationError(
            "Give the engine an app to use {options}.", options=", ".join(options) or "one of its agents"
        )
    own, decompose = _worker(llm, agent or Agent(agent_id="engine"), tools)
    return OwnApp(own, coordinator or NoContext(), decompose, concurrency)


def _worker(llm: Any, agent: Agent, tools: Iterable[Any]) -> tuple[Agent, Decompose | None]:
    """Who carries the tasks out, and who breaks the goal down if the agent's model does not."""
    agent = agent.model_copy(update={"tools": (*agent.tools, *tools)})
    decompose: Decompose | None = None
    if llm is None:
        decompose = _single_task
    elif callable(getattr(llm, "decompose_goal", None)):
        decompose = _decomposing(llm)
    elif isinstance(llm, str | BaseChatModel):
        agent = agent.model_copy(update={"model": llm})
    else:
        raise ConfigurationError(
            'The llm {llm} is not a model: give a name such as "offline" or "openai:<name>", a chat model, or an '
            "object with decompose_goal(text).",
            llm=repr(llm),
        )
    registry = Registry((agent,))
    registry.register(agent)
    registry.model_for(agent)
    return agent, decompose


async def _single_task(text: str) -> object:
    """Without a model the goal is one task."""
    return [{"id": "1", "description": text}]


def _decomposing(llm: Any) -> Decompose:
    async def decompose(text: str) -> object:
        given = llm.decompose_goal(text)
        return await given if inspect.isawaitable(given) else given

    return decompose


class TaskRun:
    """Follows a task of an app; a gate lets the task come no further than its follower has come.

    `unfinished` says that the task can continue, `question` what it asks a person.
    """

    app: App
    """Set while the run is followed."""

    def __init__(self, options: MessageOptions, task_id: str = "") -> None:
        self._options = options
        self.session_id = str(options.get("session_id") or "")
        self.task_id = task_id
        self.stale = bool(task_id)
        """Whether the database knows more of the run than its follower."""
        self.unfinished = False
        self.question: Mapping[str, Any] | None = None
        self._seen = 0
        self._events: AsyncGenerator[Event, None] | None = None
        self._gate = Gate()
        self._pausing: asyncio.Future[None] | None = None

    @property
    def exists(self) -> bool:
        return bool(self.task_id)

    @property
    def running(self) -> bool:
        """Whether events are to be expected."""
        return self._events is not None

    def take_over(self, task_id: str) -> None:
        """Follow another task, whose past is in the database."""
        self.task_id, self.stale = task_id, bool(task_id)

    def forget(self) -> None:
        """Release the task; the next one starts from the beginning."""
        self.unfinished, self.question, self.task_id, self._seen, self.stale = False, None, "", 0, False

    async def history(self) -> tuple[str, list[Event]]:
        """The task's message and everything that happened so far.

        Raises:
            UnknownTask: the database has no such task.
        """
        task = await self.app.tasks.get(self.task_id)
        events = [*await self.app.tasks.events(self.task_id)]
        self._seen = max((event.seq for event in events), default=0)
        self.stale = False
        await self._refresh()
        return task.message, events

    async def start(self, text: str) -> None:
        """Begin a new task; errors as of `App.start`."""
        await self._begin(self.app.tasks.start(Request.of(text, self._options)))

    async def resume(self, answer: Any = None) -> None:
        """Resume the task, with a person's answer if it waits for one; errors as of `App.resume`."""
        async for _ in self.app.tasks.follow(self.task_id, self._seen):
            pass  # an earlier run that was left reaches its boundary first
        await self._begin(self.app.tasks.resume(self.task_id, answer=answer))

    async def _begin(self, starting: Coroutine[Any, Any, Started]) -> None:
        """Have the app run the task behind a gate."""
        self._gate = Gate()
        context = copy_context()
        context.run(GATE.set, self._gate)
        known = await self.app.tasks.events(self.task_id, after=self._seen) if self.task_id else []
        self._gate.expect(sum(isinstance(event, Lifecycle) for event in known))
        task, _ = await asyncio.create_task(starting, context=context)
        self.task_id, self.session_id = task.task_id, task.thread_id
        self._follow()

    def _follow(self) -> None:
        self._events = self.app.tasks.follow(self.task_id, self._seen)

    async def next(self) -> Event | None:
        """The next event; None where the task has come to its end or to a boundary.

        Raises:
            TaskError: it was cancelled, or failed on an error after which it can continue.
        """
        if self._events is None:
            return None
        await self._paused()
        self._gate.ask()
        try:
            event = await anext(self._events)
        except StopAsyncIteration:
            self._events = None
            await self._refresh()
            await self._raise_failure()
            return None
        self._seen = max(self._seen, event.seq)
        if isinstance(event, Lifecycle):
            self._gate.acknowledge()
        return event

    def pause(self) -> None:
        """Have the task stop at its next boundary."""
        if self.running:
            self._pausing = asyncio.ensure_future(self._pause())

    async def _pause(self) -> None:
        with suppress(TaskError):  # it may just have ended
            await self.app.pause(self.task_id)

    async def _paused(self) -> None:
        if self._pausing is not None:
            await self._pausing
            self._pausing = None

    async def leave(self, *, at_once: bool = False) -> list[Event]:
        """Have the task stop, wait until it has, and return what happened meanwhile.

        With `at_once` a call that is under way is interrupted.
        """
        if self._events is None:
            return []
        await self._events.aclose()
        self._follow()
        if at_once:
            self.app.stop_now(self.task_id)
        else:
            self.pause()
        found = []
        with suppress(TaskError):  # what failed now fails again when the run continues
            while (event := await self.next()) is not None:
                found.append(event)
        return found

    async def detach(self) -> None:
        """Have the task stop at its next boundary without waiting for it."""
        if self._events is not None:
            self.pause()
            await self._paused()
            self._events = None
            await self._refresh()

    async def _refresh(self) -> None:
        """See whether the task can continue, and whether it waits for a person."""
        task = await self.app.tasks.get(self.task_id)
        self.session_id = task.thread_id
        self.unfinished = task.status not in ENDED and not task.result
        self.question = await self.app.question(self.task_id) if task.status == TaskStatus.WAITING else None

    async def _raise_failure(self) -> None:
        task = await self.app.tasks.get(self.task_id)
        if task.status == TaskStatus.CANCELLED:
            raise TaskError("Task {task_id} was cancelled: give the engine a new goal.", task_id=self.task_id)
        if task.status == TaskStatus.ERROR and not task.result:
            raise TaskError(str(task.error))
