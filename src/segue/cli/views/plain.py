"""How a task's events are shown: line by line where there is no terminal, as JSON, or live (see `live`)."""

from collections.abc import Mapping
from functools import singledispatchmethod
from typing import Any, Protocol

from rich.console import Console
from rich.text import Text

from ...core.events import (
    Answer,
    Cancelled,
    Event,
    ModelCalled,
    Phase,
    PlanUpdate,
    Resumed,
    StepUpdate,
    Thinking,
    Thought,
    Token,
    ToolCall,
    ToolResult,
    Waiting,
    to_dict,
)
from ...prompts.catalogue import sentence
from ...prompts.language import Language
from ...runtime.projection import Projection
from ...runtime.reply_stream import Added, Discarded, Kind, Part
from ..exits import complain, remark
from . import lines
from .consoles import complaints, write_answer, write_json
from .sanitize import printable
from .task_view import TaskView


class View(Protocol):
    """Shows one task's events as they come."""

    def recall(self, event: Event) -> None:
        """Take in what happened before, without showing it."""
        ...

    def show(self, event: Event) -> None: ...

    def notice(self, sentence: str) -> None:
        """Say something of the command line's own in between."""
        ...

    def rest(self) -> None:
        """Pause while a person is asked; the next event continues."""
        ...

    def finish(self) -> None: ...


class JsonView:
    """One JSON object a line."""

    def recall(self, event: Event) -> None:
        pass

    def show(self, event: Event) -> None:
        write_json(to_dict(event))

    def notice(self, sentence: str) -> None:
        complain(sentence)

    def rest(self) -> None:
        pass

    def finish(self) -> None:
        pass

    def result(self, task: Mapping[str, Any], **more: Any) -> None:
        """The last line: what the task came to."""
        write_json(result_form(task, **more))


def result_form(task: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """What a task came to, as JSON; `unknown_outcomes` are the calls that may or may not have taken effect."""
    named = {name: task[name] for name in ("task_id", "status", "error", "result")}
    unknown = (task["result"] or {}).get("unknown_outcomes") or []
    return {"type": "result", "session_id": task["thread_id"], **named, "unknown_outcomes": unknown, **more}


class AnswerView:
    """Shows progress in another view; standard output gets the answer alone, once it is whole.

    What a person must know is written to standard error even where no progress is shown (`quiet`).
    """

    def __init__(self, progress: View, quiet: bool, language: Language) -> None:
        self._progress = progress
        self._quiet, self._language = quiet, language
        self.recall, self.notice = progress.recall, progress.notice
        self._answers: list[str] = []

    def show(self, event: Event) -> None:
        if isinstance(event, Answer):
            self._answers.append(event.answer)
        elif self._quiet and _is_warning(event):
            for line in lines.event_lines(event, Projection(), lines.signs_for(complaints()), self._language):
                remark(line.plain)
        elif not isinstance(event, Token | ModelCalled):  # both have text of the answer
            self._progress.show(event)

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


def _is_warning(event: Event) -> bool:
    """Whether the task waits for what may never come, or is not what it was when it began."""
    match event:
        case Waiting(seconds=None) | Resumed(agent_changed=True):
            return True
    return False


class PlainView:
    """Lines that stay as they are: a thought when it is whole, a step whenever it changes, the answer as it comes."""

    def __init__(self, console: Console, language: Language = "en") -> None:
        self._console = console
        self._signs = lines.signs_for(console)
        self._view = TaskView(language=language)
        self._heading = ""
        self._line_is_open = False

    def recall(self, event: Event) -> None:
        self._view.recall(event)

    def show(self, event: Event) -> None:
        if not isinstance(event, Thinking | Phase | Thought):
            self._flush_thought()
        for part in self._view.fold(event):
            self._show_part(part)
        self._show(event)

    def notice(self, sentence: str) -> None:
        complain(sentence)

    def rest(self) -> None:
        self._flush_thought()
        self._break_off()

    def finish(self) -> None:
        self.rest()

    def _print(self, text: Text) -> None:
        self._break_off()
        self._console.print(text, soft_wrap=True)

    def _break_off(self) -> None:
        """End the line of an answer that was being written."""
        if self._line_is_open:
            self._console.print()
            self._line_is_open = False

    def _print_lines(self, event: Event) -> None:
        for line in lines.event_lines(event, self._view.task, self._signs, self._view.language):
            self._print(line)

    def _flush_thought(self) -> None:
        if thought := self._view.take_thought():
            self._print(lines.thought_text(thought))

    def _show_part(self, part: Part) -> None:
        """Text as it is written, and that it is discarded; the rest is shown by its events."""
        match part:
            case Added(Kind.TEXT, text):
                if not self._line_is_open:
                    self._console.print()
                self._console.print(Text(printable(text)), end="", soft_wrap=True)
                self._console.file.flush()
                self._line_is_open = True
            case Discarded():
                self._print(Text(sentence("discarded", self._view.language), style="yellow"))

    @singledispatchmethod
    def _show(self, event: Event) -> None:
        """Most kinds of events are a line, or nothing."""
        self._print_lines(event)

    @_show.register
    def _(self, event: Phase) -> None:
        banner = lines.banner_lines(event)
        if banner and banner[0] == self._heading:
            banner = banner[1:]
        elif banner:
            self._heading = banner[0]
            self._print(Text())
        if banner:
            self._print(lines.banner_text(banner))

    @_show.register
    def _(self, event: Thought) -> None:
        if thought := self._view.complete_thought(event):
            self._print(lines.thought_text(thought))

    @_show.register
    def _(self, event: ToolCall) -> None:
        self._print(Text("  ") + lines.call_line(event, self._signs))

    @_show.register
    def _(self, event: ToolResult) -> None:
        self._print(Text("  ") + lines.outcome_line(event, self._signs, self._view.language))

    @_show.register
    def _(self, event: PlanUpdate) -> None:
        for item in self._view.task.plan.values():
            self._print(Text("  ") + lines.item_line(item, self._signs))

    @_show.register
    def _(self, event: StepUpdate) -> None:
        item = self._view.task.plan[event.step_id]
        self._print(Text("  ") + lines.item_line(item, self._signs))

    @_show.register
    def _(self, event: Answer) -> None:
        """The answer, unless it was written; of one that is being written no piece is added, but all of it again."""
        written = self._view.reply.text
        answer = self._view.reply.own(event.answer) if written else event.answer
        if written.strip() != answer.strip():
            self._print(Text("\n" + printable(answer if self._line_is_open else answer.removeprefix(written))))

    @_show.register
    def _(self, event: Cancelled) -> None:
        if event.partial and not self._view.reply.text.strip().startswith(event.partial.strip()):
            self._print(Text("\n" + printable(event.partial)))
        self._print_lines(event)
