"""States, transitions, events, context and subtasks of the lifecycle engine."""

import math
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count
from typing import Any, Final, Protocol

from pydantic import model_validator

from .decision import check_storable
from .errors import Clause, IllegalTransition, InvalidPlan, together
from .plan import Status, Step, problems, ready, set_status


class EngineState(StrEnum):
    """The state of an engine."""

    IDLE = "idle"
    """No goal was given yet."""
    RECEIVING = "receiving"
    """The input is received."""
    CONTEXT_FETCHING = "context_fetching"
    """The coordinator is asked for rules, knowledge and tools."""
    DECOMPOSING = "decomposing"
    """The goal is decomposed into tasks."""
    SCHEDULING = "scheduling"
    """The tasks are put in order."""
    EXECUTING = "executing"
    """The tasks are carried out."""
    PAUSED = "paused"
    """The run stopped at a boundary and continues when it is resumed."""
    COMPLETED = "completed"
    """Nothing is left to do."""
    ERROR = "error"
    """It failed; `phase` of the event says where."""


_S = EngineState

VALID_STATE_TRANSITIONS: Mapping[EngineState, frozenset[EngineState]] = {
    _S.IDLE: frozenset({_S.RECEIVING}),
    _S.RECEIVING: frozenset({_S.CONTEXT_FETCHING, _S.ERROR}),
    _S.CONTEXT_FETCHING: frozenset({_S.DECOMPOSING, _S.ERROR}),
    _S.DECOMPOSING: frozenset({_S.SCHEDULING, _S.ERROR}),
    _S.SCHEDULING: frozenset({_S.EXECUTING, _S.PAUSED, _S.ERROR}),
    _S.EXECUTING: frozenset({_S.COMPLETED, _S.PAUSED, _S.ERROR}),
    _S.PAUSED: frozenset({_S.EXECUTING, _S.SCHEDULING}),
    _S.COMPLETED: frozenset({_S.IDLE}),
    _S.ERROR: frozenset({_S.IDLE}),
}


def next_state(old: EngineState | str, new: EngineState | str) -> EngineState:
    """Return the new state."""
    if EngineState(new) not in VALID_STATE_TRANSITIONS[EngineState(old)]:
        raise IllegalTransition(str(EngineState(old)), str(EngineState(new)))
    return EngineState(new)


class EngineBusy(IllegalTransition):
    """The engine cannot begin something else now; the message says what to do first."""

    def __init__(self, state: EngineState, what: str) -> None:
        super().__init__(state, EngineState.RECEIVING)
        self.args = (f"The engine is {state}: {what}.",)


class EngineEventType(StrEnum):
    """The types of an engine's events, each with the fields of its data."""

    STATE_CHANGED = "state_changed"
    """from, to"""
    CONTEXT_RECEIVED = "context_received"
    """rules_count, tools_count, knowledge_count; the texts themselves under rules, tools, knowledge; left_out: how many
    of them find no room in a prompt"""
    TASK_DECOMPOSED = "task_decomposed"
    """task_count, tasks: [{id, description, priority, dependencies, type, timeout}]"""
    TASK_SPAWNED = "task_spawned"
    """task_id, description, priority, dependencies, task_count: a task was added while the run was under way"""
    TASK_SCHEDULED = "task_scheduled"
    """task_id, priority"""
    TASK_STARTED = "task_started"
    """task_id, description"""
    TASK_COMPLETED = "task_completed"
    """task_id, result, progress; added: how many tasks it added"""
    TASK_FAILED = "task_failed"
    """task_id, error, progress; skipped: whether it was not even begun; result: what it had before it failed"""
    ENGINE_PAUSED = "engine_paused"
    """progress; question: what a person is asked, where a task waits for one; error: why an answer did not fit"""
    ENGINE_RESUMED = "engine_resumed"
    """progress"""
    ENGINE_COMPLETED = "engine_completed"
    """total_tasks, completed_tasks, failed_tasks, skipped_tasks, answer, usage"""
    ENGINE_ERROR = "engine_error"
    """error, phase"""


@dataclass(frozen=True)
class EngineEvent:
    """Something that happened in an engine. `timestamp` is Unix time in seconds."""

    event_type: EngineEventType
    data: dict[str, Any] = field(default_factory=dict)
    timestamp: float = field(default_factory=time.time)


@dataclass(frozen=True)
class Context:
    """What a coordinator knows about a request; texts, or mappings with a text in them."""

    rules: Sequence[Any] = ()
    knowledge: Sequence[Any] = ()
    tools: Sequence[Any] = ()


