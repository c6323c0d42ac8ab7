"""A goal with subtasks: a table and a bar that are redrawn in a terminal, and lines where there is none."""

import time
from collections.abc import Collection, Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ...core.events import Lifecycle, Phase, Resumed
from ...core.lifecycle import EngineEventType
from ...prompts.catalogue import sentence
from ...prompts.words import word
from ...runtime.projection import PlanItem
from ...runtime.reply_stream import CallClosed, CallOpened, Part, PlanChanged
from . import lines
from .live import LiveView
from .plain import PlainView
from .sanitize import one_line, result_line

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
    took = sentence("took", language, seconds=f"{item.seconds(now):.1f}")
    text = lines.item_line(item, signs).append(f"  {took}  {done_of(items)}", style="dim")
    outcome = _outcome(item) if item.status == "done" else Text()
    return text.append("\n    ").append_text(outcome) if outcome else text
