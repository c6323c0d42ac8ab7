"""Tasks: their records, events and traces, and their runs."""

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import tzinfo
from typing import Any

from ..checkpoints.spend import Spend
from ..checkpoints.storage import Storage
from ..core.agents import Budget
from ..core.calls import ANSWER_FORMS, API_CALL, CLIENT_CALLS, WAIT
from ..core.errors import KeyUsed, StorageError, TaskError
from ..core.events import ASKING, AgentCalled, Event, Steered
from ..core.lifecycle import SPAWN, SubTask, free_id, spawn, spawn_all
from ..core.message import ReplyOptions
from ..core.records import (
    Json,
    KnownRequest,
    OnUpgrade,
    RequestKey,
    Result,
    SentEvent,
    StatusTally,
    Task,
    TaskTrace,
    WaitingTask,
    Worker,
    check_event,
    spawned_data,
)
from ..core.spend import Period, UsageReport, UsageTotal, limit_of
from ..core.task import ACTIVE, TaskStatus
from .control import Followed, Started, Waits, known_request
from .relay import Observer
from .reply import Projection
from .runner import Runner, is_alive
from .sessions import unfinished_conversation
from .start import Request, Starter
from .worker import Dispatching, Due


@dataclass(frozen=True, kw_only=True)
class ResumableTask(Task):
    """A task to resume, and its last owner; `interrupted` by the end of its process, or else paused."""

    owner: str
    interrupted: bool


_ENDED = ("completed", "error")
"""The phases of a lifecycle run that has ended."""
NO_EVENT = -1
"""In place of the event after which a request continued its task, where it continued none."""


def _delivery(question: Json, client: str) -> RequestKey:
    """What is stored once a client has a question."""
    return RequestKey(f"{client}delivered/{question['interrupt_id']}", "")


