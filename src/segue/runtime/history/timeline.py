"""The timeline of a session: one entry for each turn, recursion and step, from its snapshots, events and calls."""

from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...checkpoints.sessions.threads import Threads
from ...core.calls import CallResult
from ...core.conversation import MODE, Utterance, spoken
from ...core.events import (
    Action,
    Answer,
    ApprovalRequested,
    BranchEnd,
    Cancelled,
    ErrorRaised,
    Event,
    Fallback,
    PlanUpdate,
    QuestionAsked,
    Steered,
    TaskStarted,
    ToolResult,
    Uttered,
)
from ...core.records import Call, Json, Task
from ...core.timeline import CallKind, Effect, Snapshot, TimelineEntry
from ...graphs.chat import MODES, UNLISTED
from ..projection import project

HEADS = frozenset({"INPUT", "SCHEDULE", "EXECUTING", "MEMORY_READING", "USER"})
"""The nodes with which a recursion, a step or a round of the built-in graphs begins."""
_BUILT_IN = frozenset({*MODES, *UNLISTED})
_TEXT = 200
"""Characters of a text in an entry."""
_EACH = 4
"""Snapshots that are read for one that is listed; of the built-in modes about every third is."""
_LEAST, _MOST = 200, 8000
"""Snapshots of the first page, and of the largest one."""
_NAMES = {"task_started": "message", "question_asked": "question"}
"""What an entry calls events of these types."""
_SHOWN_ACTIONS = ("PLAN", "REMEND", "REFLECT")

Effects = Callable[[Call], Effect | None]
"""The effect of a call; None where it has none."""


@dataclass(frozen=True)
class TaskRecord:
    """What is stored of one task."""

    task: Task
    events: Sequence[Event]
    calls: Sequence[Call]

    @property
    def shown_events(self) -> list[Event]:
        """The events that a timeline shows: the message of a conversation is its configuration."""
        is_conversation = self.task.mode == MODE
        return [event for event in self.events if not (is_conversation and isinstance(event, TaskStarted))]


def timeline(
    snapshots: Iterable[Snapshot],
    tasks: Sequence[TaskRecord],
    turns: Mapping[str, int],
    effect_of: Effects,
    after: float,
) -> list[TimelineEntry]:
    """The entries, oldest first; `snapshots` are the newest first, `turns` numbers the session's tasks.

    `tasks` are those of the snapshots and all later ones in their order; `after` is when the listed snapshot before
    those was made.
    """
    every = listed(snapshots)
    events = sorted((event for record in tasks for event in record.shown_events), key=lambda event: event.timestamp)
    calls = sorted((call for record in tasks for call in record.calls), key=lambda call: call.started_at)
    happened_at, called_at = [event.timestamp for event in events], [call.started_at for call in calls]
    every_effect = [effect_of(call) if call.started_at > after else None for call in calls]
    kinds = {
        (call.task_id, call.scope, call.idx): _kind(effect) for call, effect in zip(calls, every_effect, strict=True)
    }
    entries, before = [], after
    for snapshot in reversed(every):
        upto = snapshot.created_at
        here = events[bisect_right(happened_at, before) : bisect_right(happened_at, upto)]
        effects = every_effect[bisect_right(called_at, before) : bisect_right(called_at, upto)]
        entry = _entry(snapshot, turns.get(snapshot.task_id or "", 0), here, kinds)
        entries.append(replace(entry, effects=[effect for effect in effects if effect]))
        before = upto or before
    if entries:
        entries[-1] = replace(entries[-1], happened_since=_lines(events[bisect_right(happened_at, before) :], kinds))
    return _counted(entries, sum(effect is not None for effect in every_effect[bisect_right(called_at, before) :]))


Kinds = Mapping[tuple[str, str, int], CallKind]
"""What each call did outside, by its key in the ledger."""


def _kind(effect: Effect | None) -> CallKind:
    if effect is None:
        return "read_only"
    if effect.undo == "done":
        return "undone"
    return "unknown" if "unknown" in (effect.outcome, effect.undo) else "effect"


def listed(snapshots: Iterable[Snapshot]) -> list[Snapshot]:
    """The snapshots that a timeline lists, in their order; the first one given is the newest."""
    return [each for place, each in enumerate(snapshots) if place == 0 or is_listed(each)]


def _counted(entries: Sequence[TimelineEntry], since: int) -> list[TimelineEntry]:
    counted: list[TimelineEntry] = []
    for entry in reversed(entries):
        counted.append(replace(entry, effects_since=since))
        since += len(entry.effects)
    return counted[::-1]


