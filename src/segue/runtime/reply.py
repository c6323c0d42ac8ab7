"""A task as its events describe it, and its reply while it is written."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import singledispatchmethod
from typing import Any

from ..core.calls import CallResult
from ..core.events import (
    Action,
    Answer,
    ApprovalGiven,
    ApprovalRequested,
    AttemptRestarted,
    BranchEnd,
    BranchStart,
    CallPermitted,
    Cancelled,
    Durable,
    ErrorRaised,
    Event,
    Fallback,
    FlowEnd,
    Lifecycle,
    ModelCalled,
    ModeSelected,
    NotesMoved,
    NotesTaken,
    Observe,
    Paused,
    PermissionGranted,
    Phase,
    PlanUpdate,
    QuestionAnswered,
    QuestionAsked,
    Recovered,
    RecursionStart,
    RestartReason,
    Resumed,
    RoundStart,
    StateChanged,
    Steered,
    StepUpdate,
    TaskEvent,
    Thinking,
    Thought,
    Token,
    ToolCall,
    ToolResult,
    Waiting,
)
from ..core.lifecycle import EngineEventType
from ..core.task import ACTIVE

CallId = tuple[str, int]
CONTEXT_KINDS = ("rules", "knowledge", "tools")


def call_id(event: ToolCall | ToolResult) -> CallId:
    """What pairs a result with its call: the round, or else the step, and the place in it."""
    return (event.trace_id or event.step_id, event.index)


@dataclass
class Round:
    """One recursion: what the model saw, thought, decided and did. `results` are in the order of their arrival."""

    trace_id: str
    iteration: int
    step_id: str = ""
    parent_id: str = ""
    """The round of a flow whose branch this one is part of."""
    observe: str = ""
    thought: str = ""
    action: Action | None = None
    opened: bool = False
    """Whether it is a round of its own, of ReAct or of a flow, and no other place that events name."""
    calls: list[ToolCall] = field(default_factory=list)
    results: list[ToolResult] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


@dataclass
class PlanItem:
    """One step of the plan as it is now. `fields` are all the fields of the step as the plan was written."""

    step_id: str
    description: str = ""
    status: str = "pending"
    note: str = ""
    priority: int | None = None
    result: str = ""
    """Its result, where one is reported."""
    calls: list[ToolResult] = field(default_factory=list)
    unknown_outcome: bool = False
    """Whether one of its calls has an unknown outcome."""
    started: float = 0.0
    """When it was last set running, as Unix time; 0 while it is not running."""
    worked: float = 0.0
    """Seconds of work before that."""
    fields: dict[str, Any] = field(default_factory=dict)

    def seconds(self, now: float) -> float:
        """How long it has been worked on."""
        return self.worked + (max(now - self.started, 0.0) if self.started else 0.0)

    def stop(self, now: float) -> None:
        """It is not worked on from now on."""
        self.worked, self.started = self.seconds(now), 0.0

    def as_dict(self) -> dict[str, Any]:
        """The step as JSON, with its current status and note."""
        known = {"step_id": self.step_id, "description": self.description}
        return {**self.fields, **known, "status": self.status, "note": self.note}


@dataclass
class Usage:
    """Tokens, model calls and cost; the cost is None where that of a call is not known."""

    input: int = 0
    output: int = 0
    calls: int = 0
    cost: float | None = 0.0

    def add(self, used: Mapping[str, Any]) -> None:
        """Count what an agent used that is a tool of the task."""
        self.input += used.get("input", 0)
        self.output += used.get("output", 0)
        self.calls += used.get("calls", 0)
        cost = used.get("cost", 0.0)
        self.cost = None if self.cost is None or cost is None else self.cost + cost

    def as_dict(self) -> dict[str, Any]:
        """{"input", "output", "calls", "cost"}."""
        return {"input": self.input, "output": self.output, "calls": self.calls, "cost": self.cost}


@dataclass(frozen=True)
class HumanAnswer:
    """What a person said, and the calls that it was about; a question is in its answer's event."""

    given: ApprovalGiven | QuestionAnswered
    calls: Sequence[Mapping[str, Any]] = ()


