"""Control of tasks that were started: follow, resume, answer, pause, cancel and wait."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from contextlib import aclosing, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Literal

from ..checkpoints.storage import Storage
from ..checkpoints.tasks import RequestKeys
from ..core.actor import actor
from ..core.agents import Agent
from ..core.approval import settled
from ..core.audit import Act
from ..core.calls import OF_AGENT, REVIEW_PLAN, WAIT
from ..core.errors import (
    DatabaseDamaged,
    DatabaseUnavailable,
    IllegalTransition,
    InvalidMessage,
    KeyUsed,
    QuestionClosed,
    SegueError,
    TaskError,
    TaskPinned,
    ThreadBusy,
    UnknownTask,
)
from ..core.events import Event, NotesTaken, Paused, Resumed, Steered, Token, Waiting
from ..core.message import ReplyOptions
from ..core.records import Json, KnownRequest, OnUpgrade, RequestKey, Result, Task
from ..core.spend import SPEND, Raised, read_limit
from ..core.task import ACTIVE, ENDED, OPEN, TaskStatus
from ..graphs.chat import MODES
from ..nodes.chat import AUTO
from ..nodes.permission import check_tools
from ..nodes.plan_review import review_tool
from ..prompts.catalogue import error_text
from ..registry import Registry
from .questions import (
    CONTINUE,
    PIN,
    Questions,
    answer_act,
    ask_about_version,
    choose_version,
    decidable,
    final_answer,
    version_answer,
    with_decision,
)
from .relay import POLL_SECONDS, Deltas, Notice, Observer
from .run import stopped, stored_answer
from .runner import Begin, Runner
from .sessions import unfinished_conversation
from .worker import Dispatch, Dispatching, Due, PutOff

# Control of tasks that were started: follow, resume, answer, pause and cancel them, whichever process runs them.

MOST_LOOKS = 5
"""How often a request that came twice at once looks for what the other one began."""
STOP_SECONDS = 10.0
"""How long another process may take to stop a task that it runs."""
UNDO_SECONDS = 1.0
"""How long what begins waits at most for what was cancelled to be undone."""

Started = tuple[Task, "asyncio.Task[Json] | None"]
"""A task and its run, which is None where another process runs it."""

Followed = tuple[str, int]
"""A task, and the number of the event after which it is followed."""


async def known_request(requests: RequestKeys, key: RequestKey | None) -> KnownRequest | None:
    """What the request with an idempotency key did; None where there was none."""
    known = await requests.get(key.key) if key else None
    if key and known and known.digest not in (key.digest, ""):  # keys of an older database have no digest
        raise KeyUsed(key.name)
    return known


def _renewed(row: Task, options: ReplyOptions, agent: Agent) -> ReplyOptions:
    """The options of a task that continues: of new ones without instructions, the task's own stay."""
    renewed = options.after(ReplyOptions.of(row.reply_options))
    names = [spec["function"]["name"] for spec in row.client_tools]
    renewed.check(agent.agent_id, agent.protocol, row.mode, names)
    return renewed


def _version_act(on_upgrade: OnUpgrade | None) -> Act:
    return Act("chose_version", {"on_upgrade": on_upgrade})


async def _raise_damage(run: "asyncio.Task[Json]") -> None:
    """Raise what a run of this process ended with if it is damage of the file."""
    await asyncio.wait([run])
    if not run.cancelled() and isinstance(error := run.exception(), DatabaseDamaged):
        raise error


