"""A task in a graph: its channels, its services, its objective and additions, and its result."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import is_
from threading import Lock
from typing import Annotated, Any, TypeVar, cast

from langchain_core.messages import (
    AnyMessage,
    BaseMessage,
    BaseMessageChunk,
    HumanMessage,
    RemoveMessage,
    convert_to_messages,
    message_chunk_to_message,
)
from langgraph.channels import DeltaChannel, EphemeralValue
from langgraph.graph.message import REMOVE_ALL_MESSAGES, _messages_delta_reducer
from langgraph.types import Overwrite
from pydantic import ValidationError
from typing_extensions import TypedDict

from segue.core.calls import CallKey, CallResult, Claim, Ledger, Tool, is_repeatable
from segue.core.context import PromptText, Services
from segue.core.decision import read_steps
from segue.core.errors import InvalidMessage, UnreadableReply
from segue.core.events import Answer, Durable, ErrorRaised, Event, NotesTaken, Phase, TaskComplete, Thinking, Token
from segue.core.message import ATTACHMENTS, naming
from segue.core.models import SentPrompts
from segue.core.plan import Step, open_steps
from segue.core.records import Call
from segue.prompts.catalogue import language_of, task_text
from segue.tools.calls import unknown_outcome

from .context import STEER, NodeContext, NodeRuntime, announce, as_json, is_steering, node_context, truncate

# The channels that grow: a thread's messages and a task's records, kept as a log of what was added.


_LONG = 256
"""Messages from which on a history's places are kept for the next write to it."""
_MOST_KEPT = 4
"""Histories whose places are kept."""


class _Places:
    """Where the messages of the latest long histories are, by their ids: looking at each of them takes long.

    Of a history that begins like the one that is kept, only what differs is looked at.
    """

    def __init__(self) -> None:
        self._kept: dict[str | None, tuple[list[BaseMessage], dict[str | None, int]]] = {}
        self._lock = Lock()

    def append(self, history: list[BaseMessage], fresh: list[BaseMessage]) -> list[BaseMessage] | None:
        """The history with fresh messages behind it; None where one of them has no id, or an id that is there."""
        count, ids = len(history), [message.id for message in fresh]
        if count < _LONG or None in ids or len({*ids}) < len(ids):
            return None
        with self._lock:
            known, places = self._kept.pop(history[0].id, ([], {}))
            self._kept[history[0].id] = known, places
            if len(self._kept) > _MOST_KEPT:
                del self._kept[next(iter(self._kept))]
            _continue(known, places, history, 0)
            if any(places.get(each, count) < count for each in ids):
                return None
            _continue(known, places, fresh, count)
        return [*history, *fresh]


def _continue(
    known: list[BaseMessage], places: dict[str | None, int], messages: Sequence[BaseMessage], begin: int
) -> None:
    """Put messages at a place of a known history, which stays as it is where it has them there."""
    known_there = known[begin : begin + len(messages)] if begin else known
    same = [*map(is_, known_there, messages)]
    if len(same) == len(messages) and all(same):
        return
    differs = same.index(False) if False in same else len(same)
    for message in known[begin + differs :]:
        del places[message.id]
    known[begin + differs :] = messages[differs:]
    places.update((message.id, place) for place, message in enumerate(messages[differs:], begin + differs))


_places = _Places()


def extend_messages(history: Sequence[Any], writes: Sequence[Any], *, strict: bool = False) -> list[BaseMessage]:
    """Add, replace and remove messages, as `add_messages` does with each write.

    A missing id becomes the message's place.
    """
    given = [_converted(write if isinstance(write, list) else [write]) for write in writes]
    added = [message for messages in given for message in messages]
    if not any(isinstance(message, RemoveMessage) for message in added):
        appended = _places.append([*history], added)
        if appended is not None:
            return appended
    grown: list[Any] = _converted([*history])
    places = {message.id: place for place, message in enumerate(grown) if message}
    for messages in given:
        removed: set[str | None] = set()
        for each in messages:
            message = each if each.id else each.model_copy(update={"id": _free_id(places)})
            if message.id == REMOVE_ALL_MESSAGES:
                grown, places, removed = [], {}, set()
            elif not isinstance(message, RemoveMessage):
                removed.discard(message.id)
                if message.id in places:
                    grown[places[message.id]] = message
                else:
                    places[message.id] = len(grown)
                    grown.append(message)
            elif message.id in places:
                removed.add(message.id)
            elif strict:
                raise ValueError(f"There is no message '{message.id}' to remove: take its id from the state.")
        for gone in removed:
            grown[places.pop(gone)] = None
    return [message for message in grown if message]


