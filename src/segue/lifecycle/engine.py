"""`ConversationEngine` and its coordinators: a goal is decomposed and carried out, and every step is an event."""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from os import stat_result
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from ..core.agents import Agent
from ..core.errors import ConfigurationError, InvalidAnswer, InvalidMessage, TaskError
from ..core.events import Event
from ..core.lifecycle import (
    MOST_TASKS,
    VALID_STATE_TRANSITIONS,
    Context,
    Coordinator,
    EngineBusy,
    EngineEvent,
    EngineEventType,
    EngineState,
    SubTask,
    free_id,
    next_state,
    spawn,
)
from ..nodes.lifecycle import Restored
from ..passages import PassageIndex, Unreadable, passages_of, read_text, rules_of
from ..registry import Registry
from .run import EngineOptions, InvalidSnapshot, RunState, TaskRun, app_source, read_snapshot

if TYPE_CHECKING:
    from ..app import App


# Coordinators: the registered agents and tools, or a folder of Markdown, as the engine's context.

logger = logging.getLogger(__name__)

SUFFIXES = (".md", ".markdown", ".txt")
RULES = ("rules", "规则")
"""Files of this name, and all in a folder of it, hold rules."""
MOST_PASSAGES = 50_000
"""Passages of a folder that are searched."""

Stamp = tuple[int, int]
_SLOT = "{{"


class RegistryCoordinator:
    """Rules are the lines of the agent's prompt, knowledge is what the agents say of themselves.

    Without the name of an agent the tools of all of them are given, and no rules.
    """

    def __init__(self, registry: Registry, agent: str = "") -> None:
        self._registry = registry
        self._agent = agent

    @classmethod
    def of(cls, app: Any, agent: str = "") -> "RegistryCoordinator":
        """The coordinator over what is registered in an app."""
        return cls(app.agents, agent)

    async def get_context_async(self, text: str, /) -> Context:
        """The same for every request: all of it is known beforehand.

        Raises:
            UnknownAgent: listing the ones there are.
        """
        asked = [self._registry.agent(self._agent)] if self._agent else list(self._registry.values())
        tools = {name: tool for agent in asked for name, tool in self._registry.tools_for(agent).items()}
        prompt = asked[0].prompt if self._agent else ""
        rules = [line.strip(" \t-*") for line in prompt.splitlines() if line.strip(" \t-*#") and _SLOT not in line]
        known = [f"{agent.agent_id}: {agent.description}" for agent in asked if agent.description]
        return Context(rules=rules, knowledge=known, tools=[tool.spec["function"] for tool in tools.values()])


