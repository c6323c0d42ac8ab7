"""The run that an engine follows: its state, and a task of an app."""

import asyncio
import inspect
import shutil
import tempfile
import weakref
from collections.abc import AsyncGenerator, Coroutine, Iterable, Mapping
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypedDict

from langchain_core.language_models import BaseChatModel

from ..app import App
from ..core.agents import Agent
from ..core.errors import Clause, ConfigurationError, SegueError, TaskError, together
from ..core.events import Event, Lifecycle, PlanUpdate, ToolResult
from ..core.lifecycle import MOST_TASKS, Coordinator, EngineEvent, EngineEventType, EngineState, SubTask
from ..core.plan import Status, problems
from ..core.task import ENDED, TaskStatus
from ..entry import open_app
from ..graphs.lifecycle import build_lifecycle
from ..nodes.lifecycle import GATE, Decompose, Gate, Restored
from ..registry import Registry
from ..runtime.control import Started
from ..runtime.reply import CONTEXT_KINDS, PlanItem, Projection
from ..runtime.start import MessageOptions, Request

# The state of an engine's run, which is the projection of its events, and its snapshots.

VERSION = 1
"""Of the snapshots that this module writes; older ones are read, newer ones refused."""

_T = EngineEventType
_WORDS = {"completed": "done", "complete": "done", "failed": "error", "in_progress": "running", "executing": "running"}
"""Other words for a task's status, as snapshots of other engines have them."""


class InvalidSnapshot(SegueError):
    """A snapshot cannot be restored; the engine stays as it was."""


@dataclass
class RunState:
    """How far a run is: its input, and the projection of its events."""

    input: str = ""
    known: Projection = field(default_factory=Projection)
    expected: int = 0
    """Tasks that were added by others, and are not in the plan yet."""

    @property
    def tasks(self) -> tuple[SubTask, ...]:
        """The tasks with their present status."""
        return tuple(SubTask(**item.as_dict()) for item in self.known.plan.values())

    @property
    def results(self) -> dict[str, str]:
        """The results of the completed tasks, by their ids."""
        return {name: item.result for name, item in self.known.plan.items() if item.status == Status.DONE}

    @property
    def calls(self) -> dict[str, list[dict[str, Any]]]:
        """The calls that each task made: {name, arguments, result}."""
        return {name: [_made(call) for call in item.calls] for name, item in self.known.plan.items() if item.calls}

    @property
    def total(self) -> int:
        return len(self.known.plan)

    @property
    def completed(self) -> int:
        return sum(item.status == Status.DONE for item in self.known.plan.values())

    @property
    def progress(self) -> float:
        """From 0 to 1; 0 while no task is known."""
        return self.completed / (self.total + self.expected) if self.total else 0.0

    def add(self, task: SubTask) -> None:
        """Add a subtask that the run will take up."""
        self.known.plan[task.step_id] = _item(task, {}, {})

    def apply(self, event: Event) -> EngineEvent | None:
        """Apply an event; returns it as the engine yields it, or None where it yields nothing for it."""
        before = self.known.plan
        self.known.fold(event)
        if isinstance(event, PlanUpdate):
            self.expected = 0  # a goal that is broken down again keeps the calls of its tasks
            for name, item in self.known.plan.items():
                item.calls = item.calls or (before[name].calls if name in before else [])
        if not isinstance(event, Lifecycle):
            return None
        kind, data = _T(event.event_type), dict(event.details)
        self.expected += data.get("added", 0)
        if kind in (_T.TASK_COMPLETED, _T.TASK_FAILED):
            data["progress"] = self.progress
        return EngineEvent(kind, data, event.timestamp)

    def remaining(self, phase: EngineState) -> Restored:
        """What the graph needs to continue this run elsewhere."""
        return {
            "phase": phase.value,
            "context": self.known.context,
            "steps": [task.model_dump(mode="json") for task in self.tasks],
            "results": self.results,
            "calls": {task_id: [{**call, "ref": ""} for call in calls] for task_id, calls in self.calls.items()},
        }

    def snapshot(self) -> dict[str, Any]:
        """The run as JSON values."""
        return {
            "version": VERSION,
            "progress": self.progress,
            "tasks": [_task_json(task) for task in self.tasks],
            "completed_tasks": self.completed,
            "total_tasks": self.total,
            "results": self.results,
            "dependencies": {task.step_id: list(task.depends_on) for task in self.tasks},
            "input": self.input,
            "context": {name: list(texts) for name, texts in self.known.context.items()},
            "calls": self.calls,
        }


def _task_json(task: SubTask) -> dict[str, Any]:
    return {**task.public, "status": task.status.value, **({"note": task.note} if task.note else {})}


