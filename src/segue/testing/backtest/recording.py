"""Recorded turns, read from a database, also unfinished ones."""

from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.messages import AnyMessage
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import StateSnapshot

from ...checkpoints.storage import Storage
from ...core.agents import load_agents
from ...core.approval import Grant
from ...core.calls import Approved, CallResult, PendingCall, Rejected, Tool
from ...core.conversation import MODE
from ...core.digests import agent_changes, tool_digest
from ...core.errors import ConfigurationError, SegueError, TaskError, UnknownThread, listed
from ...core.events import TaskStarted
from ...core.json import Public
from ...core.plan import NO_TOOL
from ...core.records import Call, Json, OnUpgrade, Task, TaskTrace
from ...core.task import TaskStatus
from ...core.timeline import Retention
from ...nodes.chat import AUTO, ModeGraph
from ...nodes.context import is_steering
from ...prompts.catalogue import Language, Texts, error_text
from ...registry import Registry
from ...runtime.modes import chat_graph
from ...runtime.run import is_of_task, question_of, state_at, thread_config
from ...tools.adapters.client import client_tools, misfit
from ...tools.bound_tool import BoundTool
from ...tools.calls import argument_error
from ..cassette.cassette import Turn
from ..cassette.recorder import turn_of


def age(text: str) -> float:
    """The seconds of an age such as 7d, 12h, 30m or 2w."""
    with suppress(ConfigurationError):
        if seconds := Retention.of(text).seconds:
            return seconds
    raise ConfigurationError("{text} is not an age: use one such as 7d, 12h, 30m or 2w.", text=repr(text))


@dataclass(frozen=True, kw_only=True)
class RecordedTurn:
    """A task that ended, as a turn, and the messages before it.

    `effects` are the tools that were not marked read-only then, None where an earlier version of Segue recorded it.
    `agent_mode` is the mode that its agent had, None where it is not known. `finished` are all calls of its session.
    """

    task: Task
    turn: Turn
    history: Sequence[AnyMessage] = field(repr=False)
    grants: Sequence[Grant] = ()
    effects: Sequence[str] | None = None
    agent_mode: str | None = None
    finished: Sequence[Call] = field(default=(), repr=False)

    def allows_read(self, name: str) -> bool:
        """Whether the recording does not say that a tool had effects; it says nothing of a tool that is new."""
        return self.effects is not None and name not in self.effects

    def private(self, tools: Mapping[str, Tool]) -> list[Any]:
        """The hidden and secret results of the session, by their marks then and now: no other model sees them."""
        found = []
        for call in self.finished:
            result, tool = CallResult.of(call.outcome or {}), tools.get(call.name)
            if result.hidden or result.secret or (tool is not None and (tool.hidden or tool.secret)):
                found.append(result.content)
        return found

    @property
    def usage(self) -> Json:
        """{"input", "output", "calls", "cost"} of the task; empty where it has no result."""
        return dict((self.task.result or {}).get("usage") or {})

    @property
    def seconds(self) -> float:
        """Seconds of work, until its last call of a model or tool ended."""
        ends = [call.at for call in self.turn.model_calls] + [call.at for call in self.turn.tool_calls]
        return max(ends, default=0.0)