class FolderCoordinator:
    """Rules are the items and paragraphs of the files called "rules" or in a folder of that name; the rest is searched.

    Changed files are read again before each request. `skipped` says which files could not be read, and why. `beside`
    is a coordinator whose context is added, for instance one that knows the tools.
    """

    def __init__(self, folder: str | Path, *, most: int = 6, beside: Coordinator | None = None) -> None:
        self._folder = Path(folder)
        if not self._folder.is_dir():
            raise ConfigurationError(
                "The folder {folder} does not exist: create it, or name another one.", folder=folder
            )
        self._most = most
        self._beside = beside
        self._lock = threading.Lock()
        self._index = PassageIndex()
        self._stamps: dict[str, Stamp] = {}
        self._rules: dict[str, list[str]] = {}
        self.skipped: dict[str, str] = {}

    async def get_context_async(self, text: str, /) -> Context:
        """The rules, and the passages that fit the request best."""
        rules, knowledge = await asyncio.to_thread(self._look_up, text)
        if self._beside is None:
            return Context(rules=rules, knowledge=knowledge)
        other = await self._beside.get_context_async(text)
        return Context(rules=[*rules, *other.rules], knowledge=[*knowledge, *other.knowledge], tools=list(other.tools))

    def _look_up(self, text: str) -> tuple[list[str], list[dict[str, str]]]:
        with self._lock:
            self._refresh()
            rules = [rule for name in sorted(self._rules) for rule in self._rules[name]]
            found = self._index.search(text, self._most)
        return rules, [{"title": passage.title, "text": passage.text} for passage in found]

    def _refresh(self) -> None:
        """Read what changed since the last look."""
        now = {name: (found.st_mtime_ns, found.st_size) for name, found in self._files().items()}
        for name in [name for name in self._stamps if now.get(name) != self._stamps[name]]:
            del self._stamps[name]
            self._rules.pop(name, None)
            self.skipped.pop(name, None)
            self._index.remove(name)
        for name in sorted(now.keys() - self._stamps.keys()):
            self._read(name)
            self._stamps[name] = now[name]

    def _files(self) -> dict[str, stat_result]:
        """The readable files below the folder; links that lead out of it are left alone."""
        root = self._folder.resolve()
        found = {}
        for path in self._folder.rglob("*"):
            inside = path.relative_to(self._folder)
            if path.suffix.lower() not in SUFFIXES or any(part.startswith(".") for part in inside.parts):
                continue
            if path.is_file() and path.resolve().is_relative_to(root):
                found[inside.as_posix()] = path.stat()
        return found

    def _read(self, name: str) -> None:
        try:
            text, whole = read_text(self._folder / name)
        except Unreadable as error:
            self._skip(name, str(error))
            return
        if _holds_rules(name):
            self._rules[name] = rules_of(text)
        else:
            room = MOST_PASSAGES - len(self._index)
            passages = passages_of(text, name)
            whole = self._index.add(name, passages, room) and whole
        if not whole:
            self._skip(name, "it is too long: only its beginning is used")

    def _skip(self, name: str, why: str) -> None:
        self.skipped[name] = why
        logger.warning("The file %s in %s is not read whole: %s.", name, self._folder, why)


def _holds_rules(name: str) -> bool:
    *folders, file = name.lower().split("/")
    return file.rsplit(".", 1)[0] in RULES or any(folder in RULES for folder in folders)


# `ConversationEngine`: a goal is received, decomposed, scheduled and carried out, and every step is an event.

_S, _T = EngineState, EngineEventType
_PAUSABLE = (_S.SCHEDULING, _S.EXECUTING)
_ENDED = (_S.COMPLETED, _S.ERROR)
_FINISHED = (_T.TASK_COMPLETED, _T.TASK_FAILED)


