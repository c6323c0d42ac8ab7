"""Queries: sessions, tasks, events, traces, usage, and the live events of a task."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import nullcontext
from functools import partial

from langchain_core.messages import BaseMessage, convert_to_openai_messages

from ..checkpoints.storage import Storage
from ..core.attachments import ATTACHMENTS, naming
from ..core.errors import DatabaseDamaged, KeyUsed, QuestionClosed, StorageError, TaskError, UnknownThread
from ..core.events import Event, Token, Waiting, to_dict
from ..core.question import ANSWER_FORMS, API_CALL
from ..core.records import (
    Json,
    KnownRequest,
    Permission,
    RequestKey,
    Session,
    StatusTally,
    Task,
    TaskTrace,
    Thread,
    WaitingTask,
    Worker,
)
from ..core.task_status import ACTIVE, ENDED, TaskStatus
from .bot_sessions import is_bot_session
from .dispatch import Dispatch, Dispatching
from .event_stream import until_end
from .lease_holder import lives
from .notices import Notice
from .observer import Observer
from .projection import Projection
from .relay import Deltas
from .run import question_of
from .runner import Runner, thread_config
from .thread_state import state_at


def is_over(row: Task) -> bool:
    """Whether a task is finished for good: answered, failed with a result, or cancelled."""
    failed = row.status == TaskStatus.ERROR and row.result is not None
    return failed or row.status in ENDED


class Queries:
    """Reads only."""

    def __init__(self, storage: Storage, runner: Runner, dispatching: Dispatching) -> None:
        self._storage = storage
        self._runner = runner
        self.dispatch = Dispatch(dispatching, storage.workers)
        self._closing = False

    async def history(self, session_id: str) -> list[Json]:
        """The session's messages in OpenAI's format; `attachments` describes the files of one.

        Raises:
            UnknownThread: it has no message.
        """
        state = await state_at(self._runner.graph, thread_config(session_id))
        messages = state.values.get("messages")
        if not messages:
            raise UnknownThread(session_id)
        return [_openai_form(message) for message in messages]

    async def threads(self, limit: int = -1, prefix: str = "", search: str = "") -> list[Thread]:
        """The sessions with that prefix whose title or first message contains `search`, the last used first."""
        return await self._runner.tasks.threads(limit, prefix, search)

    async def count_threads(self) -> int:
        """How many sessions there are."""
        return await self._runner.tasks.count_threads()

    async def thread(self, session_id: str) -> Thread:
        """One session, as `threads` shows it.

        Raises:
            UnknownThread.
        """
        return await self._runner.tasks.thread(session_id)

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

    async def request(self, key: str) -> KnownRequest | None:
        """What the request with an idempotency key did, or None."""
        return await self._storage.requests.get(key)

    async def known(self, key: RequestKey | None) -> KnownRequest | None:
        """As `request`, of the same request.

        Raises:
            KeyUsed: the key was used for another one.
        """
        known = await self.request(key.key) if key else None
        if key and known and known.digest not in (key.digest, ""):  # keys of an older database have no digest
            raise KeyUsed(key.key)
        return known

    async def continuation(self, task_id: str, seq: int) -> KnownRequest | None:
        """The request that continued a task after its event of that number, 0 for its beginning, or None."""
        return await self._storage.requests.continuing(task_id, seq)

    async def session(self, session_id: str) -> Session | None:
        """What was chosen for a session; None where nothing was."""
        return await self._storage.sessions.get(session_id)

    async def find_task(self, text: str) -> str:
        """The id of the task that `text` is, or the beginning of.

        Raises:
            UnknownTask, TaskError.
        """
        return await self._runner.tasks.find(text)

    async def resumable(self) -> list[Json]:
        """Every task to resume, oldest first: paused, or `cut_off` by the end of its process and left to no worker.

        Those of a conversation's bot are excluded: they are resumed by the conversation.
        """
        rows, tasks = [], self._runner.tasks
        for row, owner in await tasks.unfinished():
            if lives(owner) or row.requested == "cancel" or await self.dispatch.awaits_worker(row):
                continue
            if not await is_bot_session(tasks, row.thread_id):
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

    async def permissions(self, session_id: str | None = None, prefix: str = "") -> list[Permission]:
        """The permissions of a session, or of those whose names begin with `prefix`, oldest first.

        Raises:
            UnknownThread.
        """
        found = await self._storage.permissions.list(session_id, prefix)
        if session_id is not None and not found and await self._runner.tasks.latest_of(session_id) is None:
            raise UnknownThread(session_id)
        return found

    async def waiting(self, prefix: str = "") -> list[WaitingTask]:
        """Every task that waits for a person, the longest waiting first; `problem` reports a damaged state."""
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

    async def log(self, task_id: str, limit: int | None = None) -> list[Event]:
        """A task's durable events, at most the first `limit`."""
        return await self._runner.log.read(task_id, limit=limit)

    async def projection(self, task_id: str) -> Projection:
        """A task's rounds, calls, plan, statuses and usage, from its durable events."""
        projection = Projection()
        async for page in self._runner.log.pages(task_id):
            for event in page:
                projection.fold(event)
        return projection

    async def last_event(self, task_id: str) -> int:
        """The number of a task's newest durable event; 0 where it has none."""
        newest = await self._runner.log.last(task_id)
        return newest.seq if newest else 0

    def running(self) -> list[str]:
        """The sessions whose tasks run in this process."""
        return self._runner.running()

    async def trace(self, task_id: str) -> Json:
        """{"task", "events", "calls"} of a task.

        Raises:
            UnknownTask.
        """
        found = await self.recorded(task_id)
        events, calls = map(to_dict, found.events), [call.json() for call in found.calls]
        return {"task": found.task.json(), "events": [*events], "calls": calls}

    async def recorded(
        self, task_id: str, after_event: int = 0, after_call: int = 0, limit: int | None = None
    ) -> TaskTrace:
        """As `trace`, as records; at most `limit` events after that number, and calls without the first `after_call`.

        Raises:
            UnknownTask.
        """
        row = await self._runner.tasks.get(task_id)
        calls = await self._storage.ledger(row.thread_id).calls(task_id, after_call, limit)
        return TaskTrace(row, await self._runner.log.read(task_id, after_event, limit), calls)

    async def tally(self) -> Sequence[StatusTally]:
        """How many tasks of the database have each status."""
        return await self._runner.tasks.tally()

    def observe(self, observer: Observer) -> None:
        """Tell an observer what happens to the tasks of this process from now on."""
        self._runner.observers.append(observer)

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

    async def follow(
        self, task_id: str, after: int = 0, so_far: bool = False, *, streams: bool = True
    ) -> AsyncGenerator[Event, None]:
        """The task's durable events after number `after`, then the live ones until it stops.

        With `so_far` the live ones begin with what was streamed of the answer before, as one token. Without `streams`
        there are no deltas of a task that another process runs.

        Raises:
            DatabaseDamaged: so that not even this could be stored with the task.
        """
        runner = self._runner
        with (
            runner.hub.listening(task_id) as queue,
            runner.notices.about(task_id) as notice,
            runner.relay.following(task_id, notice) if streams else nullcontext(Deltas()) as deltas,
        ):
            run = runner.run_of(task_id)
            live, written = run is not None, run.partial if run and so_far else ""
            seen = after
            async for event in self._stored(task_id, after, notice, deltas, waits=not live, streams=streams):
                seen = event.seq or seen
                yield event
            if written:
                yield Token(task_id=task_id, content=written)
            if live:
                async for event in until_end(queue, seen, partial(runner.log.read, task_id)):
                    yield event
        if run and run.task:
            await _raise_damage(run.task)

    async def _stored(
        self, task_id: str, seen: int, notice: Notice, deltas: Deltas, *, waits: bool, streams: bool
    ) -> AsyncGenerator[Event, None]:
        """What is stored of a task after event number `seen`; with `waits` as long as another process runs it."""
        is_reported = False
        while True:
            elsewhere = waits and await self.runs_elsewhere(task_id)
            async for page in self._runner.log.pages(task_id, seen):
                for event in page:
                    for delta in deltas.until(seen):
                        yield delta
                    seen = event.seq
                    deltas.passed(event)
                    yield event
            if not elsewhere or self._closing:
                return
            if streams:
                self._runner.relay.watch(task_id, deltas)
            if not is_reported and await self.dispatch.lacks_worker(await self._runner.tasks.get(task_id)):
                yield Waiting(task_id=task_id, reason="no worker is running")
                is_reported = True
            is_due = False
            while not is_due:
                for delta in deltas.until(seen):
                    yield delta
                is_due = await notice.wait() or not deltas.suffice(seen)

    async def runs_elsewhere(self, task_id: str) -> bool:
        """Whether another process runs a task that is not finished, or a worker will."""
        row = await self._runner.tasks.get(task_id)
        if row.status not in ACTIVE:
            return False
        return await self._runner.leases.held(row.thread_id) or await self.dispatch.awaits_worker(row)

    async def workers(self) -> list[Worker]:
        """The workers that are there now."""
        return await self.dispatch.workers()

    async def waiting_for_worker(self) -> list[Task]:
        """The tasks that no process runs, and no worker is there that has their agent and mode."""
        if self._storage.workers is None:
            return []
        workers = await self.dispatch.workers()
        unowned = await self._storage.workers.unowned()
        left = [each for each in unowned if not any(worker.has(each.agent_id, each.mode) for worker in workers)]
        return [await self._runner.tasks.get(each.task_id) for each in left if each.expired]

    def stop_following(self) -> None:
        """End the streams of tasks that other processes run."""
        self._closing = True
        self._runner.notices.tell_all()


def _openai_form(message: BaseMessage) -> Json:
    return {**convert_to_openai_messages(message), **naming(message.additional_kwargs.get(ATTACHMENTS, ()))}


async def _raise_damage(run: "asyncio.Task[Json]") -> None:
    """Raise what a run of this process ended with if it is damage of the file."""
    await asyncio.wait([run])
    if not run.cancelled() and isinstance(error := run.exception(), DatabaseDamaged):
        raise error
