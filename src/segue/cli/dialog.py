"""Talk with an agent: one message, a task to resume or to answer, or turn by turn."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from rich.console import Console
from rich.text import Text

from ..core.calls import WAIT
from ..core.context import Ids
from ..core.errors import InvalidAnswer, SegueError, TaskUnfinished, ThreadBusy
from ..core.events import Answer as AnswerEvent
from ..core.events import Event, Fallback, Paused, StateChanged
from ..core.records import Json, Task, TaskTrace
from ..core.task import TaskStatus
from ..prompts import protocols
from ..prompts.catalogue import Language, terminal_text, word
from ..runtime.start import MessageOptions, Request
from .approval import Questioner, can_ask, print_question
from .exits import FAILED, PAUSED, WAITING, sentence_of
from .hints import alternatives, answer_hints, busy_hints, continue_hint
from .interrupts import listening, run_interruptible, typing
from .lookup import LATEST, find_session, find_task
from .output import standard_output
from .settings import IN_MEMORY, Settings, send_command, task_command
from .verdicts import Answer, Decisions, answer_of
from .views.console import (
    output,
    print_error,
    print_hints,
    print_note,
    print_prose,
    printable,
    progress,
    stderr_console,
)
from .views.lines import header, print_heading, status_line, symbols_for, unknown_calls
from .views.live import LiveProgress, LiveView, PlainProgress, PlainView
from .views.task import AnswerView, JsonView, TaskView, View

if TYPE_CHECKING:
    from ..app import App


T = TypeVar("T")

LIFECYCLE = "lifecycle"
"""The mode whose tasks are shown as a table of their subtasks."""
PATIENCE = 0.5
"""Seconds after which a message is reported as waiting."""
POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Turn:
    """How a task, or a stretch of it, ended: an exit code, or the question that is put to the person."""

    code: int
    task: Task | None = None
    question: Json | None = None


@dataclass
class Conversation:
    """An open app, what was asked for, and where the answers are shown."""

    app: "App"
    settings: Settings
    console: Console
    session: str
    mode: str
    as_json: bool = False
    framed: bool = True
    """Whether each task has a header above it and the command that continues below it."""
    stopped: bool = False
    """Whether a task was stopped without waiting; a tool of it may still run in a thread."""
    view: View | None = None
    """What shows the task that is talked about."""
    seconds: float = 0.0
    """How long it was worked on, without the time that a person was asked."""
    accepting: "asyncio.Future[Task] | None" = None
    """Stores what was typed last with the task."""
    cancelling: "asyncio.Future[None] | None" = None
    following: Task | None = None
    """The task of a line that was typed too late to steer the one before it."""

    @property
    def agent(self) -> str:
        return self.settings.chosen_agent()

    async def send(self, message: str, *, steer: bool = False, files: Sequence[str] = ()) -> Turn:
        """Send a message and show its task, or with `steer` the unfinished one that it is added to."""
        known = await self._latest() if steer else None
        starting = self._start(message, steer, files)
        task = await run_interruptible(starting, PATIENCE, self._print_waiting_hint)
        if task is None:
            how = ["--steer"] if steer else ["--wait", f"{self.settings.wait:g}"]
            again = send_command(self.settings, message, "--session", self.session, *how)
            print_error(self.settings.say("not_sent"), again)
            return Turn(PAUSED)
        seen = known.events if known and known.task.task_id == task.task_id else []
        if seen:
            self.accepting = asyncio.get_running_loop().create_future()
            self.accepting.set_result(task)
        self._begin(task, seen)
        after = max((event.seq for event in seen), default=0)
        return await self._show_turn(task.task_id, self.app.follow(task.task_id, after))

    async def show(self, task: Task) -> Turn:
        """Show a task that was begun, from its first event."""
        self._begin(task, [])
        return await self._show_turn(task.task_id, self.app.follow(task.task_id))

    async def resume(self, task_id: str) -> Turn:
        """Resume a task and show what follows; a waiting one asks its question again."""
        trace = await self.app.tasks.trace(task_id)
        if trace.task.status == TaskStatus.WAITING:
            self._begin(trace.task, trace.events)
            return await self._judge(trace.task)
        events = self.app.resume_and_follow(task_id, model=self.settings.model)
        return await self._continue_view(trace, events)

    async def answer(self, task_id: str, answer: Answer, interrupt_id: str) -> Turn:
        """Tell a task that waits what was decided, and show how it continues; others may continue with it."""
        turn = await self._show_answered(task_id, answer, interrupt_id)
        if others := self.app.tasks.running():
            print_note(self.settings.say("others_continue", n=len(others)))
        while True:  # they wait for the same limit, which the answer raised
            if not self.app.tasks.running():
                return turn
            await asyncio.sleep(POLL_SECONDS)

    async def wait_out(self, task: Task, question: Json) -> Turn:
        """Show that a task waits for no person, and how it goes on then; with Ctrl-C it waits on by itself."""
        print_question(self.console, question, self._language(task))
        seen = await self.app.tasks.last_event(task.task_id)
        if await run_interruptible(self._until_continued(task.task_id, seen), PATIENCE, lambda: None) is None:
            print_hints(*answer_hints(self.settings, task.task_id, question))
            return Turn(WAITING)
        return await self._show_turn(task.task_id, self.app.follow(task.task_id, seen))

    async def _until_continued(self, task_id: str, seen: int) -> bool:
        """Continue a task when its wait is over, unless another process does so first."""
        print_note(self.settings.say("follows_wait"))
        while await self.app.tasks.last_event(task_id) == seen:
            await self.app.tasks.end_wait(task_id)
            await asyncio.sleep(POLL_SECONDS)
        return True

    async def _show_answered(self, task_id: str, answer: Answer, interrupt_id: str) -> Turn:
        trace = await self.app.tasks.trace(task_id) if self.view is None else None
        events = self.app.answer_and_follow(task_id, answer, interrupt_id=interrupt_id)
        if trace:
            return await self._continue_view(trace, events)
        first = await anext(events, None)  # an answer that does not fit leaves the view as it is
        return await self._show_turn(task_id, _with_first(first, events))

    async def _continue_view(self, trace: TaskTrace, events: AsyncIterator[Event]) -> Turn:
        first = await anext(events, None)
        task, before = trace.task, self.view
        self._begin(replace(task, model=self.settings.model or task.model), trace.events)
        if isinstance(before, TaskView) and isinstance(self.view, TaskView):
            self.view.printed_before = before.printed(task.task_id)
        last = next((event for event in reversed(trace.events) if isinstance(event, AnswerEvent | Fallback)), None)
        if (
            isinstance(last, AnswerEvent) and not self.as_json
        ):  # written before the task stopped, it does not come again
            self._shown().show(last)
        return await self._show_turn(task.task_id, _with_first(first, events))

    async def _start(self, message: str, steer: bool, files: Sequence[str] = ()) -> Task:
        return await self.app.tasks.accept(Request.of(message, self._options(steer, files)))

    def _options(self, steer: bool, files: Sequence[str] = ()) -> MessageOptions:
        return {
            "session_id": self.session,
            "agent": self.agent,
            "mode": self.mode,
            "user_id": self.settings.user,
            "model": self.settings.model,
            "wait": self.settings.wait,
            "steer": steer,
            "files": files,
            "language": self.settings.language,
            "memory_files": self.settings.memory_files,
            **({} if steer else self.settings.asks),  # type: ignore[typeddict-item]
            "remember": self.settings.remember,
            "origin": "terminal",
        }

    async def _latest(self) -> TaskTrace | None:
        task = await self.app.tasks.newest(self.session)
        return await self.app.tasks.trace(task.task_id) if task else None

    def _print_waiting_hint(self) -> None:
        if self.settings.wait:
            print_note(self.settings.say("waiting_for_session", session=self.session))

    def _begin(self, task: Task, seen: Sequence[Event]) -> None:
        """A view of the task that knows what was seen of it before."""
        self.view = self._new_view(task)
        self.settings = replace(self.settings, topic=task.message)
        self.seconds = 0.0
        for event in seen:
            self.view.recall(event)
        if self.framed:
            model, language = self.app.model_for(task.agent_id, task.model), self._language(task)
            heading = header(task.agent_id, model, task.mode, task.session_id, self.settings.database, language)
            print_heading(self.console, model, heading, language)

    def _new_view(self, task: Task) -> View:
        if self.as_json:
            return JsonView()
        in_subtasks, language = task.mode == LIFECYCLE, self._language(task)
        if self.console.is_terminal and not self.console.is_dumb_terminal:
            view: TaskView = (LiveProgress if in_subtasks else LiveView)(self.console, language)
        else:
            view = (PlainProgress if in_subtasks else PlainView)(self.console, language)
        return view if output().is_terminal else AnswerView(view, self.console.quiet, language)

    def _language(self, task: Task) -> Language:
        return self.settings.language_for(task.message)

    async def _show_turn(self, task_id: str, events: AsyncIterator[Event]) -> Turn:
        view = self._shown()
        began = time.monotonic()
        paused = False
        try:
            notice = lambda name: view.notice(self.settings.say(name))  # noqa: E731
            writing = lambda: view.writing  # noqa: E731
            with listening(self.app, (task_id,), notice, writing) as interrupts, self._typing(task_id, view):
                async for event in self._with_steering(task_id, events):
                    view.show(event)
                    interrupts.stop_answer()
                    if isinstance(event, StateChanged) and event.new == TaskStatus.PAUSING and not interrupts.count:
                        view.notice(self.settings.say("pausing_requested"))
                    paused = isinstance(event, Paused) or (paused and isinstance(event, StateChanged))
                task = await self.app.task(task_id)
        except BaseException:
            view.finish()
            raise
        self.seconds += time.monotonic() - began
        self.stopped |= interrupts.stopped
        if paused and task.status not in (TaskStatus.PAUSED, TaskStatus.CANCELLED):
            return self._report_resumed_elsewhere(task)
        turn = await self._judge(task, interrupted=interrupts.count > 0)
        if following := self.following:
            self.following = None
            self._begin(following, [])
            return await self._show_turn(following.task_id, self.app.follow(following.task_id))
        return turn

    @contextmanager
    def _typing(self, task_id: str, view: View) -> Iterator[None]:
        """In a conversation at a terminal, have what is typed steer the task."""
        if self.framed or not isinstance(view, LiveView):
            yield
            return
        with typing(lambda line: self._handle_input(task_id, line), view.echo):
            yield

    def _handle_input(self, task_id: str, line: str) -> None:
        """Add a line to the task that runs, after those that were typed before it, or cancel it."""
        command, _, text = line.partition(" ")
        if command == "/cancel":
            self.cancelling = asyncio.ensure_future(self._cancelled(task_id))
        elif not is_command(line) or (command == "/steer" and text):
            text = text.strip() if command == "/steer" else line
            self.accepting = asyncio.ensure_future(self._accepted(text, self.accepting))
        else:
            self._shown().notice(self.settings.say("while_running"))

    async def _cancelled(self, task_id: str) -> None:
        try:
            await self.app.cancel(task_id)
        except SegueError as error:
            self._shown().notice(sentence_of(error, self.settings))

    async def _accepted(self, line: str, former: "asyncio.Future[Task] | None") -> Task:
        if former:
            try:
                await former
            except SegueError as error:
                self._shown().notice(sentence_of(error, self.settings))
        return await self._start(line, True)

    async def _with_steering(self, task_id: str, events: AsyncIterator[Event]) -> AsyncIterator[Event]:
        """The events, also of what runs after the task was steered; a line that came too late is the next message."""
        seq = 0
        while True:
            async for event in events:
                seq = max(seq, event.seq)
                yield event
            accepting, self.accepting = self.accepting, None
            if accepting is None:
                return
            try:
                task = await self.app.tasks.taker(await accepting)
            except SegueError as error:
                self._shown().notice(sentence_of(error, self.settings))
                return
            events = self.app.follow(task_id, seq)
            if task.task_id != task_id:  # the line came too late for this one
                self.following = task
                async for event in events:
                    yield event
                return

    def _report_resumed_elsewhere(self, task: Task) -> Turn:
        view = self._shown()
        view.finish()
        if isinstance(view, JsonView):
            view.result(task)
        trace = task_command(self.settings, "trace", task.task_id)
        print_error(self.settings.say("taken_elsewhere"), trace)
        return Turn(PAUSED)

    def _shown(self) -> View:
        if self.view is None:
            raise RuntimeError("No task is shown yet.")
        return self.view

    async def _judge(self, task: Task, *, interrupted: bool = False) -> Turn:
        """Close the view of a task that stopped, or keep it if a person is asked."""
        view = self._shown()
        question = None
        if task.status == TaskStatus.WAITING:
            view.rest()
            question = await self.app.question(task.task_id)
            if can_ask() and not self.as_json and not interrupted:
                return Turn(WAITING, task, question)
        else:
            view.finish()
        if isinstance(view, JsonView):
            view.result(task, **({"question": question} if question else {}))
        elif question:
            print_question(stderr_console() if self.console.quiet else self.console, question, self._language(task))
            print_hints(*answer_hints(self.settings, task.task_id, question))
            return Turn(WAITING)
        else:
            self._conclude(task)
        return Turn(self._report_unfinished(task, question))

    def _conclude(self, task: Task) -> None:
        self.console.print()
        if unknown := unknown_calls(task, symbols_for(self.console), self._language(task)):
            print_prose(self.console, unknown)
        if task.status in (TaskStatus.DONE, TaskStatus.ERROR) and task.result:
            print_prose(self.console, status_line(task, self.seconds, self._language(task)))
            if self.framed and self.settings.database != IN_MEMORY:
                self.print_continue_hint(task)

    def print_continue_hint(self, task: Task) -> None:
        """Print the command that continues a task's session with its agent in another process, ready to be copied."""
        heading, command = continue_hint(self.settings, task)
        self.console.print(Text(heading, style="dim"))
        self.console.print(Text(printable(command)), soft_wrap=True)

    def report_waiting(self, task: Task, question: Json) -> int:
        """Say that a task waits, and how to answer it; returns the exit code."""
        print_note(terminal_text("waiting", self._language(task)), *answer_hints(self.settings, task.task_id, question))
        return WAITING

    def _report_unfinished(self, task: Task, question: Json | None) -> int:
        """Say what a task that is not done needs, and return the exit code."""
        language = self._language(task)
        resume = task_command(self.settings, "resume", task.task_id) if self.framed else "/resume"
        if question:
            return self.report_waiting(task, question)
        match task.status:
            case TaskStatus.DONE:
                if (task.result or {}).get("malformed"):
                    print_note(terminal_text("malformed", language))
                return 0
            case TaskStatus.PAUSED:
                print_error(task.error or terminal_text("paused", language), resume)
                return FAILED if task.error else PAUSED
            case TaskStatus.CANCELLED:
                print_error(terminal_text("accepts_next", language))
                return FAILED
            case (
                TaskStatus.PENDING | TaskStatus.RUNNING | TaskStatus.WAITING | TaskStatus.PAUSING | TaskStatus.ERROR
            ) as status:
                hints = [] if task.result else [resume]
                print_error(task.error or terminal_text("did_not_end", language, status=word(status, language)), *hints)
                return FAILED


