"""Control of tasks: start, resume, answer, steer."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.types import StateSnapshot
from pydantic import BaseModel

from ..checkpoints.storage import Storage
from ..core.agents import Agent
from ..core.errors import InvalidMessage, KeyUsed, QuestionClosed, TaskError, TaskUnfinished, ThreadBusy, UnknownMode
from ..core.events import Resumed, Steered
from ..core.question import CLIENT_CALLS, read_answer, read_results
from ..core.records import Json, NewTask, RequestKey, Session, Task
from ..core.result import Result
from ..core.task_status import ACTIVE, ENDED, OPEN, TaskStatus
from ..graphs.chat import MODES
from ..nodes.chat.run_mode import ModeGraph
from ..nodes.chat.select_mode import AUTO
from ..nodes.shared.approval import VERSIONS, check_answer, check_tools, versions_of
from ..prompts.language import language_of
from ..registry import CONTROL_NAMES, Registry
from ..tools.adapters.client import client_tool_specs
from .cancellation import stopped
from .event_stream import EventStream
from .extraction import extract
from .message_files import MessageFile, MessageFiles, check_accepted
from .notices import LOOK_EVERY
from .request import Request, known_request
from .run import question_of
from .runner import Runner, thread_config
from .sessions import check_session
from .stops import STOP_SECONDS, Stops
from .thread_state import state_at

ATTEMPTS = 5
"""How often a request that came twice at once looks for what the other one began."""

_NO_RESULT = frozenset({"__error__", "__interrupt__", "__resume__"})
"""LangGraph's channels of what a step that has not ended may write."""

Started = tuple[Task, "asyncio.Task[Json] | None"]
"""A task and its run, which is None where another process runs it."""


