"""A task as it is stored: its summary, and its trace as a tree."""

import math
from collections.abc import Mapping, Sequence
from functools import singledispatchmethod
from typing import Any, Protocol

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from ...core.actor import HTTP, OPERATOR, PYTHON, SEGUE, person
from ...core.calls import CallResult, CallStatus
from ...core.conversation import PREFIXES, Utterance, spoken
from ...core.events import (
    Action,
    AgentCalled,
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
    NotesMoved,
    Observe,
    Paused,
    Phase,
    PlanUpdate,
    QuestionAnswered,
    QuestionAsked,
    Recovered,
    RecursionStart,
    Resumed,
    RoundStart,
    StateChanged,
    Steered,
    Thought,
    ToolCall,
    ToolResult,
    Uttered,
    Waiting,
    WaitStarted,
)
from ...core.records import Call, Json, Task, TaskTrace
from ...core.task import ACTIVE, TaskStatus
from ...prompts.catalogue import Language, label, terminal_text, word
from ...runtime.reply import (
    Added,
    AnswerDone,
    CallId,
    Entry,
    HumanAnswer,
    Kind,
    Opened,
    Part,
    PlanItem,
    Projection,
    ReplyStream,
    TextDone,
    TextDropped,
    TextPaused,
    call_id,
    project,
)
from . import lines
from .console import (
    arguments_line,
    one_line,
    plain_line,
    print_error,
    print_note,
    result_line,
    stderr_console,
    write_answer,
    write_json,
)
from .lines import UNKNOWN_STYLE, Symbols, outcome_sign
from .tables import status_text, when

_ACTORS = {HTTP: "", PYTHON: "a program", OPERATOR: "the agents file", SEGUE: "a deadline"}
"""What decides other than a person or a key; of a caller without a key nothing is known."""

# What the views of a task share: which parts of its reply they show, and the views that print JSON or the answer.


class View(Protocol):
    """Shows one task's events as they come."""

    writing: bool
    """Whether the answer is being written."""

    def recall(self, event: Event) -> None:
        """Take in what happened before, without showing it."""
        ...

    def show(self, event: Event) -> None: ...

    def notice(self, sentence: str) -> None:
        """Show a sentence of the command line's own in between."""
        ...

    def rest(self) -> None:
        """Pause while a person is asked; the next event continues."""
        ...

    def finish(self) -> None: ...


class TaskView:
    """Shows the parts of a task's reply; a subclass says how each looks."""

    shows_thoughts = True

    def __init__(self, console: Console, language: Language = "en") -> None:
        self.reply = ReplyStream()
        self.shows_answer = True
        """Whether the text of the answer is shown here."""
        self.writing = False
        self.printed_before = ""
        """What an earlier view of the task printed of the answer."""
        self._task_id = ""
        self._is_whole = False
        """Whether the answer is."""
        self._console = console
        self._language = language
        self._signs = lines.symbols_for(console)
        self._thought = ""
        """What was streamed of a thought and not printed yet."""
        self._printed = ""
        """The thought that was printed last, until something else is shown."""

    @property
    def task(self) -> Projection:
        return self.reply.task

    def recall(self, event: Event) -> None:
        self.reply.recall([event])

    def show(self, event: Event) -> None:
        self._task_id = event.task_id
        for part in self.reply.of(event):
            self.show_part(part)

    def printed(self, task_id: str) -> str:
        """What was printed of the answer of this task; a line that was not finished is printed again."""
        if task_id != self._task_id:
            return ""
        text, before = self.reply.text, self.printed_before
        printed = before if before.startswith(text) else text
        return printed if self._is_whole else printed[: printed.rfind("\n") + 1]

    def _unprinted(self, text: str) -> str:
        """The answer, or what there is of it, without what was printed before."""
        return "" if self.printed_before.startswith(text) else text.removeprefix(self.printed_before)

    def show_part(self, part: Part) -> None:
        self.writing = isinstance(part, Added) and part.kind is Kind.TEXT
        self._is_whole |= isinstance(part, AnswerDone)
        match part:
            case Added(Kind.THOUGHT, text):
                self._thought += text if self.shows_thoughts else ""
            case TextDone(Kind.THOUGHT, text):
                self._complete_thought(text)
            case Opened() | TextPaused() | Phase(call=True):
                pass
            case Phase():
                self._show_phase(part)
            case _:
                self._print_thought()
                self._printed = ""
                self._show(part)

    def _complete_thought(self, text: str) -> None:
        """Print a whole thought, with what was streamed before it, unless it was printed already."""
        text = text.strip()
        if not self.shows_thoughts or text in self._printed:
            return
        if text not in self._thought:
            self._thought = text
        self._print_thought()

    def _print_thought(self) -> None:
        thought, self._thought = self._thought, ""
        if thought.strip():
            self._printed = thought
            self._print(lines.thought_text(thought))

    def _print_notice(self, part: Part) -> None:
        for line in lines.notice_lines(part, self.task, self._signs, self._language):
            self._print(line)

    def _print(self, text: Text) -> None:
        raise NotImplementedError

    def _show_phase(self, phase: Phase) -> None:
        raise NotImplementedError

    def _show(self, part: Part) -> None:
        raise NotImplementedError

    def notice(self, sentence: str) -> None:
        raise NotImplementedError

    def rest(self) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        raise NotImplementedError