class Tasks:
    """The tasks of an app, as records: `list` them, `trace` one, `start` or `resume` one."""

    def __init__(self, storage: Storage, runner: Runner, starter: Starter, due: Due, waits: Waits) -> None:
        self._storage = storage
        self._due = due
        self._waits = waits
        self.webhooks = storage.webhooks
        self._runner = runner
        self._starter = starter
        self._control = starter.control

    async def list(
        self,
        agent_id: str | None = None,
        session_id: str | None = None,
        limit: int = 50,
        before: str | None = None,
        session_prefix: str = "",
        statuses: Collection[TaskStatus] | None = None,
        since: float = 0.0,
        until: float = math.inf,
    ) -> Sequence[Task]:
        """A page of tasks, the latest first; `before` is the id that the last page ended with.

        With `statuses` those that have one of them: a task that the end of its process paused counts as running. They
        changed at `since` or later, and were begun at `until` or earlier.
        """
        return await self._runner.tasks.list(
            agent_id, session_id, limit, before, session_prefix, statuses, since, until
        )

    async def count(
        self,
        agent_id: str | None = None,
        session_id: str | None = None,
        session_prefix: str = "",
        statuses: Collection[TaskStatus] | None = None,
        since: float = 0.0,
    ) -> int:
        """How many tasks `list` has without a limit."""
        return await self._runner.tasks.count(agent_id, session_id, session_prefix, statuses, since)

    async def newest(self, session_id: str) -> Task | None:
        """The newest task of a session; None where it has none."""
        found = await self.list(session_id=session_id, limit=1)
        return found[0] if found else None

    async def conversation_of(self, session_id: str) -> Task | None:
        """The newest conversation whose bot has this session; None where the session is no bot's."""
        return await self._runner.tasks.conversation_of(session_id)

    async def find(self, text: str) -> str:
        """The id of the task that `text` is, or the beginning of.

        Raises:
            UnknownTask: there is none.
            TaskError: there are several, or `text` is too short to tell.
        """
        return await self._runner.tasks.find(text)

    async def resumable(self) -> Sequence[ResumableTask]:
        """Every task to resume, oldest first: paused, or interrupted by the end of its process and left to no worker.

        Those of a conversation's bot are excluded, and those of called agents: the conversation and the caller resume
        them.
        """
        found, tasks = [], self._runner.tasks
        for row, owner in await tasks.unfinished():
            if is_alive(owner) or row.requested == "cancel" or await self._control.dispatch.awaits_worker(row):
                continue
            if not (row.called_by or await tasks.conversation_of(row.session_id)):
                interrupted = row.status != TaskStatus.PAUSED
                found.append(ResumableTask(**vars(row), owner=owner, interrupted=interrupted))
        return found

    async def question(self, task_id: str) -> Json:
        """What a task asks a person: {"interrupt_id", "kind"}, and "calls" or "question".

        Raises:
            UnknownTask.
            TaskError: it does not wait.
        """
        return await self._control.questions.of(task_id)

    async def open_question(self, task_id: str, interrupt_id: str) -> Json:
        """As `question`, of the question of that id, where one is given.

        Raises:
            UnknownTask.
            TaskError: the task waits for no answer.
            QuestionClosed: that question is not open; it says what is.
        """
        return await self._control.questions.open(task_id, interrupt_id)

    async def waiting(self, prefix: str = "") -> Sequence[WaitingTask]:
        """Every task that waits for a person, the longest waiting first; `problem` reports a damaged state.

        Not those that wait for a client to carry out their calls, for the API of a conversation, a moment or an event.
        What a called agent asks, its caller asks.
        """
        rows, tasks = await self._runner.tasks.waiting(prefix), self._runner.tasks
        rows = [row for row in rows if not row.called_by]
        found = [await self._waiting(row) for row in rows if not await unfinished_conversation(tasks, row.session_id)]
        return [task for task in found if task]

    async def _waiting(self, row: Task) -> WaitingTask | None:
        try:
            asked = await self.question(row.task_id)
        except (StorageError, TaskError) as error:  # damaged, or answered in this moment
            asked = {"kind": "", "problem": str(error)}
        if asked["kind"] in (API_CALL, WAIT) or CLIENT_CALLS in asked:
            return None
        return WaitingTask(
            task_id=row.task_id,
            session_id=row.session_id,
            agent_id=row.agent_id,
            user_id=row.user_id,
            message=row.message,
            since=row.updated_at,
            kind=asked["kind"],
            question=str(asked.get("question", "")),
            calls=[*asked.get("calls", ())],
            choices=[*asked.get("choices", ())],
            answer=ANSWER_FORMS.get(asked["kind"], ""),
            problem=" ".join(str(each) for each in (asked.get("problem"), row.error) if each),
            interrupt_id=str(asked.get("interrupt_id", "")),
            spend=limit_of(asked),
        )

    async def tally(self) -> Sequence[StatusTally]:
        """How many tasks of the database have each status."""
        return await self._runner.tasks.tally()

    async def usage(self, agent_id: str | None = None, session_id: str | None = None) -> UsageTotal:
        """Tokens, calls and cost of all tasks that have a result, or of those of an agent or a session."""
        tasks = await self._runner.tasks.usages(agent_id, session_id)
        return UsageTotal.of([task for task in tasks if task.usage])

    async def usage_report(
        self,
        days: int,
        zone: tzinfo | None = None,
        agent_id: str | None = None,
        session_prefix: str = "",
        now: float | None = None,
    ) -> UsageReport:
        """What the tasks that were begun in the last days used, today included: in all, by day, agent, user and model.

        Days begin at midnight in `zone`, by default the local one.
        """
        moment, spend = self._runner.clock() if now is None else now, self._runner.spend
        period = Period.last(days, moment, zone)
        tasks = await self._runner.tasks.usages(agent_id, None, session_prefix, period.since)
        estimates = await spend.estimates(period.since, agent_id, session_prefix)
        return await asyncio.to_thread(period.report, tasks, estimates, await spend.uses(session_prefix, moment))

    # Requests by their idempotency keys.

    async def last_requests(self, prefix: str, limit: int = 1) -> Sequence[KnownRequest]:
        """What the requests did whose idempotency keys are this prefix and a number, those of the highest first."""
        return await self._storage.requests.last(prefix, limit)

    async def known(self, key: RequestKey | None) -> KnownRequest | None:
        """What the request with an idempotency key did, or None.

        Raises:
            KeyUsed: the key was used for another one.
        """
        return await known_request(self._storage.requests, key)

    async def continuation(self, task_id: str, seq: int) -> KnownRequest | None:
        """The request that continued a task after its event of that number, 0 for its beginning, or None."""
        return await self._storage.requests.continuing(task_id, seq)

    async def before_unseen_question(
        self, task: Task, question: Json, key: RequestKey, continued: int | str, interrupt_id: str = ""
    ) -> int | None:
        """The number of the event before an open question that the sender of a message has not seen; else None.

        A message answers the question if it names it by `interrupt_id`, or names none and its sender was shown this one
        and no other: since its request before, which continued the task after its event `continued`, no other was
        asked. A text is the prefix of the keys of a client's requests; `note_delivered` says what it was shown. A
        request that does not is stored with `key`, so that the sender's next message is an answer.
        """
        if interrupt_id == question["interrupt_id"]:
            return None
        since: int | None = None
        if isinstance(continued, int):
            since = continued
        elif await self.known(_delivery(question, continued)):
            since = await self._storage.requests.last_seq(task.task_id, continued)
        if since is not None and not interrupt_id:
            asked = [event for event in await self.events(task.task_id, since) if isinstance(event, ASKING)]
            if len(asked) <= 1:
                return None
        return await self.ask_again(task, key, max(since or 0, 0))

    async def note_delivered(self, task: Task, question: Json, client: str) -> None:
        """Note that the question that a task waits with was delivered to a client, by the prefix of its requests."""
        await self.note(task, _delivery(question, client))

    async def note(self, task: Task, key: RequestKey) -> None:
        """Note a name by which a later request finds a task; one that is noted already stays."""
        with suppress(KeyUsed):
            await self._storage.requests.add(key, task.session_id, task.task_id, NO_EVENT)

    async def ask_again(self, task: Task, key: RequestKey, continued: int = 0) -> int:
        """Let a request have the question that a task waits with, as `before_question`, and store it with `key`."""
        before = await self.before_question(task, continued)
        await self.join(task, key, before)
        return before

    async def join(self, task: Task, key: RequestKey, after: int) -> None:
        """Store with `key` that a request is answered with what a task did after its event of that number."""
        with suppress(KeyUsed):  # the same message came twice at once
            await self._storage.requests.add(key, task.session_id, task.task_id, after)

    async def before_question(self, task: Task, continued: int = 0) -> int:
        """The number of the event before the question that a task waits with; `continued` is that of an earlier one."""
        asked = [event.seq for event in await self.events(task.task_id, continued) if isinstance(event, ASKING)]
        return asked[-1] - 1 if asked else continued

    # Events.

    async def send_event(self, task_id: str, name: str, data: Any = None, key: RequestKey | None = None) -> None:
        """Send an event to a task: one that waits for it continues, else it is kept. With `key` it is sent once.

        Raises:
            UnknownTask.
            InvalidAnswer: the name or the data cannot be used.
            TaskError: the task has ended.
            KeyUsed: the key was used for another task, or another event.
        """
        check_event(name, data)
        await self._storage.sent_events.send(task_id, name, data, key)
        self._due.wake()

    async def spawn_subtask(
        self,
        task_id: str,
        description: str,
        *,
        depends_on: Sequence[str] = (),
        priority: int = 0,
        timeout: float | None = None,  # noqa: ASYNC109 - the subtask's
        subtask_id: str = "",
        key: RequestKey | None = None,
    ) -> str:
        """Add a subtask to a lifecycle run, which takes it up after the subtasks under way; returns its id.

        With `key` it is added once.

        Raises:
            UnknownTask.
            TaskError: the task has ended, or is no lifecycle run.
            KeyUsed: the key was used for another task, or another subtask.
            InvalidPlan: the subtask cannot be carried out, or as many as the agent's `budget.subtasks` were added.
        """
        row, before = await self._runner.tasks.get(task_id), await self.projection(task_id)
        agent = self._runner.agent_of(row)
        most = (agent.budget if agent else Budget()).subtasks
        over = TaskError("Task {task_id} has ended: send a new message for what is left.", task_id=task_id)
        asked: Json = {
            **({"id": subtask_id} if subtask_id else {}),
            "description": description,
            "dependencies": [*depends_on],
            "priority": priority,
            "timeout": timeout,
        }

        def make(sent: Sequence[SentEvent]) -> Json:
            if not before.phase and row.mode != "lifecycle":
                raise TaskError("Task {task_id} is no lifecycle run: it has no subtasks.", task_id=task_id)
            if row.is_over or before.phase in _ENDED:
                raise over
            tasks = [SubTask(**item.as_dict()) for item in before.plan.values()]
            tasks += spawn_all(tasks, spawned_data(sent), most)[0]
            given: Json = {"id": subtask_id or free_id(tasks), **asked}
            given["id"] = spawn(tasks, given, most).step_id
            check_event(SPAWN, given)
            return given

        sent = await self._storage.sent_events.send_next(task_id, SPAWN, make, key)
        self._due.wake()
        if key and not (isinstance(sent, Mapping) and {**sent, **asked} == sent):
            raise KeyUsed(key.name)
        added, now = str(sent["id"]), await self.projection(task_id)
        if now.phase in _ENDED and added not in now.plan:
            raise over  # it ended meanwhile
        return added

    async def end_wait(self, task_id: str) -> None:
        """Continue a task here if its wait for a moment or an event is over, as whoever runs schedules would."""
        await self._waits.take(self._due.clock(), task_id)

    async def events(self, task_id: str, after: int = 0, limit: int | None = None) -> Sequence[Event]:
        """A task's durable events, those after number `after`, at most `limit`."""
        return await self._runner.log.read(task_id, after, limit)

    async def last_event(self, task_id: str) -> int:
        """The number of a task's newest durable event; 0 where it has none."""
        newest = await self._runner.log.last(task_id)
        return newest.seq if newest else 0

    async def trace(
        self, task_id: str, after_event: int = 0, after_call: int = 0, limit: int | None = None
    ) -> TaskTrace:
        """A task with its events and calls: at most `limit` events after that number, as many calls after so many.

        Raises:
            UnknownTask.
        """
        row = await self._runner.tasks.get(task_id)
        calls = await self._storage.ledger(row.session_id).calls(task_id, after_call, limit)
        return TaskTrace(row, await self._runner.log.read(task_id, after_event, limit), calls)

    async def whole_trace(self, task_id: str) -> TaskTrace:
        """A task with its events and calls, and those of the agents that it called.

        Raises:
            UnknownTask.
        """
        found = await self.trace(task_id)
        ids = [event.called_task_id for event in found.events if isinstance(event, AgentCalled)]
        known = {each.task_id for each in await self._runner.tasks.called_by(task_id)} if ids else set()
        return replace(found, called=[await self.whole_trace(each) for each in dict.fromkeys(ids) if each in known])

    async def projection(self, task_id: str) -> Projection:
        """A task's rounds, calls, plan, statuses and usage, from its durable events."""
        projection = Projection()
        async for page in self._runner.log.pages(task_id):
            for event in page:
                projection.fold(event)
        return projection

    def begin_and_follow(
        self, begin: Callable[[], Awaitable[Followed]], so_far: bool = False
    ) -> AsyncGenerator[Event, None]:
        """As `App.follow`, of the task that `begin` gives, with the number to begin after, once one is asked for."""
        return self._control.begin_and_follow(begin, so_far)

    def stop_following(self) -> None:
        """End the streams of tasks that other processes run."""
        self._control.stop_following()

    def observe(self, observer: Observer) -> None:
        """Tell an observer what happens to the tasks of this process from now on."""
        self._runner.observers.append(observer)

    # Runs.

    async def start(self, request: Request, unlisted: str = "") -> Started:
        """Store a message as a task and run it in the background; errors as in `App.start`.

        `unlisted` is a mode that no message may ask for.
        """
        return await self._starter.start(request, unlisted)

    async def accept(self, request: Request) -> Task:
        """As `start`, but returns as soon as the message is stored, also with a task that runs."""
        return (await self._starter.accept(request))[0]

    async def taker(self, task: Task) -> Task:
        """The task that takes up the last message that was added to this one, once it is known: this or the next."""
        return (await self._control.taker(task, None))[0]

    async def resume(
        self,
        task_id: str,
        *,
        model: str = "",
        answer: Any = None,
        interrupt_id: str = "",
        key: RequestKey | None = None,
        reply_options: ReplyOptions | None = None,
        remote: bool = False,
        message: str = "",
    ) -> Started:
        """Continue a task in the background, with a person's answer if one is given; errors as in `App.resume`.

        `model` takes the place of the one that it began with, `reply_options` of what was asked of its reply, and
        `interrupt_id` names the question that is answered. A `remote` answer may not raise a limit of spending where
        those refuse it. The `message` is added to the task together with the results of its calls.
        """
        steered = Steered(task_id=task_id, message=message, with_results=True) if message else None
        about = {
            "steered": steered,
            "answer": answer,
            "interrupt_id": interrupt_id,
            "key": key,
            "reply_options": reply_options,
        }
        return await self._control.resume(task_id, model=model, remote=remote, **about)

    async def continue_raised(self) -> None:
        """Continue the tasks that wait for a limit that was raised since they asked."""
        await self._control.continue_raised()

    async def resume_with(self, task_id: str, checked: Json | None, wait: float = 0.0) -> Started:
        """Continue a task, with an answer in the form that is stored, if one is given: {"interrupt_id", "value"}.

        `wait` is how many seconds to wait for its session.
        """
        return await self._control.resume_with(task_id, checked, wait=wait)

    def resume_and_follow(
        self, task_id: str, *, model: str = "", answer: Any = None, interrupt_id: str = ""
    ) -> AsyncGenerator[Event, None]:
        """As `resume`, and the events from now on."""

        async def begin() -> Followed:
            seen = await self.last_event(task_id)
            await self.resume(task_id, model=model, answer=answer, interrupt_id=interrupt_id)
            return task_id, seen

        return self._control.begin_and_follow(begin)

    async def stop(self, task_id: str) -> None:
        """Pause a task at its next boundary, since its client left without the answer; nothing if it does not run."""
        with suppress(TaskError, StorageError):  # it has just ended, or the database is away
            row = await self._control.task(task_id)
            if row.status in ACTIVE and row.requested is None:
                await self._control.pause(task_id, "stop")

    async def result(self, task: Task, run: "asyncio.Task[Json] | None") -> Result:
        """Wait for a run, here or elsewhere; returns its result with `task_id`, `session_id` and `status`."""
        return await self._control.result(task, run)

    def started(self, task_id: str) -> Started | None:
        """A task that runs in this process, with its run; None where it does not run here."""
        return self._control.started(task_id)

    def running(self) -> Sequence[str]:
        """The sessions whose tasks run in this process."""
        return self._runner.running()

    async def runs_elsewhere(self, task_id: str) -> bool:
        """Whether another process runs a task that is not finished, or a worker will."""
        return await self._control.runs_elsewhere(task_id)

    def count_in(self, table: Spend, tenant: str, batch: str) -> None:
        """Count what model calls use in another database, as those of a batch of a tenant: see `SpendControl.of`."""
        self._runner.spend = self._runner.spend.counting_in(table, tenant, batch)

    # Workers and the database.

    @property
    def dispatching(self) -> Dispatching:
        """Where tasks run."""
        return self._control.dispatch.how

    async def workers(self) -> Sequence[Worker]:
        """The workers that are there now."""
        return await self._control.dispatch.workers()

    async def waiting_for_worker(self) -> Sequence[Task]:
        """The tasks that no process runs, and no worker is there that takes them."""
        if self._storage.workers is None:
            return []
        workers = await self._control.dispatch.workers()
        unowned = await self._storage.workers.unowned()
        left = [each for each in unowned if not any(worker.takes(each) for worker in workers)]
        return [await self._runner.tasks.show(each.task_id) for each in left if each.expired]

    async def unfinished(self) -> Sequence[Task]:
        """Every task that has not come to an end, those that wait for a person among them, oldest first."""
        return [row for row, _ in await self._runner.tasks.unended()]

    async def waiting_for_version(self) -> Sequence[Task]:
        """The unfinished tasks that keep a version of their agent which neither this process nor a worker has."""
        found = await self._runner.tasks.unended()
        workers = await self._control.dispatch.workers() if found else ()
        return [
            row
            for row, owner in found
            if not is_alive(owner)
            and self._control.registry.keeps_version(row)
            and not any(worker.takes(row) for worker in workers)
        ]

    async def set_on_upgrade(self, task_id: str, on_upgrade: OnUpgrade | None) -> Task:
        """Choose what becomes of a task whose version of its agent is not there; None: what its agent says.

        Where a person is being asked about its version, `continue` and `pin` are the answer: the task does not wait any
        more, and whichever process has what it needs goes on with it.

        Raises:
            UnknownTask.
            TaskError: it has ended.
            ThreadBusy: it is being answered in this moment.
        """
        return await self._control.set_on_upgrade(task_id, on_upgrade)

    async def check_writable(self) -> None:
        """Make sure that the database can be written.

        Raises:
            DatabaseUnavailable.
        """
        await self._storage.check_writable()
