"""The event loop of a conversation, and what is asked of the person between two runs of it."""

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...core.context import Ids
from ...core.errors import InvalidAnswer, TaskUnfinished, ThreadBusy
from ...core.question import WAIT
from ...core.records import Json, Task
from ..exits import FAILED, WAITING, sentence_of
from ..lookup import LATEST, find_session, find_task
from ..settings import Settings
from ..views.consoles import print_error, progress
from .approval import Questioner
from .conversation import Conversation, Turn
from .hints import alternatives, busy_hints
from .verdicts import Answer, Decisions, answer_of

if TYPE_CHECKING:
    from ...app import App


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

    def run(self, doing: Coroutine[Any, Any, Any]) -> Any:
        return self._runner.run(doing)

    def run_turns(self, doing: Coroutine[Any, Any, Turn]) -> int:
        """Carry a task through, asking the person whenever it comes to wait; returns the exit code."""
        talk = self.conversation
        turn: Turn = self.run(doing)
        while turn.task and turn.question:
            turn = self._asked(talk, turn.task, turn.question)
        return turn.code

    def _asked(self, talk: Conversation, task: Task, question: Json) -> Turn:
        """Ask until the answer fits; what was written for one that does not is kept. A wait asks nobody."""
        if question["kind"] == WAIT:
            waited: Turn = self.run(talk.wait_out(task, question))
            return waited
        questioner = Questioner(talk.console, talk.settings.language_for(task.message))
        while (answer := questioner.ask(question)) is not None:
            try:
                turn: Turn = self.run(talk.answer(task.task_id, answer, question["interrupt_id"]))
                return turn
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
            sys.stdout.flush()
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
            code = WAITING if isinstance(refused, TaskUnfinished) and refused.status == "waiting" else FAILED
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
    reply: Answer | None,
    interrupt_id: str = "",
    *,
    as_json: bool,
) -> int:
    """Answer the question that a task waits with, and return the exit code.

    `decisions` are about calls, `reply` is the answer to a question; without either the person is asked. With
    `interrupt_id` that question only is answered.
    """
    with ConversationLoop(settings, as_json=as_json, must_exist=True) as loop:
        talk = loop.conversation
        found = loop.run(find_task(talk.app, task_id))
        question = loop.run(talk.app.tasks.open_question(found, interrupt_id))
        if reply is not None or decisions:
            given = answer_of(question.get("calls", ()), decisions) if reply is None else reply
            code = loop.run_turns(talk.answer(found, given, question["interrupt_id"]))
        else:
            code = loop.run_turns(talk.resume(found))
    return loop.leave(code)