@dataclass
class Recording:
    """The sessions of a database; it only reads."""

    storage: Storage
    graph: CompiledStateGraph[Any, Any, Any, Any]
    skipped: dict[str, str] = field(default_factory=dict)
    """The tasks that are left out, each with the reason: unfinished, cancelled, copy, no_history, damaged, no_steps."""

    async def select(self, sessions: Sequence[str] = (), after: float = 0.0, prefix: str = "") -> list[str]:
        """The sessions whose names begin so, or those of these, with a task that began after a moment, by name."""
        for name in sessions:
            if not (name.startswith(prefix) and await self.storage.tasks.task_ids(name)):
                raise UnknownThread(name)
        found = await self.storage.tasks.threads(after, prefix, MODE)
        named = {*sessions}
        return [name for name in found if name in named] if named else [*found]

    async def turns(self, session_id: str, after: float = 0.0) -> list[RecordedTurn]:
        """The session's turns that ended, oldest first; `skipped` says why others are left out.

        A conversation is none: what its bot was told is, in the bot's session.
        """
        tasks = await self.storage.tasks.since(session_id, None, 0.0)
        try:
            state = await state_at(self.graph, thread_config(session_id))
        except SegueError:
            self.skipped |= {task.task_id: "damaged" for task in tasks}
            return []
        begun = _begun(state.values.get("messages", []), tasks)
        turns = []
        finished = await self.storage.ledger(session_id).finished()
        for task in tasks:
            if task.created_at < after or task.mode == MODE:
                continue
            history = begun.get(task.task_id)
            if reason := _reason(task, history):
                self.skipped[task.task_id] = reason
            elif history is not None:
                turns.append(await self._turn(task, history, finished))
        return turns

    async def _turn(self, task: Task, history: Sequence[AnyMessage], finished: Sequence[Call]) -> RecordedTurn:
        calls = await self.storage.ledger(task.session_id).calls(task.task_id)
        trace = TaskTrace(task, await self.storage.events.read(task.task_id), calls)
        grants = await self.storage.permissions.in_task(task.session_id, task.agent_id, task.task_id)
        is_bot = task.origin == "conversation"  # its conversation's API knows the marks
        started = next((event for event in trace.events if isinstance(event, TaskStarted) and not is_bot), None)
        return RecordedTurn(
            task=task,
            turn=_without_prose(turn_of(trace)),
            history=history,
            grants=grants,
            effects=started.effects if started else None,
            agent_mode=started.agent_mode if started else None,
            finished=finished,
        )


def _without_prose(turn: Turn) -> Turn:
    """The turn without the call that wrote of what left its prompt, which was made before any other."""
    calls = tuple(call for call in turn.model_calls if call.purpose != "digest")
    less = len(turn.model_calls) - len(calls)
    if not less:
        return turn
    notes = tuple(n.model_copy(update={"model_calls": max(0, n.model_calls - less)}) for n in turn.taken_notes)
    return turn.model_copy(update={"model_calls": calls, "taken_notes": notes})


def _reason(task: Task, history: Sequence[AnyMessage] | None) -> str:
    """Why a task is left out; empty where it is not."""
    if task.copy_of:
        return "copy"
    match task.status:
        case TaskStatus.CANCELLED:
            return "cancelled"
        case TaskStatus.PENDING | TaskStatus.RUNNING | TaskStatus.WAITING | TaskStatus.PAUSING | TaskStatus.PAUSED:
            return "unfinished"
        case TaskStatus.DONE | TaskStatus.ERROR:
            return "no_history" if history is None else ""


def _begun(messages: Sequence[AnyMessage], tasks: Sequence[Task]) -> dict[str, Sequence[AnyMessage]]:
    """The messages before that of each task, by its id; of a task whose message is not there none."""
    begun: dict[str, Sequence[AnyMessage]] = {}
    places = list(_beginnings(messages))
    for task in tasks:
        place = next((place for place in places if messages[place].text == task.message), None)
        if place is not None:
            begun[task.task_id] = messages[:place]
            places = [later for later in places if later > place]
        elif not messages and len(tasks) == 1:
            begun[task.task_id] = ()
    return begun


def _beginnings(messages: Sequence[AnyMessage]) -> Iterator[int]:
    for place, message in enumerate(messages):
        if message.type == "human" and not is_steering(message):
            yield place


# Unfinished tasks restored under other agents, without running them: what an upgrade would change.

reason_text = Texts("unfinished")


class Restored(StrEnum):
    """What a task would meet under other agents; the gravest is its verdict."""

    SAME = "same"
    """It continues as it would have."""
    DIVERGES = "diverges"
    """Its agent is another one, so it may go on differently."""
    SCHEMA_CHANGED = "schema_changed"
    """A call that it decided does not fit the tool any more."""
    APPROVAL_INVALID = "approval_invalid"
    """What a person was asked, or approved, is about another version of the tool: it is asked again."""
    TOOL_LOST = "tool_lost"
    """A call that it decided, or planned, has no tool any more."""


