"""States, transitions, events and context of the lifecycle engine."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from .errors import IllegalTransition


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
    """The run stopped at a boundary and goes on when it is resumed."""
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
    """Return the new state.

    Raises:
        IllegalTransition: the table does not allow it.
    """
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
    TASK_SCHEDULED = "task_scheduled"
    """task_id, priority"""
    TASK_STARTED = "task_started"
    """task_id, description"""
    TASK_COMPLETED = "task_completed"
    """task_id, result, progress"""
    TASK_FAILED = "task_failed"
    """task_id, error, progress; skipped: whether it was not even begun; result: what it came to before it failed"""
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
    """Who gives the engine its context."""

    async def get_context_async(self, text: str, /) -> Any:
        """Return a `Context`, or anything with its three attributes."""
        ...
