"""A task's trace as a tree: task, modes, recursions or steps, their calls, and the ledger."""

import math
from collections.abc import Iterable, Sequence
from functools import singledispatchmethod

from rich.text import Text
from rich.tree import Tree

from ...core.conversation import PREFIXES, Utterance, spoken
from ...core.events import (
    Action,
    Answer,
    ApprovalGiven,
    ApprovalRequested,
    BranchEnd,
    BranchStart,
    CallPermitted,
    Cancelled,
    ConversationEnd,
    ErrorRaised,
    Event,
    Fallback,
    FlowEnd,
    ModeSelected,
    Observe,
    Paused,
    PlanUpdate,
    QuestionAnswered,
    QuestionAsked,
    Recovered,
    RecursionStart,
    Resumed,
    RoundStart,
    Steered,
    StepUpdate,
    Thought,
    ToolCall,
    ToolResult,
    Uttered,
)
from ...core.records import Call, Task, TaskTrace
from ...core.task_status import ACTIVE
from ...prompts.catalogue import sentence
from ...prompts.language import Language
from ...prompts.words import label, word
from ...runtime.projection import CallId, Projection, call_id
from . import lines
from .lines import UNKNOWN_STYLE, Signs, outcome_sign
from .sanitize import arguments_line, one_line, result_line
from .tables import status_text, when

MOST = 160
"""Columns of one entry."""


def trace_tree(
    trace: TaskTrace, signs: Signs = lines.SIGNS, language: Language = "en", *, interrupted: bool = False
) -> Tree:
    """Draw the trace of a task; `interrupted` by the end of its process."""
    task = trace.task
    drawing = _Drawing(Tree(_task_label(task, language, interrupted)), trace.calls, signs, language)
    for event in trace.events:
        drawing.add(event)
    drawing.end()
    _add_prompts(drawing.root, drawing.task, language)
    if trace.calls:
        under_way = task.status in ACTIVE and not interrupted
        _add_ledger(drawing.root, trace, under_way, signs, language)
    if task.error:
        drawing.root.add(Text(label("error", language) + one_line(task.error, MOST), style="red"))
    return drawing.root


def _add_prompts(root: Tree, task: Projection, language: str) -> None:
    """What the task's prompts came to, and how much of them an endpoint could have kept from the one before."""
    if task.prompt_chars:
        share = f"{task.prefix_chars / task.prompt_chars:.0%}"
        about = {"n": f"{task.prompt_chars:,}", "calls": task.usage.calls, "share": share}
        root.add(Text(sentence("prompts_sent", language, **about), style="dim"))


def _task_label(task: Task, language: str, interrupted: bool) -> Text:
    named = ((f"{word('task', language)} ", "dim"), (task.task_id, "bold"))
    text = Text.assemble(*named, "  ", status_text(task.status, language, interrupted=interrupted))
    text.append(f"\n{one_line(task.message, MOST)}\n")
    facts = {"session": task.thread_id, "agent": task.agent_id, "user": task.user_id, "mode": task.mode}
    summary = "  ".join(f"{word(name, language)} {one_line(value)}" for name, value in facts.items())
    return text.append(f"{summary}  {when(task.created_at)}", style="dim")