@dataclass
class Entry:
    """A part of a task's trace: an event, a step of a plan or what a person was asked or said, and what it contains."""

    of: Durable | PlanItem | HumanAnswer | None = None
    """None is the task."""
    entries: list["Entry"] = field(default_factory=list)

    def add(self, of: Durable | PlanItem | HumanAnswer) -> "Entry":
        """Append an entry; returns it."""
        self.entries.append(Entry(of))
        return self.entries[-1]


class Trace:
    """Puts events into a tree: modes, rounds or steps, branches, and what happened in each."""

    def __init__(self) -> None:
        self.root = Entry()
        self._mode = self._newest = self.root
        """`_newest` is where the newest event is: events of the whole task are put there."""
        self._rounds: dict[str, Entry] = {}
        self._branches: dict[str, Entry] = {}
        """The open branches of flows, by the round that chose them."""
        self._steps: dict[str, Entry] = {}

    def add(self, event: Durable) -> None:
        """Append an event to its round, its step or the mode."""
        if not isinstance(event, TaskEvent):
            self._newest = self._place(event)
        self._newest.add(event)

    def _place(self, event: Durable) -> Entry:
        return self._rounds.get(event.trace_id) or self._steps.get(event.step_id) or self._mode

    def add_mode(self, event: ModeSelected) -> None:
        self._newest = self._mode = self.root.add(event)

    def add_fallback(self, event: Fallback) -> None:
        self._mode.add(event)
        self._steps = {}
        self.add_mode(ModeSelected(task_id=event.task_id, mode=event.to_mode, reason=""))

    def add_round(self, event: RecursionStart | RoundStart) -> None:
        place = self._branches.get(event.parent_id) or self._steps.get(event.step_id) or self._mode
        self._newest = self._rounds[event.trace_id] = place.add(event)

    def add_branch(self, event: BranchStart) -> None:
        self._newest = self._branches[event.trace_id] = self._place(event).add(event)

    def add_to_branch(self, event: BranchEnd | QuestionAnswered) -> None:
        self._newest = self._place(event)
        (self._branches.get(event.trace_id) or self._newest).add(event)

    def add_flow_end(self, event: FlowEnd) -> None:
        (self._branches.get(event.parent_id) or self._mode).add(event)

    def add_plan(self, event: PlanUpdate, plan: Mapping[str, PlanItem]) -> None:
        self._newest = self._place(event)
        written = self._newest.add(event)
        self._steps = {step_id: written.add(item) for step_id, item in plan.items()}

    def add_step(self, event: StepUpdate, item: PlanItem) -> None:
        """Append a step that is not in the plan as it was written."""
        if event.step_id not in self._steps:
            self._steps[event.step_id] = self._place(event).add(item)

    def add_approval(self, event: ApprovalRequested | ApprovalGiven, asked: Mapping[int, Mapping[str, Any]]) -> None:
        """Append an approval to each of the steps that its calls are of; `asked` are the calls by their index."""
        rows = event.calls if isinstance(event, ApprovalRequested) else event.verdicts
        by_step: dict[str, list[dict[str, Any]]] = {}
        for row in rows:
            by_step.setdefault(str(asked.get(row["index"], {}).get("step_id", "")), []).append(row)
        for step_id, some in by_step.items():
            self._newest = self._steps.get(step_id) or self._newest
            if isinstance(event, ApprovalRequested):
                self._newest.add(replace(event, calls=some))
            else:
                self._newest.add(
                    HumanAnswer(replace(event, verdicts=some), [asked.get(row["index"], {}) for row in some])
                )