def is_listed(snapshot: Snapshot) -> bool:
    """Whether a turn, a recursion, a step or a round begins or ends with the snapshot."""
    if snapshot.damaged:
        return True
    if not snapshot.inside:
        return snapshot.next in ([], ["SELECT_MODE"])
    if snapshot.inside.partition("/")[0] not in _BUILT_IN:
        return snapshot.source == "loop"
    return bool(HEADS & {*snapshot.next})


def _lines(events: Sequence[Event], kinds: Kinds) -> list[Json]:
    """What happened, as an entry says it."""
    lines = [(event, _line(event, kinds)) for event in events]
    return [{**line, "at": event.timestamp, "task_id": event.task_id} for event, line in lines if line]


def _entry(snapshot: Snapshot, turn: int, events: Sequence[Event], kinds: Kinds) -> TimelineEntry:
    happened = _lines(events, kinds)
    edited = (
        [{"type": "edited", "text": "", "at": snapshot.created_at, "task_id": snapshot.task_id}]
        if snapshot.source == "update" and not happened
        else []
    )
    steps = {result.step_id for result in project(events).results if result.step_id}
    return TimelineEntry(
        checkpoint_id=snapshot.checkpoint_id,
        created_at=snapshot.created_at,
        task_id=snapshot.task_id,
        turn=turn,
        inside=snapshot.inside,
        recursion=max((event.iteration for event in events), default=0) if snapshot.inside else 0,
        steps=sorted(steps, key=lambda step: (len(step), step)) if snapshot.inside else [],
        next=snapshot.next,
        happened=happened or edited,
        forked_from=snapshot.forked_from,
        damaged=snapshot.damaged,
    )


def _line(event: Event, kinds: Kinds) -> Json | None:
    """The line of an event in an entry."""
    match event:
        case PlanUpdate():
            return {"type": "plan", "text": _shortened(event.goal), "steps": len(event.steps)}
        case ToolResult():
            return {
                "type": "call",
                "name": event.name,
                "arguments": event.arguments,
                "outcome": outcome_of(event.result),
                "kind": kinds.get((event.task_id, event.scope, event.index), "not_run"),
            }
        case ApprovalRequested():
            return {"type": "approval", "text": ", ".join(str(call.get("name", "")) for call in event.calls)}
        case Action() if event.action_type in _SHOWN_ACTIONS:
            return {"type": "action", "text": event.action_type}
        case BranchEnd():
            return {"type": "branch", "name": event.branch, "text": _shortened(event.summary)}
        case Uttered() if text := spoken(utterance := Utterance.of(event.utterance)):
            return {"type": utterance.role.value.lower(), "text": _shortened(text)}
        case TaskStarted(message=text) | QuestionAsked(question=text) | Answer(answer=text) | Steered(message=text):
            return {"type": _NAMES.get(event.type, event.type), "text": _shortened(text)}
        case Fallback(to_mode=text) | ErrorRaised(message=text):
            return {"type": event.type, "text": _shortened(text)}
        case Cancelled():
            return {"type": "cancelled", "text": ""}
    return None


def _shortened(text: str) -> str:
    return text if len(text) <= _TEXT else f"{text[: _TEXT - 1]}…"


def outcome_of(result: dict[str, Any] | None) -> str:
    """success, error, unknown, or running where there is none yet."""
    return "running" if result is None else CallResult.of(result).outcome


async def listed_snapshots(sessions: Threads, thread_id: str, expected: int = 0) -> AsyncIterator[Snapshot]:
    """The snapshots that a timeline lists, newest first; `expected` is how many will be asked for.

    Raises:
        UnknownThread: the session has none at all.
    """
    size, before = min(max(_LEAST, _EACH * expected), _MOST), None
    while page := await sessions.snapshots(thread_id, size, before):
        for place, each in enumerate(page):
            if is_listed(each) or (before is None and place == 0):
                yield each
        if len(page) < size:
            return
        before, size = page[-1].checkpoint_id, min(2 * size, _MOST)


async def newest(sessions: Threads, thread_id: str, limit: int) -> tuple[list[Snapshot], Snapshot | None]:
    """The newest listed snapshots, newest first, and the listed one before them, if there is one.

    Damaged ones, whose time is not known, are beside the limit.
    """
    found: list[Snapshot] = []
    async for each in listed_snapshots(sessions, thread_id, limit):
        if len(found) >= limit and not each.damaged:
            return found, each
        found.append(each)
    return found, None