def _free_id(taken: Mapping[str | None, int]) -> str:
    place = len(taken)
    while f"m{place}" in taken:
        place += 1
    return f"m{place}"


def _converted(messages: list[Any]) -> list[BaseMessage]:
    """The messages, converted where they are none yet, or pieces of a stream: looking at each of them takes long."""
    kinds = set(map(type, messages))
    if all(issubclass(kind, BaseMessage) and not issubclass(kind, BaseMessageChunk) for kind in kinds):
        return messages
    converted = convert_to_messages(messages)
    return [message_chunk_to_message(each) if isinstance(each, BaseMessageChunk) else each for each in converted]


class HistoryChannel(DeltaChannel[list[AnyMessage]]):
    """A thread's messages, kept as a log of what was added, replaced and removed.

    What is written to a channel with this reducer has an id before it is stored, from LangGraph: none is used twice.
    """

    def __init__(
        self, reducer: Any = _messages_delta_reducer, typ: Any = None, *, snapshot_frequency: int = 100
    ) -> None:
        super().__init__(reducer, typ, snapshot_frequency=snapshot_frequency)

    def update(self, values: Sequence[Any]) -> bool:
        """Apply the writes of a step."""
        if any(map(_is_overwrite, values)):
            super().update(values)
            self.value = extend_messages([], [self.value])
        elif values:
            self.value = extend_messages(self.value if self.is_available() else [], values, strict=True)
        return bool(values)

    def replay_writes(self, writes: Sequence[Any]) -> None:
        """Apply stored writes, oldest first."""
        values = [value for _, _, value in writes]
        kept = max((place + 1 for place, value in enumerate(values) if _is_overwrite(value)), default=0)
        if kept:
            super().replay_writes(writes[:kept])
        self.value = extend_messages(self.value, values[kept:])


def _is_overwrite(value: Any) -> bool:
    written = isinstance(value, dict) and (_OVERWRITE in value or value.get("type") == _OVERWRITE)
    return written or isinstance(value, Overwrite)


_OVERWRITE = "__overwrite__"
"""How LangGraph writes an `Overwrite` as JSON."""