class AnswerView:
    """Shows progress in another view; standard output gets the answer alone, once it is whole.

    Warnings are written to standard error even where no progress is shown (`quiet`).
    """

    def __init__(self, progress: TaskView, quiet: bool, language: Language) -> None:
        self._progress = progress
        progress.shows_answer = False
        self._quiet, self._language = quiet, language
        self.recall, self.notice = progress.recall, progress.notice
        self._answers: list[str] = []
        self.writing = False

    def show(self, event: Event) -> None:
        for part in self._progress.reply.of(event):
            match part:
                case AnswerDone():
                    self._answers.append(part.whole)
                case Added(Kind.TEXT) | TextDone(Kind.TEXT) | TextDropped():
                    pass
                case Waiting(seconds=None) | Resumed(agent_changed=True) if self._quiet:
                    for line in lines.notice_lines(
                        part, Projection(), lines.symbols_for(stderr_console()), self._language
                    ):
                        print_note(line.plain)
                case _:
                    self._progress.show_part(part)

    def rest(self) -> None:
        self._progress.rest()
        self._write()

    def finish(self) -> None:
        self._progress.finish()
        self._write()

    def _write(self) -> None:
        answers, self._answers = self._answers, []
        for answer in answers:
            write_answer(answer)


class JsonView:
    """One JSON object a line."""

    writing = False

    def recall(self, event: Event) -> None:
        pass

    def show(self, event: Event) -> None:
        write_json(event.json())

    def notice(self, sentence: str) -> None:
        print_error(sentence)

    def rest(self) -> None:
        pass

    def finish(self) -> None:
        pass

    def result(self, task: Task, **more: Any) -> None:
        """The last line: the task's result."""
        write_json(result_form(task, **more))


def result_form(task: Task, **more: Any) -> Json:
    """A task's result as JSON; `unknown_outcomes` are the calls that may or may not have taken effect."""
    return {
        "type": "result",
        "session_id": task.session_id,
        "task_id": task.task_id,
        "status": task.status,
        "error": task.error,
        "result": task.result,
        "unknown_outcomes": (task.result or {}).get("unknown_outcomes") or [],
        **more,
    }


# A task's trace as a tree: task, modes, recursions or steps, their calls, and the ledger.

MOST = 160
"""Columns of one entry."""
STOPS = Paused | Resumed | Cancelled | Recovered