@dataclass
class Projection:
    """Folds events in their order, durable ones from the log or the live stream."""

    rounds: dict[str, Round] = field(default_factory=dict)
    thoughts: list[str] = field(default_factory=list)
    """Every whole thought, in a round or not."""
    running: dict[CallId, ToolCall] = field(default_factory=dict)
    """The calls that have no result yet."""
    statuses: list[StateChanged] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    model_calls: list[ModelCalled] = field(default_factory=list)
    results: list[ToolResult] = field(default_factory=list)
    """Those of all calls, in the order of their arrival."""
    steered: list[Steered] = field(default_factory=list)
    """What a person added to the task."""
    notes_taken: list[NotesTaken] = field(default_factory=list)
    answers: list[HumanAnswer] = field(default_factory=list)
    permitted: dict[str, None] = field(default_factory=dict)
    """The tools that ran without a question, as they were allowed before."""
    recovered: bool = False
    """Whether the thread went back to an older state."""
    partial: str = ""
    """What a paused or cancelled task had written of its answer."""
    mode: str = ""
    """The mode that carries it."""
    phase: str = ""
    """The state of the lifecycle engine."""
    context: dict[str, list[str]] = field(default_factory=dict)
    """The rules, knowledge and tools that its coordinator gave."""
    said: list[str] = field(default_factory=list)
    """The texts before calls that were written as the answer, which begins with them."""
    models: dict[str, None] = field(default_factory=dict)
    """The names of the models that answered, in the order of their first calls."""
    prompt_chars: int = 0
    """Characters of all prompts that were sent."""
    prefix_chars: int = 0
    """How many of them were shared with the start of the previous prompt."""
    goal: str = ""
    plan: dict[str, PlanItem] = field(default_factory=dict)
    asked: dict[int, dict[str, Any]] = field(default_factory=dict)
    """The calls that a person was last asked to approve, by their index."""
    unknown_steps: frozenset[str] = frozenset()
    """The steps with a call of unknown outcome."""
    trace: Trace = field(default_factory=Trace)

    @singledispatchmethod
    def fold(self, event: Event) -> None:
        """Take an event in; deltas change nothing here."""
        self._append(event)

    def _append(self, event: Event) -> Round | None:
        """Append an event to the trace; returns its round, if it has one."""
        if isinstance(event, Durable):
            self.trace.add(event)
        return self._round(event)

    def _round(self, event: Event) -> Round | None:
        """The round that the event belongs to, if any."""
        if not event.trace_id or not event.durable:
            return None
        return self.rounds.setdefault(
            event.trace_id, Round(event.trace_id, event.iteration, event.step_id, event.parent_id)
        )

    @fold.register
    def _(self, event: RecursionStart | RoundStart) -> None:
        self.trace.add_round(event)
        if kept := self._round(event):
            kept.opened = True

    @fold.register
    def _(self, event: ModeSelected) -> None:
        self.mode = event.mode
        self.trace.add_mode(event)

    @fold.register
    def _(self, event: BranchStart) -> None:
        self._round(event)
        self.trace.add_branch(event)

    @fold.register
    def _(self, event: BranchEnd) -> None:
        self._round(event)
        self.trace.add_to_branch(event)

    @fold.register
    def _(self, event: FlowEnd) -> None:
        self._round(event)
        self.trace.add_flow_end(event)

    @fold.register
    def _(self, event: PermissionGranted) -> None:
        self._round(event)

    @fold.register
    def _(self, event: Observe) -> None:
        if kept := self._append(event):
            kept.observe = event.text

    @fold.register
    def _(self, event: Thought) -> None:
        self.thoughts.append(event.text)
        if kept := self._append(event):
            kept.thought = event.text

    @fold.register
    def _(self, event: Action) -> None:
        if kept := self._append(event):
            kept.action = event
            kept.step_id = event.step_id or kept.step_id

    @fold.register
    def _(self, event: ErrorRaised) -> None:
        if kept := self._append(event):
            kept.errors.append(event.message)

    @fold.register
    def _(self, event: ModelCalled) -> None:
        self._round(event)
        self.model_calls.append(event)
        if _is_said(event):
            self.said.append(str(event.reply["text"]))
        usage = self.usage
        usage.input += event.input
        usage.output += event.output
        if not event.is_refused:
            usage.calls += 1
            self.models[event.model] = None
            usage.cost = None if usage.cost is None or event.cost is None else usage.cost + event.cost
        self.prompt_chars += event.prompt_chars
        self.prefix_chars += event.prefix_chars

    @fold.register
    def _(self, event: ToolCall) -> None:
        self.running[call_id(event)] = event
        if kept := self._append(event):
            kept.calls.append(event)

    @fold.register
    def _(self, event: ToolResult) -> None:
        self.running.pop(call_id(event), None)
        self.results.append(event)
        if kept := self._append(event):
            kept.results.append(event)
        result = CallResult.of(event.result)
        if result.used:
            self.usage.add(result.used["usage"])
        if result.unknown:
            self.unknown_steps |= {event.step_id}
        if item := self.plan.get(event.step_id):
            item.calls.append(event)
            item.unknown_outcome = event.step_id in self.unknown_steps

    @fold.register
    def _(self, event: Fallback) -> None:
        """The mode that takes over makes a plan of its own."""
        self.mode = event.to_mode
        self.trace.add_fallback(event)
        self.goal, self.plan, self.running, self.unknown_steps = "", {}, {}, frozenset()

    @fold.register
    def _(self, event: ApprovalRequested) -> None:
        self.asked = {call["index"]: call for call in event.calls}
        self.trace.add_approval(event, self.asked)

    @fold.register
    def _(self, event: ApprovalGiven | QuestionAnswered) -> None:
        self._round(event)
        self.answers.append(HumanAnswer(event, [*self.asked.values()]))
        if isinstance(event, ApprovalGiven):
            self.trace.add_approval(event, self.asked)
        else:
            self.trace.add_to_branch(event)

    @fold.register
    def _(self, event: CallPermitted) -> None:
        self._append(event)
        self.permitted[event.name] = None

    @fold.register
    def _(self, event: Steered) -> None:
        self._append(event)
        self.steered.append(event)

    @fold.register
    def _(self, event: NotesTaken) -> None:
        self._round(event)
        self.notes_taken.append(event)

    @fold.register
    def _(self, event: NotesMoved) -> None:
        self._append(event)
        del self.steered[event.count :]

    @fold.register
    def _(self, event: Recovered) -> None:
        self._append(event)
        self.recovered = True

    @fold.register
    def _(self, event: Paused | Cancelled) -> None:
        self._append(event)
        self.partial = event.partial

    @fold.register
    def _(self, event: PlanUpdate) -> None:
        self._round(event)
        finished = {str(step["step_id"]) for step in event.steps if step.get("status") == "done"}
        self.unknown_steps &= finished
        self.goal = event.goal
        self.plan = {str(step["step_id"]): self._item(step) for step in event.steps}
        self.trace.add_plan(event, self.plan)

    def _item(self, step: dict[str, Any]) -> PlanItem:
        """A step of a new plan; one that is finished keeps its calls."""
        step_id, status = str(step["step_id"]), step.get("status", "pending")
        old = self.plan.get(step_id)
        return PlanItem(
            step_id,
            step.get("description", ""),
            status,
            step.get("note", ""),
            step.get("priority"),
            result=old.result if old and status == "done" else "",
            calls=old.calls if old and status == "done" else [],
            unknown_outcome=step_id in self.unknown_steps,
            fields=step,
        )

    @fold.register
    def _(self, event: StepUpdate) -> None:
        self._round(event)
        unknown = event.step_id in self.unknown_steps
        item = self.plan.setdefault(event.step_id, PlanItem(event.step_id, event.description, unknown_outcome=unknown))
        self.trace.add_step(event, item)
        item.status, item.note = event.status, event.note
        if event.status == "running":
            item.started = event.timestamp
        else:
            item.stop(event.timestamp)

    @fold.register
    def _(self, event: Lifecycle) -> None:
        details = event.details
        if event.event_type == EngineEventType.STATE_CHANGED:
            self.phase = str(details["to"])
        elif event.event_type == EngineEventType.CONTEXT_RECEIVED:
            self.context = {name: list(details.get(name, ())) for name in CONTEXT_KINDS}
        item = self.plan.get(str(details.get("task_id")))
        if item and details.get("result"):
            item.result = str(details["result"])

    @fold.register
    def _(self, event: StateChanged) -> None:
        self.statuses.append(event)
        for item in self._under_way():
            if event.new == "running":
                item.started = item.started or event.timestamp
            elif event.new not in ACTIVE:
                item.stop(event.timestamp)

    @fold.register
    def _(self, event: Resumed) -> None:
        """The time since a crash was not worked, and what was written by then is written again."""
        self._append(event)
        self.partial = ""
        for item in self._under_way():
            item.started = event.timestamp

    def _under_way(self) -> list[PlanItem]:
        return [item for item in self.plan.values() if item.status == "running"]