class Coordinator(Protocol):
    """Who gives the engine its context; the method may also be synchronous."""

    async def get_context_async(self, text: str, /) -> Any:
        """Return a `Context`, or anything with its three attributes."""
        ...


MOST_TASKS = 100
_NAMES = {"id": "step_id", "dependencies": "depends_on"}


class SubTask(Step):
    """A step that is carried out on its own: lower priorities first, at most `timeout` seconds."""

    priority: int = 0
    type: str = ""
    timeout: float | None = None

    @model_validator(mode="before")
    @classmethod
    def _accept_aliases(cls, given: Any) -> Any:
        """Take the names of the public form too: `id` and `dependencies`."""
        return {_NAMES.get(name, name): value for name, value in given.items()} if isinstance(given, Mapping) else given

    @property
    def id(self) -> str:
        return self.step_id

    @property
    def dependencies(self) -> tuple[str, ...]:
        return self.depends_on

    @property
    def public(self) -> dict[str, Any]:
        """What the engine's events say of it; a tool only where the one who wrote it named one."""
        named = {"action": self.action, "params": self.params} if self.action else {}
        return {
            "id": self.step_id,
            "description": self.description,
            "priority": self.priority,
            "dependencies": list(self.depends_on),
            "type": self.type,
            "timeout": self.timeout,
            "phase": self.phase,
            **named,
        }


def read_tasks(given: object) -> tuple[SubTask, ...]:
    """The tasks in a reply: {"tasks": [{id, description, priority, dependencies, type, timeout}]}, or the list alone.

    `steps`, `step` and `depends_on` are understood as well. Nothing is left out of what was given.
    """
    if isinstance(given, Mapping):
        given = next((given[name] for name in ("tasks", "steps", "subtasks") if name in given), None)
    if isinstance(given, str) or not isinstance(given, Sequence) or not given:
        raise InvalidPlan('There are no tasks: write "tasks", a list with at least one task.')
    if len(given) > MOST_TASKS:
        raise InvalidPlan(
            "There are {n} tasks, and the limit is {most}: combine some of them.", n=len(given), most=MOST_TASKS
        )
    found: list[Clause] = []
    tasks = [_task(item, place, found) for place, item in enumerate(given, start=1)]
    found += problems(tasks, max_steps=MOST_TASKS)
    if found:
        raise InvalidPlan("The tasks cannot be run: {why}.", why=together(found))
    return tuple(tasks)


# Subtasks that are added while a run is under way.

SPAWNED: Final = "spawned"
"""The type of a subtask that was added to a run."""
SPAWN: Final = "spawn_subtask"
"""The tool that adds one, and the event that a task is sent for it."""

Spawn = Callable[[Mapping[str, Any]], Awaitable[SubTask]]
"""Adds a subtask to the run of the one that is carried out."""
SPAWNING: ContextVar[Spawn | None] = ContextVar("segue_spawning", default=None)
"""Set while a subtask is carried out."""


def count_spawned(tasks: Sequence[SubTask]) -> int:
    """How many of the tasks were added while the run was under way."""
    return sum(task.type == SPAWNED for task in tasks)


def spawn(tasks: Sequence[SubTask], item: Mapping[str, Any], most: int) -> SubTask:
    """A subtask to be added to those of a run, of which `most` may be."""
    if count_spawned(tasks) >= most:
        raise InvalidPlan(
            "No subtask can be added: the limit is {most}. Raise the agent's budget.subtasks, or wait for the answer.",
            most=most,
        )
    found: list[Clause] = []
    added = _task({**item, "type": SPAWNED}, len(tasks) + 1, found)
    found += [] if found else problems([*tasks, added], max_steps=MOST_TASKS)
    if found:
        raise InvalidPlan("The subtask cannot be added: {why}.", why=together(found))
    return added


def spawn_all(
    tasks: Sequence[SubTask], items: Iterable[Mapping[str, Any]], most: int
) -> tuple[list[SubTask], list[InvalidPlan]]:
    """The subtasks that items add to those of a run, each as by `spawn`, and why others are refused.

    An item whose id the run has already adds nothing.
    """
    known, added, refused = {task.step_id for task in tasks}, list[SubTask](), list[InvalidPlan]()
    for item in items:
        if str(item.get("id", "")) in known:
            continue
        try:
            fresh = spawn([*tasks, *added], item, most)
        except InvalidPlan as error:
            refused.append(error)
            continue
        added.append(fresh)
        known.add(fresh.step_id)
    return added, refused


