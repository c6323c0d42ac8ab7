"""Recorded turns, read from a database: each message with what it led to, and the history that it was sent into."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AnyMessage
from langgraph.graph.state import CompiledStateGraph

from ..checkpoints.storage import Storage
from ..core.approval import Grant
from ..core.calls import CallResult
from ..core.conversation import MODE
from ..core.errors import ConfigurationError, SegueError, UnknownThread
from ..core.events import TaskStarted
from ..core.records import Call, Json, Task, TaskTrace
from ..core.task_status import TaskStatus
from ..core.timeline import Retention
from ..core.tools import Tool
from ..nodes.shared.task import is_steering
from ..rehearsal.cassette.cassette import Turn
from ..rehearsal.cassette.recorder import turn_of
from ..runtime.run import state_at, thread_config


def age(text: str) -> float:
    """The seconds of an age such as 7d, 12h, 30m or 2w.

    Raises:
        ConfigurationError: it is none.
    """
    with suppress(ConfigurationError):
        if seconds := Retention.of(text).seconds:
            return seconds
    raise ConfigurationError("{text} is not an age: use one such as 7d, 12h, 30m or 2w.", text=repr(text))


@dataclass(frozen=True, kw_only=True)
class RecordedTurn:
    """A task that ended, as a turn, and the messages before it.

    `effects` are the tools that were not marked read-only then, None where an earlier version of Segue recorded it.
    `finished` are all calls of its session.
    """

    task: Task
    turn: Turn
    history: Sequence[AnyMessage] = field(repr=False)
    grants: Sequence[Grant] = ()
    effects: Sequence[str] | None = None
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
        """The sessions whose names begin so, or those of these, with a task that began after a moment, by name.

        Raises:
            UnknownThread: one of these is not there.
        """
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
        calls = await self.storage.ledger(task.thread_id).calls(task.task_id)
        trace = TaskTrace(task, await self.storage.events.read(task.task_id), calls)
        grants = await self.storage.permissions.in_task(task.thread_id, task.agent_id, task.task_id)
        is_bot = task.origin == "conversation"  # its conversation's API knows the marks
        started = next((event for event in trace.events if isinstance(event, TaskStarted) and not is_bot), None)
        return RecordedTurn(
            task=task,
            turn=turn_of(trace),
            history=history,
            grants=grants,
            effects=started.effects if started else None,
            finished=finished,
        )


def _reason(task: Task, history: Sequence[AnyMessage] | None) -> str:
    """Why a task is left out; empty where it is not."""
    if task.copy_of:
        return "copy"
    if task.status == TaskStatus.CANCELLED:
        return "cancelled"
    if task.status not in (TaskStatus.DONE, TaskStatus.ERROR):
        return "unfinished"
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
