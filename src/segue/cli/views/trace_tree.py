"""A task's trace as a tree: task, modes, recursions or steps, their calls, and the ledger."""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import singledispatchmethod
from typing import Any

from rich.text import Text
from rich.tree import Tree

from segue.prompts.language import language_of

from ...core.events import (
    Action,
    Answer,
    ApprovalGiven,
    ApprovalRequested,
    Cancelled,
    ErrorRaised,
    Event,
    Fallback,
    ModeSelected,
    Observe,
    Paused,
    PlanUpdate,
    Recovered,
    RecursionStart,
    Resumed,
    Steered,
    StepUpdate,
    Thought,
    ToolCall,
    ToolResult,
    from_dict,
)
from . import lines
from .ledger_tree import MOST, Call, add_ledger, begun_at
from .lines import Signs
from .sanitize import one_line
from .tables import status_text, when
from .task_view import CallKey, Item, Scene, call_key


def trace_tree(trace: Mapping[str, Any], signs: Signs = lines.SIGNS) -> Tree:
    """Draw what `App.trace` returned."""
    task = trace["task"]
    language = language_of(task["message"])
    drawing = _Drawing(Tree(_task_label(task)), trace["calls"], signs, language)
    for form in trace["events"]:
        drawing.add(from_dict(form))
    drawing.end()
    if trace["calls"]:
        add_ledger(drawing.root, trace, signs, language)
    if task["error"]:
        drawing.root.add(Text(f"error: {one_line(task['error'], MOST)}", style="red"))
    return drawing.root


def _task_label(task: Mapping[str, Any]) -> Text:
    text = Text.assemble(("task ", "dim"), (task["task_id"], "bold"), "  ", status_text(task))
    text.append(f"\n{one_line(task['message'], MOST)}\n")
    facts = {"session": task["thread_id"], "agent": task["agent_id"], "user": task["user_id"], "mode": task["mode"]}
    said = "  ".join(f"{name} {one_line(value)}" for name, value in facts.items())
    return text.append(f"{said}  {when(task['created_at'])}", style="dim")