def trace_tree(
    trace: TaskTrace, signs: Symbols = lines.SIGNS, language: Language = "en", *, interrupted: bool = False
) -> Tree:
    """Draw the trace of a task; `interrupted` by the end of its process."""
    task, known = trace.task, project(trace.events)
    root = Tree(_task_label(task, language, interrupted))
    _Drawing(trace, signs, language).draw(known.trace.root, root)
    if known.prompt_chars:  # and how much of the prompts an endpoint could have kept from the one before
        share = f"{known.prefix_chars / known.prompt_chars:.0%}"
        about = {"n": f"{known.prompt_chars:,}", "calls": known.usage.calls, "share": share}
        name = "prompts_sent_one" if known.usage.calls == 1 else "prompts_sent"
        root.add(Text(terminal_text(name, language, **about), style="dim"))
    if trace.calls:  # in the order in which they began to run
        status = None if interrupted else task.status
        counted = terminal_text("ledger_one" if len(trace.calls) == 1 else "ledger", language, n=len(trace.calls))
        ledger = root.add(Text(counted, style="bold"))
        for call in trace.calls:
            ledger.add(lines.hanging(_entry(call, trace.events, status, signs, language)))
    if task.error:
        root.add(Text(label("error", language) + one_line(task.error, MOST), style="red"))
    return root


def _task_label(task: Task, language: str, interrupted: bool) -> Text:
    named = ((f"{word('task', language)} ", "dim"), (task.task_id, "bold"))
    text = Text.assemble(*named, "  ", status_text(task.status, language, interrupted=interrupted))
    text.append(f"\n{one_line(task.message, MOST)}\n")
    facts = {"session": task.session_id, "agent": task.agent_id, "user": task.user_id, "mode": task.mode}
    summary = "  ".join(f"{word(name, language)} {one_line(value)}" for name, value in facts.items())
    return text.append(f"{summary}  {when(task.created_at)}", style="dim")


