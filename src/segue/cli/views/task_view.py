"""What a task looks like at this moment, folded from its events."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import singledispatchmethod
from typing import Any

from segue.prompts.language import Language
from segue.prompts.phrases import PHRASES, RULE

from ...core.events import (
    Answer,
    ApprovalRequested,
    AttemptRestarted,
    Cancelled,
    Event,
    Fallback,
    Lifecycle,
    PlanUpdate,
    Resumed,
    StateChanged,
    StepUpdate,
    Thinking,
    Thought,
    Token,
    ToolCall,
    ToolResult,
)

CallKey = tuple[str, int]
STANDING = ("waiting", "paused", "done", "error", "cancelled")
"""Statuses of a task that is not worked on."""


def call_key(event: ToolCall | ToolResult) -> CallKey:
    """What pairs a result with its call: the step or the recursion, and the place in it."""
    return (event.step_id if not event.trace_id else event.trace_id, event.index)


_BANNERS = (RULE, *PHRASES["direct"])


def is_banner(event: Thinking) -> bool:
    """Whether this is a phase banner, which is announced whole, and not a piece of a thought."""
    return not event.trace_id and event.content.startswith(_BANNERS) and event.content.endswith("\n")


def is_unknown(result: Mapping[str, Any]) -> bool:
    """Whether a call's result says that nobody knows what became of it."""
    return bool(result.get("unknown_outcome")) or str(result.get("error", "")).startswith("unknown_outcome:")


@dataclass
class Item:
    """One step of the plan, with the calls that it made."""

    step_id: str
    description: str
    status: str
    note: str = ""
    calls: list[ToolResult] = field(default_factory=list)
    unsure: bool = False
    """Whether nobody knows what became of one of its calls."""
    priority: int | None = None
    result: str = ""
    """What it came to, where that is told."""
    began: float = 0.0
    """When it was last taken up, as Unix time; 0 while it is not worked on."""
    worked: float = 0.0
    """Seconds that it was worked on before that."""

    def stop(self, now: float) -> None:
        """It is not worked on from now."""
        self.worked, self.began = self.seconds(now), 0.0

    def seconds(self, now: float) -> float:
        """How long it has been worked on."""
        return self.worked + (max(now - self.began, 0.0) if self.began else 0.0)


@dataclass
class Scene:
    """The plan, the calls under way, and what is being written."""

    language: Language = "en"
    goal: str = ""
    items: dict[str, Item] = field(default_factory=dict)
    running: dict[CallKey, ToolCall] = field(default_factory=dict)
    thought: str = ""
    told: str = ""
    """The last thought that was printed while it was written."""
    answer: str = ""
    unsure: frozenset[str] = frozenset()
    """The steps with a call of which nobody knows what became of it."""
    asked: dict[int, dict[str, Any]] = field(default_factory=dict)
    """The calls that a person was last asked about, by their index."""

    def take_thought(self) -> str:
        """The thought so far, which is going to be printed."""
        if self.thought:
            self.told, self.thought = self.thought, ""
            return self.told
        return ""

    def was_told(self, event: Thought) -> bool:
        """Whether the whole thought is what was printed already."""
        return self.told.strip() == event.text.strip()

    @singledispatchmethod
    def fold(self, event: Event) -> None:
        """Take an event in; most kinds leave the scene as it is."""

    @fold.register
    def _(self, event: Thinking) -> None:
        if not is_banner(event):
            self.thought += event.content

    @fold.register
    def _(self, event: Thought) -> None:
        self.thought = self.told = ""

    @fold.register
    def _(self, event: Token) -> None:
        self.answer += event.content

    @fold.register(AttemptRestarted)
    @fold.register(Fallback)
    def _(self, event: AttemptRestarted | Fallback) -> None:
        self.thought = self.answer = ""
        if isinstance(event, Fallback):
            self.items, self.running, self.unsure = {}, {}, frozenset()

    @fold.register(Answer)
    @fold.register(Cancelled)
    def _(self, event: Answer | Cancelled) -> None:
        self.thought = self.answer = ""

    @fold.register
    def _(self, event: ApprovalRequested) -> None:
        self.asked = {call["index"]: call for call in event.calls}

    @fold.register
    def _(self, event: PlanUpdate) -> None:
        old = self.items
        self.goal = event.goal
        self.items = {}
        self.unsure &= {str(step["step_id"]) for step in event.steps if step["status"] == "done"}
        for step in event.steps:
            step_id = str(step["step_id"])
            calls = old[step_id].calls if step_id in old and step["status"] == "done" else []
            item = Item(step_id, step["description"], step["status"], step.get("note", ""), calls)
            item.unsure = step_id in self.unsure
            item.priority = step.get("priority")
            self.items[step_id] = item

    @fold.register
    def _(self, event: StepUpdate) -> None:
        item = self.items.setdefault(event.step_id, Item(event.step_id, event.description, event.status))
        item.status, item.note = event.status, event.note
        if event.status == "running":
            item.began = event.timestamp
        else:
            item.stop(event.timestamp)

    @fold.register
    def _(self, event: Lifecycle) -> None:
        item = self.items.get(str(event.details.get("task_id")))
        if item and event.details.get("result"):
            item.result = str(event.details["result"])

    @fold.register
    def _(self, event: StateChanged) -> None:
        for item in self._under_way():
            if event.new in STANDING:
                item.stop(event.timestamp)
            elif event.new == "running":
                item.began = item.began or event.timestamp

    @fold.register
    def _(self, event: Resumed) -> None:
        """The time since a crash was not worked."""
        for item in self._under_way():
            item.began = event.timestamp

    def _under_way(self) -> list[Item]:
        return [item for item in self.items.values() if item.status == "running"]

    @fold.register
    def _(self, event: ToolCall) -> None:
        self.running[call_key(event)] = event

    @fold.register
    def _(self, event: ToolResult) -> None:
        self.running.pop(call_key(event), None)
        if is_unknown(event.result):
            self.unsure |= {event.step_id}
        if event.step_id in self.items:
            self.items[event.step_id].calls.append(event)
            self.items[event.step_id].unsure = event.step_id in self.unsure