@dataclass(frozen=True, kw_only=True)
class UnfinishedTask(Public):
    """An unfinished task under other agents.

    `version` is the one that it has, `new_version` the one that would continue it. `on_upgrade` says what becomes of
    it; None where its own version is registered.
    """

    task_id: str
    session_id: str
    agent_id: str
    status: str
    version: str | None
    new_version: str | None
    on_upgrade: OnUpgrade | None
    verdict: Restored
    reasons: Sequence[str] = ()


async def check_unfinished(
    storage: Storage,
    modes: Mapping[str, ModeGraph],
    registry: Registry,
    task_ids: Sequence[str] | None = None,
    language: Language = "en",
) -> list[UnfinishedTask]:
    """Restore these tasks, else every unfinished one, oldest first, under the agents of a registry.

    Nothing runs and nothing is stored. What its agent was is looked up in the agents file that a task was started with.
    """
    if task_ids is None:
        rows = [row for row, _ in await storage.tasks.unended()]
    else:
        rows = [await storage.tasks.get(task_id) for task_id in task_ids]
    check = _Check(storage, modes, registry, language)
    return [await check.task(row) for row in rows]


class _Reason(NamedTuple):
    """Why a task is not the same: a text of the catalogue and its values."""

    verdict: Restored
    name: str
    values: Mapping[str, object]

    def text(self, language: Language) -> str:
        return reason_text(self.name, language, **self.values)


class _Check:
    def __init__(
        self, storage: Storage, modes: Mapping[str, ModeGraph], registry: Registry, language: Language
    ) -> None:
        self._storage = storage
        self._graph = chat_graph(modes).copy({"checkpointer": storage.saver()})
        self._modes = (*modes, AUTO)
        self._registry = registry
        self._language = language
        self._files: dict[str, Registry | None] = {}

    async def task(self, row: Task) -> UnfinishedTask:
        if row.is_over:
            raise TaskError(
                "Task {task_id} is {status}: only unfinished tasks can be checked.",
                task_id=row.task_id,
                status=row.status,
            )
        reasons = [reason async for reason in self._reasons(row)]
        is_here = row.agent_id in self._registry
        on_upgrade = self._registry.on_upgrade(row) if is_here else None
        keeps = row.agent_version if on_upgrade is None else None
        return UnfinishedTask(
            task_id=row.task_id,
            session_id=row.session_id,
            agent_id=row.agent_id,
            status=str(row.status),
            version=row.agent_version,
            new_version=(keeps or self._registry.current_version(row.agent_id)) if is_here else None,
            on_upgrade=on_upgrade,
            verdict=max((reason.verdict for reason in reasons), key=[*Restored].index, default=Restored.SAME),
            reasons=[*dict.fromkeys(reason.text(self._language) for reason in reasons)],
        )

    async def _reasons(self, row: Task) -> AsyncIterator[_Reason]:
        if row.agent_id not in self._registry:
            yield _Reason(Restored.DIVERGES, "no_agent", {"agent": row.agent_id})
            return
        registry = self._registry.of(row)
        agent = registry.agent(row.agent_id)
        await registry.prepare(agent)
        if self._registry.on_upgrade(row) is not None:
            for reason in self._changes(row):
                yield reason
        if row.mode not in self._modes:
            yield _Reason(Restored.DIVERGES, "no_mode", {"mode": row.mode})
            return
        of_client = client_tools(row.client_tools, self._language)
        tools = {**registry.tools_in(agent, row.mode), **of_client}
        for reason in await self._of_state(row, tools):
            yield reason
        for grant in await self._storage.permissions.in_task(row.session_id, row.agent_id, row.task_id):
            tool = tools.get(grant.rule.tool)
            if grant.version != (tool_digest(tool) if tool else ""):  # it is about another version of its tool
                yield _Reason(Restored.APPROVAL_INVALID, "permission_invalid", {"tool": grant.rule.tool})

    def _changes(self, row: Task) -> Iterator[_Reason]:
        """What differs between the agent that the task has and the one that would continue it."""
        file = self._of_file(row.agents_file or "")
        old = file.versions(row.agent_id).get(row.agent_version or "") if file else None
        versions = {"old": row.agent_version, "new": self._registry.current_version(row.agent_id)}
        if old is None:
            yield _Reason(Restored.DIVERGES, "unknown_version", versions)
            return
        agents = old.agent(row.agent_id), self._registry.agent(row.agent_id)
        tools = old.tools_for(agents[0]), self._registry.tools_for(agents[1])
        if changes := agent_changes(*agents, tools[0].values(), tools[1].values()):
            yield _Reason(Restored.DIVERGES, "changes", {**versions, "changes": listed(changes)})

    def _of_file(self, file: str) -> Registry | None:
        """The agents of the file that a task was started with, if they can be read."""
        if file not in self._files:
            self._files[file] = None
            with suppress(SegueError):
                self._files[file] = Registry(load_agents(file)) if Path(file).is_file() else None
        return self._files[file]

    async def _of_state(self, row: Task, tools: Mapping[str, Tool]) -> list[_Reason]:
        """What is wrong with the calls that the task decided, asks about or planned."""
        try:
            state = await state_at(self._graph, thread_config(row.session_id), subgraphs=True)
        except SegueError as error:
            return [_Reason(Restored.DIVERGES, "unreadable", {"why": error_text(error, self._language)})]
        if not is_of_task(state, row.task_id):
            return []
        calls = await self._storage.ledger(row.session_id).calls(row.task_id)
        settled = {(call.scope, call.idx) for call in calls if call.state == "done"}
        return [*_check_asked(state, tools), *_check_decided(state, tools, settled), *_check_planned(state, tools)]


