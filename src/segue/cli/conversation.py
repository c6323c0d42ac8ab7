"""Talk with an agent: one message, a task to resume, or turn by turn."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from segue.prompts.language import language_of

from ..events import Event, from_dict
from ..ids import Ids
from .consoles import output
from .exits import FAILED, PAUSED, complain
from .interrupts import listening
from .lines import status_line
from .live import LiveView
from .notices import greet, header
from .printable import printable
from .render import JsonView, PlainView, View
from .settings import Settings

if TYPE_CHECKING:
    from ..app import App

Row = dict[str, Any]


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
    """Whether each task has a header above it and the command that goes on below it."""
    stopped: bool = False
    """Whether a task was stopped without waiting; a tool of it may still run in a thread."""

    @property
    def agent(self) -> str:
        return self.settings.chosen_agent()

    async def send(self, message: str) -> int:
        """Send a message, show its task, and return the exit code."""
        task = await self.app.start(
            message,
            session_id=self.session,
            agent=self.agent,
            mode=self.mode,
            user_id=self.settings.user,
            model=self.settings.model,
        )
        view = self._view()
        if self.framed:
            self._introduce(task, language_of(message))
        return await self._carry(task["task_id"], self.app.follow(task["task_id"]), view)

    async def resume(self, task_id: str) -> int:
        """Go on with a task, show it from where it stood, and return the exit code."""
        trace = await self.app.trace(task_id)
        events = self.app.resume_and_follow(task_id, model=self.settings.model)
        first = await anext(events, None)
        view = self._view()
        for form in trace["events"]:
            view.recall(from_dict(form))
        if self.framed:
            task = trace["task"]
            self._introduce({**task, "model": self.settings.model or task["model"]}, language_of(task["message"]))
        return await self._carry(task_id, _with_first(first, events), view)

    def _view(self) -> View:
        if self.as_json:
            return JsonView()
        redraws = self.console.is_terminal and not self.console.is_dumb_terminal
        return LiveView(self.console) if redraws else PlainView(self.console)

    def _introduce(self, task: Row, language: str) -> None:
        model = self.app.model_for(task["agent_id"], task["model"])
        heading = header(task["agent_id"], model, task["mode"], task["thread_id"], self.settings.database)
        greet(self.console, model, heading, language)

    async def _carry(self, task_id: str, events: AsyncIterator[Event], view: View) -> int:
        began = time.monotonic()
        with listening(self.app, task_id, view) as interrupts:
            try:
                async for event in events:
                    view.show(event)
            finally:
                view.finish()
        self.stopped |= interrupts.stopped
        task = (await self.app.trace(task_id))["task"]
        if isinstance(view, JsonView):
            view.result(task)
        else:
            self._conclude(task, time.monotonic() - began)
        return self._judge(task)

    def _conclude(self, task: Row, seconds: float) -> None:
        self.console.print()
        if task["status"] in ("done", "error") and task["result"]:
            self.console.print(status_line(task, seconds), soft_wrap=True)
            if self.framed:
                self.say_how_to_go_on(task["thread_id"])

    def say_how_to_go_on(self, session_id: str) -> None:
        """Print the command that continues the session in another process, ready to be copied."""
        self.console.print(Text("go on in this session, from any process:", style="dim"))
        self.console.print(Text(printable(self.settings.going_on(session_id))), soft_wrap=True)

    def _judge(self, task: Row) -> int:
        """Say what a task that is not done needs, and return the exit code."""
        resume = self.settings.command_on("resume", task["task_id"])
        if task["status"] == "done":
            return 0
        if task["status"] == "paused":
            complain("The task is paused. To go on with it:", resume)
            return PAUSED
        hints = [] if task["result"] else [resume]
        complain(task["error"] or f"The task is {task['status']} and did not end.", *hints)
        return FAILED


async def _with_first(first: Event | None, rest: AsyncIterator[Event]) -> AsyncIterator[Event]:
    if first is not None:
        yield first
    async for event in rest:
        yield event


class Stage:
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

    def __enter__(self) -> "Stage":
        self._runner.__enter__()
        try:
            app = self.run(self._enter(self._opening))
        except BaseException:
            self._runner.close()
            raise
        settings = self._settings
        self.conversation = Conversation(
            app,
            settings,
            output(),
            settings.session or Ids().thread(),
            settings.mode,
            self._as_json,
            self._framed,
        )
        return self

    async def _enter(self, opening: "Callable[[], AbstractAsyncContextManager[App]]") -> "App":
        return await self._open.enter_async_context(opening())

    def run(self, doing: Coroutine[Any, Any, Any]) -> Any:
        return self._runner.run(doing)

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


def one_shot(settings: Settings, message: str, *, as_json: bool) -> int:
    """Send one message and return the exit code."""
    with Stage(settings, as_json=as_json) as stage:
        code: int = stage.run(stage.conversation.send(message))
    return stage.leave(code)


def resumed(settings: Settings, task_id: str, *, as_json: bool) -> int:
    """Resume one task and return the exit code."""
    with Stage(settings, as_json=as_json, must_exist=True) as stage:
        code: int = stage.run(stage.conversation.resume(task_id))
    return stage.leave(code)
