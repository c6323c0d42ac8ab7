"""A session's timeline: snapshots and their retention, what led to each, and external effects of tool calls."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field

from .errors import ConfigurationError
from .json import Public
from .records import Call, Json, Name, Record

SHORT = 6
"""Characters of a snapshot's short id: the last of its id, which are random."""

UNDO_SCOPE = "undo:"
"""How the scope of an undo begins in the ledger; the scope of its call and the number of the attempt follow."""
CallKind = Literal["read_only", "effect", "undone", "unknown", "not_run"]
"""What a call did outside: nothing, something, something that was undone, or it is not known; or it was refused."""
UndoState = Literal["", "available", "done", "failed", "unknown"]
"""Whether a call can be undone, or was; empty where its tool declares no `undo`."""


@dataclass(frozen=True, kw_only=True)
class Snapshot(Public):
    """A checkpoint of a thread; of a damaged one little else than `damaged` is known.

    `source` is input, loop or update, `nodes` ran last, `next` would run. `inside` names the node whose own graph it is
    a checkpoint of. `since` is when the listed one before it was made, where that was pruned; 0 of one that is kept
    only because others lie in it.
    """

    checkpoint_id: str
    created_at: float
    source: str | None = None
    step: int | None = None
    inside: str = ""
    task_id: str | None = None
    nodes: list[str] = field(default_factory=list)
    next: list[str] = field(default_factory=list)
    forked_from: Json | None = None
    damaged: str | None = None
    since: float | None = None

    def json(self) -> Json:
        """The public form; `forked_from`, `damaged` and `since` only where there is something to say."""
        return {name: value for name, value in asdict(self).items() if value is not None or name not in _SELDOM}


_SELDOM = ("forked_from", "damaged", "since")


@dataclass(frozen=True, kw_only=True)
class Effect(Public):
    """A tool call that is not read-only. `outcome` is success, error, unknown or running.

    `undo` says whether it can be undone, or was; it is empty where its tool declares none.
    """

    task_id: str
    scope: str
    idx: int
    name: str
    arguments: Json
    outcome: str
    started_at: float
    undo: UndoState = ""


@dataclass(frozen=True, kw_only=True)
class Undone(Effect):
    """An effect after an attempt to undo it; `result` is the outcome of its undo, also a call of the task's trace."""

    result: Json

    @classmethod
    def of(cls, effect: Effect, result: Json) -> Self:
        """The effect with the outcome of its undo."""
        return cls(**vars(effect), result=result)


@dataclass(frozen=True, kw_only=True)
class TimelineEntry(Public):
    """A snapshot with its place, and what happened since the entry before it.

    `turn` counts the session's messages from 1; `recursion` is 0 and `steps` are empty where it lies in none.
    `happened` are {"type": message | plan | call | question | approval | answer | …, "at", "task_id", …}, in a
    conversation user | bot | api; a call has its `kind`. `happened_since` is what the newest snapshot has not seen, and
    empty for the others. `effects` are those of the calls that led to it, `effects_since` counts those of all later
    ones. `next` are the nodes that would run.
    """

    json_names: ClassVar[Mapping[str, str]] = {"id": "short_id"}

    checkpoint_id: str
    created_at: float
    task_id: str | None
    turn: int
    inside: str = ""
    recursion: int = 0
    steps: list[str] = field(default_factory=list)
    next: list[str] = field(default_factory=list)
    happened: list[Json] = field(default_factory=list)
    happened_since: list[Json] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    effects_since: int = 0
    forked_from: Json | None = None
    damaged: str | None = None

    @property
    def short_id(self) -> str:
        """What people write for it."""
        return self.checkpoint_id[-SHORT:]

    def json(self) -> Json:
        """The public form."""
        return {"id": self.short_id, **asdict(self)}


@dataclass(frozen=True)
class Place:
    """Where a snapshot is stored; `inside` is LangGraph's namespace of its graph, empty for the outermost."""

    session_id: str
    inside: str
    checkpoint_id: str


@dataclass(frozen=True)
class Branch(Record):
    """A thread that repeats its `parent` up to a turn, from 1, and differs from there on.

    All branches of a conversation have its first thread as their `root`, which has no parent.
    """

    session_id: Name
    root: Name
    parent: str
    turn: Annotated[int, Field(ge=1)]


@dataclass(frozen=True)
class CallOrigin:
    """The call that was really made, of which others may be copies in forked sessions, and the undos of it."""

    call: Call
    undos: tuple[Call, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SnapshotState(Public):
    """What a snapshot holds."""

    place: Annotated[Json, Field(description="{session_id, checkpoint_id, task_id, turn, recursion, steps}")]
    next: Annotated[list[str], Field(description="the nodes that would run")]
    messages: Annotated[list[Json], Field(description="the history in OpenAI's format")]
    plan: list[Json]
    results: Annotated[list[Json], Field(description="of the calls that had ended: {name, arguments, result}")]
    state: Annotated[Json, Field(description="the other fields of the state")]
    editable: Annotated[list[str], Field(description="the fields that `edit` may change; none where nothing would run")]
    prompt: Annotated[str, Field(description="what the model is sent next; empty where nothing would run")]
    sources: Annotated[Json, Field(description="of the digest's entries: the task of each receipt")]


@dataclass(frozen=True, kw_only=True)
class SnapshotDifference(Public):
    """What differs between two snapshots; `state` and `plan` have the values on both sides.

    `state`: {"name", "a", "b"}; `plan`: {"step_id", "description", "a", "b"} with the statuses; `messages` and
    `results`: those that only one side has; `prompt`: the unified difference of what the model is sent next.
    """

    a: Json
    b: Json
    state: list[Json]
    plan: list[Json]
    messages: dict[str, list[Any]]
    results: dict[str, list[Json]]
    prompt: list[str]


_UNITS = {"m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_AGE = re.compile(r"(\d{1,6})([mhdw])")
_COUNT = re.compile(r"\d{1,6}")


@dataclass(frozen=True)
class Retention:
    """Keeps the snapshots of the last `seconds`, and the `last` newest ones of each session; None keeps none by itself.

    What is older is merged into the oldest one that is kept.
    """

    seconds: float | None = None
    last: int | None = None

    @classmethod
    def of(cls, given: "Retention | str | int") -> Self:
        """Read "30d" (m, h, d or w), a number of snapshots, or both, "30d,100"."""
        if isinstance(given, Retention):
            return cls(given.seconds, given.last)
        seconds, last = None, None
        for part in str(given).replace(" ", "").split(","):
            if age := _AGE.fullmatch(part):
                seconds = int(age[1]) * _UNITS[age[2]]
            elif _COUNT.fullmatch(part) and int(part) > 0:
                last = int(part)
            else:
                raise ConfigurationError(
                    "The retention {given} is not valid: write an age such as 30d (m, h, d or w), or a number of "
                    "snapshots above 0.",
                    given=repr(given),
                )
        return cls(seconds, last)


@dataclass(frozen=True)
class Pruned(Public):
    """What a pruning did: how many snapshots it removed, from how many sessions, and the sessions that were busy."""

    snapshots: int = 0
    sessions: int = 0
    busy: tuple[str, ...] = ()