def project(events: Iterable[Event]) -> Projection:
    """The projection of these events."""
    projection = Projection()
    for event in events:
        projection.fold(event)
    return projection


# A reply while it is written: what a task's events add to it, and what they take back.

BREAK = "\n\n"
"""Stands in an answer between a text before calls and what follows it."""


class Kind(StrEnum):
    """What a model writes."""

    TEXT = "text"
    THOUGHT = "thought"


@dataclass(frozen=True)
class Opened:
    """A text or a thought begins."""

    kind: Kind


@dataclass(frozen=True)
class Added:
    """A piece of what is open."""

    kind: Kind
    text: str


@dataclass(frozen=True)
class TextPaused:
    """Something else comes between; what is written next opens again."""

    kind: Kind


@dataclass(frozen=True)
class TextDone:
    """A thought, or a text before calls, is whole; it comes once, streamed or not. All of a text was added by then."""

    kind: Kind
    text: str


@dataclass(frozen=True)
class TextDropped:
    """What was added of the text does not count any more: that of another attempt or mode takes its place.

    `went_on`: a graph of one's own wrote it before it went on to its answer.
    """

    went_on: bool = False


@dataclass(frozen=True)
class RoundOpened:
    """A round of the task begins."""

    iteration: int


@dataclass(frozen=True)
class CallOpened:
    """A call was decided; it is under way unless it `needs_approval`. A result alone opens its call too."""

    call: ToolCall | ToolResult


