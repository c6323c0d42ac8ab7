"""A task as its events describe it: its rounds, calls, plan, statuses and usage."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import singledispatchmethod
from typing import Any

from ..core.calls import CallResult
from ..core.events import (
    Action,
    ApprovalGiven,
    ApprovalRequested,
    CallPermitted,
    Cancelled,
    ErrorRaised,
    Event,
    Fallback,
    Lifecycle,
    ModelCalled,
    ModeSelected,
    NotesTaken,
    Observe,
    PlanUpdate,
    QuestionAnswered,
    Recovered,
    RecursionStart,
    Resumed,
    RoundStart,
    StateChanged,
    Steered,
    StepUpdate,
    Thought,
    ToolCall,
    ToolResult,
)
from ..core.lifecycle import EngineEventType
from ..core.task_status import ACTIVE

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
    """What it came to, where that is reported."""
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

    def as_dict(self) -> dict[str, Any]:
        """{"input", "output", "calls", "cost"}."""
        return {"input": self.input, "output": self.output, "calls": self.calls, "cost": self.cost}


@dataclass(frozen=True)
class Answered:
    """What a person said, and the calls that it was about; a question is in its answer's event."""

    given: ApprovalGiven | QuestionAnswered
    calls: Sequence[Mapping[str, Any]] = ()


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
    notes: list[Steered] = field(default_factory=list)
    """What a person added to the task."""
    notes_taken: list[NotesTaken] = field(default_factory=list)
    answers: list[Answered] = field(default_factory=list)
    permitted: dict[str, None] = field(default_factory=dict)
    """The tools that ran without a question, as they were allowed before."""
    recovered: bool = False
    """Whether the thread went back to an older state."""
    partial: str = ""
    """What a cancelled task had written of its answer."""
    mode: str = ""
    """The mode that carries it."""
    phase: str = ""
    """The state of the lifecycle engine."""
    context: dict[str, list[str]] = field(default_factory=dict)
    """The rules, knowledge and tools that its coordinator gave."""
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

    @singledispatchmethod
    def fold(self, event: Event) -> None:
        """Take an event in; deltas and most kinds change nothing here."""
        self._round(event)

    def _round(self, event: Event) -> Round | None:
        """The round that the event belongs to, if any."""
        if not event.trace_id or not event.durable:
            return None
        return self.rounds.setdefault(
            event.trace_id, Round(event.trace_id, event.iteration, event.step_id, event.parent_id)
        )

    @fold.register
    def _(self, event: RecursionStart | RoundStart) -> None:
        if kept := self._round(event):
            kept.opened = True

    @fold.register
    def _(self, event: Observe) -> None:
        if kept := self._round(event):
            kept.observe = event.text

    @fold.register
    def _(self, event: Thought) -> None:
        self.thoughts.append(event.text)
        if kept := self._round(event):
            kept.thought = event.text

    @fold.register
    def _(self, event: Action) -> None:
        if kept := self._round(event):
            kept.action = event
            kept.step_id = event.step_id or kept.step_id

    @fold.register
    def _(self, event: ErrorRaised) -> None:
        if kept := self._round(event):
            kept.errors.append(event.message)

    @fold.register
    def _(self, event: ModelCalled) -> None:
        self._round(event)
        self.model_calls.append(event)
        usage = self.usage
        usage.input += event.input
        usage.output += event.output
        if "error" not in event.reply:
            usage.calls += 1
            self.models[event.model] = None
            usage.cost = None if usage.cost is None or event.cost is None else usage.cost + event.cost
        self.prompt_chars += event.prompt_chars
        self.prefix_chars += event.prefix_chars

    @fold.register
    def _(self, event: ToolCall) -> None:
        self.running[call_id(event)] = event
        if kept := self._round(event):
            kept.calls.append(event)

    @fold.register
    def _(self, event: ToolResult) -> None:
        self.running.pop(call_id(event), None)
        self.results.append(event)
        if kept := self._round(event):
            kept.results.append(event)
        if CallResult.of(event.result).unknown:
            self.unknown_steps |= {event.step_id}
        if item := self.plan.get(event.step_id):
            item.calls.append(event)
            item.unknown_outcome = event.step_id in self.unknown_steps

    @fold.register
    def _(self, event: Fallback) -> None:
        """The mode that takes over makes a plan of its own."""
        self.mode = event.to_mode
        self.goal, self.plan, self.running, self.unknown_steps = "", {}, {}, frozenset()

    @fold.register
    def _(self, event: ModeSelected) -> None:
        self.mode = event.mode

    @fold.register
    def _(self, event: ApprovalRequested) -> None:
        self.asked = {call["index"]: call for call in event.calls}

    @fold.register
    def _(self, event: ApprovalGiven | QuestionAnswered) -> None:
        self._round(event)
        self.answers.append(Answered(event, [*self.asked.values()]))

    @fold.register
    def _(self, event: CallPermitted) -> None:
        self._round(event)
        self.permitted[event.name] = None

    @fold.register
    def _(self, event: Steered) -> None:
        self.notes.append(event)

    @fold.register
    def _(self, event: NotesTaken) -> None:
        self._round(event)
        self.notes_taken.append(event)

    @fold.register
    def _(self, event: Recovered) -> None:
        self.recovered = True

    @fold.register
    def _(self, event: Cancelled) -> None:
        self.partial = event.partial

    @fold.register
    def _(self, event: PlanUpdate) -> None:
        self._round(event)
        finished = {str(step["step_id"]) for step in event.steps if step.get("status") == "done"}
        self.unknown_steps &= finished
        self.goal = event.goal
        self.plan = {str(step["step_id"]): self._item(step) for step in event.steps}

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
        """The time since a crash was not worked."""
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
