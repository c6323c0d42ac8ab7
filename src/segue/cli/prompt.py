"""The prompt of a conversation: input, history, completion, hints and interrupts."""

import asyncio
import codecs
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from rich.cells import cell_len

from ..core.approval import ApprovalTerms
from ..core.calls import WAIT
from ..core.errors import SegueError, TaskUnfinished, ThreadBusy
from ..core.spend import SPEND
from ..core.task import ACTIVE
from .exits import sentence_of
from .lookup import agent_is_remembered
from .settings import MOST, Settings, continue_command, places, send_command, task_command
from .verdicts import Call
from .views.console import read_line

if TYPE_CHECKING:
    from ..app import App
    from ..core.records import Task


# Hints: what to do where a session does not accept a message, or a task waits, as commands ready to be run.

WAIT_SECONDS = "60"


def continue_hint(settings: Settings, task: "Task") -> tuple[str, str]:
    """A heading, and the command that continues a task's session with its agent in another process."""
    if agent_is_remembered(task):
        settings = replace(settings, agents_file="", agent="")
    else:
        settings = replace(settings, agent=task.agent_id)
    command = continue_command(replace(settings, user=task.user_id), task.thread_id)
    return settings.say("continue_session"), command


def answer_hints(settings: Settings, task_id: str, question: Mapping[str, Any]) -> list[str]:
    """How to answer the question that a task waits with."""
    if question["kind"] == WAIT:
        running = " ".join(["segue schedules --run", *places(settings)])
        event = [task_command(settings, "event", task_id, question["event"])] if question["event"] else []
        return [settings.say("continues_itself", command=running), *event]
    if question["kind"] == "approval":
        return _verdict_hints(settings, task_id, question["calls"])
    ending = _choice(settings.say("end_task"), task_command(settings, "answer", task_id, "--finish"))
    if question["kind"] == SPEND:
        higher = task_command(settings, "answer", task_id, (question.get("spend") or question)["suggestion"])
        return [
            *_choice(settings.say("raise_limit"), higher),
            *_choice(settings.say("cancel_it"), _cancel(settings, task_id)),
        ]
    return [
        *_choice(settings.say("answer_here"), task_command(settings, "answer", task_id)),
        *_choice(settings.say("answer_by_text"), task_command(settings, "answer", task_id, "ANSWER")),
        *(ending if question["kind"] == "question" else []),
    ]


def _verdict_hints(settings: Settings, task_id: str, calls: Sequence[Call]) -> list[str]:
    """How to decide on calls."""
    first = calls[0]["index"]
    edited = f"{first}={json.dumps(calls[0]['arguments'], ensure_ascii=False)}"
    shown = edited if len(edited) <= MOST and edited.isprintable() else f"{first}={{}}"
    always = task_command(settings, "answer", task_id, "--always", "session")
    return [
        *_choice(settings.say("decide_here"), task_command(settings, "answer", task_id)),
        *_choice(settings.say("decide_by_options")),
        f"  {task_command(settings, 'answer', task_id, '--approve', 'all')}",
        *([] if any(ApprovalTerms.of(call).each_call for call in calls) else [f"  {always}"]),
        f"  {task_command(settings, 'answer', task_id, '--edit', shown)}",
        f"  {task_command(settings, 'answer', task_id, '--reject', 'REASON')}",
    ]


async def alternatives(app: "App", settings: Settings, refused: TaskUnfinished | ThreadBusy, message: str) -> list[str]:
    """What to do instead of sending the message to a session that does not take it."""
    task = await app.tasks.newest(settings.session)
    if task and isinstance(refused, TaskUnfinished):
        return _unfinished(settings, task, message)
    here = ("--session", settings.session)
    choices = [
        *_choice(settings.say("wait_for_it"), send_command(settings, message, *here, "--wait", WAIT_SECONDS)),
        *_choice(settings.say("other_session"), send_command(settings, message)),
    ]
    if task:
        steering = send_command(settings, message, *here, "--steer")
        choices += _choice(settings.say("pause_running"), task_command(settings, "pause", task.task_id))
        choices += _choice(settings.say("add_to_running"), steering)
    return choices


