"""The history of a session: its timeline, the states of its snapshots, and what is kept of them."""

import asyncio
import difflib
import json
import logging
import math
import time
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from langchain_core.messages import AnyMessage, convert_to_openai_messages
from pydantic import ValidationError

from ..checkpoints.sessions import Threads
from ..checkpoints.storage import Storage
from ..core.calls import CallResult
from ..core.conversation import MODE, Utterance, spoken
from ..core.errors import SegueError, TaskError, ThreadBusy, UnknownThread, listed
from ..core.events import (
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
from ..core.plan import Step
from ..core.records import Call, Json, SessionFilter, Task
from ..core.timeline import (
    CallKind,
    Effect,
    Place,
    Pruned,
    Retention,
    Snapshot,
    SnapshotDifference,
    SnapshotState,
    TimelineEntry,
)
from ..graphs.chat import MODES, UNLISTED
from ..nodes.context import NodeContext, is_steering
from ..nodes.digest import turns_of
from ..nodes.plan import PlanState, settled_steps
from ..nodes.react_prompt import ReactState, protocol_of
from .reply import project
from .run import config_of, state_at
from .runner import Runner

_FIXED = frozenset(
    {
        "messages",
        "records",
        "outcomes",
        "task_id",
        "trace_id",
        "nested",
        "origin",
        "part",
        "events",
        "assignment",
        "result",
        "config",
        "vetted",
        "digest",
    }
)
"""Logs, ids and configurations, which are the engine's own."""
_CALLS = ("calls", "call", "wave")
"""The calls that are decided and did not run."""
_EDITABLE = ("name", "arguments", "description")
"""What can be changed of a call: the rest is its place in the ledger, and what a person decided about it."""
_APART = frozenset(
    {"messages", "plan", "records", "outcomes", "events", "assignment", "result", "draft", "decision", "calls", "wave"}
    | {"task_id", "trace_id", "origin", "part", "nested", "started_at", "notes_taken", "vetted"}
)
"""Channels that are compared by themselves, that only repeat what others say, and ids."""


@dataclass(frozen=True)
class View:
    """A snapshot as it is compared: its place, the values of its graph, the calls that had ended, and its prompt."""

    place: Json
    values: Mapping[str, Any]
    calls: Sequence[Call]
    prompt: str
    """Empty where nothing is to run."""
    next: Sequence[str] = ()
    """The nodes that would run."""


def difference(a: View, b: View) -> SnapshotDifference:
    """What differs between two views."""
    said = _apart(_messages(a.values), _messages(b.values))
    called = _apart(_results(a.calls), _results(b.calls))
    return SnapshotDifference(
        a=a.place,
        b=b.place,
        state=_state(a.values, b.values),
        plan=_plan(_steps(a.values), _steps(b.values)),
        messages=said,
        results=called,
        prompt=_diff_lines(a.prompt, b.prompt) if a.prompt and b.prompt else [],
    )


def state_of(view: View, tasks: Sequence[Task] = ()) -> SnapshotState:
    """What the snapshot of a view holds; `tasks` are the session's, oldest first."""
    values = view.values
    state = {name: value for name, value in values.items() if name not in _APART and value not in (None, "", [], {})}
    return SnapshotState(
        place=view.place,
        next=list(view.next),
        messages=_messages(values),
        plan=list(_steps(values).values()),
        results=_results(view.calls),
        state=state,
        editable=sorted(_editable(values) & (state.keys() | {"plan"})) if view.next else [],
        prompt=view.prompt,
        sources=_sources(values, tasks) if values.get("digest") else {},
    )


def _sources(values: Mapping[str, Any], tasks: Sequence[Task]) -> dict[str, str]:
    """The task of each receipt of the digest: of a turn the one with its message, of a call the one that made it."""
    begun, left = dict[str, str](), iter(tasks)
    for turn, message in turns_of(values.get("messages", [])):
        if message.type == "human" and not is_steering(message):
            here = next((task for task in left if task.message == message.text), None)
            if here is None:
                break
            begun[f"turn-{turn}"] = here.task_id
    found = {}
    for entry in values["digest"]["entries"]:
        for name in ("receipt", "before_receipt", "against_receipt", "but_see"):
            receipt = entry.get(name, "")
            made = (task.task_id for task in tasks if "." in receipt and task.task_id.startswith(receipt[:8]))
            if task_id := begun.get(receipt) or next(made, None):
                found[receipt] = task_id
    return found


def prompt_of(values: Mapping[str, Any], work: NodeContext) -> str:
    """What the model is sent next: in a round of ReAct its whole request, else the agent's prompt and the messages.

    JSON is written in several lines, and the task's own id left out, so that prompts can be compared.
    """
    if "records" in values and "trace_id" in values:
        request = protocol_of(work).request(cast(ReactState, values), work)
        text = _text(request.messages)
    else:
        text = f"{work.agent.prompt}\n{_text(values.get('messages', []))}".strip()
    for name in ("task_id", "trace_id"):
        text = text.replace(values.get(name) or name, name)
    return text


def _text(messages: Sequence[Any]) -> str:
    return "\n".join(f"[{message.type}] {_lines_of(message.text)}" for message in messages)


def _lines_of(text: str) -> str:
    return "\n".join(_indented(line) for line in text.splitlines())


def _indented(line: str) -> str:
    if not line.startswith("{"):
        return line
    try:
        return json.dumps(json.loads(line), indent=1, ensure_ascii=False)
    except ValueError:
        return line


def _state(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[Json]:
    alike = ("iteration" in a and "iteration" in b) or a.keys() == b.keys()
    names = sorted((a.keys() | b.keys()) - _APART if alike else (a.keys() & b.keys()) - _APART - {"usage"})
    return [{"name": name, "a": a.get(name), "b": b.get(name)} for name in names if a.get(name) != b.get(name)]


def _steps(values: Mapping[str, Any]) -> dict[str, Json]:
    """The steps of the plan by their ids; in plan mode as the next node settles them."""
    if values.get("plan") and "wave" in values and "replans" in values:
        return {step.step_id: step.model_dump(mode="json") for step in settled_steps(cast(PlanState, values))}
    steps = values.get("plan") or (values.get("result") or {}).get("plan") or []
    return {str(step["step_id"]): step for step in steps if "step_id" in step}


def _plan(a: Mapping[str, Json], b: Mapping[str, Json]) -> list[Json]:
    rows = [(step_id, a.get(step_id, {}), b.get(step_id, {})) for step_id in {**a, **b}]
    shown = ("description", "status", "action", "params", "note")
    return [
        {
            "step_id": step_id,
            "description": (new or old).get("description", ""),
            "a": old.get("status"),
            "b": new.get("status"),
        }
        for step_id, old, new in rows
        if any(old.get(name) != new.get(name) for name in shown)
    ]


def _messages(values: Mapping[str, Any]) -> list[Json]:
    messages: list[AnyMessage] = values.get("messages", [])
    return convert_to_openai_messages(messages) if messages else []


def _results(calls: Sequence[Call]) -> list[Json]:
    return [{"name": call.name, "arguments": call.arguments, "result": call.outcome} for call in calls]


def _apart(a: list[Json], b: list[Json]) -> dict[str, list[Any]]:
    """What follows the common beginning on each side; ids differ between a session and its fork."""
    same = 0
    while same < min(len(a), len(b)) and _comparable(a[same]) == _comparable(b[same]):
        same += 1
    return {"a": a[same:], "b": b[same:]}


def _comparable(entry: Json) -> str:
    calls = [call["function"] for call in entry.get("tool_calls", ())]
    kept = {name: value for name, value in entry.items() if name not in ("tool_call_id", "tool_calls")}
    return json.dumps([kept, calls], sort_keys=True, default=str)


def _diff_lines(a: str, b: str) -> list[str]:
    found = difflib.unified_diff(a.splitlines(), b.splitlines(), "a", "b", lineterm="", n=1)
    return list(found)[2:]


def _editable(values: Mapping[str, Any]) -> set[str]:
    return {*values.keys()} - _FIXED


def checked_edit(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The changes in the form that the state holds."""
    editable = sorted(_editable(values))
    for name in changes:
        if name not in editable:
            raise TaskError(
                "The state has no field '{name}' that can be changed; it has: {known}.",
                name=name,
                known=listed(editable),
            )
    return {name: _checked(name, values[name], value) for name, value in changes.items()}


def _checked(name: str, old: Any, new: Any) -> Any:
    if name == "plan":
        return _checked_plan(new)
    if name in _CALLS and old:
        return _checked_calls(name, old, new) if isinstance(old, list) else _checked_calls(name, [old], [new])[0]
    if old is not None and new is not None and _json_kind(old) != _json_kind(new):
        raise TaskError(
            "The field '{name}' has the type {kind}; the new value does not.", name=name, kind=_json_kind(old)
        )
    return new


def _checked_calls(name: str, old: Sequence[Mapping[str, Any]], new: Any) -> list[dict[str, Any]]:
    """The changed calls, each at the place in the ledger that the old one has."""
    if not isinstance(new, list) or len(new) != len(old) or not all(isinstance(call, Mapping) for call in new):
        raise TaskError(
            "The field '{name}' holds {count} calls: change them in their places.", name=name, count=len(old)
        )
    return [
        {**before, **{field: call[field] for field in _EDITABLE if field in call}}
        for before, call in zip(old, new, strict=True)
    ]


def _checked_plan(steps: Any) -> list[dict[str, Any]]:
    try:
        read = [Step.model_validate(step) for step in steps]
    except (ValidationError, TypeError) as error:
        why = error.errors()[0]["msg"] if isinstance(error, ValidationError) else "it is not a list of steps"
        raise TaskError("The plan is not valid: {why}.", why=why) from error
    if len({step.step_id for step in read}) < len(read):
        raise TaskError("The plan is not valid: {why}.", why="two steps have one step_id")
    return [step.model_dump(mode="json") for step in read]


def _json_kind(value: Any) -> str:
    """The JSON kind of a value."""
    match value:
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list() | tuple():
            return "array"
    return "object"


# The timeline of a session: one entry for each turn, recursion and step, from its snapshots, events and calls.

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
    every = select_listed(snapshots)
    events = sorted((event for record in tasks for event in record.shown_events), key=lambda event: event.timestamp)
    calls = sorted((call for record in tasks for call in record.calls), key=lambda call: call.started_at)
    happened_at, called_at = [event.timestamp for event in events], [call.started_at for call in calls]
    every_effect = [effect_of(call) if call.started_at > after else None for call in calls]
    kinds = {
        (call.task_id, call.scope, call.idx): _call_kind(effect)
        for call, effect in zip(calls, every_effect, strict=True)
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
        entries[-1] = replace(
            entries[-1], happened_since=_event_lines(events[bisect_right(happened_at, before) :], kinds)
        )
    return _counted(entries, sum(effect is not None for effect in every_effect[bisect_right(called_at, before) :]))


Kinds = Mapping[tuple[str, str, int], CallKind]
"""What each call did outside, by its key in the ledger."""


def _call_kind(effect: Effect | None) -> CallKind:
    if effect is None:
        return "read_only"
    if effect.undo == "done":
        return "undone"
    return "unknown" if "unknown" in (effect.outcome, effect.undo) else "effect"


def select_listed(snapshots: Iterable[Snapshot]) -> list[Snapshot]:
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
        begins = snapshot.nodes == ["INIT"] and snapshot.next != ["CONDENSE"]
        return (begins and snapshot.since != 0) or snapshot.next in ([], ["SELECT_MODE"])
    if snapshot.inside.partition("/")[0] not in _BUILT_IN:
        return snapshot.source == "loop"
    return bool(HEADS & {*snapshot.next})


def _event_lines(events: Sequence[Event], kinds: Kinds) -> list[Json]:
    """What happened, as an entry says it."""
    lines = [(event, _line(event, kinds)) for event in events]
    return [{**line, "at": event.timestamp, "task_id": event.task_id} for event, line in lines if line]


def _entry(snapshot: Snapshot, turn: int, events: Sequence[Event], kinds: Kinds) -> TimelineEntry:
    happened = _event_lines(events, kinds)
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
    """The snapshots that a timeline lists, newest first; `expected` is how many will be asked for."""
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


# Retention: the older snapshots of sessions are merged, on request or every hour.

logger = logging.getLogger(__name__)

EVERY = 3600.0
"""Seconds between two prunings by a policy."""


class Pruning:
    """Prunes sessions, each under its lease: one whose task runs is left as it is."""

    def __init__(self, storage: Storage, runner: Runner) -> None:
        self._storage = storage
        self._runner = runner
        self._regular: asyncio.Task[None] | None = None

    def start(self, retention: Retention) -> None:
        """Prune at once and every hour, in the background, and delete the links that expired."""
        self._regular = asyncio.create_task(self._regularly(retention), name="retention")

    async def close(self) -> None:
        """End the background task."""
        if self._regular is not None:
            self._regular.cancel()
            await asyncio.gather(self._regular, return_exceptions=True)

    async def _regularly(self, retention: Retention) -> None:
        while True:
            try:
                await self._storage.shares.delete_expired()
                await self.prune(retention)
            except SegueError as error:
                logger.warning("Snapshots could not be pruned: %s", error)
            except Exception:
                logger.exception("Snapshots could not be pruned")
            await asyncio.sleep(EVERY)

    async def prune(
        self, retention: Retention, session_id: str | None = None, *, dry_run: bool = False, compact: bool = False
    ) -> Pruned:
        """Prune one session, or all, and return the freed space to the file system.

        A `dry_run` only says what would be removed; `compact` rewrites the whole file, which others wait for.
        """
        if session_id is not None:
            names = [session_id]
        else:
            names = [thread.session_id for thread in await self._storage.threads.list(SessionFilter(bots=True))]
        counts, busy = [], []
        for name in names:
            try:
                counts.append(await self._one(name, retention, dry_run))
            except ThreadBusy:
                busy.append(name)
            except UnknownThread:  # it has no snapshots: nothing was sent to it yet, or it was deleted meanwhile
                if session_id is not None:
                    await self._storage.threads.get(session_id)
            except SegueError as error:
                if session_id is not None:
                    raise
                logger.warning("The snapshots of session %s could not be pruned: %s", name, error)
        if any(counts) and not dry_run:
            await (self._storage.compact() if compact else self._storage.shrink())
        return Pruned(sum(counts), sum(map(bool, counts)), tuple(busy))

    async def _one(self, thread_id: str, retention: Retention, dry_run: bool) -> int:
        if await self._bound(thread_id, retention) is None:
            return 0  # as most often: no lease is needed for that
        async with self._runner.leased(thread_id):
            bound = await self._bound(thread_id, retention)
            if bound is None:
                return 0
            kept, before = bound
            fence = self._runner.saver.fence(thread_id)
            return await self._storage.sessions.prune(
                thread_id, kept.checkpoint_id, fence, self._values, before.created_at, dry_run=dry_run
            )

    async def _bound(self, thread_id: str, retention: Retention) -> tuple[Snapshot, Snapshot] | None:
        """The oldest listed snapshot that is kept, and the one before it; None if there is none before."""
        sessions = self._storage.sessions
        since = math.inf if retention.seconds is None else time.time() - retention.seconds
        if await sessions.oldest_checkpoint_time(thread_id) >= since:
            return None
        bound, oldest, place = None, None, 0
        async for each in listed_snapshots(sessions, thread_id, retention.last or 0):
            if place == 0 or place < (retention.last or 0) or each.created_at >= since:
                bound, oldest = None, each
            elif oldest and bound is None:
                bound = oldest, each
            if bound and not each.damaged:  # all that come now are older
                break
            place += 1
        return bound

    async def _values(self, place: Place) -> Mapping[str, Any]:
        values: Mapping[str, Any] = (await state_at(self._runner.graph, config_of(place))).values
        return values