class _Drawing:
    """Draws the entries of a trace, each as a line with its own entries below."""

    def __init__(self, trace: TaskTrace, signs: Symbols, language: str) -> None:
        self._calls = trace.calls
        self._called = {each.task.task_id: each for each in trace.called}
        self._stops = [event.timestamp for event in trace.events if isinstance(event, STOPS)]
        self._signs = signs
        self._language = language
        self._names_steps = False
        """Whether a line names the step that it is for: those below a step need not."""

    def draw(self, place: Entry, tree: Tree, in_step: bool = False) -> None:
        """Draw what a place contains; `in_step` if that is a step of the plan or part of one."""
        undrawn: dict[CallId, ToolCall] = {}
        for entry in place.entries:
            event = entry.of
            if isinstance(event, ToolCall):
                undrawn[call_id(event)] = event
                continue
            if isinstance(event, ToolResult | STOPS):
                self._draw_begun(undrawn, tree, max((at for at in self._stops if at <= event.timestamp), default=0.0))
            if isinstance(event, ToolResult):
                undrawn.pop(call_id(event), None)
            self._names_steps = isinstance(place.of, RecursionStart | RoundStart) and not in_step
            if line := self._line(event):
                self._draw_below(entry, tree.add(lines.hanging(line)), in_step)
        self._draw_begun(undrawn, tree, math.inf)
        for call in undrawn.values():
            tree.add(lines.decided_line(call, self._signs, self._language))

    def _draw_begun(self, undrawn: dict[CallId, ToolCall], tree: Tree, before: float) -> None:
        """Draw the calls without a result that began before a time."""
        for key, call in list(undrawn.items()):
            if _begun_at(self._calls, key, call.timestamp) < before:
                tree.add(lines.call_line(call, self._signs))
                del undrawn[key]

    def _draw_below(self, entry: Entry, tree: Tree, in_step: bool) -> None:
        match entry.of:
            case ApprovalRequested(calls=asked):
                for call in asked:
                    tree.add(lines.asked_line(call, self._signs, self._language))
            case HumanAnswer(given=ApprovalGiven(verdicts=verdicts), calls=calls):
                for verdict, about in zip(verdicts, calls, strict=True):
                    line = lines.verdict_line(verdict, about, self._signs, self._language)
                    tree.add(line.append(self._by(verdict), style="dim"))
            case CallPermitted():
                tree.add(lines.permitted_line(entry.of, self._signs, self._language))
            case AgentCalled(called_task_id=task_id) if trace := self._called.get(task_id):
                below = _Drawing(trace, self._signs, self._language)
                below.draw(project(trace.events).trace.root, tree)
            case Cancelled(partial=str(partial)) if partial:
                tree.add(self._named("written so far", partial))
        self.draw(entry, tree, in_step or isinstance(entry.of, PlanItem))

    def _by(self, verdict: Mapping[str, Any]) -> str:
        """Who decided so, and when."""
        told = []
        for each in verdict.get("by", ()):
            name = _ACTORS.get(each["by"])
            name = one_line(person(each["by"])) if name is None else word(name, self._language)
            moment = when(each["at"])
            told.append(terminal_text("decided_by", self._language, who=f"{name} {moment}") if name else moment)
        return f"  {', '.join(told)}" if told else ""

    def _step(self, event: Action | ToolResult) -> str:
        named = self._names_steps and event.step_id
        return f"  {word('step', self._language)} {one_line(event.step_id)}" if named else ""

    def _named(self, name: str, text: str) -> Text:
        return Text.assemble((label(name, self._language), "dim"), one_line(text, MOST))

    @singledispatchmethod
    def _line(self, what: object) -> Text | None:
        """The line of an entry; None for one that the tree does not show."""
        return None

    @_line.register
    def _(self, what: Thought | Observe) -> Text:
        return self._named(what.type, what.text)

    @_line.register
    def _(self, what: Answer) -> Text:
        return Text.assemble((label("answer", self._language), "dim"), plain_line(what.answer, MOST))

    @_line.register
    def _(self, what: Action) -> Text:
        return self._named("action", what.action_type + self._step(what))

    @_line.register
    def _(self, what: PlanUpdate) -> Text:
        return self._named("plan", what.goal)

    @_line.register
    def _(self, what: PlanItem) -> Text:
        return lines.item_line(what, self._signs)

    @_line.register
    def _(self, what: QuestionAsked) -> Text:
        return self._named("question", what.question)

    @_line.register
    def _(self, what: WaitStarted) -> Text:
        moment = when(what.until) if what.until is not None else ""
        return self._named("waits", " · ".join(filter(None, [what.name, moment])))

    @_line.register
    def _(self, what: QuestionAnswered) -> Text:
        return self._named("answered", what.answer)

    @_line.register
    def _(self, what: Uttered) -> Text | None:
        utterance = Utterance.of(what.utterance)
        text = spoken(utterance)
        return Text.assemble((PREFIXES[utterance.role], "bold"), f" {one_line(text, MOST)}") if text else None

    @_line.register
    def _(self, what: ConversationEnd) -> Text:
        return Text(
            terminal_text("conversation_ended", self._language, reason=what.reason, turns=what.turns), style="dim"
        )

    @_line.register
    def _(self, what: ModeSelected) -> Text:
        return lines.mode_line(what, self._language)

    @_line.register
    def _(self, what: Fallback) -> Text:
        return lines.fallback_line(what, self._language)

    @_line.register
    def _(self, what: RecursionStart | RoundStart) -> Text:
        number = terminal_text("round", self._language, n=what.iteration)
        flow = f"  {word('flow', self._language)} {one_line(what.flow)}" if isinstance(what, RoundStart) else ""
        trace = f"  {word('trace', self._language)} {what.trace_id[:8]}"
        return Text.assemble((number, "bold cyan"), (f"{flow}{trace}", "dim"))

    @_line.register
    def _(self, what: BranchStart) -> Text:
        return lines.branch_line(what, self._signs)

    @_line.register
    def _(self, what: BranchEnd) -> Text:
        return lines.branch_end_line(what, self._signs, MOST)

    @_line.register
    def _(self, what: FlowEnd) -> Text:
        return lines.flow_end_line(what, self._language, MOST)

    @_line.register
    def _(self, what: ToolResult) -> Text:
        return lines.outcome_line(what, self._signs, self._language, MOST, self._step(what))

    @_line.register
    def _(self, what: ErrorRaised) -> Text:
        return Text(label("error", self._language) + one_line(what.message, MOST), style="red")

    @_line.register
    def _(self, what: Paused) -> Text:
        return Text(label("paused", self._language) + one_line(what.reason, MOST), style="yellow")

    @_line.register
    def _(self, what: Resumed) -> Text:
        how = "resumed with a changed agent" if what.agent_changed else "resumed"
        return Text(word(how, self._language), style="yellow")

    @_line.register
    def _(self, what: Steered) -> Text:
        return lines.steered_line(what, self._language, MOST)

    @_line.register
    def _(self, what: NotesMoved) -> Text:
        return Text(label("what came too late began task", self._language) + what.next_task_id, style="yellow")

    @_line.register
    def _(self, what: ApprovalRequested) -> Text:
        return Text(word("approval requested", self._language), style="yellow")

    @_line.register
    def _(self, what: HumanAnswer | CallPermitted) -> Text:
        return Text(word("approval given", self._language), style="yellow")

    @_line.register
    def _(self, what: AgentCalled) -> Text:
        called = terminal_text("agent_called", self._language, agent=what.agent_id, task_id=what.called_task_id)
        return Text(one_line(called), style="cyan")

    @_line.register
    def _(self, what: Cancelled) -> Text:
        return Text(word("cancelled", self._language), style="yellow")

    @_line.register
    def _(self, what: Recovered) -> Text:
        line = lines.recovered_line(what, self._language, MOST)
        return line.append(f"  ({one_line(what.checkpoint_id)})", style="dim")