async def busy_hints(app: "App", settings: Settings, task_id: str, refused: ThreadBusy) -> list[str]:
    """Why a task cannot be resumed while its session is busy, and what to do instead."""
    thread_id = (await app.tasks.get(task_id)).thread_id
    (latest,) = await app.tasks.list(session_id=thread_id, limit=1)
    pausing = task_command(settings, "pause", latest.task_id)
    if latest.status not in ACTIVE:
        return [sentence_of(refused, settings)]
    if latest.task_id != task_id:
        return [sentence_of(refused, settings), *_choice(settings.say("pause_running"), pausing)]
    watching = _choice(settings.say("see_progress"), task_command(settings, "trace", task_id))
    if latest.status == "pausing":
        return [settings.say("pausing_elsewhere", task_id=task_id), *watching]
    runs = settings.say("runs_elsewhere", task_id=task_id)
    return [runs, *watching, *_choice(settings.say("pause_and_resume"), pausing)]


async def unfinished_hint(app: "App", settings: Settings, session_id: str) -> list[str]:
    """How to see what a session's unfinished task did: a turn is in the history once it has ended."""
    task = await app.tasks.newest(session_id)
    if task is None or task.is_over:
        return []
    return _choice(settings.say("unfinished_hidden"), task_command(settings, "trace", task.task_id))


def _cancel(settings: Settings, task_id: str) -> str:
    return task_command(settings, "cancel", task_id)


def _unfinished(settings: Settings, task: "Task", message: str) -> list[str]:
    cancel = _choice(settings.say("cancel_it"), _cancel(settings, task.task_id))
    if task.status == "waiting":
        return [*_choice(settings.say("answer_it"), task_command(settings, "answer", task.task_id)), *cancel]
    steer = send_command(settings, message, "--session", task.thread_id, "--steer")
    return [
        *_choice(settings.say("resume_it"), task_command(settings, "resume", task.task_id)),
        *cancel,
        *_choice(settings.say("add_and_resume"), steer),
    ]


def _choice(what: str, *commands: str) -> list[str]:
    return [what, *(f"  {command}" for command in commands)]


# Ctrl-C and SIGTERM: while tasks run the first one pauses them and the second one stops them.
#
# While an answer is written the first one stops it: the model's call is made again when the task is resumed.

SIGNALS = (signal.SIGINT, signal.SIGTERM)
T = TypeVar("T")


class Stoppable(Protocol):
    """What runs the tasks: the app, or several."""

    async def pause(self, task_id: str) -> None: ...

    def stop_now(self, task_id: str) -> None: ...


class Interrupts:
    """Counts the signals that came while tasks run, and passes them on to the app."""

    def __init__(
        self, app: Stoppable, task_ids: Collection[str], say: Callable[[str], None], is_writing: Callable[[], bool]
    ) -> None:
        self._app = app
        self._task_ids = task_ids
        self._say = say
        self._is_writing = is_writing
        self._asking: asyncio.Task[None] | None = None
        self.count = 0

    @property
    def stopped(self) -> bool:
        """Whether the tasks were stopped without waiting for a boundary."""
        return self.count > 1

    def __call__(self) -> None:
        self.count += 1
        if self.count == 1 and not self._is_writing():
            self._say("pausing")
            self._asking = asyncio.get_running_loop().create_task(self._pause())
        elif self.count <= 2:  # a third one must not interrupt how the second one is written down
            self._stop()

    def stop_answer(self) -> None:
        """Stop an answer that begins to be written after a pause was asked for."""
        if self.count == 1 and self._asking and self._is_writing():
            self._asking = None
            self._stop()

    def _stop(self) -> None:
        self._say("stopping")
        for task_id in tuple(self._task_ids):
            self._app.stop_now(task_id)

    async def _pause(self) -> None:
        for task_id in tuple(self._task_ids):
            with suppress(SegueError):  # it ended before it could be asked, or says itself what is wrong
                await self._app.pause(task_id)


@contextmanager
def listening(
    app: Stoppable,
    task_ids: Collection[str],
    say: Callable[[str], None],
    is_writing: Callable[[], bool] = lambda: False,
) -> Iterator[Interrupts]:
    """Take the signals over while the tasks run; `say` takes the name of a sentence."""
    interrupts = Interrupts(app, task_ids, say, is_writing)
    with handling_signals(interrupts):
        yield interrupts


@contextmanager
def handling_signals(act: Callable[[], None]) -> Iterator[None]:
    """Have the signals call `act`; where that is not possible they keep their usual effect."""
    loop = asyncio.get_running_loop()
    taken = []
    for number in SIGNALS:
        with suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, act)
            taken.append(number)
    try:
        yield
    finally:
        for number in taken:
            loop.remove_signal_handler(number)


