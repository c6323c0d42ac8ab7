"""The fields of every event, and the events that are only streamed."""

import dataclasses
import time
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Literal


@dataclass(frozen=True, kw_only=True)
class BaseEvent:
    """The ids that every event carries. `timestamp` is Unix time in seconds.

    `parent_id` is the round of a flow whose branch the event happened in, if there is one.
    """

    task_id: str
    trace_id: str = ""
    step_id: str = ""
    iteration: int = 0
    parent_id: str = ""
    seq: int = 0
    timestamp: float = field(default_factory=time.time)
    durable: ClassVar[bool] = True

    @property
    def data(self) -> dict[str, Any]:
        """What is particular to this type of event: every field that is no id."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name not in _IDS}


_IDS = frozenset({"type", "task_id", "trace_id", "step_id", "iteration", "parent_id", "seq", "timestamp"})


# Deltas: streamed while they are written, never stored one by one.


@dataclass(frozen=True, kw_only=True)
class Thinking(BaseEvent):
    """A piece of a thought. `attempt` counts the attempts of the model call."""

    type: Literal["thinking"] = "thinking"
    content: str
    attempt: int = 1
    durable: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class Phase(BaseEvent):
    """A complete banner: a phase begins. It has the type of a thought, with `phase`.

    `call`: it is about a tool call, which a `tool_call` or `tool_result` describes in full.
    """

    type: Literal["thinking"] = "thinking"
    content: str
    attempt: int = 1
    phase: Literal[True] = True
    call: bool = False
    durable: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class Token(BaseEvent):
    """A piece of the answer."""

    type: Literal["token"] = "token"
    content: str
    attempt: int = 1
    durable: ClassVar[bool] = False


class RestartReason(StrEnum):
    """Why a model call starts again, where that is not what its endpoint said."""

    AFTER_WAIT = "after the wait"
    """The endpoint asked for patience; `Waiting` said why."""
    UNREADABLE = "the reply cannot be read"
    REASONING = "what was written so far was reasoning"
    TAKEN_OVER = "another process took over the task"


@dataclass(frozen=True, kw_only=True)
class AttemptRestarted(BaseEvent):
    """The model call starts again: discard what was streamed of it. `reason` may be a `RestartReason`."""

    type: Literal["attempt_restarted"] = "attempt_restarted"
    attempt: int
    reason: str
    durable: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class Waiting(BaseEvent):
    """Nothing happens for a while: the endpoint asked to wait, or a person is asked."""

    type: Literal["waiting"] = "waiting"
    reason: str
    seconds: float | None = None
    durable: ClassVar[bool] = False