def read_snapshot(snapshot: Any) -> RunState:
    """The run that a snapshot describes.

    Raises:
        InvalidSnapshot: it is none, or one of a newer version.
    """
    if not isinstance(snapshot, Mapping):
        raise InvalidSnapshot("A snapshot must be a dict returned by create_snapshot.")
    version = snapshot.get("version", VERSION)
    if not isinstance(version, int) or version > VERSION:
        raise InvalidSnapshot(
            "The snapshot has version {version} and this Segue knows up to {known}: upgrade it.",
            version=repr(version),
            known=VERSION,
        )
    try:
        needs = dict(snapshot.get("dependencies") or {})
        tasks = tuple(_task(item, needs) for item in snapshot["tasks"])
        results = {str(name): str(value) for name, value in dict(snapshot.get("results") or {}).items()}
        calls = {str(name): [_call(c) for c in made] for name, made in dict(snapshot.get("calls") or {}).items()}
        context = dict(snapshot.get("context") or {}).items()
        known = Projection(
            plan={task.step_id: _item(task, results, calls) for task in tasks},
            context={name: [str(item) for item in texts] for name, texts in context if name in CONTEXT_KINDS},
        )
        run = RunState(str(snapshot.get("input") or "; ".join(task.description for task in tasks)), known)
        if len(tasks) != run.total:
            raise ValueError(str(together(problems(tasks, max_steps=MOST_TASKS))))
        _check(run, snapshot)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidSnapshot("The snapshot cannot be read: {why}.", why=_why(error)) from error
    return run


def _why(error: Exception) -> str | Clause:
    """What is wrong with a snapshot that led to this error."""
    if isinstance(error, KeyError):
        return Clause("{name} is missing", name=error)
    return (
        str(error)
        if isinstance(error, ValueError)
        else Clause("it does not have the form that create_snapshot returns")
    )


def _check(run: RunState, snapshot: Mapping[str, Any]) -> None:
    if run.tasks and (found := problems(run.tasks, max_steps=MOST_TASKS)):
        raise ValueError(str(together(found)))
    for name, counted in (("completed_tasks", run.completed), ("total_tasks", run.total)):
        if name in snapshot and snapshot[name] != counted:
            raise ValueError(f"{name} is {snapshot[name]!r} and its tasks say {counted}")


def _task(item: Mapping[str, Any], needs: Mapping[str, Any]) -> SubTask:
    status = str(item.get("status", "pending"))
    given = {**item, "status": Status(_WORDS.get(status, status))}
    given.setdefault("dependencies", needs.get(str(item["id"]), ()))
    return SubTask(**given)


def _item(task: SubTask, results: Mapping[str, str], calls: Mapping[str, list[ToolResult]]) -> PlanItem:
    return PlanItem(
        task.step_id,
        task.description,
        task.status.value,
        task.note,
        task.priority,
        result=results.get(task.step_id, ""),
        calls=calls.get(task.step_id, []),
        fields=task.model_dump(mode="json"),
    )


def _call(item: Mapping[str, Any]) -> ToolResult:
    name, arguments, result = str(item["name"]), dict(item["arguments"]), dict(item["result"])
    return ToolResult(task_id="", index=0, name=name, arguments=arguments, result=result)


def _made(call: ToolResult) -> dict[str, Any]:
    return {"name": call.name, "arguments": call.arguments, "result": call.result}


# The run that an engine follows: a task of an app, the engine's own or a given one.


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
    most_subtasks: int
    """How many subtasks may be added to a run that is no task yet."""

    async def open(self, restored: Restored | None) -> App: ...

    async def close(self, app: App) -> None: ...


class GivenApp:
    """An app that is opened and closed elsewhere."""

    private = False
    most_subtasks = 0

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

    def __init__(
        self, agent: Agent, coordinator: Coordinator | None, decompose: Decompose | None, concurrency: int
    ) -> None:
        self._agent = agent
        self._coordinator = coordinator
        self._decompose = decompose
        self._concurrency = concurrency
        self._folder = ""
        self.options: MessageOptions = {"mode": "engine", "agent": agent.agent_id}
        self.most_subtasks = agent.budget.subtasks

    async def open(self, restored: Restored | None) -> App:
        if not self._folder:
            self._folder = tempfile.mkdtemp(prefix="segue-")
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        graph = build_lifecycle(self._coordinator, self._decompose, self._concurrency, restored)
        return await open_app(Path(self._folder, "engine.db"), [self._agent], {"engine": graph})

    async def close(self, app: App) -> None:
        await app.close()


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
    return OwnApp(own, coordinator, decompose, concurrency)


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
        task = await self.app.task(self.task_id)
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
        async for _ in self.app.follow(self.task_id, self._seen):
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
        self.task_id, self.session_id = task.task_id, task.session_id
        self._follow()

    def _follow(self) -> None:
        self._events = self.app.follow(self.task_id, self._seen)

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
        task = await self.app.task(self.task_id)
        self.session_id = task.session_id
        self.unfinished = task.status not in ENDED and not task.result
        self.question = await self.app.question(self.task_id) if task.status == TaskStatus.WAITING else None

    async def _raise_failure(self) -> None:
        task = await self.app.task(self.task_id)
        if task.status == TaskStatus.CANCELLED:
            raise TaskError("Task {task_id} was cancelled: give the engine a new goal.", task_id=self.task_id)
        if task.status == TaskStatus.ERROR and not task.result:
            raise TaskError(str(task.error))