@dataclass(frozen=True)
class CallClosed:
    """A call has its result."""

    result: ToolResult


@dataclass(frozen=True)
class PlanChanged:
    """The plan changed, or one step of it; `task` has it."""

    task: Projection
    step_id: str = ""
    """The step that changed; empty for a new plan."""


@dataclass(frozen=True)
class Question:
    """The task waits for a person, or for its client."""

    asked: ApprovalRequested | QuestionAsked


@dataclass(frozen=True)
class Approved:
    """A person decided on calls."""

    given: ApprovalGiven


@dataclass(frozen=True)
class AnswerDone:
    """The answer is whole. `text` leaves out what earlier replies of the task had of it."""

    text: str
    whole: str


Notice = (
    ModeSelected
    | Fallback
    | AttemptRestarted
    | Waiting
    | Steered
    | Recovered
    | Cancelled
    | ErrorRaised
    | CallPermitted
    | BranchStart
    | BranchEnd
    | Lifecycle
)
"""Events that are parts as they are: what else a person is shown of the task."""


@dataclass(frozen=True)
class ReplyDone:
    """The reply is over. `text` is the answer without the texts before calls, which were completed."""

    text: str


Part = (
    Opened
    | Added
    | TextPaused
    | TextDone
    | TextDropped
    | RoundOpened
    | CallOpened
    | CallClosed
    | PlanChanged
    | Question
    | Approved
    | Phase
    | Resumed
    | AnswerDone
    | Notice
    | ReplyDone
)