async def run_interruptible(doing: Coroutine[Any, Any, T], patience: float, on_delay: Callable[[], None]) -> T | None:
    """Do something, or None if a signal came before its end; `on_delay` is called after `patience` seconds."""
    work = asyncio.ensure_future(doing)
    interrupted = False

    def leave() -> None:
        nonlocal interrupted
        interrupted = True
        work.cancel()

    with handling_signals(leave):
        done, _ = await asyncio.wait({work}, timeout=patience)
        if not done:
            on_delay()
            await asyncio.wait({work})
    return None if interrupted and work.cancelled() else work.result()


_ESCAPES = re.compile(r"\x1b(\[[0-9;?]*[ -/]*[@-~]|O.|.)?")
ERASE, ERASE_LINE = "\b\x7f", "\x15"


class Keyboard:
    """The line under way; each whole one is handed on."""

    def __init__(self, on_line: Callable[[str], None], on_change: Callable[[str], None]) -> None:
        self._on_line = on_line
        self._on_change = on_change
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self.text = ""

    def take(self, typed: bytes) -> None:
        """Take what was typed or pasted: a paste of several lines is one."""
        keys = _ESCAPES.sub("", self._decode(typed)).replace("\r", "\n")
        sends = keys.endswith("\n")
        for key in " ".join(keys.rstrip("\n").split("\n")):
            if key in ERASE:
                self.text = self.text[:-1]
            elif key == ERASE_LINE:
                self.text = ""
            elif key.isprintable():
                self.text += key
        if sends and self.text.strip():
            line, self.text = self.text.strip(), ""
            self._on_line(line)
        self._on_change(self.text)


@contextmanager
def typing(on_line: Callable[[str], None], on_change: Callable[[str], None]) -> Iterator[None]:
    """Hand on the lines that are typed at the terminal meanwhile; Ctrl-C stays a signal."""
    try:
        import termios
        import tty
    except ImportError:  # Windows
        yield
        return
    if not sys.stdin.isatty():
        yield
        return
    descriptor, loop = sys.stdin.fileno(), asyncio.get_running_loop()
    keyboard = Keyboard(on_line, on_change)
    usual = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor, termios.TCSANOW)
    loop.add_reader(descriptor, lambda: keyboard.take(os.read(descriptor, 65536)))
    try:
        yield
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSANOW, usual)


# The prompt of a conversation: several lines, a history across runs, completion of commands and their arguments.

Choices = Mapping[str, Sequence[str]]
"""The commands, and what each may be followed by."""


class Prompt(Protocol):
    """Reads what a person writes; None when they leave."""

    async def read(self, choices: Choices) -> str | None: ...


class LinePrompt:
    """A line of standard input, where that is no terminal."""

    async def read(self, choices: Choices) -> str | None:
        try:
            return read_line("")
        except (EOFError, KeyboardInterrupt):
            return None


class TerminalPrompt:
    """A text that is edited at a terminal: Enter sends it, Alt-Enter begins a line, a paste may have several."""

    def __init__(self, prompt: str) -> None:
        self._session = new_session(prompt)

    async def read(self, choices: Choices) -> str | None:
        try:
            return await self._session.prompt_async(completer=Words(choices))
        except (EOFError, KeyboardInterrupt):
            return None


def open_prompt(prompt: str) -> Prompt:
    """The prompt for what standard input is."""
    usable = sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    return TerminalPrompt(prompt) if usable else LinePrompt()


class Words(Completer):
    """Completes the commands and what follows them."""

    def __init__(self, choices: Choices) -> None:
        self._choices = choices

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        text = document.text_before_cursor
        if not text.startswith("/") or "\n" in text:
            return
        command, space, argument = text.partition(" ")
        begun = argument if space else command
        for word in self._choices.get(command, ()) if space else self._choices:
            if word.startswith(begun) and word != begun:
                yield Completion(word, start_position=-len(begun))


def new_session(prompt: str) -> PromptSession[str]:
    """An editor of several lines with the history of earlier runs."""
    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return PromptSession(
        prompt,
        history=_history(),
        key_bindings=keys,
        multiline=True,
        complete_while_typing=False,
        prompt_continuation=" " * cell_len(prompt),
        enable_suspend=True,
        enable_open_in_editor=True,
    )


def _history() -> History:
    """What was written in earlier runs; it is kept in memory alone where its file cannot be written."""
    file = history_file()
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.touch(mode=0o600)
        return FileHistory(str(file))
    except OSError:
        return InMemoryHistory()


def history_file() -> Path:
    """SEGUE_HISTORY, or a file of the user's state folder."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(os.environ.get("SEGUE_HISTORY") or Path(state, "segue", "history"))