def extend_records(records: list[dict[str, Any]], writes: Sequence[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Append records."""
    return [*records, *(record for write in writes for record in write)]


def replaced(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The write that puts these records in place of all that were there."""
    return cast(list[dict[str, Any]], Overwrite(records))


class EventsChannel(EphemeralValue[Any]):
    """A node's events: they go with its update to the saver and to streams, and are kept by the event log alone."""

    def update(self, values: Sequence[Any]) -> bool:
        return False


History = Annotated[list[AnyMessage], HistoryChannel()]
Records = Annotated[list[dict[str, Any]], DeltaChannel(extend_records)]
Events = Annotated[list[dict[str, Any]], EventsChannel(list, guard=False)]


# Services and ledger of a nested part of a task, a subtask or a branch, whose answer is not the task's.

OF_THE_WHOLE = frozenset({"answer", "plan_update", "step_update", "task_started", "mode_selected", "fallback"})
"""Events that a part does not tell: they would be taken for the whole task's."""


def nested_services(
    whole: Services,
    ledger: Ledger | None,
    state: Mapping[str, Any],
    *,
    branch: str = "",
    step_id: str = "",
    parent_id: str = "",
    read: Sequence[str] = (),
) -> Services:
    """The services of the whole for one part: its streamed answer is sent as a thought.

    A graph that is given them alone works on the task of the `state`, below `branch` where it is one. Its events name
    the subtask (`step_id`) or the round (`parent_id`) that the part belongs to: an error ends the part and not the
    task. What is added to the task reaches a branch through its controller. What the part is to do may come from the
    texts that were `read`, which anybody may have written.
    """
    named = {"step_id": step_id, "parent_id": parent_id}
    ids: dict[str, Any] = {name: value for name, value in named.items() if value}
    part_of = {name: state[name] for name in ("task_id", "language", "started_at")}
    line = Line()

    def end_line(task_id: str) -> None:
        whole.emit(replace(Thinking(task_id=task_id, content="\n"), **ids))

    def emit(event: Event) -> None:
        if line.breaks_before(event):
            end_line(event.task_id)
        whole.emit(replace(_as_thought(event), **ids))

    async def notes(task_id: str) -> Sequence[str]:
        return () if parent_id else await whole.notes(task_id)

    async def said() -> Sequence[PromptText] | None:
        known = await whole.said()
        return None if known is None else [*known, *(PromptText(text, False, kind="memory") for text in read)]

    def announced(events: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        for event in events:
            if event["type"] in _LAST and line.ends():
                end_line(event["task_id"])
        return [{**event, **ids, "data": _of_part(event)} for event in events if event["type"] not in OF_THE_WHOLE]

    return replace(
        whole,
        ledger=ledger,
        emit=emit,
        notes=notes,
        said=said,
        announced=announced,
        prompts=SentPrompts(),
        reply_options=whole.reply_options.for_part,
        own_nodes=set(),
        part_of={**part_of, "branch": branch} if branch else part_of,
    )


_LAST = ("answer", "flow_end")
"""The events behind which a part streams nothing more."""


class Line:
    """Where the stream of a part stands: an answer is not glued to the thought before it, nor a banner to either."""

    def __init__(self) -> None:
        self._kind: type[Any] = Phase
        self._is_open = False

    def breaks_before(self, event: Event) -> bool:
        """Whether a line has to end before the event, which is then the last one."""
        if not isinstance(event, Thinking | Token | Phase):
            return False
        breaks = self._kind is not type(event) and self.ends()
        self._kind, self._is_open = type(event), not event.content.endswith("\n")
        return breaks

    def ends(self) -> bool:
        """End the line; whether one was open."""
        was_open, self._is_open = self._is_open, False
        return was_open


def _as_thought(event: Event) -> Event:
    if not isinstance(event, Token):
        return event
    return Thinking(
        task_id=event.task_id,
        trace_id=event.trace_id,
        iteration=event.iteration,
        content=event.content,
        attempt=event.attempt,
    )


def _of_part(event: Mapping[str, Any]) -> dict[str, Any]:
    return {**event["data"], "final": False} if event["type"] == "error" else event["data"]


class NestedLedger:
    """The whole task's ledger, with the calls of a part that are under way."""

    def __init__(self, whole: Ledger) -> None:
        self._whole = whole
        self._under_way: dict[CallKey, str] = {}

    async def read(self, key: CallKey) -> Mapping[str, Any] | None:
        return await self._whole.read(key)

    async def claim(self, key: CallKey, name: str, arguments: Mapping[str, Any], *, synced: bool = True) -> Claim:
        claim = await self._whole.claim(key, name, arguments, synced=synced)
        if claim.state != "finished":
            self._under_way[key] = name
        return claim

    async def settle(self, key: CallKey, outcome: Mapping[str, Any], *, synced: bool = True) -> None:
        await self._whole.settle(key, outcome, synced=synced)
        self._under_way.pop(key, None)

    async def keep(self, key: CallKey, job: Mapping[str, Any]) -> None:
        await self._whole.keep(key, job)

    async def withdraw(self, key: CallKey) -> None:
        await self._whole.withdraw(key)
        self._under_way.pop(key, None)

    async def unknown(self, task_id: str) -> Sequence[Mapping[str, Any]]:
        return await self._whole.unknown(task_id)

    async def finished(self) -> Sequence[Call]:
        return await self._whole.finished()

    async def cancel(self, tools: Mapping[str, Tool], why: str, language: str) -> None:
        """Settle the calls that were interrupted: of one that changes something, nobody knows whether it did."""
        for key, name in list(self._under_way.items()):
            repeatable = is_repeatable(tools.get(name))
            unknown = unknown_outcome("call_stopped_unknown", language, tool=name, why=why.rstrip(".。"))
            result = CallResult.failed(why) if repeatable else unknown
            await self.settle(key, result.json())


# A task: what goes into the modes' graphs, what every INIT does first, its objective and additions, and its result.

FOUND_CHARS = 400
"""Characters of each result in the answer of a task that ends early."""


class Assignment(TypedDict, total=False):
    """What a parent graph hands down; INIT takes it in and clears it."""

    task_id: str
    language: str
    """That of the task, which its parts inherit."""
    plan: list[dict[str, Any]]
    """Steps to begin with."""
    vetted: list[dict[str, Any]]
    """Those that untrusted text has no part in: {action, params}."""
    done: list[dict[str, Any]]
    """Calls that another mode made for this task: {name, arguments, result, ref}."""
    usage: dict[str, Any]
    """What the task used so far."""
    started_at: float
    attachments: list[dict[str, Any]]
    """The message's files, for a part that is not given the message."""
    branch: str
    """The branches that lead to a nested flow, joined by dots."""


class GraphInput(TypedDict, total=False):
    """What a graph that carries a task is invoked with."""

    messages: History
    assignment: Assignment | None


class TaskState(GraphInput, total=False):
    """The channels that every graph of a task has. They are thread-scoped: INIT resets them, as all of a task's."""

    task_id: str
    """Of the user's message. INIT."""
    nested: bool
    """Whether a parent graph ends the task. INIT."""
    objective: str
    """The user's message, and what was added to it since. INIT, and every node that reads an addition."""
    language: str
    """zh or en. INIT."""
    started_at: float
    """Unix seconds. INIT."""
    usage: dict[str, Any]
    """Tokens and model calls. Every node that asks a model."""
    result: dict[str, Any] | None
    """The node that ends the task."""
    events: Events
    """What happened in a node, for the event log."""


class PlannedTask(TaskState, total=False):
    """A task with its plan, for the nodes of graphs that make one first."""

    plan: list[dict[str, Any]]
    vetted: list[dict[str, Any]]


class TaskOutput(TypedDict):
    """What a graph returns that ends its task in any case."""

    messages: History
    result: dict[str, Any] | None


class ModeOutput(TaskOutput):
    """What a mode returns that another may take over from: `gave_up` says why."""

    gave_up: str
    usage: dict[str, Any]


def begin(messages: list[AnyMessage], assignment: Mapping[str, Any] | None, runtime: NodeRuntime) -> TaskState:
    """Take the task's id from the parent graph or mint one, and read the objective with what was added to it."""
    work = node_context(runtime)
    handed = assignment or work.services.part_of
    asked = objective_of(messages)
    given = handed.get("task_id")
    return {
        "assignment": None,
        "task_id": given or work.services.ids.task(),
        "nested": given is not None,
        "objective": "\n".join([asked, *additions(messages)]),
        "language": work.agent.language or handed.get("language") or work.context.language or language_of(asked),
        "started_at": handed.get("started_at") or work.services.clock(),
        "usage": dict(handed.get("usage") or {}),
        "result": None,
    }


def given_steps(plan: Any) -> list[dict[str, Any]]:
    """A caller's plan as steps; a text is read as a numbered list."""
    if not plan:
        return []
    try:
        if isinstance(plan, Sequence) and all(isinstance(item, dict) and "step_id" in item for item in plan):
            steps: Sequence[Step] = [Step(**item) for item in plan]
        else:
            steps = read_steps(plan)
    except (UnreadableReply, ValidationError) as error:
        raise InvalidMessage("The plan cannot be read: give a numbered text, or steps with a description.") from error
    return [step.model_dump(mode="json") for step in steps]


def _place(messages: Sequence[AnyMessage]) -> int:
    for place in range(len(messages) - 1, -1, -1):
        if messages[place].type == "human" and not is_steering(messages[place]):
            return place
    raise InvalidMessage('There is no user message: invoke the graph with {"messages": [("user", "…")]}.')


def objective_of(messages: Sequence[AnyMessage]) -> str:
    """The text of the latest user message, verbatim."""
    text = messages[_place(messages)].text
    if not text.strip():
        raise InvalidMessage("The message is empty: write what you want done.")
    return text


def objective_message(state: Mapping[str, Any]) -> HumanMessage:
    """The objective as a message, with the files of its own message and then of earlier ones, the latest first."""
    return HumanMessage(state["objective"], additional_kwargs=naming(attachments_of(state["messages"])))


def attachments_of(messages: Sequence[AnyMessage]) -> list[dict[str, Any]]:
    """The files of the latest user message and then of earlier ones, the latest first, each content once."""
    found: dict[str, dict[str, Any]] = {}
    for message in reversed(messages[: _place(messages) + 1]):
        for form in message.additional_kwargs.get(ATTACHMENTS, ()):
            found.setdefault(form["digest"], form)
    return [*found.values()]


def additions(messages: Sequence[AnyMessage]) -> list[str]:
    """What was added to the latest user message since, oldest first."""
    return [message.text for message in messages[_place(messages) :] if is_steering(message)]


def before_objective(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """The messages of earlier turns."""
    return list(messages[: _place(messages)])


def unfinished(outcomes: Sequence[Mapping[str, Any]], why: str, language: str) -> str:
    """The answer of a task that ends early: why it does, and a line for each successful call."""
    results = [(outcome["name"], CallResult.of(outcome["result"])) for outcome in outcomes]
    lines = [f"- {name}: {truncate(as_json(r.value), FOUND_CHARS)}" for name, r in results if r.success]
    found = "\n".join(lines) or task_text("nothing_found", language)
    return task_text("unfinished", language, why=why, found=found)


def end_task(
    state: TaskState,
    result: Mapping[str, Any],
    *,
    failure: str = "",
    answered: bool = True,
    **ids: Any,
) -> list[Durable]:
    """The events that end a task: its failure, its answer, and its completion, which a parent graph says of its parts.

    `answered`: the answer is not in the log yet. `ids` are those of the events.
    """
    ids = ids or {"task_id": state["task_id"]}
    events: list[Durable] = [ErrorRaised(message=failure, final=True, **ids)] if failure else []
    if answered:
        events.append(Answer(answer=result["answer"], **ids))
    if not state["nested"]:
        status = "done" if result.get("success") else "error"
        events.append(TaskComplete(status=status, result=dict(result), **ids))
    return events


def compose_result(
    mode: str,
    answer: str,
    *,
    preamble: str = "",
    history: Sequence[Mapping[str, Any]] = (),
    reasoning: str = "",
    plan: Sequence[Mapping[str, Any]] = (),
    usage: Mapping[str, Any] | None = None,
    error: str = "",
    limit: str = "",
    truncated: bool = False,
) -> dict[str, Any]:
    """`{success, answer, preamble?, mode, reasoning, history, plan?, open_steps?, usage, error?, limit?, truncated?}`.

    The answer begins with `preamble`, what was said before calls.
    Reasoning is {text, total_steps, tools_used}, a history entry {step, phase, action, result, description};
    `tools_used` are those that ran, in the order of first use. `limit` is the budget of the agent that was spent.
    """
    used = dict.fromkeys(entry["action"] for entry in history if entry["result"] and CallResult.of(entry["result"]).ran)
    result: dict[str, Any] = {
        "success": not error,
        "answer": answer,
        **({"preamble": preamble} if preamble else {}),
        "mode": mode,
        "reasoning": {
            "text": f"<thinking>\n{reasoning}\n</thinking>",
            "total_steps": len(history),
            "tools_used": list(used),
        },
        "history": [dict(entry) for entry in history],
        "usage": dict(usage or {}),
    }
    if plan:
        result["plan"] = [{"step": place, **step} for place, step in enumerate(plan, start=1)]
        if still_open := open_steps(plan):
            result["open_steps"] = still_open
    if error:
        result["error"] = error
    if limit:
        result["limit"] = limit
    if truncated:
        result["truncated"] = True
    return result


class Added(TypedDict, total=False):
    """The update of a node that reads additions; empty where there are none."""

    messages: list[Any]
    objective: str
    notes_taken: int
    events: list[dict[str, Any]]
    """That they were read; they go before the node's own."""


State = TypeVar("State", bound=Mapping[str, Any])


async def read_added_messages(state: Mapping[str, Any], work: NodeContext) -> Added:
    """What was added since the last look: the objective with it, and the messages for the history."""
    taken = state["notes_taken"]
    fresh = (await work.services.notes(state["task_id"]))[taken:]
    if not fresh:
        return {}
    ids = {name: state[name] for name in ("task_id", "trace_id", "iteration") if state.get(name)}
    return {
        "messages": [HumanMessage(note, additional_kwargs={STEER: True}) for note in fresh],
        "objective": "\n".join([state["objective"], *fresh]),
        "notes_taken": taken + len(fresh),
        "events": announce(NotesTaken(count=taken + len(fresh), **ids)),
    }


def joined(added: State, update: State) -> State:
    """A node's update with the additions that it read, whose events go first."""
    events = [*added.get("events", ()), *update.get("events", ())]
    return cast(State, {**added, **update, "events": events})


def amended(state: State, added: Mapping[str, Any]) -> State:
    """The state as it will be with the update."""
    messages = [*state["messages"], *added.get("messages", ())]
    return cast(State, {**cast(dict[str, Any], state), **added, "messages": messages})