@dataclass
class ReplyText:
    """The text of a reply without what was discarded, from its tokens."""

    whole: str = ""
    _kept: int = 0
    """How much of it model calls before the present one wrote."""
    _trace_id: str = ""

    @property
    def pending(self) -> str:
        """What the present call wrote."""
        return self.whole[self._kept :]

    def add(self, content: str, trace_id: str) -> None:
        self.begin(trace_id)
        self.whole += content

    def begin(self, trace_id: str) -> None:
        """Note whose text follows: what other calls wrote stays, whatever becomes of it."""
        if self._trace_id not in ("", trace_id):
            self.keep()
        self._trace_id = trace_id

    def keep(self) -> None:
        """What there is stays, whatever becomes of what follows."""
        self._kept = len(self.whole)

    def note(self, event: Event) -> None:
        """Take in what an event adds, or takes back."""
        if isinstance(event, Token):
            self.add(event.content, event.trace_id)
        elif isinstance(event, AttemptRestarted | Fallback):
            self.discard(event)

    def discard(self, event: Event) -> bool:
        """Drop what the event takes back; whether there was any. A fallback takes back all."""
        if isinstance(event, Fallback):
            self._kept = 0
        elif isinstance(event, AttemptRestarted) and self._trace_id not in ("", event.trace_id):
            return False
        return self.drop()

    def drop(self) -> bool:
        """Drop what the present call wrote; whether there was any."""
        dropped, self.whole = bool(self.pending), self.whole[: self._kept]
        return dropped