class ConversationEngine:
    """Carries one goal at a time from its receipt to its completion.

    `coordinator` gives the context, none gives an empty one. `llm` decomposes the goal and carries the tasks out: a
    model's name, a chat model, or an object with `decompose_goal(text)`; without one the goal is a single task. With
    an `app` the run is a task of its database, in a mode of it, that any process can continue; the agent is then one
    of the app's, and `task_id` may name a run to continue.
    """

    def __init__(
        self,
        coordinator: Coordinator | None = None,
        llm: Any = None,
        *,
        agent: Agent | str | None = None,
        tools: Iterable[Any] = (),
        concurrency: int = 1,
        app: "App | None" = None,
        **options: Unpack[EngineOptions],
    ) -> None:
        self._source = app_source(coordinator, llm, agent, tools, concurrency, app, options)
        self._task = TaskRun(self._source.options, options.get("task_id", ""))
        self._run = RunState()
        self._state = _S.IDLE
        self._paused_from = self._failed_in = _S.EXECUTING
        self._restored: Restored | None = None
        """What the run began with, where it continues from a snapshot."""
        self._live = False
        self._stopping = False
        """Whether a pause was requested since the last step began."""
        self._over = False
        """Whether nothing is left to follow."""
        self._failure: Exception | None = None
        self._answer: Any = None
        self._wake = asyncio.Event()
        self._own: deque[tuple[EngineEventType, dict[str, Any]]] = deque()
        """The engine's own moves that were not yielded yet."""
        self._arrived: deque[tuple[EngineEvent, bool]] = deque()
        """The task's events that were not yielded yet, and whether each arrived while a pause took effect."""
        self.refused = ""
        """Why the last `restore_from_snapshot` returned False."""

    @property
    def state(self) -> EngineState:
        return self._state

    @property
    def tasks(self) -> list[SubTask]:
        """The tasks with their present status."""
        return [*self._run.tasks]

    @property
    def results(self) -> dict[str, str]:
        """The results of the completed tasks, by their ids."""
        return self._run.results

    @property
    def current_progress(self) -> float:
        """The share of the tasks that are completed, from 0 to 1."""
        return self._run.progress

    @property
    def completed_tasks(self) -> int:
        return self._run.completed

    @property
    def total_tasks(self) -> int:
        return self._run.total

    @property
    def question(self) -> Mapping[str, Any] | None:
        """What a person is asked before a task can continue, if one waits: {"kind", "calls"}."""
        return self._task.question

    async def run(self, user_input: str | None = None) -> AsyncGenerator[EngineEvent, None]:
        """Carry a goal out and yield every step; without one, continue what is left of the unfinished run.

        The run takes no step while nobody asks for the next event. Closed in the middle it reaches a boundary, and
        can continue from there.

        Raises:
            EngineBusy: another run is under way or unfinished; nothing was changed.
        """
        self._check(user_input)
        self._prepare(user_input)
        self._live, self._wake = True, asyncio.Event()
        try:
            self._task.app = await self._source.open(self._restored)
            try:
                await self._continue()
                while not self._done():
                    if event := self._next_event():
                        yield event
                    else:
                        await self._advance()
            except asyncio.CancelledError:
                await self._leave(at_once=True)
                raise
            except GeneratorExit:
                await self._leave(at_once=False)
                raise
            finally:
                await self._source.close(self._task.app)
        finally:
            self._live = False
            if self._state in _PAUSABLE:  # nobody follows the run any more
                self._pause({})

    def _check(self, user_input: str | None) -> None:
        if self._live:
            raise EngineBusy(self._state, "a run is under way, wait for it or close it with aclose()")
        if user_input is None and self._state is _S.IDLE and not self._task.task_id:
            raise EngineBusy(self._state, "there is nothing to continue, give run() a text")
        if user_input is not None and self._state not in (_S.IDLE, *_ENDED):
            raise EngineBusy(self._state, "a run is unfinished, continue it with run(None) or discard it with reset()")

    def _prepare(self, user_input: str | None) -> None:
        """Start from the beginning, or decide what a new task has to take over where the run has none to continue."""
        self._over, self._failure = False, None
        if user_input is not None:
            self._clear()
            self._run.input = user_input
        elif not self._task.exists or (self._state is _S.ERROR and not self._task.unfinished):
            self._restart_from_snapshot()

    def _restart_from_snapshot(self) -> None:
        if not self._source.private and self._task.exists:
            raise EngineBusy(self._state, "the run failed for good, give run() a new goal")
        if not self._source.private:
            raise TaskError("The snapshot comes from a run without an app: continue it in an engine without one.")
        phase = self._paused_from if self._state is _S.PAUSED else self._state
        if self._state is _S.COMPLETED:
            self._over = True
        elif phase not in _PAUSABLE:
            self._leave_end()
            self._state = phase = _S.IDLE
        self._task.forget()
        self._restored = self._run.remaining(phase)

    async def _continue(self) -> None:
        """Resume a run that is paused or that failed; of a task of the database, first see how far it is."""
        told = not self._own
        if self._task.stale:
            await self._recall()
        elif self._task.exists:
            self._over = not self._task.unfinished
            if self._state is _S.ERROR:
                self._leave_end()
                self._state = self._failed_in
        if self._state in _PAUSABLE and told and self._task.exists:
            self._state, self._paused_from = _S.PAUSED, self._state
        if self._state is _S.PAUSED:
            self._resume()

    async def _recall(self) -> None:
        message, events = await self._task.history()
        self._run, self._state = RunState(input=message), _S.IDLE
        for event in events:
            self._run.apply(event)
        self._state = _S(self._run.known.phase or _S.IDLE)
        self._over = not self._task.unfinished
        if self._over and self._state is not _S.COMPLETED:
            self._state = _S.ERROR
            raise EngineBusy(self._state, "the run ended before it was completed, give run() a new goal")

    def _next_event(self) -> EngineEvent | None:
        """The next event to yield; the engine's own moves are yielded as soon as nothing is under way."""
        if not self._task.running:
            if self._own:
                kind, data = self._own.popleft()
                if kind in (_T.ENGINE_PAUSED, _T.ENGINE_RESUMED):
                    data = {"progress": self._run.progress, **data}
                return EngineEvent(kind, data)
            if self._state is _S.PAUSED:
                return None
            self._stopping = False
        for place, (event, meanwhile) in enumerate(self._arrived):
            if not self._stopping or (meanwhile and event.event_type in _FINISHED):
                del self._arrived[place]
                if event.event_type is _T.STATE_CHANGED:
                    self._state = next_state(self._state, event.data["to"])
                return event
        return None

    def _done(self) -> bool:
        """Whether nothing is left to yield and nothing to do."""
        idle = not self._task.running and not self._own and not self._arrived
        return idle and self._over and self._failure is None and self._state is not _S.PAUSED

    async def _advance(self) -> None:
        """Wait while the run is paused, else take the next step; what it raises is kept until it can be yielded."""
        if self._state is _S.PAUSED and not self._task.running:
            await self._wake.wait()
        elif self._failure is not None:
            self._fail(self._failure)
        else:
            await self._step()

    async def _step(self) -> None:
        try:
            if not self._task.running:
                await self._start()
            elif event := await self._task.next():
                self._receive(event)
            else:
                self._settle()
        except InvalidAnswer as error:
            self._pause({"question": self._task.question, "error": str(error)})
        except Exception as error:  # noqa: BLE001 - the one seam: whatever a model or the storage raises ends as ERROR
            self._failure = error

    async def _start(self) -> None:
        if self._task.exists:
            answer, self._answer = self._answer, None
            await self._task.resume(answer)
        else:
            await self._task.start(self._run.input)

    def _receive(self, event: Event) -> None:
        if known := self._run.apply(event):
            self._arrived.append((known, self._stopping))

    def _settle(self) -> None:
        """The task ended or reached a boundary: a person is asked, or it was paused here or elsewhere."""
        self._over = not self._task.unfinished
        if self._over or self._own:
            return
        if self._state in _PAUSABLE:
            self._pause({"question": dict(self._task.question)} if self._task.question else {})
        else:
            self._over = True

    async def _leave(self, *, at_once: bool) -> None:
        """Have the task stop. One of a given app continues to its boundary by itself if there is no time to wait."""
        if at_once and not self._source.private:
            await self._task.detach()
        for event in await self._task.leave(at_once=at_once):
            self._receive(event)

    def _change(self, new: EngineState, kind: EngineEventType, data: dict[str, Any]) -> None:
        """Go to another state by the engine's own doing."""
        moved = next_state(self._state, new)
        self._own.append((_T.STATE_CHANGED, {"from": self._state.value, "to": moved.value}))
        self._own.append((kind, data))
        self._state = moved

    def _fail(self, error: Exception) -> None:
        """End in ERROR; where the table has no way there, whoever runs the engine gets the error itself."""
        if isinstance(error, InvalidMessage) and self._state is _S.IDLE:
            self._own.append((_T.STATE_CHANGED, {"from": _S.IDLE.value, "to": _S.RECEIVING.value}))
            self._state = _S.RECEIVING
        if _S.ERROR not in VALID_STATE_TRANSITIONS[self._state]:
            raise error
        self._failed_in = self._state
        why = str(error) or type(error).__name__
        self._change(_S.ERROR, _T.ENGINE_ERROR, {"error": why, "phase": self._state.value})
        self._failure, self._over = None, True

    def pause(self) -> bool:
        """Pause the run; False unless it is scheduling or executing.

        Between two events nothing more begins. What is under way reaches its boundary first.
        """
        if self._state not in _PAUSABLE:
            return False
        self._stopping = True
        self._pause({})
        self._task.pause()
        return True

    def _pause(self, data: dict[str, Any]) -> None:
        self._paused_from = self._state
        self._change(_S.PAUSED, _T.ENGINE_PAUSED, data)
        self._wake.clear()

    def resume(self, answer: Any = None) -> bool:
        """Continue where the run was paused; False unless it is paused, or where a question has no answer.

        `answer` is a person's to the `question`: {"verdicts": [{"index", "verdict"}]}, "approve" or "reject".
        """
        if self._state is not _S.PAUSED or (self._task.question and answer is None and self._answer is None):
            return False
        self._answer = answer if answer is not None else self._answer
        self._resume()
        return True

    def _resume(self) -> None:
        self._change(self._paused_from, _T.ENGINE_RESUMED, {})
        self._wake.set()

    async def spawn_subtask(
        self,
        description: str,
        *,
        subtask_id: str = "",
        depends_on: Sequence[str] = (),
        priority: int = 0,
        timeout: float | None = None,  # noqa: ASYNC109 - the subtask's
    ) -> str:
        """Add a subtask to the unfinished run, which takes it up after those under way; returns its id.

        Raises:
            EngineBusy: no run is unfinished.
            InvalidPlan: it cannot be carried out, or as many as the agent's `budget.subtasks` were added.
        """
        if self._state not in (*_PAUSABLE, _S.PAUSED):
            raise EngineBusy(self._state, "subtasks are added while a run is scheduling, executing or paused")
        options: dict[str, Any] = {"depends_on": depends_on, "priority": priority, "timeout": timeout}
        if self._task.exists:
            app = self._task.app if self._live else await self._source.open(self._restored)
            try:
                add = app.tasks.spawn_subtask
                name = await add(self._task.task_id, description, subtask_id=subtask_id, **options)
            finally:
                if not self._live:
                    await self._source.close(app)
            most = MOST_TASKS
        else:
            name, most = subtask_id or free_id(self._run.tasks), self._source.most_subtasks
        if name not in {task.step_id for task in self._run.tasks} or not self._task.exists:
            given = {"id": name, "description": description, **options}
            self._run.add(spawn(self._run.tasks, given, most))
        return name

    def create_snapshot(self) -> dict[str, Any]:
        """The run as JSON values, from which an engine in another process continues."""
        paused = {"paused_from": self._paused_from.value} if self._state is _S.PAUSED else {}
        snapshot = {"state": self._state.value, **paused, **self._run.snapshot()}
        if self._task.exists and not self._source.private:
            snapshot |= {"task_id": self._task.task_id, "session_id": self._task.session_id}
        return snapshot

    def restore_from_snapshot(self, snapshot: dict[str, Any]) -> bool:
        """Take over the run of a snapshot; `run(None)` continues it.

        False where it cannot be read or a run is under way: `refused` says why, and nothing was changed.
        """
        self.refused = ""
        try:
            if self._live:
                raise InvalidSnapshot("A run is in progress: wait for it, or close it first.")
            run = read_snapshot(snapshot)
            state = _state_of(snapshot, "state", tuple(_S))
            paused_from = _state_of({"paused_from": _S.EXECUTING, **snapshot}, "paused_from", _PAUSABLE)
        except InvalidSnapshot as error:
            self.refused = str(error)
            return False
        self._clear()
        self._own.clear()
        self._run, self._state, self._paused_from = run, state, paused_from
        if not self._source.private:
            self._task.take_over(str(snapshot.get("task_id") or ""))
        return True

    def _leave_end(self) -> None:
        """Announce the way back to IDLE of an ended run."""
        if self._state in _ENDED:
            self._own.append((_T.STATE_CHANGED, {"from": self._state.value, "to": _S.IDLE.value}))

    def reset(self) -> None:
        """Discard the run and be as new.

        Raises:
            EngineBusy: it is under way; close its generator first.
        """
        if self._live:
            raise EngineBusy(self._state, "a run is under way, close it with aclose() before reset()")
        self._clear()

    def _clear(self) -> None:
        """Go back to IDLE; that an ended run did so is the first event of the next."""
        if self._state is not _S.IDLE:
            self._own.clear()
        self._leave_end()
        self._run, self._state, self._restored = RunState(), _S.IDLE, None
        self._stopping, self._failure, self._answer = False, None, None
        self._arrived.clear()
        self._task.forget()


def _state_of(snapshot: Mapping[str, Any], name: str, allowed: tuple[EngineState, ...]) -> EngineState:
    found = snapshot.get(name)
    if found not in [state.value for state in allowed]:
        raise InvalidSnapshot("The snapshot's {name} cannot be {found}.", name=name, found=repr(found))
    return EngineState(found)