class _Drawing:
    """Adds events to the tree in their order, each where it belongs."""

    def __init__(self, root: Tree, ledger: Sequence[Call], signs: Signs, language: str) -> None:
        self.root = root
        self._ledger = ledger
        self._signs = signs
        self._language = language
        self._mode = root
        self._here = root
        """Where the task stands: what has no place of its own happened there."""
        self._recursions: dict[str, Tree] = {}
        self._decided: dict[CallKey, tuple[ToolCall, Tree]] = {}
        """Calls that are not drawn yet, since nothing is known of them, and where they belong."""
        self._scene = Scene()
        self._steps: dict[str, Tree] = {}

    def add(self, event: Event) -> None:
        self._scene.fold(event)
        self._add(event)

    def end(self) -> None:
        """Draw the calls that have no result."""
        self._draw_begun(math.inf)
        for call, place in self._decided.values():
            place.add(lines.decided_line(call, self._signs))

    def _draw_begun(self, before: float) -> None:
        """Draw the calls that were under way at a time."""
        for key, (call, place) in list(self._decided.items()):
            if begun_at(self._ledger, key, call.timestamp) < before:
                place.add(lines.call_line(call, self._signs))
                del self._decided[key]

    def _place(self, event: Event) -> Tree:
        """The recursion or the step that the event belongs to, else the mode."""
        self._here = self._recursions.get(event.trace_id) or self._steps.get(event.step_id) or self._mode
        return self._here

    def _interrupt(self, event: Event, line: Text) -> Tree:
        """Draw what came between, below the calls that it cut off."""
        self._draw_begun(event.timestamp)
        return self._here.add(line)

    def _branches(self, title: str, entries: Iterable[tuple[str, Text]]) -> None:
        """Draw lines below a title, in each of the steps that they are of, or where the task stands."""
        branches: dict[str, Tree] = {}
        for step_id, line in entries:
            if step_id not in branches:
                self._here = self._steps.get(step_id) or self._here
                branches[step_id] = self._here.add(Text(title, style="yellow"))
            branches[step_id].add(line)

    @singledispatchmethod
    def _add(self, event: Event) -> None:
        """What the tree shows otherwise, or not at all."""

    @_add.register
    def _(self, event: ModeSelected) -> None:
        self._here = self._mode = self.root.add(lines.mode_line(event))

    @_add.register
    def _(self, event: Fallback) -> None:
        self._mode.add(lines.fallback_line(event))
        self._here = self._mode = self.root.add(Text.assemble(("mode ", "dim"), (one_line(event.to_mode), "bold")))
        self._steps = {}

    @_add.register
    def _(self, event: RecursionStart) -> None:
        label = Text.assemble((f"round {event.iteration}", "bold cyan"), (f"  trace {event.trace_id[:8]}", "dim"))
        place = self._steps.get(event.step_id) or self._mode
        self._here = self._recursions[event.trace_id] = place.add(label)

    @_add.register
    def _(self, event: Observe) -> None:
        self._place(event).add(_named("observe", event.text))

    @_add.register
    def _(self, event: Thought) -> None:
        self._place(event).add(_named("thought", event.text))

    @_add.register
    def _(self, event: Action) -> None:
        self._place(event).add(_named("action", event.action_type))

    @_add.register
    def _(self, event: PlanUpdate) -> None:
        plan = self._place(event).add(_named("plan", event.goal))
        self._steps = {key: plan.add(lines.item_line(item, self._signs)) for key, item in self._scene.items.items()}

    @_add.register
    def _(self, event: StepUpdate) -> None:
        item: Item = self._scene.items[event.step_id]
        line = lines.item_line(item, self._signs)
        if event.step_id in self._steps:
            self._steps[event.step_id].label = line
        else:
            self._steps[event.step_id] = self._place(event).add(line)

    @_add.register
    def _(self, event: ToolCall) -> None:
        self._decided[call_key(event)] = event, self._place(event)

    @_add.register
    def _(self, event: ToolResult) -> None:
        self._decided.pop(call_key(event), None)
        self._place(event).add(lines.outcome_line(event, self._signs, MOST, self._language))

    @_add.register
    def _(self, event: Answer) -> None:
        self._place(event).add(_named("answer", event.answer))

    @_add.register
    def _(self, event: ErrorRaised) -> None:
        place = self._place(event) if event.trace_id or event.step_id else self._here
        place.add(Text(f"error: {one_line(event.message, MOST)}", style="red"))

    @_add.register
    def _(self, event: Paused) -> None:
        self._interrupt(event, Text(f"paused: {one_line(event.reason, MOST)}", style="yellow"))

    @_add.register
    def _(self, event: Resumed) -> None:
        self._interrupt(event, Text("resumed", style="yellow"))

    @_add.register
    def _(self, event: Steered) -> None:
        self._here.add(lines.steered_line(event, MOST))

    @_add.register
    def _(self, event: ApprovalRequested) -> None:
        asked = ((str(call.get("step_id", "")), lines.asked_line(call, self._signs)) for call in event.calls)
        self._branches("approval asked", asked)

    @_add.register
    def _(self, event: ApprovalGiven) -> None:
        calls = [self._scene.asked.get(verdict["index"], {}) for verdict in event.verdicts]
        self._branches(
            "approval given",
            (
                (str(call.get("step_id", "")), lines.verdict_line(verdict, call, self._signs))
                for verdict, call in zip(event.verdicts, calls, strict=True)
            ),
        )

    @_add.register
    def _(self, event: Cancelled) -> None:
        cancelled = self._interrupt(event, Text("cancelled", style="yellow"))
        if event.partial:
            cancelled.add(_named("written so far", event.partial))

    @_add.register
    def _(self, event: Recovered) -> None:
        line = lines.recovered_line(event, MOST).append(f"  ({one_line(event.checkpoint_id)})", style="dim")
        self._interrupt(event, line)


def _named(name: str, text: str) -> Text:
    return Text.assemble((f"{name}: ", "dim"), one_line(text, MOST))