def is_command(line: str) -> bool:
    """Whether a line begins with a command's name; a path does not."""
    name, _, _ = line.partition(" ")
    return name.startswith("/") and "/" not in name[1:]


async def _with_first(first: Event | None, rest: AsyncIterator[Event]) -> AsyncIterator[Event]:
    if first is not None:
        yield first
    async for event in rest:
        yield event


# The event loop of a conversation, and what is asked of the person between two runs of it.


class ConversationLoop:
    """An event loop with an open conversation; between two runs of it nothing else happens."""

    def __init__(
        self, settings: Settings, *, as_json: bool = False, framed: bool = True, must_exist: bool = False
    ) -> None:
        self._runner = asyncio.Runner()
        self._open = AsyncExitStack()
        self._opening = settings.reopened if must_exist else settings.opened
        self._settings = settings
        self._as_json = as_json
        self._framed = framed and not as_json
        self.conversation: Conversation

    def __enter__(self) -> "ConversationLoop":
        self._runner.__enter__()
        try:
            self.conversation = self.run(self._begin())
        except BaseException:
            self.run(self._open.aclose())
            self._runner.close()
            raise
        return self

    async def _begin(self) -> Conversation:
        app = await self._open.enter_async_context(self._opening())
        settings = self._settings
        if settings.latest:
            settings = replace(settings, session=await find_session(app, LATEST))
        session = settings.session or Ids().thread()
        return Conversation(app, settings, progress(), session, settings.mode, self._as_json, self._framed)

    def run(self, doing: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(doing)

    def run_turns(self, doing: Coroutine[Any, Any, Turn]) -> int:
        """Carry a task through, asking the person whenever it comes to wait; returns the exit code."""
        talk = self.conversation
        turn = self.run(doing)
        while turn.task and turn.question:
            turn = self._asked(talk, turn.task, turn.question)
        return turn.code

    def _asked(self, talk: Conversation, task: Task, question: Json) -> Turn:
        """Ask until the answer fits; what was written for one that does not is kept. A wait asks nobody."""
        if question["kind"] == WAIT:
            return self.run(talk.wait_out(task, question))
        questioner = Questioner(talk.console, talk.settings.language_for(task.message))
        while (answer := questioner.ask(question)) is not None:
            try:
                return self.run(talk.answer(task.task_id, answer, question["interrupt_id"]))
            except InvalidAnswer as error:
                print_error(sentence_of(error, talk.settings))
        return Turn(talk.report_waiting(task, question))

    def __exit__(self, *_: object) -> None:
        self.run(self._open.aclose())
        if not self.conversation.stopped:
            self._runner.close()

    def leave(self, code: int) -> int:
        """The exit code; after a stop the process ends here, without waiting for a tool that still runs in a thread."""
        if self.conversation.stopped:
            standard_output().flush()
            sys.stderr.flush()
            os._exit(code)
        return code


def one_shot(settings: Settings, message: str, *, as_json: bool, steer: bool = False, files: Sequence[str] = ()) -> int:
    """Send one message and return the exit code."""
    with ConversationLoop(settings, as_json=as_json) as loop:
        talk = loop.conversation
        try:
            code = loop.run_turns(talk.send(message, steer=steer, files=files))
        except (TaskUnfinished, ThreadBusy) as refused:
            print_error(
                sentence_of(refused, settings), *loop.run(alternatives(talk.app, talk.settings, refused, message))
            )
            code = WAITING if isinstance(refused, TaskUnfinished) and refused.status == TaskStatus.WAITING else FAILED
    return loop.leave(code)


def resumed(settings: Settings, task_id: str, *, as_json: bool) -> int:
    """Resume one task and return the exit code."""
    with ConversationLoop(settings, as_json=as_json, must_exist=True) as loop:
        talk = loop.conversation
        found = loop.run(find_task(talk.app, task_id))
        try:
            code = loop.run_turns(talk.resume(found))
        except ThreadBusy as refused:
            print_error(*loop.run(busy_hints(talk.app, settings, found, refused)))
            code = FAILED
    return loop.leave(code)


def edited(settings: Settings, begun: "Callable[[App], Coroutine[Any, Any, Task]]", *, as_json: bool) -> int:
    """Show the task that an edit begins, and return the exit code."""
    with ConversationLoop(settings, as_json=as_json, must_exist=True) as loop:
        talk = loop.conversation
        code = loop.run_turns(talk.show(loop.run(begun(talk.app))))
    return loop.leave(code)


def answered(
    settings: Settings,
    task_id: str,
    decisions: Decisions,
    reply: Answer | str | None,
    interrupt_id: str = "",
    *,
    as_json: bool,
) -> int:
    """Answer the question that a task waits with, and return the exit code.

    `decisions` are about calls, `reply` is the answer to a question, or words that approve or refuse calls; without
    either the person is asked. With `interrupt_id` that question only is answered.
    """
    with ConversationLoop(settings, as_json=as_json, must_exist=True) as loop:
        talk = loop.conversation
        found = loop.run(find_task(talk.app, task_id))
        question = loop.run(talk.app.tasks.open_question(found, interrupt_id))
        if reply is not None or decisions:
            given = answer_of(question.get("calls", ()), decisions) if reply is None else _read_reply(question, reply)
            code = loop.run_turns(talk.answer(found, given, question["interrupt_id"]))
        else:
            code = loop.run_turns(talk.resume(found))
    return loop.leave(code)


def _read_reply(question: Json, reply: Answer | str) -> Any:
    """The answer that a reply is."""
    given = protocols.answer_of(question, reply) if isinstance(reply, str) else reply
    if given is None:
        raise InvalidAnswer("“{reply}” neither approves nor rejects: use --approve, --edit or --reject.", reply=reply)
    return given
