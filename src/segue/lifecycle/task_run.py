"""The run that an engine follows: a task of an app."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import suppress
from contextvars import copy_context
from typing import Any

from ..app import App
from ..core.errors import TaskError
from ..core.events import Event, Lifecycle
from ..core.task_status import ENDED, TaskStatus
from ..nodes.lifecycle.gate import GATE, Gate
from ..runtime.control import Started
from ..runtime.request import MessageOptions, Request


class TaskRun:
    """Follows a task of an app; a gate lets the task come no further than its follower has come.

    `unfinished` says that the task can go on, `question` what it asks a person.
    """

    app: App
    """Set while the run is followed."""

    def __init__(self, options: MessageOptions, task_id: str = "") -> None:
        self._options = options
        self.session_id = str(options.get("session_id") or "")
        self.task_id = task_id
        self.stale = bool(task_id)
        """Whether the database knows more of the run than its follower."""
        self.unfinished = False
        self.question: Mapping[str, Any] | None = None
        self._seen = 0
        self._events: AsyncGenerator[Event, None] | None = None
        self._gate = Gate()
        self._pausing: asyncio.Future[None] | None = None

    @property
    def exists(self) -> bool:
        return bool(self.task_id)

    @property
    def running(self) -> bool:
        """Whether events are to be expected."""
        return self._events is not None

    def take_over(self, task_id: str) -> None:
        """Follow another task, whose past is in the database."""
        self.task_id, self.stale = task_id, bool(task_id)

    def forget(self) -> None:
        """Let go of the task: the next one begins anew."""
        self.unfinished, self.question, self.task_id, self._seen, self.stale = False, None, "", 0, False

    async def history(self) -> tuple[str, list[Event]]:
        """The task's message and everything that happened so far.

        Raises:
            UnknownTask: the database has no such task.
        """
        task = await self.app.tasks.get(self.task_id)
        events = [*await self.app.tasks.events(self.task_id)]
        self._seen = max((event.seq for event in events), default=0)
        self.stale = False
        await self._refresh()
        return task.message, events

    async def start(self, text: str) -> None:
        """Begin a new task; errors as of `App.start`."""
        await self._begin(self.app.tasks.start(Request.of(text, self._options)))

    async def resume(self, answer: Any = None) -> None:
        """Take the task up again, with a person's answer if it waits for one; errors as of `App.take_up`."""
        async for _ in self.app.tasks.follow(self.task_id, self._seen):
            pass  # an earlier run that was left comes to its boundary first
        await self._begin(self.app.tasks.resume(self.task_id, answer=answer))

    async def _begin(self, starting: Coroutine[Any, Any, Started]) -> None:
        """Have the app run the task behind a gate."""
        self._gate = Gate()
        context = copy_context()
        context.run(GATE.set, self._gate)
        known = await self.app.tasks.events(self.task_id, after=self._seen) if self.task_id else []
        self._gate.tell(sum(isinstance(event, Lifecycle) for event in known))
        task, _ = await asyncio.create_task(starting, context=context)
        self.task_id, self.session_id = task.task_id, task.thread_id
        self._follow()

    def _follow(self) -> None:
        self._events = self.app.tasks.follow(self.task_id, self._seen)

    async def next(self) -> Event | None:
        """The next event; None where the task has come to its end or to a boundary.

        Raises:
            TaskError: it was cancelled, or failed on an error after which it can go on.
        """
        if self._events is None:
            return None
        await self._paused()
        self._gate.ask()
        try:
            event = await anext(self._events)
        except StopAsyncIteration:
            self._events = None
            await self._refresh()
            await self._raise_failure()
            return None
        self._seen = max(self._seen, event.seq)
        if isinstance(event, Lifecycle):
            self._gate.saw()
        return event

    def pause(self) -> None:
        """Have the task stop at its next boundary."""
        if self.running:
            self._pausing = asyncio.ensure_future(self._pause())

    async def _pause(self) -> None:
        with suppress(TaskError):  # it may just have ended
            await self.app.pause(self.task_id)

    async def _paused(self) -> None:
        if self._pausing is not None:
            await self._pausing
            self._pausing = None

    async def leave(self, *, at_once: bool = False) -> list[Event]:
        """Have the task stop, wait until it has, and return what happened meanwhile.

        With `at_once` a call that is under way is interrupted.
        """
        if self._events is None:
            return []
        await self._events.aclose()
        self._follow()
        if at_once:
            self.app.stop_now(self.task_id)
        else:
            self.pause()
        found = []
        with suppress(TaskError):  # what failed now fails again when the run goes on
            while (event := await self.next()) is not None:
                found.append(event)
        return found

    async def let_run(self) -> None:
        """Have the task stop at its next boundary without waiting for it."""
        if self._events is not None:
            self.pause()
            await self._paused()
            self._events = None
            await self._refresh()

    async def _refresh(self) -> None:
        """See whether the task can go on, and whether it waits for a person."""
        task = await self.app.tasks.get(self.task_id)
        self.session_id = task.thread_id
        self.unfinished = task.status not in ENDED and not task.result
        self.question = await self.app.question(self.task_id) if task.status == TaskStatus.WAITING else None

    async def _raise_failure(self) -> None:
        task = await self.app.tasks.get(self.task_id)
        if task.status == TaskStatus.CANCELLED:
            raise TaskError("Task {task_id} was cancelled: give the engine a new goal.", task_id=self.task_id)
        if task.status == TaskStatus.ERROR and not task.result:
            raise TaskError(str(task.error))