def free_id(tasks: Sequence[SubTask]) -> str:
    """An id that none of the tasks has."""
    taken = {task.step_id for task in tasks}
    return next(name for name in (f"added-{n}" for n in count(1)) if name not in taken)


def _task(item: object, place: int, found: list[Clause]) -> SubTask:
    """One task; what is wrong with it is added to `found`."""
    if isinstance(item, str):
        item = {"description": item}
    if not isinstance(item, Mapping):
        found.append(Clause("task {place} is not an object", place=place))
        return SubTask(step_id=str(place))
    named = (item.get(name) for name in ("id", "step_id", "step"))
    task_id = next((name for name in named if name is not None), place)
    if not isinstance(task_id, str | int) or isinstance(task_id, bool) or not str(task_id).strip():
        found.append(Clause("task {place} has the id {id}, which is not a string", place=place, id=repr(task_id)))
        task_id = place
    values = {name: _value(name, item, task_id, found) for name in _FIELDS}
    kept = {name: item[name] for name in ("action", "params", "phase") if name in item and _fits[name](item[name])}
    task = SubTask(step_id=str(task_id).strip(), **kept, **values)
    try:
        check_storable(task.model_dump(mode="json"))
    except (ValueError, TypeError) as error:
        found.append(Clause("task {place} cannot be stored: {error}", place=place, error=error))
        return SubTask(step_id=str(place))
    return task


def _value(name: str, item: Mapping[str, Any], task_id: object, found: list[Clause]) -> Any:
    default, fits, what = _FIELDS[name]
    given = item.get(name)
    if given is None and name == "depends_on":
        given = item.get("dependencies")
    if given is None and default is not ...:
        return default
    if not fits(given):
        about = {"task": task_id, "field": _NAMED.get(name, name), "given": repr(given), "what": what}
        found.append(Clause("task {task}: {field} is {given} and must be {what}", **about))
        return _EMPTY.get(name, default)
    return given.strip() if isinstance(given, str) else given


def _is_whole(value: Any) -> bool:
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return whole and not isinstance(value, bool) and abs(value) < 2**53


def _is_seconds(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0


def _is_ids(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(i, str | int) for i in value)


_FIELDS: Mapping[str, tuple[Any, Callable[[Any], bool], Clause]] = {
    "description": (..., lambda value: isinstance(value, str) and bool(value.strip()), Clause("a string")),
    "priority": (0, _is_whole, Clause("a whole number")),
    "depends_on": ((), _is_ids, Clause("a list of task ids")),
    "type": ("", lambda value: isinstance(value, str), Clause("a string")),
    "timeout": (None, _is_seconds, Clause("a number of seconds above 0")),
}
"""The default (`...` where there is none), what fits, and how that is called."""
_NAMED = {"depends_on": "dependencies"}
_EMPTY = {"description": ""}
_fits: Mapping[str, Callable[[Any], bool]] = {
    "action": lambda value: isinstance(value, str),
    "params": lambda value: isinstance(value, dict),
    "phase": lambda value: value in ("planning", "execution", "generation"),
}


def next_tasks(tasks: Sequence[SubTask]) -> list[SubTask]:
    """The tasks that can begin, the lowest priority first and in the given order where those are alike."""
    runnable = {step.step_id for step in ready(tasks)}
    return sorted((task for task in tasks if task.step_id in runnable), key=lambda task: task.priority)


def in_order(tasks: Sequence[SubTask]) -> list[SubTask]:
    """The unfinished tasks in the order in which they will be carried out one by one."""
    left, order = tuple(tasks), list[SubTask]()
    while runnable := next_tasks(left):
        order.append(runnable[0])
        left = set_status(left, runnable[0].step_id, Status.DONE)
    return order


def unreachable_tasks(tasks: Sequence[SubTask]) -> dict[str, list[str]]:
    """The pending tasks that can never begin, with those that they need and that were not completed.

    They are ordered so that each follows what it depends on.
    """
    lost = {task.step_id for task in tasks if task.status in (Status.ERROR, Status.SKIPPED)}
    found: dict[str, list[str]] = {}
    while fresh := {
        task.step_id: [need for need in task.depends_on if need in lost]
        for task in tasks
        if task.status is Status.PENDING and task.step_id not in lost and lost.intersection(task.depends_on)
    }:
        found |= fresh
        lost |= fresh.keys()
    return found
