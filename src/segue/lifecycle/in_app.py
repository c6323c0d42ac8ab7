"""A run in an app's database: a task of the lifecycle mode, which any process can pause, resume and look at."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from contextvars import copy_context
from typing import Any

from ..app import App
from ..core.errors import TaskError
from ..core.events import Event, Lifecycle, from_dict
from ..core.lifecycle import EngineEventType, EngineState
from ..core.task_status import ENDED
from ..nodes.lifecycle.pacing import GATE, Gate
from .backend import Arrived, Begin, Given, GoOn
from .run_state import Mirror

Row = dict[str, Any]


class KeptTrack:
    """The app runs the graph in the background; a gate lets it come no further than the engine has told."""

    def __init__(self, app: App, *, mode: str = "lifecycle", task_id: str = "", **options: Any) -> None:
        self._app = app
        self._options = {"mode": mode, **options}
        self._seen = 0
        self._session_id = str(options.get("session_id") or "")
        self._task_id = task_id
        self._unknown = bool(task_id)
        """Whether the database knows more of the run than the engine was told."""
        self._pausing: asyncio.Future[None] | None = None
        self._draining: asyncio.Task[Row] | None = None
        self.standing = False
        self.question: Mapping[str, Any] | None = None

    @property
    def place(self) -> Mapping[str, str]:
        return {"task_id": self._task_id, "session_id": self._session_id} if self._task_id else {}

    def attach(self, snapshot: Mapping[str, Any]) -> None:
        """Take over the task that a snapshot names."""
        self._task_id, self._unknown = str(snapshot.get("task_id") or ""), True

    def forget(self) -> None:
        """Let go of the run: the next one is a new task."""
        self.standing, self.question, self._task_id, self._seen = False, None, "", 0
        self._unknown = False

    async def close(self) -> None:
        """What is open is the app's."""

    async def recall(self) -> tuple[Mirror, EngineState] | None:
        """The run as the database knows it, and the phase that it is in; None where the engine has followed it.

        Raises:
            UnknownTask: the database has no such task.
            TaskError: the run is no task of an app.
        """
        if not self._unknown:
            return None
        if not self._task_id:
            raise TaskError("The snapshot is of a run in memory: go on with it in an engine without an app.")
        row = await self._app.task(self._task_id)
        mirror, state = Mirror(input=row["message"]), EngineState.IDLE
        for event in [from_dict(form) for form in await self._app.events(self._task_id)]:
            self._seen = event.seq
            mirror.learn(event)
            if isinstance(event, Lifecycle) and event.event_type == EngineEventType.STATE_CHANGED:
                state = EngineState(event.details["to"])
        await self._look(row)
        self._unknown = False
        return mirror, state

    def drain(self) -> None:
        """Have the run stop at its next boundary; its row says that a person paused it."""
        run = self._app.control.run_of(self._task_id)
        if run is not None:
            self._pausing = asyncio.ensure_future(self._app.control.pause_run(run))
            self._draining = run.task

    async def stretch(self, given: Given, arrived: Arrived) -> AsyncGenerator[None, None]:
        """Run until the end or a boundary, and yield after each event; what happened goes to `arrived` first.

        Closed in the middle it drains: what is under way comes to its boundary, and is still told to `arrived`.
        """
        gate = Gate()
        await self._begun(given, gate)
        following = self._app.follow(self._task_id, after=self._seen)
        async with aclosing(following) as events:
            try:
                while (event := await self._next(events, gate)) is not None:
                    if arrived([event]):
                        yield
            except asyncio.CancelledError:
                self.drain()
                raise
            except GeneratorExit:
                self.drain()
                while (event := await self._next(events, gate)) is not None:
                    arrived([event])
                raise
            finally:
                await self._look(await self._app.task(self._task_id))
        self._complain(await self._app.task(self._task_id))

    async def _begun(self, given: Given, gate: Gate) -> None:
        """Have the app run the task behind the gate, once an earlier run of it that was left has come to stand."""
        if self._draining is not None:
            await asyncio.wait({self._draining})
            self._draining = None
        context = copy_context()
        context.run(GATE.set, gate)
        known = await self._app.events(self._task_id, after=self._seen) if self._task_id else []
        gate.tell(sum(form["type"] == Lifecycle.type for form in known))
        if isinstance(given, Begin):
            starting = self._app.start(given.text, **self._options)
        else:
            answer = given.answer if isinstance(given, GoOn) else None
            starting = self._app.take_up(self._task_id, answer=answer)
        row = await asyncio.create_task(starting, context=context)
        self._task_id, self._session_id = row["task_id"], row["thread_id"]

    async def _next(self, events: AsyncGenerator[Event, None], gate: Gate) -> Event | None:
        if self._pausing is not None:
            await self._pausing
            self._pausing = None
        gate.ask()
        event = await anext(events, None)
        if event is not None:
            self._seen = max(self._seen, event.seq)
        if isinstance(event, Lifecycle):
            gate.saw()
        return event

    async def _look(self, row: Row) -> None:
        """See whether the task can go on, and whether it waits for a person."""
        self._session_id = row["thread_id"]
        self.standing = row["status"] not in ENDED and not row["result"]
        waits = row["status"] == "waiting"
        self.question = await self._app.question(self._task_id) if waits else None

    def _complain(self, row: Row) -> None:
        if row["status"] == "cancelled":
            raise TaskError(f"Task «{self._task_id}» was cancelled: give the engine a new goal.")
        if row["status"] == "error" and not row["result"]:
            self._unknown = True  # it goes on in the phase that it was in
            raise TaskError(str(row["error"]))
