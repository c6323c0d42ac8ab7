"""`segue resume --all`: resumes every paused or interrupted task, a few at a time, and prints a summary."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from ...core.errors import SegueError, ThreadBusy
from ...core.records import Json
from ...prompts.words import word
from ..command_lines import for_agent, task_command
from ..dialog.interrupts import Interrupts, listening
from ..dialog.loop import ConversationLoop
from ..exits import FAILED, PAUSED, WAITING, complain, sentence_of
from ..settings import Settings
from ..views.consoles import output, write_json
from ..views.lines import Signs, signs_for, unknown_calls
from ..views.plain import result_form
from ..views.sanitize import one_line

if TYPE_CHECKING:
    from ...app import App

AT_ONCE = 4
OUTCOMES = {
    "done": "done",
    "waiting": "waiting for an answer",
    "paused": "paused",
    "cancelled": "cancelled",
    "failed": "failed",
    "busy": "running elsewhere",
    "left": "not resumed",
    "skipped": "of another agents file",
}
"""What can become of a task, and how the summary says it."""


def resume_all(settings: Settings, *, as_json: bool) -> int:
    """Go on with every task that can be resumed, and return the exit code."""
    with ConversationLoop(settings, as_json=as_json, must_exist=True) as loop:
        talk = loop.conversation
        batch = Batch(talk.app, settings, output(), as_json)
        code: int = loop.run(batch.resume())
        talk.stopped = batch.stopped
    return loop.leave(code)


@dataclass
class Batch:
    """The tasks that are resumed together."""

    app: "App"
    settings: Settings
    console: Console
    as_json: bool
    stopped: bool = False
    _running: set[str] = field(default_factory=set)

    async def resume(self) -> int:
        rows = await self.app.resumable()
        gate = asyncio.Semaphore(AT_ONCE)
        with listening(self.app, self._running, lambda name: complain(self.settings.say(name))) as interrupts:
            outcomes = await asyncio.gather(*(self._one(row, gate, interrupts) for row in rows))
        self.stopped = interrupts.stopped
        self._print_summary(outcomes, await self._to_answer())
        return code_of(outcomes)

    def _command(self, verb: str, task: Json) -> str:
        return task_command(for_agent(self.settings, task["agent_id"], self.app.agents), verb, task["task_id"])

    async def _to_answer(self) -> list[Json]:
        """The tasks that wait for a person, those that did so before among them."""
        waiting = [row["thread_id"] for row in await self.app.threads() if row["status"] == "waiting"]
        latest = [await self.app.tasks(session_id=thread_id, limit=1) for thread_id in waiting]
        return [row for rows in latest for row in rows]

    async def _one(self, row: Json, gate: asyncio.Semaphore, interrupts: Interrupts) -> str:
        """Resume one task until it stops; print and return the outcome."""
        task_id = row["task_id"]
        if row["agent_id"] not in self.app.agents:
            return self._say("skipped", row, self._command("resume", row), 0.0)
        async with gate:
            if interrupts.count:
                return "left"
            self._running.add(task_id)
            began = time.monotonic()
            try:
                async for _ in self.app.resume_and_follow(task_id, model=self.settings.model):
                    pass
                refused = ""
            except ThreadBusy as error:
                return self._say("busy", row, sentence_of(error, self.settings), 0.0)
            except SegueError as error:
                refused = sentence_of(error, self.settings)
            finally:
                self._running.discard(task_id)
            task = await self.app.task(task_id)
            outcome = "failed" if refused or task["status"] not in OUTCOMES else task["status"]
            return self._say(outcome, task, refused or task["error"] or "", time.monotonic() - began)

    def _say(self, outcome: str, task: Json, problem: str, seconds: float) -> str:
        if self.as_json:
            write_json(result_form(task, outcome=outcome, error=problem or None))
            return outcome
        signs = signs_for(self.console)
        sign, style = _sign(outcome, signs)
        line = Text.assemble(
            (f"{sign} {word(outcome, self.settings.language_for(''))}  ", style),
            (task["task_id"], "bold"),
            (f"  {seconds:.1f} s  ", "dim"),
        )
        self._print(line.append(one_line(task["message"], 80)))
        if problem and outcome in ("failed", "busy", "skipped"):
            self._print(Text(f"    {one_line(problem, 300)}", style=style))
        if unknown := unknown_calls(task, signs, self.settings.language_for(task["message"])):
            self._print(Text("    ") + unknown)
        return outcome

    def _print_summary(self, outcomes: list[str], to_answer: list[Json]) -> None:
        counted = Counter(outcomes)
        if self.as_json:
            write_json(
                {
                    "type": "summary",
                    **{name: counted[name] for name in OUTCOMES},
                    "to_answer": [row["task_id"] for row in to_answer],
                }
            )
            return
        language = self.settings.language_for("")
        parts = ", ".join(f"{counted[name]} {word(said, language)}" for name, said in OUTCOMES.items() if counted[name])
        if outcomes:
            said = self.settings.say("counted" if len(outcomes) > 1 else "counted_one", n=len(outcomes), parts=parts)
        else:
            said = self.settings.say("none_until_answered" if to_answer else "none_to_resume")
        self._print(Text(said, style="bold"))
        if to_answer:
            self._print(Text(self.settings.say("to_answer"), style="yellow"))
        for row in to_answer:
            self._print(Text(f"  {self._command('answer', row)}"))

    def _print(self, text: Text) -> None:
        self.console.print(text, soft_wrap=True)


def _sign(outcome: str, signs: Signs) -> tuple[str, str]:
    if outcome == "done":
        return signs.ok, "green"
    return (signs.failed, "red") if outcome == "failed" else (signs.begins, "yellow")


def code_of(outcomes: Iterable[str]) -> int:
    """1 if one failed or was cancelled, else 3 if one waits, else 130 if one does not go on, else 0."""
    found = set(outcomes)
    if found & {"failed", "cancelled"}:
        return FAILED
    if "waiting" in found:
        return WAITING
    return PAUSED if found & {"paused", "left"} else 0
