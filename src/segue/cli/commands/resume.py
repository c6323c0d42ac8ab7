"""`segue resume --all`: resumes every paused or interrupted task, a few at a time, and prints a summary."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from ...core.errors import ConfigurationError, SegueError, ThreadBusy, UnknownAgent
from ...core.records import Task
from ...core.task import TaskStatus
from ...prompts.catalogue import terminal_text, word
from ..dialog import ConversationLoop
from ..exits import FAILED, PAUSED, WAITING, sentence_of
from ..interrupts import Interrupts, listening
from ..lookup import with_file_of
from ..settings import Settings, task_command
from ..views.console import one_line, output, print_error, write_json
from ..views.lines import Symbols, symbols_for, unknown_calls
from ..views.task import result_form

if TYPE_CHECKING:
    from ...app import App

AT_ONCE = 4
OUTCOMES: Mapping[str, str] = {
    TaskStatus.DONE: "done",
    TaskStatus.WAITING: "waiting for an answer",
    TaskStatus.PAUSED: "paused",
    TaskStatus.CANCELLED: "cancelled",
    "failed": "failed",
    "busy": "running elsewhere",
    "left": "not resumed",
    "skipped": "of an agents file that cannot be used",
}
"""What can become of a task, and how the summary says it."""


def resume_all(settings: Settings, *, as_json: bool) -> int:
    """Continue every task that can be resumed, and return the exit code."""
    with ConversationLoop(settings, as_json=as_json, must_exist=True) as loop:
        talk = loop.conversation
        batch = Batch(talk.app, settings, output(), as_json)
        code: int = loop.run(batch.run())
        talk.stopped = batch.stopped
    return loop.leave(code)


@dataclass
class Batch:
    """The tasks that are resumed together, each with the agents file that it was started with."""

    app: "App"
    settings: Settings
    console: Console
    as_json: bool
    stopped: bool = False
    _running: set[str] = field(default_factory=set)
    _apps: "dict[str, App]" = field(default_factory=dict)
    """Those over other agents files, by the file's path."""
    _refused: dict[str, str] = field(default_factory=dict)
    """Why an agents file cannot be used."""

    async def run(self) -> int:
        rows: Sequence[Task] = await self.app.tasks.resumable()
        gate = asyncio.Semaphore(AT_ONCE)
        async with AsyncExitStack() as opened:
            for row in rows:
                await self._open_for(row, opened)
            with listening(self, self._running, lambda name: print_error(self.settings.say(name))) as interrupts:
                outcomes = await asyncio.gather(*(self._one(row, gate, interrupts) for row in rows))
        self.stopped = interrupts.stopped
        sessions = await self.app.sessions.list()
        waiting = [session.session_id for session in sessions if session.status == TaskStatus.WAITING]
        newest = [await self.app.tasks.newest(session_id) for session_id in waiting]
        self._print_summary(outcomes, [task for task in newest if task])  # those that waited before among them
        return code_of(outcomes)

    async def _open_for(self, row: Task, opened: AsyncExitStack) -> None:
        """Open an app over the task's agents file, unless one file is named for all tasks."""
        file = row.agents_file
        if self.settings.names_agents or not file or file in {*self._apps, *self._refused}:
            return
        try:
            settings = with_file_of(self.settings, row)
            check_modules(file, self._apps)
            self._apps[file] = await opened.enter_async_context(settings.reopened())
        except SegueError as error:
            self._refused[file] = sentence_of(error, self.settings)

    async def pause(self, task_id: str) -> None:
        await self.app.pause(task_id)

    def stop_now(self, task_id: str) -> None:
        for app in (self.app, *self._apps.values()):
            app.stop_now(task_id)

    async def _one(self, row: Task, gate: asyncio.Semaphore, interrupts: Interrupts) -> str:
        """Resume one task until it stops; print and return the outcome."""
        task_id = row.task_id
        app, why = self._app_of(row)
        if why:
            return self._say("skipped", row, why, 0.0)
        async with gate:
            if interrupts.count:
                return "left"
            self._running.add(task_id)
            began = time.monotonic()
            try:
                async for _ in app.resume_and_follow(task_id, model=self.settings.model):
                    pass
                refused = ""
            except ThreadBusy as error:
                return self._say("busy", row, sentence_of(error, self.settings), 0.0)
            except SegueError as error:
                refused = sentence_of(error, self.settings)
            finally:
                self._running.discard(task_id)
            task = await self.app.task(task_id)
            outcome = "failed" if refused or task.status not in OUTCOMES else str(task.status)
            return self._say(outcome, task, refused or task.error or "", time.monotonic() - began)

    def _app_of(self, row: Task) -> "tuple[App, str]":
        """The app that can resume a task, or why there is none."""
        file = row.agents_file or ""
        app = self._apps.get(file, self.app)
        if file in self._refused:
            return app, self._refused[file]
        unknown = UnknownAgent(row.agent_id, app.agents)
        return app, "" if row.agent_id in app.agents else sentence_of(unknown, self.settings)

    def _say(self, outcome: str, task: Task, problem: str, seconds: float) -> str:
        if self.as_json:
            write_json(result_form(task, outcome=outcome, error=problem or None))
            return outcome
        signs = symbols_for(self.console)
        sign, style = _sign(outcome, signs)
        language = self.settings.language_for("")
        took = terminal_text("took", language, seconds=f"{seconds:.1f}")
        line = Text.assemble(
            (f"{sign} {word(outcome, language)}  ", style),
            (task.task_id, "bold"),
            (f"  {took}  ", "dim"),
        )
        self._print(line.append(one_line(task.message, 80)))
        if problem and outcome in ("failed", "busy", "skipped"):
            self._print(Text(f"    {one_line(problem, 300)}", style=style))
        if unknown := unknown_calls(task, signs, self.settings.language_for(task.message)):
            self._print(Text("    ") + unknown)
        return outcome

    def _print_summary(self, outcomes: list[str], to_answer: list[Task]) -> None:
        counted = Counter(outcomes)
        if self.as_json:
            write_json(
                {
                    "type": "summary",
                    **{name: counted[name] for name in OUTCOMES},
                    "to_answer": [row.task_id for row in to_answer],
                }
            )
            return
        language = self.settings.ui_language
        parts = ", ".join(f"{counted[name]} {word(said, language)}" for name, said in OUTCOMES.items() if counted[name])
        if outcomes:
            said = self.settings.say("counted" if len(outcomes) > 1 else "counted_one", n=len(outcomes), parts=parts)
        else:
            said = self.settings.say("none_until_answered" if to_answer else "none_to_resume")
        self._print(Text(said, style="bold"))
        if to_answer:
            self._print(Text(self.settings.say("to_answer"), style="yellow"))
        for row in to_answer:
            self._print(Text(f"  {task_command(self.settings, 'answer', row.task_id)}"))

    def _print(self, text: Text) -> None:
        self.console.print(text, soft_wrap=True)


def check_modules(file: str, others: Iterable[str]) -> None:
    """Make sure that no module beside an agents file has the name of one beside another: Python imports only one."""
    for other in others:
        if both := _modules(file) & _modules(other) if Path(file).parent != Path(other).parent else set():
            raise ConfigurationError(
                "{file} and {other} each have a module {module}: resume the tasks of one of them with --agents.",
                file=file,
                other=other,
                module=min(both),
            )


def _modules(file: str) -> set[str]:
    return {path.stem for path in Path(file).parent.glob("*.py") if not path.stem.startswith(("test_", "conftest"))}


def _sign(outcome: str, signs: Symbols) -> tuple[str, str]:
    if outcome == TaskStatus.DONE:
        return signs.ok, "green"
    return (signs.failed, "red") if outcome == "failed" else (signs.begins, "yellow")


def code_of(outcomes: Iterable[str]) -> int:
    """1 if one failed or was cancelled, else 3 if one waits, else 130 if one does not continue, else 0."""
    found = set(outcomes)
    if found & {"failed", TaskStatus.CANCELLED}:
        return FAILED
    if TaskStatus.WAITING in found:
        return WAITING
    return PAUSED if found & {TaskStatus.PAUSED, "left"} else 0