class Control:
    """Starts tasks, and works on those that were started."""

    def __init__(
        self,
        storage: Storage,
        registry: Registry,
        runner: Runner,
        stream: EventStream,
        files: MessageFiles,
        stops: Stops,
        modes: Mapping[str, ModeGraph],
    ) -> None:
        self._storage = storage
        self._registry = registry
        self._runner = runner
        self._stream = stream
        self._dispatch = stream.dispatch
        self._files = files
        self._stops = stops
        self._ids = registry.ids
        self.modes = [*modes, AUTO]

    def check_mode(self, mode: str) -> None:
        """Make sure that a mode is registered.

        Raises:
            UnknownMode: listing the modes there are.
        """
        if mode not in self.modes:
            raise UnknownMode(mode, self.modes)

    # A new message.

    async def start(self, request: Request, unlisted: str = "") -> Started:
        """Store a message as a task and run it in the background; `unlisted` is a mode that no message may ask for."""
        return await self._once(request.key, lambda: self._start(request, unlisted))

    async def _once(self, key: RequestKey | None, begin: Callable[[], Awaitable[Started]]) -> Started:
        """Do what a request asks for, unless it was done before under its idempotency key."""
        if begun := await self._begun(key):
            return begun
        try:
            return await begin()
        except TaskError as error:  # the same request may have come twice at once, and be about to be stored
            for _ in range(ATTEMPTS if key and isinstance(error, ThreadBusy) else 1):
                if begun := await self._begun(key):
                    return begun
                await asyncio.sleep(LOOK_EVERY)
            raise

    async def _begun(self, key: RequestKey | None) -> Started | None:
        """The task of the request with this idempotency key, if there is one.

        Raises:
            KeyUsed: for another request.
        """
        known = await known_request(self._storage.requests, key)
        if known is None:
            return None
        task, run = await self._runner.tasks.get(known.task_id), self._runner.run_of(known.task_id)
        return task, run.task if run else None

    async def _end_of(self, task_id: str) -> Json:
        """The result of a task that does not run here, once it stops.

        Raises:
            TaskError: it failed, and can be resumed.
        """
        async for _ in self._stream.follow(task_id, streams=False):
            pass
        task = await self._runner.tasks.get(task_id)
        if task.status == TaskStatus.ERROR and not task.result:
            raise TaskError("Task {task_id} failed: {error}", task_id=task_id, error=task.error)
        if task.status == TaskStatus.WAITING:
            question = await self.question(task_id)
            return {**stopped(task), "status": "waiting", "question": question}
        return task.result or stopped(task)

    def _left(self, row: Task) -> Started:
        """A task that was left to a worker, together with its lease."""
        self._runner.forget(row.thread_id)
        return row, None

    async def _start(self, request: Request, unlisted: str) -> Started:
        thread_id = request.session_id or self._ids.thread()
        chosen = await self._storage.sessions.get(thread_id) or Session(thread_id)
        request = replace(
            request, model=request.model or (chosen.model if request.agent in ("", chosen.agent_id) else "")
        )
        agent = self._registry.agent(request.agent or chosen.agent_id)
        mode, language = unlisted or await self._mode(request, agent), self._registry.language(request.language)
        self._check(request, agent, thread_id)
        files = await self._read_files(request, agent)
        await self._registry.prepare(agent)
        taken = {*self._registry.tools_for(agent), *CONTROL_NAMES}
        offered = (
            await asyncio.to_thread(client_tool_specs, request.client_tools, taken) if request.client_tools else []
        )
        if request.steer and (steered := await self._steered(thread_id, request)):
            return steered
        digest = self._registry.digest(agent)
        leaves = not unlisted and await self._dispatch.to_worker(agent.agent_id, mode, digest)
        if not leaves:
            self._runner.capacity.check()
        promised = self._promised if self._dispatch.to_workers else None
        leasing = self._runner.leased(thread_id, request.wait, promised)
        async with leasing as begin, self._files.kept(files) as attachments:
            await self._make_room(thread_id)
            new = NewTask(
                task_id=self._ids.task(),
                thread_id=thread_id,
                agent_id=agent.agent_id,
                user_id=request.user_id,
                mode=mode,
                model=request.model or self._registry.environment_model(agent),
                message=request.message,
                language=agent.language or language or language_of(request.message),
                agents_file=self._registry.agents_file or None,
                agent_digest=digest,
                attachments=attachments,
                client_tools=offered,
            )
            fence, key = self._runner.saver.fence(thread_id), request.key
            creating = self._runner.tasks.create(new, fence=fence, key=key, release=leaves)
            row = await self._created(asyncio.create_task(creating), leaves)
            return self._left(row) if leaves else (row, begin(row))

    async def _promised(self, thread_id: str) -> bool:
        """Whether a worker will go on with a session's task, so that nobody else begins one."""
        return await self._dispatch.awaits_worker(await self._runner.tasks.latest_of(thread_id))

    async def ask(self, request: Request, response_model: type[BaseModel] | None = None) -> Result:
        """Start a task and wait for its result, as an object too where a model of it is given."""
        row, run = await self.start(request)
        result = await self.result(row, run)
        if response_model is None or not result["success"]:
            return result
        model = self._registry.model_for(self._registry.agent(row.agent_id), row.model)
        made, usage = await extract(model, result["answer"], response_model)
        spent = {name: result["usage"].get(name, 0) + count for name, count in usage.items()}
        return Result({**result, "object": made, "usage": {**result["usage"], **spent}})

    async def _mode(self, request: Request, agent: Agent) -> str:
        mode = request.mode
        if not mode:
            preferred = await self._storage.preferences.default_mode(request.user_id)
            mode = preferred if preferred in self.modes else agent.mode
        self.check_mode(mode)
        return mode

    def _check(self, request: Request, agent: Agent, thread_id: str) -> None:
        """Refuse what cannot run, before anything is stored."""
        message = request.message
        if not message.strip():
            raise InvalidMessage("The message is empty: write what you want to be done.")
        if any("\ud800" <= char <= "\udfff" for char in message):
            raise InvalidMessage("The message is not valid text: send it as UTF-8.")
        if (size := len(message.encode())) > (most := agent.budget.message_bytes):
            raise InvalidMessage(
                "The message has {size} bytes; the limit is {most}: shorten it, or raise the agent's "
                "budget.message_bytes.",
                size=size,
                most=most,
            )
        check_session(thread_id)
        self._registry.model_for(agent, request.model)

    async def _read_files(self, request: Request, agent: Agent) -> list[MessageFile]:
        """The message's files, which the model accepts."""
        files = await self._files.read(request.files)
        if files:
            model = self._registry.model_for(agent, request.model).name
            check_accepted(files, self._registry.accepted(agent, request.model), model)
        return files

    async def _created(self, creating: "asyncio.Task[Task]", left: bool) -> Task:
        """The new task; a caller that is cancelled meanwhile leaves no pending task behind."""
        try:
            return await asyncio.shield(creating)
        except asyncio.CancelledError:
            row = await creating
            if left:  # whoever takes it ends it
                await self._runner.tasks.move(row.task_id, None, requested="cancel")
            else:
                await self._runner.move(row, TaskStatus.CANCELLED)
            raise

    async def _make_room(self, thread_id: str) -> None:
        """Refuse a damaged thread and one with an unfinished task; what a failed one did goes into the history."""
        self._runner.saver.keep_reads(thread_id)  # its task begins with the same state
        state = await state_at(self._runner.graph, thread_config(thread_id))
        last = await self._runner.tasks.latest_of(thread_id)
        if last and last.status in OPEN:
            if last.requested != "cancel":
                raise TaskUnfinished(thread_id, last.task_id, last.status)
            await self._runner.end_cancelled(last)  # its process died before it could
        if last and last.status == TaskStatus.ERROR and not last.result:
            await self._runner.settle_task(last)
        elif state.tasks:  # a recovered session: else what its last steps wrote would be thrown away
            await _complete_step(self._runner, thread_id)

    # A task that was started before.

    async def resume(
        self,
        task_id: str,
        *,
        model: str = "",
        answer: Any = None,
        interrupt_id: str = "",
        wait: float = 0.0,
        key: RequestKey | None = None,
    ) -> Started:
        """Go on with a task, with a person's answer if one is given; `model` replaces the one that it began with.

        `interrupt_id` is the question that the answer is for; without it, it is for the one that is open now.
        """

        async def resume() -> Started:
            checked = None if answer is None else await self._checked(task_id, answer, interrupt_id)
            return await self.resume_with(task_id, checked, model=model, wait=wait, key=key)

        return await self._once(key, resume)

    async def resume_with(
        self, task_id: str, checked: Json | None, *, model: str = "", wait: float = 0.0, key: RequestKey | None = None
    ) -> Started:
        """As `resume`, with an answer in the form that is stored."""
        row = await self._runner.tasks.get(task_id)
        agent = self._registry.agent(row.agent_id)
        await self._registry.prepare(agent)
        async with self._runner.leased(row.thread_id, wait) as begin:
            row = await self._runner.tasks.get(task_id)
            if checked:
                await self.open_question(task_id, checked["interrupt_id"])
            await self._check_resumable(row, checked)
            self._registry.model_for(agent, model or row.model)
            changes = {"model": model or row.model, "answer": checked or row.answer, "requested": None}
            changes["agents_file"] = self._registry.agents_file or row.agents_file
            known, ours = row.agent_digest, self._registry.digest(agent)
            leaves = row.mode in self.modes and await self._dispatch.to_worker(row.agent_id, row.mode, known, ours)
            changes["agent_digest"] = known if leaves else ours  # the worker that takes it stores its own
            began = row.status == TaskStatus.PENDING
            status = None if began else TaskStatus.RUNNING
            changed = known not in (None, changes["agent_digest"])
            events = [] if began else [Resumed(task_id=task_id, agent_changed=changed)]
            row = await self._runner.move(row, status, events=events, key=key, release=leaves, **changes)
            return self._left(row) if leaves else (row, begin(row))

    async def result(self, row: Task, run: "asyncio.Task[Json] | None") -> Result:
        """Wait for a run, here or elsewhere; returns its result with `task_id`, `session_id` and `status`."""
        try:
            result = await (asyncio.shield(run) if run else self._end_of(row.task_id))
        except asyncio.CancelledError:
            if run is None or not run.cancelled():
                raise
            result = stopped(row)
        status = (await self._runner.tasks.get(row.task_id)).status
        return Result({**result, "task_id": row.task_id, "session_id": row.thread_id, "status": str(status)})

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

    async def _checked(self, task_id: str, answer: Any, interrupt_id: str) -> Json:
        """The answer to a task's question in the form that is stored."""
        question = await self.open_question(task_id, interrupt_id)
        if calls := question.get(CLIENT_CALLS):
            results = read_results(answer, calls)
            return {"interrupt_id": question["interrupt_id"], "value": {"results": results}}
        if question["kind"] != "approval":
            reply = read_answer(answer)
            value: Any = reply.json() if question["kind"] == "question" else reply.text
            return {"interrupt_id": question["interrupt_id"], "value": value}
        row = await self._runner.tasks.get(task_id)
        agent = self._registry.agent(row.agent_id)
        await self._registry.prepare(agent)
        verdicts = check_answer(question["calls"], self._registry.tools_for(agent), answer)
        if row.mode in (*MODES, AUTO) and not await self._dispatch.to_worker(
            agent.agent_id, row.mode, row.agent_digest
        ):
            check_tools(question["calls"], verdicts, self._registry.tools_for(agent), agent.agent_id)
        value = {
            "verdicts": [verdict.model_dump(mode="json", exclude_none=True) for verdict in verdicts],
            VERSIONS: versions_of(question["calls"]),
        }
        return {"interrupt_id": question["interrupt_id"], "value": value}

    async def _check_resumable(self, row: Task, answer: Json | None) -> None:
        """Raise TaskError for a task that cannot go on like this."""
        task_id, status = row.task_id, row.status
        if status in ENDED:
            raise TaskError(
                "Task {task_id} is {status}: there is nothing to resume; send a new message.",
                task_id=task_id,
                status=status,
            )
        if row.requested == "cancel":
            raise TaskError(
                "Task {task_id} is to be cancelled: cancel it with segue cancel {task_id}, or send a new message.",
                task_id=task_id,
            )
        if answer is None and status == TaskStatus.WAITING:
            raise TaskError(
                "Task {task_id} waits for a person: answer it with segue answer {task_id}, or cancel it.",
                task_id=task_id,
            )
        if answer is not None and status != TaskStatus.WAITING:
            raise TaskError("Task {task_id} is {status}: it waits for no answer.", task_id=task_id, status=status)
        latest = await self._runner.tasks.latest_of(row.thread_id)
        if latest and latest.task_id != task_id:
            raise TaskError(
                "Session {thread_id} went on with task {task_id}: send a new message.",
                thread_id=row.thread_id,
                task_id=latest.task_id,
            )

    def started(self, task_id: str) -> Started | None:
        """A task that runs in this process, with its run."""
        run = self._runner.run_of(task_id)
        return (run.row, run.task) if run and run.task else None

    # A message that joins an unfinished task.

    async def _steered(self, thread_id: str, request: Request) -> Started | None:
        """Add the message to the session's unfinished task, and go on with it; None where it becomes a new task.

        Raises:
            TaskError: the task waits for an answer.
            KeyUsed: the idempotency key stands for a task already.
        """
        row = await self._runner.tasks.latest_of(thread_id)
        if not row or row.status not in OPEN or row.requested == "cancel":
            return None
        if request.files:
            raise InvalidMessage(
                "Files cannot join an unfinished task: wait for its answer, or cancel it, then send them again."
            )
        row = await self._paused(row)
        if row.status in ENDED:
            return None
        if await self._about_to_answer(row):
            await self.result(*await self.resume(row.task_id, wait=STOP_SECONDS))
            return None
        await self._check_resumable(row, None)
        steered = Steered(task_id=row.task_id, message=request.message)
        try:
            await self._runner.add_note(row, request.message, steered, request.key)
        except KeyUsed:  # the same request came twice at once: this one has only paused the task again
            await self.resume(row.task_id, wait=STOP_SECONDS)
            raise
        return await self.resume(row.task_id, wait=STOP_SECONDS)

    async def _paused(self, row: Task) -> Task:
        """The task once it does not run any more."""
        while row.status in ACTIVE:
            with suppress(TaskError):  # it may just have ended
                await self._stops.pause(row.task_id)
            if await self._stream.runs_elsewhere(row.task_id):
                await asyncio.sleep(LOOK_EVERY)
            row = await self._runner.tasks.get(row.task_id)
        return row

    async def _about_to_answer(self, row: Task) -> bool:
        """Whether the machine has decided on its answer, so that nothing can be added any more."""
        config = thread_config(row.thread_id)
        state = await state_at(self._runner.graph, config, subgraphs=True)
        while state.tasks and isinstance(inner := state.tasks[0].state, StateSnapshot) and inner.tasks:
            state = inner
        return state.next == ("FINISH",) or (state.next == ("ANSWER",) and "decision" in state.values)


async def _complete_step(runner: Runner, thread_id: str) -> None:
    """Make the next checkpoint from what the steps before it wrote, where that is all there: no node runs for it."""
    found = await runner.saver.aget_tuple(thread_config(thread_id))
    if found is None:
        return
    # By its id a checkpoint is shown as it was made, with the steps that have ended since.
    state = await runner.graph.aget_state(found.config)
    written = {step for step, channel, _ in found.pending_writes or () if channel not in _NO_RESULT}
    if not state.tasks or any(task.id not in written for task in state.tasks):
        return
    metadata = {name: value for name, value in (state.metadata or {}).items() if name.startswith("segue_")}
    config: RunnableConfig = {**thread_config(thread_id), "metadata": metadata}
    await runner.graph.ainvoke(None, config, durability="sync", interrupt_after="*")
