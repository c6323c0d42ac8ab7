"""Records of a session's timeline: its snapshots, what led to each, and the external effects of tool calls."""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from .records import Call, Json

SHORT = 6
"""Characters of a snapshot's short id: the last of its id, which are random."""

UNDO_SCOPE = "undo:"
"""How the scope of an undo begins in the ledger; the scope of its call and the number of the attempt follow."""
UndoState = Literal["", "available", "done", "failed", "unknown"]
"""Whether a call can be undone, or was; empty where its tool declares no `undo`."""


@dataclass(frozen=True, kw_only=True)
class Effect:
    """A tool call that is not read-only. `outcome` is success, error, unknown or running."""

    task_id: str
    scope: str
    idx: int
    name: str
    arguments: Json
    outcome: str
    started_at: float
    undo: UndoState = ""

    def json(self) -> Json:
        """The public form."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class TimelineEntry:
    """A snapshot with its place, and what happened since the entry before it.

    `turn` counts the session's messages from 1; `recursion` is 0 and `steps` are empty where it lies in none.
    `happened` are {"type": message | plan | call | answer | …, …}, in a conversation user | bot | api.
    `effects` are those of the calls that led to it, `effects_since` counts those of all later ones. `next` are the
    nodes that would run.
    """

    checkpoint_id: str
    created_at: float
    task_id: str | None
    turn: int
    inside: str = ""
    recursion: int = 0
    steps: list[str] = field(default_factory=list)
    next: list[str] = field(default_factory=list)
    happened: list[Json] = field(default_factory=list)
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

    thread_id: str
    inside: str
    checkpoint_id: str


@dataclass(frozen=True)
class CallOrigin:
    """The call that was really made, of which others may be copies in forked sessions, and the undos of it."""

    call: Call
    undos: tuple[Call, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SnapshotDifference:
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

    def json(self) -> Json:
        """The public form."""
        return asdict(self)