class Control:
    """Works on tasks that were started: follows, resumes, answers, pauses and cancels them."""

    def __init__(
        self, storage: Storage, registry: Registry, runner: Runner, dispatch: Dispatch, modes: Collection[str]
    ) -> None:
        self._storage = storage
        self.registry = registry
        self._runner = runner
        self.questions = Questions(runner)
        self.dispatch = dispatch
        self._modes = modes
        self._closing = False
        self.undoing: set[asyncio.Task[Started]] = set()
        """What was begun for callers that were cancelled meanwhile."""

    async def task(self, task_id: str) -> Task:
        """One task; of a damaged row what can be read."""
        return await self._runner.tasks.show(task_id)

    @staticmethod
    def check_message(message: str, agent: Agent) -> None:
        """Refuse a message that is not valid text, or too long for an agent."""
        if any("\ud800" <= char <= "\udfff" for char in message):
            raise InvalidMessage("The message is not valid text: send it as UTF-8.")
        if (size := len(message.encode())) > (most := agent.budget.message_bytes):
            raise InvalidMessage(
                "The message has {size} bytes; the limit is {most}: shorten it, or raise the agent's "
                "budget.message_bytes.",
                size=size,
                most=most,
            )

    # Follow.

    def follow(
        self, task_id: str, after: int = 0, so_far: bool = False, *, streams: bool = True
    ) -> AsyncGenerator[Event, None]:
        """The task's durable events after number `after`, then the live ones until it stops.

        With `so_far` the live ones begin with what was streamed of the answer before, as one token. Without `streams`
        there are no deltas of a task that another process runs.
        """

        async def begin() -> Followed:
            return task_id, after

        return self.begin_and_follow(begin, so_far, streams=streams)

    async def begin_and_follow(
        self, begin: Callable[[], Awaitable[Followed]], so_far: bool = False, *, streams: bool = True
    ) -> AsyncGenerator[Event, None]:
        """As `follow`, of the task that `begin` gives once the first event is asked for."""
        runner = self._runner
        task_id, after = await begin()
        with (
            runner.hub.listening(task_id) as queue,
            runner.notices.subscribe(task_id) as notice,
            runner.relay.following(task_id, notice) if streams else nullcontext(Deltas()) as deltas,
        ):
            run = runner.run_of(task_id)
            live, written = run is not None, run.partial if run and so_far else ""
            seen, newest = after, run.stored if run else 0
            published = run.published_after(after) if run else None
            for event in published or ():
                seen = event.seq
                yield event
            if published is None:
                async with aclosing(self._stored(task_id, after, notice, deltas, not live, streams)) as stored:
                    async for event in stored:
                        if newest and event.seq > newest:
                            break  # it is in the queue, behind the deltas that came before it
                        seen = event.seq or seen
                        yield event
            if written:
                yield Token(task_id=task_id, content=written)
            while live and (arrived := await queue.get()) is not None:
                if not arrived.seq:
                    yield arrived
                elif arrived.seq > seen:
                    if between := arrived.seq - seen - 1:  # another process stored these
                        for missed in await runner.log.read(task_id, seen, between):
                            yield missed
                    seen = arrived.seq
                    yield arrived
        if run and run.task:
            await _raise_damage(run.task)

    async def _stored(
        self, task_id: str, seen: int, notice: Notice, deltas: Deltas, waits: bool, streams: bool
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
                is_due = await notice.wait() or not deltas.up_to_date(seen)

    async def runs_elsewhere(self, task_id: str) -> bool:
        """Whether another process runs a task that is not finished, or a worker will."""
        row = await self._runner.tasks.get(task_id)
        if row.status not in ACTIVE:
            return False
        return await self._runner.leases.held(row.session_id) or await self.dispatch.awaits_worker(row)

    def stop_following(self) -> None:
        """End the streams of tasks that other processes run."""
        self._closing = True
        self._runner.notices.notify_all()

    # Resume and answer.

    def started(self, task_id: str) -> Started | None:
        """A task that runs in this process, with its run."""
        run = self._runner.run_of(task_id)
        return (run.row, run.task) if run and run.task else None

    async def taker(self, row: Task, run: "asyncio.Task[Json] | None") -> Started:
        """The task that takes up the last message that was added to this one: itself, or the one after it.

        Its agent knows the message now, or it stopped before that.
        """
        if not row.notes:
            return row, run
        async with aclosing(self.follow(row.task_id, streams=False)) as events:
            async for event in events:
                if isinstance(event, NotesTaken) and event.count >= len(row.notes):
                    return row, run
        row = await self._runner.tasks.get(row.task_id)
        latest = None if row.status in OPEN else await self._runner.tasks.latest_of(row.session_id)
        if latest and latest.task_id != row.task_id:
            return self.started(latest.task_id) or (latest, None)
        return row, run

    async def once(self, key: RequestKey | None, begin: Callable[[], Awaitable[Started]]) -> Started:
        """Do what a request asks for, unless it was done before under its idempotency key.

        It is done in a task of its own, so that one that is cancelled is undone whole: anyio cancels each `await` of
        a caller, also those of the cleanup. What comes next waits for that.
        """
        if self.undoing:
            await asyncio.wait([*self.undoing], timeout=UNDO_SECONDS)
        doing = asyncio.create_task(self._once(key, begin), name="begin")
        try:
            return await asyncio.shield(doing)
        except asyncio.CancelledError:
            if doing.cancel():
                self.undoing.add(doing)
                doing.add_done_callback(self.undoing.discard)
                await asyncio.wait([doing])
            raise

    async def _once(self, key: RequestKey | None, begin: Callable[[], Awaitable[Started]]) -> Started:
        if begun := await self._begun(key):
            return begun
        try:
            return await begin()
        except TaskError as error:
            if begun := await self._begun(key):
                return begun
            if key and isinstance(error, ThreadBusy):  # it may have come twice at once, and be about to be stored
                for _ in range(MOST_LOOKS):
                    await asyncio.sleep(POLL_SECONDS)
                    if begun := await self._begun(key):
                        return begun
            raise

    async def _begun(self, key: RequestKey | None) -> Started | None:
        """The task of the request with this idempotency key, if there is one."""
        known = await known_request(self._storage.requests, key)
        if known is None:
            return None
        task, run = await self._runner.tasks.get(known.task_id), self._runner.run_of(known.task_id)
        return task, run.task if run else None

    async def resume(
        self,
        task_id: str,
        *,
        model: str = "",
        answer: Any = None,
        interrupt_id: str = "",
        wait: float = 0.0,
        key: RequestKey | None = None,
        reply_options: ReplyOptions | None = None,
        remote: bool = False,
        steered: Steered | None = None,
    ) -> Started:
        """Continue a task, with a person's answer if one is given; `model` replaces the one that it began with.

        `interrupt_id` is the question that the answer is for; without it, it is for the one that is open now.
        `reply_options` take the place of the task's. `remote`: the answer comes from a client of the service.
        `steered` is a message that is added to the task with the answer.
        """

        begun = False

        async def resume() -> Started:
            nonlocal begun
            begun = True
            checked = None if answer is None else await self._checked(task_id, answer, interrupt_id)
            if checked and checked["value"] is None:
                await self.cancel(task_id)
                return await self._runner.tasks.get(task_id), None
            raised = checked["value"] if checked and isinstance(checked["value"], Raised) else None
            if checked and raised:
                row = await self._runner.tasks.get(task_id)
                await self._runner.spend.raise_limit(raised, remote, row, key)
                checked = {**checked, "value": {"limit": raised.limit}}
            started = await self.resume_with(
                task_id,
                checked,
                model=model,
                wait=wait,
                key=None if raised else key,
                reply_options=reply_options,
                steered=steered,
            )
            if raised:
                await self.continue_raised()
            return started

        started = await self.once(key, resume)
        if answer is not None and not begun:  # the process may have died before all continued
            await self.continue_raised()
        return started

    async def continue_raised(self) -> None:
        """Continue the tasks that wait for a limit that was raised since; one that cannot still waits."""
        if self._runner.spend.is_empty:
            return
        for row in await self._runner.tasks.waiting():
            with suppress(SegueError):
                question = await self.questions.of(row.task_id)
                if question["kind"] == SPEND and await self._runner.spend.is_raised(question, row.session_id):
                    await self._refuse_bot(row)
                    known = {"interrupt_id": question["interrupt_id"], "value": {"limit": None}}
                    await self.resume_with(row.task_id, known if OF_AGENT in question else None)

    async def resume_with(
        self,
        task_id: str,
        checked: Json | None,
        *,
        model: str = "",
        wait: float = 0.0,
        key: RequestKey | None = None,
        reply_options: ReplyOptions | None = None,
        taken: int | None = None,
        steered: Steered | None = None,
    ) -> Started:
        """As `resume`, with an answer in the form that is stored; `taken` is the position of the event that it is."""
        row = await self._runner.tasks.get(task_id)
        await self.prepare(row)
        async with self._runner.leased(row.session_id, wait) as begin:
            row = await self._runner.tasks.get(task_id)
            return await self.resume_leased(row, begin, checked, model, key, reply_options, taken, steered)

    async def prepare(self, row: Task) -> None:
        """Prepare the agent of a task that is about to continue."""
        registry = self.registry.of(row)
        await registry.prepare(registry.agent(row.agent_id))

    async def resume_leased(
        self,
        row: Task,
        begin: Begin,
        checked: Json | None = None,
        model: str = "",
        key: RequestKey | None = None,
        reply_options: ReplyOptions | None = None,
        taken: int | None = None,
        steered: Steered | None = None,
    ) -> Started:
        """As `resume_with`, under the lease of the task's thread; its agent is prepared."""
        registry = self.registry.of(row)
        agent = registry.agent(row.agent_id)
        if steered:
            self.check_message(steered.message, agent)
        act: Act | None = Act("resumed")
        question = await self.questions.open(row.task_id, checked["interrupt_id"]) if checked else None
        if checked and question and not row.called_by:
            act = answer_act(question, checked["value"])
        await self.check_resumable(row, checked)
        if (
            checked and question and question["kind"] == "approval" and not row.called_by
        ):  # else its caller's were asked
            decisions = with_decision(question, row, checked, self._runner.clock())
            checked = final_answer(await self.questions.whole(row), decisions)
            if checked is None:
                return await self._runner.move(row, None, decisions=decisions, act=act, key=key), None
        registry.model_for(agent, model or row.model)
        changes: Json = {"model": model or row.model, "answer": checked or row.answer, "requested": None}
        changes |= {"taken": taken, "act": act, "steered": steered}
        if reply_options is not None:
            changes["reply_options"] = _renewed(row, reply_options, agent).json()
        changes["agents_file"] = self.registry.agents_file or row.agents_file
        known = row.agent_version
        if checked and row.offered_version:
            row, decided = choose_version(row, checked["value"])
            changes |= {**decided, "answer": row.answer}
        return await self._continue(row, known, begin, key, changes)

    async def _continue(
        self, row: Task, known: str | None, begin: Begin, key: RequestKey | None, changes: Json
    ) -> Started:
        """Continue a task whose lease is held, here or by a worker, unless a person is to be asked first.

        `known` is the version of its agent until now.
        """
        try:
            leaves, version = await self._place(row)
        except TaskPinned as error:
            if "offered_version" not in changes:
                raise
            return await self._keep_version(row, error, key, changes)
        if not leaves and self.registry.on_upgrade(row) == "ask":
            ours = self.registry.current_version(row.agent_id)
            return await ask_about_version(self._runner, row, ours, key=key, **changes), None
        began = row.status == TaskStatus.PENDING
        status = None if began else TaskStatus.RUNNING
        changed = known not in (None, version)
        events = [] if began else [Resumed(task_id=row.task_id, agent_changed=changed)]
        changes |= {"agent_version": version, "offered_version": None}  # a fork may be of a task with that question
        row = await self._runner.move(row, status, events=events, key=key, release=leaves, **changes)
        return self.submit_to_worker(row) if leaves else (row, begin(row))

    async def set_on_upgrade(self, task_id: str, on_upgrade: OnUpgrade | None) -> Task:
        """Choose what becomes of a task whose version is not here; the question which one it is answers as well."""
        row = await self._runner.tasks.get(task_id)
        if row.is_over:
            raise TaskError(
                "Task {task_id} is {status}: only unfinished tasks can be pinned.", task_id=task_id, status=row.status
            )
        if on_upgrade in (CONTINUE, PIN) and row.asks_for_version:
            async with self._runner.leased(row.session_id):
                row = await self._runner.tasks.get(task_id)
                if row.asks_for_version:
                    return await self._choose_version(row, on_upgrade)
        return await self._runner.move(row, None, on_upgrade=on_upgrade, act=_version_act(on_upgrade))

    async def _choose_version(self, row: Task, on_upgrade: OnUpgrade) -> Task:
        """Leave a task that asks for its version to whoever has what it needs, as if its process had ended."""
        changes: Json = {"on_upgrade": on_upgrade, "offered_version": None}
        act = _version_act(on_upgrade)
        if self.registry.keeps_version(replace(row, **changes)):
            pinned = TaskPinned(row.task_id, row.agent_id, row.agent_version)
            return (await self._keep_version(row, pinned, None, {**changes, "act": act}))[0]
        row = await self._runner.move(row, TaskStatus.RUNNING, release=True, act=act, **changes)
        return self.submit_to_worker(row)[0]

    async def _keep_version(self, row: Task, error: TaskPinned, key: RequestKey | None, changes: Json) -> Started:
        """Leave a task that a person just pinned to a worker that has its version, or paused where there are none."""
        if self.dispatch.to_workers and self.dispatch.how is not Dispatching.NEVER:
            row = await self._runner.move(row, TaskStatus.RUNNING, key=key, release=True, **changes)
            return self.submit_to_worker(row)
        paused = Paused(task_id=row.task_id, reason=error_text(error, row.reply_language))
        return await self._runner.move(row, TaskStatus.PAUSED, events=[paused], key=key, **changes), None

    async def _place(self, row: Task) -> tuple[bool, str | None]:
        """Whether a task is left to a worker, which stores its own version, and the version that continues it."""
        known, on_upgrade = row.agent_version, self.registry.on_upgrade(row)
        ours = known if known and on_upgrade is None else self.registry.current_version(row.agent_id)
        versions = {known} if on_upgrade in ("pin", "ask") else {known, ours}
        leaves = row.mode in self._modes and not row.called_by
        if leaves and await self.dispatch.to_worker(row.agent_id, row.mode, *versions):
            return True, known
        if on_upgrade == "pin":
            raise TaskPinned(row.task_id, row.agent_id, known)
        return False, ours

    def submit_to_worker(self, row: Task) -> Started:
        """A task that was left to a worker, together with its lease."""
        self._runner.forget(row.session_id)
        return row, None

    async def result(self, row: Task, run: "asyncio.Task[Json] | None") -> Result:
        """Wait for a run, here or elsewhere; returns its result with `task_id`, `session_id` and `status`."""
        try:
            result = await (asyncio.shield(run) if run else self._end_of(row.task_id))
        except asyncio.CancelledError:
            if run is None or not run.cancelled():
                raise
            result = stopped(row)
        status = (await self._runner.tasks.get(row.task_id)).status
        return Result({**result, "task_id": row.task_id, "session_id": row.session_id, "status": str(status)})

    async def _end_of(self, task_id: str) -> Json:
        """The result of a task that does not run here, once it stops."""
        async for _ in self.follow(task_id, streams=False):
            pass
        task = await self._runner.tasks.get(task_id)
        if task.status == TaskStatus.ERROR and not task.result:
            raise TaskError("Task {task_id} failed: {error}", task_id=task_id, error=task.error)
        if task.status == TaskStatus.WAITING:
            question = await self.questions.of(task_id)
            return {**stopped(task), "status": TaskStatus.WAITING.value, "question": question}
        return task.result or stopped(task)

    async def _checked(self, task_id: str, answer: Any, interrupt_id: str) -> Json:
        """The answer to a task's question in the form that is stored."""
        question = await self.questions.open(task_id, interrupt_id)
        row = await self._runner.tasks.get(task_id)
        await self._refuse_bot(row)
        if question["kind"] == SPEND:
            return {"interrupt_id": question["interrupt_id"], "value": read_limit(question, answer)}
        if row.offered_version:
            return {"interrupt_id": question["interrupt_id"], "value": version_answer(answer)}
        if question["kind"] != "approval":
            return {"interrupt_id": question["interrupt_id"], "value": stored_answer(question, answer, {})}
        await self._place(row)  # a task that is pinned elsewhere is not judged by the tools that are here
        asking, registry, agent = await self._asking(row, question)
        await registry.prepare(agent)
        tools = registry.tools_for(agent)
        question = decidable(question, row, answer)
        if any(call["name"] == REVIEW_PLAN for call in question["calls"]):
            specs = {spec["function"]["name"]: spec for spec in asking.client_tools}
            specs |= {tool.spec["function"]["name"]: tool.spec for tool in tools.values()}
            asks_user = ReplyOptions.of(asking.reply_options).may_ask(agent.ask_user)
            tools = {REVIEW_PLAN: review_tool(question["calls"][0], specs, asks_user, row.reply_language), **tools}
        value = stored_answer(question, answer, tools)
        leaves = await self.dispatch.to_worker(row.agent_id, row.mode, row.agent_version)
        if row.mode in (*MODES, AUTO) and not leaves and self.registry.on_upgrade(row) != "ask":
            check_tools(question["calls"], settled(question["calls"], value), tools, agent.agent_id)
        return {"interrupt_id": question["interrupt_id"], "value": value}

    async def _asking(self, row: Task, question: Json) -> tuple[Task, Registry, Agent]:
        """The task that asks and its agent: the task itself, or one that is called below it.

        A copy of a session has the question of its original's called agent: whatever is answered, the agent is called
        anew and asks again. The task that such a question names is not the copy's.
        """
        if OF_AGENT not in question:
            registry = self.registry.of(row)
            return row, registry, registry.agent(row.agent_id)
        asks = question[OF_AGENT] if isinstance(question[OF_AGENT], Mapping) else {}
        with suppress(UnknownTask):
            task = await self._runner.tasks.get(str(asks.get("task_id")))
            if row.task_id in [each.task_id for each in await self._runner.callers(task)]:
                registry = self.registry.of(task)
                return task, registry, registry.agent(task.agent_id)
        return row, self.registry, self.registry.agent(str(asks.get("agent_id", "")))

    async def _refuse_bot(self, row: Task) -> None:
        """Refuse an answer to the bot of a conversation, which asks itself, or to a called agent, whose caller asks."""
        if row.called_by:
            raise TaskError(
                "Task {task_id} was called by another task: answer task {caller} instead.",
                task_id=row.task_id,
                caller=row.called_by,
            )
        if conversation := await unfinished_conversation(self._runner.tasks, row.session_id):
            raise TaskError(
                "Task {task_id} belongs to the bot of a conversation: answer task {conversation} instead.",
                task_id=row.task_id,
                conversation=conversation.task_id,
            )

    async def check_resumable(self, row: Task, answer: Json | None) -> None:
        """Raise TaskError for a task that cannot continue like this."""
        task_id, status = row.task_id, row.status
        if status in ENDED:
            raise TaskError(
                "Task {task_id} is {status}: there is nothing to resume; send a new message.",
                task_id=task_id,
                status=status,
            )
        if row.requested == "cancel":
            raise TaskError(
                "Task {task_id} is marked for cancellation: cancel it with segue cancel {task_id}, or send "
                "a new message.",
                task_id=task_id,
            )
        if answer is None and row.continues_itself:
            raise TaskError(
                "Task {task_id} is waiting for a time or an event: send the event with segue event "
                "{task_id}, or cancel it.",
                task_id=task_id,
            )
        if answer is None and status == TaskStatus.WAITING and (await self.questions.of(task_id))["kind"] != SPEND:
            raise TaskError(
                "Task {task_id} is waiting for a person: answer it with segue answer {task_id}, or cancel it.",
                task_id=task_id,
            )
        if answer is not None and status != TaskStatus.WAITING:
            raise TaskError(
                "Task {task_id} is {status}: it is not waiting for an answer.", task_id=task_id, status=status
            )
        latest = await self._runner.tasks.latest_of(row.session_id)
        if latest and latest.task_id != task_id:
            raise TaskError(
                "Session {session_id} has continued with task {task_id}: send a new message.",
                session_id=row.session_id,
                task_id=latest.task_id,
            )

    # Pause and cancel.

    async def pause(self, task_id: str, requested: Literal["pause", "stop"] = "pause", *, part: bool = False) -> None:
        """Stop a task, of this process or another, at its next boundary; that of a called agent with its caller.

        `part`: the caller is about to stop.
        """
        row = await self._runner.tasks.get(task_id)
        if row.called_by and not (part or row.is_over):
            return await self.pause(row.called_by, requested)
        if run := self._runner.run_of(task_id):
            return await self._runner.request_pause(run, requested)
        if row.status not in ACTIVE:
            raise TaskError(
                "Task {task_id} is {status}: only a running task can be paused.", task_id=task_id, status=row.status
            )
        if await self._runner.leases.held(row.session_id):
            return await self._request_pause(row, requested)
        try:  # its process is gone, or no worker took it yet
            async with self._runner.leased(row.session_id):
                await self._move_unless_ended(row, TaskStatus.PAUSED, requested=requested, act=Act("paused"))
        except ThreadBusy:  # one did meanwhile
            await self._request_pause(row, requested)

    async def _request_pause(self, row: Task, requested: str) -> None:
        """Ask the process that runs a task to pause it."""
        status = None if row.status == TaskStatus.PENDING else TaskStatus.PAUSING
        await self._move_unless_ended(row, status, requested=requested, act=Act("asked_to_pause"))

    async def _move_unless_ended(self, row: Task, status: TaskStatus | None, **changes: Any) -> None:
        now = await self._runner.tasks.get(row.task_id)
        if now.requested == "cancel":
            return
        try:
            await self._runner.move(row, None if now.status == status else status, **changes)
        except IllegalTransition:
            now = await self._runner.tasks.get(row.task_id)
            raise TaskError("Task {task_id} is now {status}.", task_id=row.task_id, status=now.status) from None

    def stop_now(self, task_id: str) -> None:
        """Stop a task of this process without waiting for a boundary; it stays resumable."""
        if run := self._runner.run_of(task_id):
            run.stop()

    async def cancel(self, task_id: str) -> None:
        """Cancel a task that runs here, in another process, or not at all."""
        row = await self._runner.tasks.get(task_id)
        if row.is_over:
            raise TaskError(
                "Task {task_id} is {status}: there is nothing to cancel.", task_id=task_id, status=row.status
            )
        deadline = time.monotonic() + STOP_SECONDS
        while not row.is_over:
            await self._cancel_where_it_is(row)
            row = await self._runner.tasks.get(task_id)
            if not row.is_over and time.monotonic() > deadline:
                raise TaskError(
                    "Task {task_id} is still running: its process was asked to cancel it, but did not respond.",
                    task_id=task_id,
                )
        if row.status != TaskStatus.CANCELLED:
            raise TaskError(
                "Task {task_id} is now {status}: {reason}.",
                task_id=task_id,
                status=row.status,
                reason=row.error or "it has its answer",
            )

    async def _cancel_where_it_is(self, row: Task) -> None:
        """Try once: somebody else may be about to resume the task, or about to end it."""
        if (run := self._runner.run_of(row.task_id)) and run.task:
            run.cancel(actor())
            await asyncio.wait([run.task])
        elif row.status in ACTIVE and await self._runner.leases.held(row.session_id):
            if row.requested != "cancel":
                await self._runner.move(row, None, requested="cancel", act=Act("asked_to_cancel"))
            await asyncio.sleep(POLL_SECONDS)
        else:
            try:
                async with self._runner.leased(row.session_id):
                    row = await self._runner.tasks.get(row.task_id)
                    if not row.is_over:
                        await self._runner.end_cancelled(row, by=actor())
            except ThreadBusy:
                await asyncio.sleep(POLL_SECONDS)


# Tasks that wait for a moment or an event, continued by whichever process is there.

logger = logging.getLogger(__name__)

RETRY_SECONDS = 30.0
"""Seconds until a task that could not be continued is tried again."""


class Waits(Observer):
    """Continues tasks whose wait is over. As an observer it hears of those that begin to wait here."""

    def __init__(self, storage: Storage, control: Control, due: Due) -> None:
        self._events = storage.sent_events
        self._control = control
        self._due = due
        self._put_off = PutOff()
        due.jobs["wait"] = self

    def stopped(self, task: Task) -> None:
        if task.continues_itself:
            self._due.wake()

    async def take(self, now: float, only: str = "") -> None:
        """Continue the tasks that are due, or `only` one of them, as far as their agents are here."""
        for task_id, agent_id in await self._events.due(now):
            is_meant = not only or task_id == only
            if is_meant and agent_id in self._control.registry and not self._put_off.has(task_id, now):
                await self._take(task_id, now)

    async def _take(self, task_id: str, now: float) -> None:
        try:
            question = await self._control.questions.of(task_id)
            if question["kind"] == WAIT:
                await self._end(task_id, question, now)
        except (QuestionClosed, ThreadBusy):  # another process was faster
            self._put_off.put_off(task_id, now + 1.0)
        except DatabaseUnavailable:
            raise
        except SegueError as error:
            logger.warning("Task %s does not continue: %s", task_id, error)
            self._put_off.put_off(task_id, now + RETRY_SECONDS)
        except Exception:
            logger.exception("Task %s does not continue", task_id)
            self._put_off.put_off(task_id, now + RETRY_SECONDS)

    async def _end(self, task_id: str, question: Json, now: float) -> None:
        until, name = question["until"], question["event"]
        event = await self._events.next(task_id, name) if name else None
        if event is not None:
            value: Json = {"event": name, **event.data}
        elif until is None or until > now:  # nothing came after all
            return await self._events.set_due(task_id, until)
        else:
            value = {"until": datetime.fromtimestamp(until, UTC).isoformat()}
        checked = {"interrupt_id": question["interrupt_id"], "value": value}
        await self._control.resume_with(task_id, checked, taken=event.position if event else None)