class ReplyStream:
    """Folds a task's events, live or stored, into the parts of its reply.

    Calls of `client_tools` are left out: the client makes them.
    """

    def __init__(self, client_tools: Collection[str] = ()) -> None:
        self.task = Projection()
        self._text = ReplyText()
        self._said_before: list[str] = []
        """The texts before calls of earlier replies."""
        self._client_tools = client_tools
        self._open: Kind | None = None
        self._writing = False
        """Whether there is text that was not completed."""
        self._first = True
        """Whether no token came yet: the first may be what was streamed before, with what is known of it."""
        self._thoughts: dict[str, str] = {}
        self._completed: dict[str, str] = {}
        """The thoughts that were completed, by round: a model's reasoning may come before its thought."""
        self._calls: set[CallId] = set()

    @property
    def text(self) -> str:
        """The text so far, without what was discarded."""
        return self._text.whole

    def own(self, answer: str) -> str:
        """The task's answer without what earlier replies had of it."""
        return without_said(self._said_before, answer)

    def recall(self, events: Iterable[Event]) -> None:
        """Take in what earlier replies of the task had."""
        for event in events:
            self.task.fold(event)
        self._said_before = [*self.task.said]

    def of(self, event: Event) -> Iterator[Part]:
        """What an event adds to the reply."""
        self.task.fold(event)
        yield from self._of(event)

    def end(self, answer: str) -> Iterator[Part]:
        """The rest of the answer that the task ends with; where it is another one than was written, all of it."""
        text, own = self._text.whole, self.own(answer)
        if own and not own.startswith(text):
            yield from self._close()
            self._text, text = ReplyText(), ""
            yield TextDropped()
        yield from self._add(Kind.TEXT, own[len(text) :])
        yield from self._close()
        yield ReplyDone(without_said(self.task.said, answer))

    @singledispatchmethod
    def _of(self, event: Event) -> Iterator[Part]:
        return iter(())

    # Texts and thoughts.

    @_of.register
    def _(self, event: Thinking) -> Iterator[Part]:
        self._thoughts[event.trace_id] = self._thoughts.get(event.trace_id, "") + event.content
        if self._open is Kind.THOUGHT or event.content.strip():  # a line break after the answer is no thought
            yield from self._add(Kind.THOUGHT, event.content)

    @_of.register
    def _(self, event: Phase | Notice) -> Iterator[Part]:
        yield event

    @_of.register
    def _(self, event: Token) -> Iterator[Part]:
        content = without_said(self.task.said, event.content) if self._first else event.content
        self._first = False
        if content and not self._writing:
            yield from self._complete_thought(event.trace_id, self._thoughts.get(event.trace_id, ""))
        yield from self._add(Kind.TEXT, content, event.trace_id)

    def _add(self, kind: Kind, text: str, trace_id: str = "") -> Iterator[Part]:
        if not text:
            return
        if self._open is not kind:
            yield from self._close()
            self._open = kind
            yield Opened(kind)
        if kind is Kind.TEXT:
            self._writing = True
            self._text.add(text, trace_id)
        yield Added(kind, text)

    def _close(self) -> Iterator[Part]:
        if self._open:
            yield TextPaused(self._open)
        self._open = None

    @_of.register
    def _(self, event: ModelCalled) -> Iterator[Part]:
        yield from self._complete_thought(event.trace_id, str(event.reply.get("reasoning", "")))
        if _is_said(event):
            yield from self._complete_text(str(event.reply["text"]), event.trace_id)

    @_of.register
    def _(self, event: Thought) -> Iterator[Part]:
        yield from self._complete_thought(event.trace_id, event.text)

    def _complete_thought(self, trace_id: str, text: str) -> Iterator[Part]:
        """A thought, whole, unless a completed one of the round contains it."""
        completed = self._completed.get(trace_id, "")
        if not text.strip() or text.strip() in completed:
            return
        if trace_id:
            self._completed[trace_id] = f"{completed}\n{text}"
        self._thoughts.pop(trace_id, None)
        yield TextDone(Kind.THOUGHT, text)

    def _complete_text(self, said: str, trace_id: str) -> Iterator[Part]:
        """A text before calls, with what was not streamed of it, and of the break after it."""
        whole = said + BREAK
        self._text.begin(trace_id)
        if not whole.startswith(self._text.pending) and self._text.drop():
            yield TextDropped()
        yield from self._add(Kind.TEXT, whole[len(self._text.pending) :], trace_id)
        self._text.keep()
        self._writing = False
        yield TextDone(Kind.TEXT, said)

    @_of.register
    def _(self, event: AttemptRestarted | Fallback | Resumed) -> Iterator[Part]:
        self._thoughts.pop(event.trace_id, None)
        discarded = self._text.discard(event)
        if self._open is Kind.TEXT and (discarded or not isinstance(event, Resumed)):
            yield from self._close()
        if discarded:
            yield TextDropped(isinstance(event, AttemptRestarted) and event.reason == RestartReason.CONTINUED)
        yield event

    @_of.register
    def _(self, event: Answer) -> Iterator[Part]:
        yield AnswerDone(self.own(event.answer), event.answer)

    # Rounds, calls, the plan, questions.

    @_of.register
    def _(self, event: RecursionStart) -> Iterator[Part]:
        if self._open is Kind.THOUGHT:
            yield from self._close()
        yield RoundOpened(event.iteration)

    @_of.register
    def _(self, event: ToolCall | ToolResult) -> Iterator[Part]:
        if event.name in self._client_tools:
            return
        yield from self._close()
        if call_id(event) not in self._calls:
            self._calls.add(call_id(event))
            yield CallOpened(event)
        if isinstance(event, ToolResult):
            self._calls.discard(call_id(event))
            yield CallClosed(event)

    @_of.register
    def _(self, event: PlanUpdate | StepUpdate) -> Iterator[Part]:
        if self.task.plan:
            yield PlanChanged(self.task, event.step_id if isinstance(event, StepUpdate) else "")

    @_of.register
    def _(self, event: ApprovalRequested | QuestionAsked) -> Iterator[Part]:
        self._writing = False
        yield Question(event)

    @_of.register
    def _(self, event: ApprovalGiven) -> Iterator[Part]:
        yield Approved(event)


def without_said(said: Sequence[str], text: str) -> str:
    """The text without what was said before calls; that of a task that was resumed begins with the latest of it."""
    for first in range(len(said)):
        beginning = BREAK.join([*said[first:], ""])
        if text.startswith(beginning):
            return text[len(beginning) :]
    return text


def _is_said(event: ModelCalled) -> bool:
    """Whether the call streamed a text before calls as the answer; what a part of the task writes is a thought."""
    return bool(event.reply.get("streamed")) and not (event.step_id or event.parent_id)
