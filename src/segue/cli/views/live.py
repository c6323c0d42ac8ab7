"""A task in a terminal as it runs: redrawn in place, or line by line where nothing can be redrawn."""

import time
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.segment import Segment
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from ...core.events import Cancelled, Event, Fallback, Lifecycle, Phase, Resumed, ToolCall, ToolResult
from ...core.lifecycle import EngineEventType
from ...prompts.catalogue import Language, terminal_text, word
from ...runtime.reply import Added, AnswerDone, CallClosed, CallOpened, Kind, Part, PlanChanged, PlanItem, TextDropped
from . import lines
from .console import markdown_text, one_line, print_error, printable, result_line
from .task import TaskView

if TYPE_CHECKING:
    from rich.markdown import Markdown


ITEMS_BESIDE = 8
"""Rows kept free for the rest when a long plan is shown only around what is under way."""
THOUGHT_CHARS = 400


class Tail:
    """The last lines of something that may be higher than the terminal."""

    def __init__(self, inner: RenderableType) -> None:
        self._inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        rows = console.render_lines(self._inner, options.update(height=None), pad=False)
        for place, row in enumerate(rows[-max(console.height - 1, 1) :]):
            if place:
                yield Segment.line()
            yield from row


class LiveView(TaskView):
    """Redraws the plan, the running calls and the text that is being written, until each is finished."""

    def __init__(self, console: Console, language: Language = "en") -> None:
        super().__init__(console, language)
        self._plan = self.task.plan
        """The plan that is redrawn; what replaces it is a new one."""
        self._headings: list[list[str]] = []
        self._is_bare = False
        """Whether a heading was printed last, under which only the calls stand that run now."""
        self._finished = 0
        """How much of the reply's text an answer, which is printed whole, had."""
        self._doing = ""
        self._notice = ""
        self._typed = ""
        self._began = time.monotonic()
        self._spinner = Spinner("dots" if self._signs is lines.SIGNS else "line", style="cyan")
        self._live = self._new_live()

    def _new_live(self) -> Live:
        """A display that has not started; one that is started again would erase what was printed since."""
        return Live(console=self._console, transient=True, refresh_per_second=10, get_renderable=self.moving)

    def recall(self, event: Event) -> None:
        super().recall(event)
        self._plan = self.task.plan

    def show_part(self, part: Part) -> None:
        if not self._live.is_started:
            self._live.start()
        super().show_part(part)

    def notice(self, sentence: str) -> None:
        self._notice = sentence

    def echo(self, typed: str) -> None:
        """Show what is being typed below everything else."""
        self._typed = typed

    def rest(self) -> None:
        """Leave the plan above as it is; it is drawn again below when the task continues."""
        self._print_thought()
        self._notice = ""
        if self._live.is_started:
            for part in self._plan_and_headings(self._visible_items()):
                self._print(part)
            self._live.stop()
            self._live = self._new_live()

    def finish(self) -> None:
        self._print_thought()
        self._flush_plan()
        if answer := self._answer:
            self._print(_markdown(answer))
        self._live.stop()

    @property
    def _answer(self) -> str:
        """What is being written of the answer."""
        return self._unprinted(self.reply.text)[self._finished :] if self.shows_answer else ""

    # What is finished

    def _print(self, what: RenderableType) -> None:
        """Let it scroll up, above what is moving now; rich would draw what it drew last."""
        if self._live.is_started:
            self._live.refresh()
        self._console.print(what)
        self._is_bare = False

    def _flush_plan(self, new: dict[str, PlanItem] | None = None) -> None:
        """Let the current plan, and the headings that came since it was made, scroll up; a new one replaces it."""
        finished = list(self._plan_and_headings(list(self._plan.values())))
        self._headings = []
        self._plan = {} if new is None else new
        for part in finished:
            self._print(part)

    def _show_phase(self, phase: Phase) -> None:
        if not (banner := lines.banner_lines(phase)):
            return
        self._doing = banner[-1]
        if not self._plan:
            self._print_running()
            self._print(Group(Text(), lines.banner_text(banner)))
            self._is_bare = len(banner) == 1
        elif len(banner) > 1 and banner[0] not in [shown[0] for shown in self._headings]:
            # The plan itself says what goes on: a heading alone adds nothing, and neither do the lines below a step's.
            self._headings.append(banner[:1] if phase.step_id else banner)

    def _print_running(self) -> None:
        """Print the calls that run below a heading before something else is printed there."""
        for call in [*self.task.running.values()] if self._is_bare else ():
            self._print(Padding(lines.call_line(call, self._signs), (0, 0, 0, 2)))

    def _show(self, part: Part) -> None:
        match part:
            case CallClosed(result):
                if result.step_id not in self._plan and not lines.is_rejected(result):
                    self._print(Padding(self._outcome(result), (0, 0, 0, 2)))
            case PlanChanged(step_id=""):
                self._flush_plan(self.task.plan)
            case Fallback():
                self._flush_plan(self.task.plan)
                self._print_notice(part)
            case AnswerDone(whole=answer):
                self._finish_text(answer)
            case Cancelled(partial=partial):
                self._finish_text(partial)
                self._print_notice(part)
            case _:
                self._print_running()
                self._print_notice(part)

    def _finish_text(self, text: str) -> None:
        """Print the whole text in place of what was written of it."""
        self._flush_plan()
        self._finished = len(self._unprinted(self.reply.text))
        if text := self._unprinted(text):
            self._print(Group(Text(), _markdown(text)))

    # What is still moving

    def moving(self) -> RenderableType:
        """What is redrawn; another thread asks for it, so it goes by copies of what the events change."""
        parts = list(self._plan_and_headings(self._visible_items()))
        for call in list(self.task.running.values()):
            if call.step_id not in self._plan:
                parts.append(Padding(lines.call_line(call, self._signs), (0, 0, 0, 2)))
        if thought := self._thought:
            parts.append(lines.thought_text(thought[-THOUGHT_CHARS:]))
        if answer := self._answer:
            parts += [Text(), _markdown(answer)]
        if self._notice:
            parts.append(Text(self._notice, style="bold yellow"))
        self._spinner.update(text=self._progress())
        typed = [Text.assemble(("> ", "cyan"), one_line(self._typed, self._room()))] if self._typed else []
        return Tail(Group(*parts, self._spinner, *typed))

    def _progress(self) -> Text:
        """What is being done, how many steps are, and for how long."""
        items = list(self._plan.values())
        finished = sum(item.status in ("done", "skipped") for item in items)
        return self._status(f"{finished}/{len(items)}" if items else "")

    def _status(self, steps: str = "") -> Text:
        """What is being done, how many `steps` of the plan are, and for how long."""
        took = terminal_text("took", self._language, seconds=f"{time.monotonic() - self._began:.0f}")
        running = "" if self._plan else ", ".join(dict.fromkeys(call.name for call in list(self.task.running.values())))
        parts = (one_line(running or self._doing, self._room()), steps, took)
        return Text(" · ".join(part for part in parts if part), style="dim")

    def _visible_items(self) -> list[PlanItem]:
        """The plan's steps, or those around the first unfinished one where the terminal is too low for all."""
        items = list(self._plan.values())
        most = max((self._console.height - ITEMS_BESIDE) // 2, 3)
        if len(items) <= most:
            return items
        unfinished = [place for place, item in enumerate(items) if item.status in ("running", "pending")]
        start = max(0, min((unfinished or [len(items)])[0] - 1, len(items) - most))
        return items[start : start + most]

    def _plan_and_headings(self, items: list[PlanItem]) -> Iterator[RenderableType]:
        headings = list(self._headings)
        for banner in headings[:1]:
            yield Group(Text(), lines.banner_text(banner))
        for item in items:
            yield Padding(lines.item_line(item, self._signs), (0, 0, 0, 2))
            for outcome in list(item.calls):
                yield Padding(self._outcome(outcome), (0, 0, 0, 6))
            for call in list(self.task.running.values()):
                if call.step_id == item.step_id:
                    yield Padding(lines.call_line(call, self._signs), (0, 0, 0, 6))
        for banner in headings[1:]:
            yield Group(Text(), lines.banner_text(banner))

    def _outcome(self, result: ToolResult) -> Text:
        return lines.outcome_line(result, self._signs, self._language, self._room())

    def _room(self) -> int:
        return max(self._console.width - 14, 20)


def _markdown(text: str) -> "Markdown":
    """Links are shown with their address, so that none can pretend to lead elsewhere."""
    from rich.markdown import Markdown  # a start without a terminal needs none

    return Markdown(markdown_text(text), hyperlinks=False)


# A task where there is no terminal to redraw: lines that stay as they are.


class PlainView(TaskView):
    """A thought when it is whole, a step whenever it changes, the answer as it is written."""

    def __init__(self, console: Console, language: Language = "en") -> None:
        super().__init__(console, language)
        self._heading = ""
        self._line_is_open = False
        self._written = 0
        """How much of the answer's text, without what was printed before, is written."""

    def notice(self, sentence: str) -> None:
        print_error(sentence)

    def rest(self) -> None:
        self._print_thought()
        self._end_line()

    def finish(self) -> None:
        self.rest()

    def _print(self, text: Text) -> None:
        self._end_line()
        self._console.print(text, soft_wrap=True)

    def _end_line(self) -> None:
        """End the line of an answer that was being written."""
        if self._line_is_open:
            self._console.print()
            self._line_is_open = False

    def _show_phase(self, phase: Phase) -> None:
        banner = lines.banner_lines(phase)
        if banner and banner[0] == self._heading:
            banner = banner[1:]
        elif banner:
            self._heading = banner[0]
            self._print(Text())
        if banner:
            self._print(lines.banner_text(banner))

    def _show(self, part: Part) -> None:
        match part:
            case Added(Kind.TEXT):
                self._write()
            case TextDropped():
                self._written = len(self._unprinted(self.reply.text))
                self._print(Text(terminal_text("discarded", self._language), style="yellow"))
            case CallOpened(ToolCall() as call):
                self._print(Text("  ") + lines.call_line(call, self._signs))
            case CallClosed(result):
                if not lines.is_rejected(result):
                    self._print(Text("  ") + lines.outcome_line(result, self._signs, self._language))
            case PlanChanged():
                self._show_plan(part)
            case AnswerDone():
                self._show_answer(part)
            case Cancelled(partial=partial):
                if partial and not self.reply.text.strip().startswith(partial.strip()):
                    self._print(Text("\n" + printable(partial)))
                self._print_notice(part)
            case _:
                self._print_notice(part)

    def _write(self) -> None:
        """Continue the line of the answer."""
        text = self._unprinted(self.reply.text)[self._written :]
        if not text:
            return
        self._written += len(text)
        if not self._line_is_open:
            self._console.print()
        self._console.print(Text(printable(text)), end="", soft_wrap=True)
        self._console.file.flush()
        self._line_is_open = True

    def _show_plan(self, changed: PlanChanged) -> None:
        """The step that changed, or all of them."""
        plan = self.task.plan
        for item in [plan[changed.step_id]] if changed.step_id else plan.values():
            self._print(Text("  ") + lines.item_line(item, self._signs))

    def _show_answer(self, answered: AnswerDone) -> None:
        """The answer, unless it was written already; if another one is being written, the whole answer."""
        written = self.reply.text
        answer = answered.text if written else answered.whole
        new = answer if self._line_is_open else self._unprinted(answer.removeprefix(written))
        if written.strip() != answer.strip() and new:
            self._print(Text("\n" + printable(new)))


# A goal with subtasks: a table and a bar that are redrawn in a terminal, and lines where there is none.

COLUMNS = ("id", "subtask", "priority", "status", "seconds", "result")
BAR_WIDTH = 40
RESULT_CHARS = 160


class LiveProgress(LiveView):
    """Redraws the table of the subtasks; what a subtask thinks is left to the trace."""

    shows_thoughts = False

    def _show_phase(self, phase: Phase) -> None:
        if banner := lines.banner_lines(phase):
            self._doing = banner[-1]

    def _show(self, part: Part) -> None:
        if isinstance(part, PlanChanged):
            self._plan = self.task.plan
        else:
            super()._show(part)

    def _plan_and_headings(self, items: list[PlanItem]) -> Iterator[RenderableType]:
        everything = list(self._plan.values())
        if everything:
            yield Group(Text(), subtask_table(items, self._signs, self._language, time.time()))
            yield progress_bar(everything, self._language)
        for call in list(self.task.running.values()):
            if call.step_id in self._plan:
                yield Padding(lines.call_line(call, self._signs), (0, 0, 0, 2))

    def _progress(self) -> Text:
        """What is being done, and for how long; the bar says how far it is."""
        return self._status()


class PlainProgress(PlainView):
    """A line when a subtask begins and when it ends, and its calls below the line of the one that makes them."""

    shows_thoughts = False
    _current = ""
    """The subtask that the lines above are about."""

    def _show_phase(self, phase: Phase) -> None:
        pass

    def _show(self, part: Part) -> None:
        match part:
            case PlanChanged(step_id=""):
                self._list()
            case PlanChanged():
                pass
            case Resumed():
                super()._show(part)
                self._list()
            case Lifecycle():
                self._show_progress(part)
            case CallOpened(call) | CallClosed(call):
                self._name(call.step_id)
                super()._show(part)
            case _:
                super()._show(part)

    def _list(self) -> None:
        self._current = ""
        for item in self.task.plan.values():
            self._print(Text("  ") + planned_line(item, self._signs, self._language))

    def _name(self, step_id: str) -> None:
        """Print the line of a subtask, unless the lines above are about it."""
        if step_id != self._current and step_id in self.task.plan:
            self._current = step_id
            self._print(lines.item_line(self.task.plan[step_id], self._signs))

    def _show_progress(self, event: Lifecycle) -> None:
        item = self.task.plan.get(str(event.details.get("task_id")))
        if item is None:
            return
        match event.event_type:
            case EngineEventType.TASK_STARTED:
                self._name(item.step_id)
            case EngineEventType.TASK_COMPLETED | EngineEventType.TASK_FAILED:
                self._current = ""
                items = self.task.plan.values()
                self._print(ended_line(item, items, self._signs, self._language, event.timestamp))


def subtask_table(items: Collection[PlanItem], signs: lines.Symbols, language: str, now: float) -> Table:
    """One row a subtask; what is too long for the terminal is cut."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0), expand=True)
    for name, ratio in zip(COLUMNS, (None, 4, None, None, None, 5), strict=True):
        table.add_column(word(name, language), no_wrap=True, overflow="ellipsis", ratio=ratio)
    for column in (table.columns[2], table.columns[4]):
        column.justify = "right"
    for item in items:
        table.add_row(*_row(item, signs, language, now))
    return table


def _row(item: PlanItem, signs: lines.Symbols, language: str, now: float) -> tuple[Text, ...]:
    style = lines.STYLES.get(item.status, "")
    sign, sign_style = lines.item_sign(item, signs)
    seconds = item.seconds(now)
    return (
        Text(one_line(item.step_id, 12), style="dim"),
        Text(one_line(item.description, 200), style=style if item.status in ("running", "error") else ""),
        Text("" if item.priority is None else str(item.priority)),
        Text(f"{sign} {word(item.status, language)}", style=sign_style),
        Text(f"{seconds:.1f}" if seconds else "", style="dim"),
        _outcome(item),
    )


def _outcome(item: PlanItem) -> Text:
    """A subtask's result, or why it has none, in a line."""
    if item.status in ("error", "skipped"):
        return Text(one_line(item.note, RESULT_CHARS), style=lines.STYLES[item.status])
    return Text(result_line({"success": {"summary": item.result}}, RESULT_CHARS) if item.result else "")


def progress_bar(items: Collection[PlanItem], language: str) -> RenderableType:
    """How many of the subtasks are done, and how many failed or were skipped."""
    row = Table.grid(padding=(0, 2, 0, 0))
    bar = ProgressBar(total=max(len(items), 1), completed=_done(items), width=BAR_WIDTH)
    row.add_row(bar, Text.assemble((done_of(items), "bold"), (_undone(items, language), "red")))
    return Padding(row, (1, 0, 0, 0))


def done_of(items: Collection[PlanItem]) -> str:
    """The subtasks that are done, of all: 2/3."""
    return f"{_done(items)}/{len(items)}"


def _done(items: Collection[PlanItem]) -> int:
    return sum(item.status == "done" for item in items)


def _undone(items: Collection[PlanItem], language: str) -> str:
    counted = {status: sum(item.status == status for item in items) for status in ("error", "skipped")}
    return "".join(f"  {number} {word(status, language)}" for status, number in counted.items() if number)


def planned_line(item: PlanItem, signs: lines.Symbols, language: str) -> Text:
    """A subtask that waits for its turn."""
    text = lines.item_line(item, signs)
    priority = f"  {word('priority', language)} {item.priority}"
    return text if item.priority is None else text.append(priority, style="dim")


def ended_line(item: PlanItem, items: Collection[PlanItem], signs: lines.Symbols, language: str, now: float) -> Text:
    """A subtask that ended, how far the whole is with it, and its result."""
    took = terminal_text("took", language, seconds=f"{item.seconds(now):.1f}")
    text = lines.item_line(item, signs).append(f"  {took}  {done_of(items)}", style="dim")
    outcome = _outcome(item) if item.status == "done" else Text()
    return text.append("\n    ").append_text(outcome) if outcome else text