class _Drawing:
    """Adds events to the tree in their order, each where it belongs."""

    def __init__(self, root: Tree, ledger: Sequence[Call], signs: Signs, language: str) -> None:
        self.root = root
        self._ledger = ledger
        self._signs = signs
        self._language = language
        self._mode = root
        self._here = root
        """The place of the newest event: what has no place of its own happened there."""
        self._recursions: dict[str, Tree] = {}
        self._in_steps: set[str] = set()
        """Recursions that are drawn below the step that they carry out."""
        self._decided: dict[CallId, tuple[ToolCall, Tree]] = {}
        """Calls that are not drawn yet, since nothing is known of them, and where they belong."""
        self._open: dict[str, Tree] = {}
        """The branches of flows, by the round that chose them: what happens in one is drawn below it."""
        self.task = Projection()
        self._steps: dict[str, Tree] = {}

    def add(self, event: Event) -> None:
        self.task.fold(event)
        self._add(event)

    def end(self) -> None:
        """Draw the calls that have no result."""
        self._draw_begun(math.inf)
        for call, place in self._decided.values():
            place.add(lines.decided_line(call, self._signs, self._language))

    def _draw_begun(self, before: float) -> None:
        """Draw the calls that were under way at a time."""
        for key, (call, place) in list(self._decided.items()):
            if _begun_at(self._ledger, key, call.timestamp) < before:
                place.add(lines.call_line(call, self._signs))
                del self._decided[key]

    def _place(self, event: Event) -> Tree:
        """The recursion or the step that the event belongs to, else the mode."""
        self._here = self._recursions.get(event.trace_id) or self._steps.get(event.step_id) or self._mode
        return self._here

    def _step_of(self, event: Event) -> str:
        """The plan's step that an event of a round is for, unless the round is drawn below it."""
        below = event.trace_id not in self._recursions or event.trace_id in self._in_steps
        return "" if below or not event.step_id else f"  {word('step', self._language)} {one_line(event.step_id)}"

    def _round(self, event: RecursionStart | RoundStart, more: str = "") -> Text:
        """The label of a round."""
        number = sentence("round", self._language, n=event.iteration)
        trace = f"  {word('trace', self._language)} {event.trace_id[:8]}"
        return Text.assemble((number, "bold cyan"), (f"{more}{trace}", "dim"))

    def _interrupt(self, event: Event, line: Text) -> Tree:
        """Draw what came between, below the calls that it interrupted."""
        self._draw_begun(event.timestamp)
        return self._here.add(line)

    def _branches(self, title: str, entries: Iterable[tuple[str, Text]]) -> None:
        """Draw lines below a title, in each of the steps that they are of, or at the place of the newest event."""
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
    def _(self, event: Uttered) -> None:
        utterance = Utterance.of(event.utterance)
        if text := spoken(utterance):
            self._mode.add(Text.assemble((PREFIXES[utterance.role], "bold"), f" {one_line(text, MOST)}"))

    @_add.register
    def _(self, event: ConversationEnd) -> None:
        ended = sentence("conversation_ended", self._language, reason=event.reason, turns=event.turns)
        self._mode.add(Text(ended, style="dim"))

    @_add.register
    def _(self, event: ModeSelected) -> None:
        self._here = self._mode = self.root.add(lines.mode_line(event, self._language))

    @_add.register
    def _(self, event: Fallback) -> None:
        self._mode.add(lines.fallback_line(event, self._language))
        mode = ModeSelected(task_id=event.task_id, mode=event.to_mode, reason="")
        self._here = self._mode = self.root.add(lines.mode_line(mode, self._language))
        self._steps = {}

    @_add.register
    def _(self, event: RecursionStart) -> None:
        place = self._open.get(event.parent_id) or self._steps.get(event.step_id) or self._mode
        if event.step_id in self._steps:
            self._in_steps.add(event.trace_id)
        self._here = self._recursions[event.trace_id] = place.add(self._round(event))

    @_add.register
    def _(self, event: RoundStart) -> None:
        place = self._open.get(event.parent_id) or self._mode
        flow = f"  {word('flow', self._language)} {one_line(event.flow)}"
        self._here = self._recursions[event.trace_id] = place.add(self._round(event, flow))

    @_add.register
    def _(self, event: BranchStart) -> None:
        self._open[event.trace_id] = self._here = self._place(event).add(lines.branch_line(event, self._signs))

    @_add.register
    def _(self, event: BranchEnd) -> None:
        branch = self._open.get(event.trace_id) or self._place(event)
        branch.add(lines.branch_end_line(event, self._signs, MOST))
        self._place(event)

    @_add.register
    def _(self, event: FlowEnd) -> None:
        place = self._open.get(event.parent_id) or self._mode
        place.add(lines.flow_end_line(event, self._language, MOST))

    @_add.register
    def _(self, event: QuestionAsked) -> None:
        self._here.add(_named("question", event.question, self._language))

    @_add.register
    def _(self, event: QuestionAnswered) -> None:
        (self._open.get(event.trace_id) or self._place(event)).add(_named("answered", event.answer, self._language))

    @_add.register
    def _(self, event: Observe) -> None:
        self._place(event).add(_named("observe", event.text, self._language))

    @_add.register
    def _(self, event: Thought) -> None:
        self._place(event).add(_named("thought", event.text, self._language))

    @_add.register
    def _(self, event: Action) -> None:
        self._place(event).add(_named("action", f"{event.action_type}{self._step_of(event)}", self._language))

    @_add.register
    def _(self, event: PlanUpdate) -> None:
        plan = self._place(event).add(_named("plan", event.goal, self._language))
        self._steps = {key: plan.add(lines.item_line(item, self._signs)) for key, item in self.task.plan.items()}

    @_add.register
    def _(self, event: StepUpdate) -> None:
        item = self.task.plan[event.step_id]
        line = lines.item_line(item, self._signs)
        if event.step_id in self._steps:
            self._steps[event.step_id].label = line
        else:
            self._steps[event.step_id] = self._place(event).add(line)

    @_add.register
    def _(self, event: ToolCall) -> None:
        self._decided[call_id(event)] = event, self._place(event)

    @_add.register
    def _(self, event: ToolResult) -> None:
        self._decided.pop(call_id(event), None)
        self._place(event).add(lines.outcome_line(event, self._signs, self._language, MOST, self._step_of(event)))

    @_add.register
    def _(self, event: Answer) -> None:
        self._place(event).add(_named("answer", event.answer, self._language))

    @_add.register
    def _(self, event: ErrorRaised) -> None:
        place = self._place(event) if event.trace_id or event.step_id else self._here
        place.add(Text(label("error", self._language) + one_line(event.message, MOST), style="red"))

    @_add.register
    def _(self, event: Paused) -> None:
        self._interrupt(event, Text(label("paused", self._language) + one_line(event.reason, MOST), style="yellow"))

    @_add.register
    def _(self, event: Resumed) -> None:
        how = "resumed with a changed agent" if event.agent_changed else "resumed"
        self._interrupt(event, Text(word(how, self._language), style="yellow"))

    @_add.register
    def _(self, event: Steered) -> None:
        self._here.add(lines.steered_line(event, self._language, MOST))

    @_add.register
    def _(self, event: ApprovalRequested) -> None:
        asked = ((str(call.get("step_id", "")), lines.asked_line(call, self._signs)) for call in event.calls)
        self._branches(word("approval requested", self._language), asked)

    @_add.register
    def _(self, event: ApprovalGiven) -> None:
        calls = [self.task.asked.get(verdict["index"], {}) for verdict in event.verdicts]
        self._branches(
            word("approval given", self._language),
            (
                (str(call.get("step_id", "")), lines.verdict_line(verdict, call, self._signs, self._language))
                for verdict, call in zip(event.verdicts, calls, strict=True)
            ),
        )

    @_add.register
    def _(self, event: CallPermitted) -> None:
        said = lines.approval_lines(event, self.task, self._signs, self._language)
        self._branches(word("approval given", self._language), ((event.step_id, line) for line in said))

    @_add.register
    def _(self, event: Cancelled) -> None:
        cancelled = self._interrupt(event, Text(word("cancelled", self._language), style="yellow"))
        if event.partial:
            cancelled.add(_named("written so far", event.partial, self._language))

    @_add.register
    def _(self, event: Recovered) -> None:
        line = lines.recovered_line(event, self._language, MOST)
        self._interrupt(event, line.append(f"  ({one_line(event.checkpoint_id)})", style="dim"))


