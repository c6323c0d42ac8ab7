"""A task in a terminal: what is finished scrolls up, what is still moving is redrawn in place below it."""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.padding import Padding
from rich.segment import Segment
from rich.spinner import Spinner
from rich.text import Text

from ...core.events import Cancelled, Event, Fallback, Phase, ToolResult
from ...prompts.catalogue import sentence
from ...prompts.language import Language
from ...runtime.projection import PlanItem
from ...runtime.reply_stream import Answered, CallClosed, Part, PlanChanged
from . import lines
from .sanitize import markdown_text, one_line
from .task_view import TaskView

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
            self._print(Group(Text(), lines.banner_text(banner)))
        elif banner[0] not in [shown[0] for shown in self._headings]:
            # Under a step the plan itself says what goes on.
            self._headings.append(banner[:1] if phase.step_id else banner)

    def _show(self, part: Part) -> None:
        match part:
            case CallClosed(result):
                if result.step_id not in self._plan:
                    self._print(Padding(self._outcome(result), (0, 0, 0, 2)))
            case PlanChanged(step_id=""):
                self._flush_plan(self.task.plan)
            case Fallback():
                self._flush_plan(self.task.plan)
                self._print_notice(part)
            case Answered(whole=answer):
                self._finish_text(answer)
            case Cancelled(partial=partial):
                self._finish_text(partial)
                self._print_notice(part)
            case _:
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
        took = sentence("took", self._language, seconds=f"{time.monotonic() - self._began:.0f}")
        parts = (one_line(self._doing, self._room()), steps, took)
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
