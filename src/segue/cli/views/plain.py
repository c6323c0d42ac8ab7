"""A task where there is no terminal to redraw: lines that stay as they are."""

from rich.console import Console
from rich.text import Text

from ...core.events import Cancelled, Phase, ToolCall
from ...prompts.catalogue import sentence
from ...prompts.language import Language
from ...runtime.reply_stream import Added, Answered, CallClosed, CallOpened, Discarded, Kind, Part, PlanChanged
from . import lines
from .consoles import print_error
from .sanitize import printable
from .task_view import TaskView


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
            case Discarded():
                self._written = len(self._unprinted(self.reply.text))
                self._print(Text(sentence("discarded", self._language), style="yellow"))
            case CallOpened(ToolCall() as call):
                self._print(Text("  ") + lines.call_line(call, self._signs))
            case CallClosed(result):
                self._print(Text("  ") + lines.outcome_line(result, self._signs, self._language))
            case PlanChanged():
                self._show_plan(part)
            case Answered():
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

    def _show_answer(self, answered: Answered) -> None:
        """The answer, unless it was written already; if another one is being written, the whole answer."""
        written = self.reply.text
        answer = answered.text if written else answered.whole
        new = answer if self._line_is_open else self._unprinted(answer.removeprefix(written))
        if written.strip() != answer.strip() and new:
            self._print(Text("\n" + printable(new)))