def _named(name: str, text: str, language: str) -> Text:
    return Text.assemble((label(name, language), "dim"), one_line(text, MOST))


def _begun_at(calls: Sequence[Call], key: CallId, after: float) -> float:
    """When the call that was decided at a time began to run; infinity if it did not."""
    return min((c.started_at for c in calls if _key(c) == key and c.started_at >= after), default=math.inf)


def _key(call: Call) -> CallId:
    """What the events name the call by; a step's scope is step_id#attempt."""
    return call.scope.rpartition("#")[0] or call.scope, call.idx


def _add_ledger(root: Tree, trace: TaskTrace, under_way: bool, signs: Signs, language: str) -> None:
    """Add the calls of a trace below the root, in the order in which they began to run."""
    counted = sentence("ledger_one" if len(trace.calls) == 1 else "ledger", language, n=len(trace.calls))
    ledger = root.add(Text(counted, style="bold"))
    for call in trace.calls:
        ledger.add(_entry(call, trace.events, under_way, signs, language))


def _entry(call: Call, events: Sequence[Event], under_way: bool, signs: Signs, language: str) -> Text:
    sign, style, known = _state_of(call, under_way, signs)
    text = Text.assemble((f"{sign} ", style), (one_line(call.name), "bold"))
    text.append(f"({arguments_line(call.arguments)})", style="dim")
    took = _duration(call, events, language) if call.outcome and sign != signs.unknown else ""
    text.append(f"  {word(known, language)}{took}", style=style)
    text.append(f"  {one_line(call.scope, 12)} #{call.idx}", style="dim")
    if call.orphaned:
        text.append(f"  {word('from before the session was recovered', language)}", style="dim")
    if sign == signs.unknown:
        text.append(f"\n    {sentence('unknown', language)}", style=UNKNOWN_STYLE)
    if call.outcome:
        text.append(f"\n    {result_line(call.outcome, MOST)}")
    return text


def _duration(call: Call, events: Sequence[Event], language: str) -> str:
    """How long the call took; of one that ran again after a resume, how long the last run took."""
    began, ended = call.started_at, call.finished_at or call.started_at
    if not any(isinstance(event, Resumed) and began < event.timestamp < ended for event in events):
        return "  " + sentence("took", language, seconds=f"{ended - began:.2f}")
    later = (event for event in events if isinstance(event, ToolResult) and event.timestamp >= ended)
    took = next((event.seconds for event in later if call_id(event) == _key(call)), None)
    again = sentence("run_again", language)
    return again if took is None else again + "  " + sentence("took", language, seconds=f"{took:.2f}")


def _state_of(call: Call, under_way: bool, signs: Signs) -> tuple[str, str, str]:
    """Sign, style and words for a call; `under_way` if a process runs its task."""
    if call.state != "done" and under_way:
        return signs.begins, "cyan", "running"
    if call.state != "done":
        return signs.unknown, UNKNOWN_STYLE, "started, outcome unknown"
    sign, style = outcome_sign(call.outcome or {}, signs)
    return sign, style, "outcome unknown" if sign == signs.unknown else call.state
