"""What the views of a task share: which parts of its reply they show, and the views that print JSON or the answer."""

from typing import Any, Protocol

from rich.console import Console
from rich.text import Text

from ...core.events import Event, Phase, Resumed, Waiting, to_dict
from ...core.records import Json, Task
from ...prompts.language import Language
from ...runtime.projection import Projection
from ...runtime.reply_stream import Added, Answered, Closed, Completed, Discarded, Kind, Opened, Part, ReplyStream
from . import lines
from .consoles import print_error, print_note, stderr_console, write_answer, write_json


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
        self._is_whole |= isinstance(part, Answered)
        match part:
            case Added(Kind.THOUGHT, text):
                self._thought += text if self.shows_thoughts else ""
            case Completed(Kind.THOUGHT, text):
                self._complete_thought(text)
            case Opened() | Closed() | Phase(call=True):
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
                case Answered():
                    self._answers.append(part.whole)
                case Added(Kind.TEXT) | Completed(Kind.TEXT) | Discarded():
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
        write_json(to_dict(event))

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
        "session_id": task.thread_id,
        "task_id": task.task_id,
        "status": task.status,
        "error": task.error,
        "result": task.result,
        "unknown_outcomes": (task.result or {}).get("unknown_outcomes") or [],
        **more,
    }
