"""Queries: sessions, tasks, events, traces, usage, and the live events of a task."""

import asyncio
from collections.abc import AsyncGenerator
from functools import partial

from langchain_core.messages import convert_to_openai_messages

from ..checkpoints.ports import Storage
from ..core.errors import QuestionClosed, StorageError, TaskError, UnknownThread
from ..core.events import Event, to_dict
from ..core.question import ANSWER_FORMS, API_CALL
from ..core.records import Json, Task, Thread, WaitingTask
from ..core.task_status import ACTIVE, ENDED, TaskStatus
from .bot_sessions import is_bot_session
from .event_stream import until_end
from .lease_holder import lives
from .projection import Projection, project
from .run import question_of
from .runner import Runner, thread_config
from .thread_state import state_at

LOOK_EVERY = 0.1
"""Seconds between two looks at a task that another process runs."""


def is_over(row: Task) -> bool:
    """Whether a task is finished for good: answered, failed with a result, or cancelled."""
    failed = row.status == TaskStatus.ERROR and row.result is not None
    return failed or row.status in ENDED


class Queries:
    """Reads only."""

    def __init__(self, storage: Storage, runner: Runner) -> None:
        self._storage = storage
        self._runner = runner
        self._closing = False

    async def history(self, session_id: str) -> list[Json]:
        """The session's messages in OpenAI's format.

        Raises:
            UnknownThread: it has no message.
        """
        state = await state_at(self._runner.graph, thread_config(session_id))
        if not state.values.get("messages"):
            raise UnknownThread(session_id)
        converted = convert_to_openai_messages(state.values["messages"])
        return converted if isinstance(converted, list) else [converted]

    async def threads(self, limit: int = -1, prefix: str = "") -> list[Thread]:
        """The sessions whose names begin with `prefix`, the last used first."""
        return await self._runner.tasks.threads(limit, prefix)

    async def tasks(
        self,
        agent_id: str | None = None,
        session_id: str | None = None,
        limit: int = 50,
        before: str | None = None,
        session_prefix: str = "",
    ) -> list[Task]:
        """A page of tasks, the latest first."""
        return await self._runner.tasks.list(agent_id, session_id, limit, before, session_prefix)

    async def task(self, task_id: str) -> Task:
        """One task.

        Raises:
            UnknownTask.
        """
        return await self._runner.tasks.show(task_id)

    async def find_task(self, text: str) -> str:
        """The id of the task that `text` is, or the beginning of.

        Raises:
            UnknownTask, TaskError.
        """
        return await self._runner.tasks.find(text)

    async def resumable(self) -> list[Json]:
        """Every task to resume, oldest first: paused, or `cut_off` by the end of its process.

        Those of a conversation's bot are not among them: the conversation goes on with them.
        """
        rows, tasks = [], self._runner.tasks
        for row, owner in await tasks.unfinished():
            if not lives(owner) and row.wanted != "cancel" and not await is_bot_session(tasks, row.thread_id):
                rows.append({**row.json(), "owner": owner, "cut_off": row.status != TaskStatus.PAUSED})
        return rows

    async def question(self, task_id: str) -> Json:
        """What a task asks a person.

        Raises:
            UnknownTask, TaskError.
        """
        row = await self._runner.tasks.get(task_id)
        state = await state_at(self._runner.graph, thread_config(row.thread_id))
        asked = question_of(state.interrupts)
        if row.status != TaskStatus.WAITING or not asked:
            raise TaskError("Task {task_id} is {status}: it waits for no answer.", task_id=task_id, status=row.status)
        return {**asked.value, "interrupt_id": asked.id}

    async def open_question(self, task_id: str, interrupt_id: str) -> Json:
        """What a task asks a person, which must be the question of that id, where one is given.

        Raises:
            UnknownTask.
            TaskError: the task waits for no answer.
            QuestionClosed: that question is not open; it says what is.
        """
        row = await self._runner.tasks.get(task_id)
        if interrupt_id and row.status != TaskStatus.WAITING:
            raise QuestionClosed(task_id, interrupt_id, status=row.status)
        asked = await self.question(task_id)
        if interrupt_id and asked["interrupt_id"] != interrupt_id:
            raise QuestionClosed(task_id, interrupt_id, asked)
        return asked

    async def waiting(self, prefix: str = "") -> list[WaitingTask]:
        """Every task that waits for a person, the longest waiting first; one whose state is damaged says so."""
        found = [await self._waiting(row) for row in await self._runner.tasks.waiting(prefix)]
        return [task for task in found if task.kind != API_CALL]

    async def _waiting(self, row: Task) -> WaitingTask:
        try:
            asked = await self.question(row.task_id)
        except (StorageError, TaskError) as error:  # damaged, or answered in this moment
            asked = {"kind": "", "problem": str(error)}
        return WaitingTask(
            task_id=row.task_id,
            thread_id=row.thread_id,
            agent_id=row.agent_id,
            user_id=row.user_id,
            message=row.message,
            since=row.updated_at,
            kind=asked["kind"],
            question=str(asked.get("question", "")),
            calls=list(asked.get("calls", ())),
            answer=ANSWER_FORMS.get(asked["kind"], ""),
            problem=str(asked.get("problem", "")),
            interrupt_id=str(asked.get("interrupt_id", "")),
        )

    async def events(self, task_id: str, after: int = 0, limit: int | None = None) -> list[Json]:
        """A task's durable events in their dict form."""
        return [to_dict(event) for event in await self._runner.log.read(task_id, after, limit)]

    async def projection(self, task_id: str) -> Projection:
        """A task's rounds, calls, plan, statuses and usage, from its durable events."""
        return project(await self._runner.log.read(task_id))

    def running(self) -> list[str]:
        """The sessions whose tasks run in this process."""
        return self._runner.running()

    async def trace(self, task_id: str) -> Json:
        """{"task", "events", "calls"} of a task.

        Raises:
            UnknownTask.
        """
        row = await self._runner.tasks.get(task_id)
        calls = await self._storage.ledger(row.thread_id).calls(task_id)
        events = await self.events(task_id)
        return {"task": row.json(), "events": events, "calls": [call.json() for call in calls]}

    async def usage(self, agent_id: str | None = None) -> Json:
        """Tokens, calls and cost of an agent's tasks that have a result, or of all."""
        total: Json = {"tasks": 0}
        for task in await self._runner.tasks.list(agent_id=agent_id, limit=-1):
            spent = {} if task.copy_of else (task.result or {}).get("usage", {})
            total["tasks"] += bool(spent)
            for name in spent.keys() & {"input", "output", "calls", "cost"}:
                total[name] = total.get(name, 0) + spent[name]
        return total

    async def check_writable(self) -> None:
        """Make sure that the database can be written.

        Raises:
            DatabaseUnavailable.
        """
        await self._storage.check_writable()

    async def follow(self, task_id: str, after: int = 0) -> AsyncGenerator[Event, None]:
        """The task's durable events after number `after`, then the live ones until it stops."""
        with self._runner.hub.listening(task_id) as queue:
            live = self._runner.run_of(task_id) is not None
            seen = after
            while True:
                elsewhere = not live and await self.runs_elsewhere(task_id)
                for event in await self._runner.log.read(task_id, seen):
                    seen = event.seq
                    yield event
                if not elsewhere or self._closing:
                    break
                await asyncio.sleep(LOOK_EVERY)
            if live:
                async for event in until_end(queue, seen, partial(self._runner.log.read, task_id)):
                    yield event

    async def runs_elsewhere(self, task_id: str) -> bool:
        """Whether a live process holds the session of a task that is not finished."""
        row = await self._runner.tasks.get(task_id)
        return row.status in ACTIVE and await self._runner.leases.held(row.thread_id)

    def stop_following(self) -> None:
        """End the streams of tasks that other processes run."""
        self._closing = True