def _values(state: StateSnapshot) -> Iterator[Mapping[str, Any]]:
    """The values of a snapshot, and of the graphs that run inside its nodes."""
    yield state.values or {}
    for task in state.tasks:
        if isinstance(task.state, StateSnapshot):
            yield from _values(task.state)


def _check_asked(state: StateSnapshot, tools: Mapping[str, Tool]) -> Iterator[_Reason]:
    """What is wrong with the calls that a person is asked about."""
    asked = question_of(state.interrupts)
    for call in asked.value.get("calls", ()) if asked else ():
        yield from _check_call(call["name"], call["arguments"], tools, call["version"])


def _check_decided(
    state: StateSnapshot, tools: Mapping[str, Tool], settled: Collection[tuple[str, int]]
) -> Iterator[_Reason]:
    """What is wrong with the calls that were decided and did not run yet."""
    for values in _values(state):
        forms = [*(values.get("calls") or ()), *(values.get("wave") or ()), *filter(None, [values.get("call")])]
        for call in [PendingCall.of(form) for form in forms if isinstance(form, dict)]:
            if (call.scope, call.index) in settled or isinstance(call.decision, Rejected):
                continue
            version = call.decision.version if isinstance(call.decision, Approved) else None
            yield from _check_call(call.name, call.arguments, tools, version)


def _check_call(
    name: str, arguments: Mapping[str, Any], tools: Mapping[str, Tool], approved: str | None
) -> Iterator[_Reason]:
    """What is wrong with a call of a tool that was `approved` in this version; None where it was not."""
    named = {"tool": name}
    if (tool := tools.get(name)) is None:
        yield _Reason(Restored.TOOL_LOST, "tool_lost", named)
        return
    if approved not in (None, tool_digest(tool)):
        yield _Reason(Restored.APPROVAL_INVALID, "approval_invalid", named)
    if why := argument_error(tool, arguments) if isinstance(tool, BoundTool) else misfit(tool.spec, arguments):
        yield _Reason(Restored.SCHEMA_CHANGED, "schema_changed", {**named, "why": why})


def _check_planned(state: StateSnapshot, tools: Mapping[str, Tool]) -> Iterator[_Reason]:
    """The steps that are still to be done and whose tools are gone."""
    for values in _values(state):
        for step in values.get("plan") or ():
            action = str(step.get("action") or "").strip()
            if step.get("status") == "pending" and action.lower() not in NO_TOOL and action not in tools:
                yield _Reason(Restored.TOOL_LOST, "step_lost", {"tool": action})