def _begun_at(calls: Sequence[Call], key: CallId, after: float) -> float:
    """When the call that was decided at a time began to run; infinity if it did not."""
    return min((c.started_at for c in calls if _decided_as(c) == key and c.started_at >= after), default=math.inf)


def _decided_as(call: Call) -> CallId:
    """What the call's decision is named by: that does not say which attempt of its step it is."""
    return call.scope.rpartition("#")[0] or call.scope, call.idx


def _entry(call: Call, events: Sequence[Event], status: TaskStatus | None, signs: Symbols, language: str) -> Text:
    sign, style, known = _state_of(call, status, signs)
    text = Text.assemble((f"{sign} ", style), (one_line(call.name), "bold"))
    text.append(f"({arguments_line(call.arguments)})", style="dim")
    took = _duration(call, events, language) if call.outcome else ""
    text.append(f"  {word(known, language)}{took}", style=style)
    text.append(f"  {one_line(call.scope, 12)} #{call.idx}", style="dim")
    if call.orphaned:
        text.append(f"  {word('from before the session was recovered', language)}", style="dim")
    if sign == signs.unknown:
        text.append(f"\n    {terminal_text('unknown', language)}", style=UNKNOWN_STYLE)
    if call.outcome and known != "waits":
        text.append(f"\n    {result_line(call.outcome, MOST)}").append(lines.hidden_line(call.outcome, language))
    return text


def _duration(call: Call, events: Sequence[Event], language: str) -> str:
    """How long the call took; of one that ran again after a resume, how long the last run took.

    One that waited did not run again. Nobody knows how long one ran that its process did not outlive.
    """
    results = (event for event in events if isinstance(event, ToolResult))
    took = next((event.seconds for event in results if (event.scope, event.index) == (call.scope, call.idx)), None)
    if CallResult.of(call.outcome or {}).unknown:
        return "  " + terminal_text("took", language, seconds=f"{took:.2f}") if took else ""
    began, ended = call.started_at, call.finished_at or call.started_at
    meanwhile = [event for event in events if began < event.timestamp < ended]
    waited = any(isinstance(event, StateChanged) and event.old == TaskStatus.WAITING for event in meanwhile)
    if waited or not any(isinstance(event, Resumed) for event in meanwhile):
        return "  " + terminal_text("took", language, seconds=f"{ended - began:.2f}")
    again = terminal_text("run_again", language)
    return again if took is None else again + "  " + terminal_text("took", language, seconds=f"{took:.2f}")


def _state_of(call: Call, status: TaskStatus | None, signs: Symbols) -> tuple[str, str, str]:
    """Sign, style and words for a call of a task with this status."""
    waits = CallResult.of(call.outcome or {}).status is CallStatus.WAITING
    if waits or (call.state != "done" and status == TaskStatus.WAITING):
        return signs.begins, "cyan", "waits"
    if call.state != "done" and status in ACTIVE:
        return signs.begins, "cyan", "running"
    if call.state != "done":
        return signs.unknown, UNKNOWN_STYLE, "started, outcome unknown"
    sign, style = outcome_sign(call.outcome or {}, signs)
    return sign, style, "outcome unknown" if sign == signs.unknown else call.state
