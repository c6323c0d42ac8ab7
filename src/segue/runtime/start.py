"""The start of a task: a message with its options, what is checked before it is stored, and its typed answer."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from hashlib import sha256
from typing import Any, Self, TypedDict, TypeVar

from langchain_core.runnables import RunnableConfig
from pydantic import BaseModel

from ..checkpoints.files import Uploads
from ..checkpoints.storage import Beginning, Storage
from ..core.actor import actor
from ..core.agents import Agent, Prices
from ..core.conversation import MODE, bot_session
from ..core.decision import read_object
from ..core.errors import (
    InvalidMessage,
    KeyUsed,
    SegueError,
    TaskError,
    TaskUnfinished,
    UnknownMode,
    UnknownOption,
    listed,
)
from ..core.events import Steered
from ..core.message import PERSONS, ReplyOptions, check_memory_files
from ..core.models import Model, ModelReply, ModelRequest, Usage, add_usages, usage_of
from ..core.records import Json, NewTask, RequestKey, Result, Session, Task
from ..core.schedules import ScheduledRun
from ..core.spend import Owner, Quotas, Reached, Reservation
from ..core.task import ACTIVE, ANYBODY, OPEN, MessageOrigin, TaskStatus, check_session, is_known_user
from ..core.timeline import Branch
from ..memory.files import parts_of
from ..models.transcript import whole_reply
from ..nodes.conversation import read_config
from ..nodes.model_call import extract
from ..prompts.catalogue import language_of
from ..registry import CONTROL_NAMES, Registry
from ..tools.adapters.client import client_tool_specs
from .control import STOP_SECONDS, Control, Started
from .message_files import FileInput, MessageFile, MessageFiles, check_accepted, fingerprint
from .relay import POLL_SECONDS
from .run import known_facts, state_at, thread_config
from .runner import Runner

logger = logging.getLogger(__name__)

_NO_RESULT = frozenset({"__error__", "__interrupt__", "__resume__"})
"""LangGraph's channels of what a step that has not ended may write."""


class MessageOptions(TypedDict, total=False):
    """The options of `App.start`, `App.chat` and `App.ask`."""

    session_id: str | None
    """The conversation; a new one where none is named."""
    agent: str
    """The id of a registered agent; empty: the first one."""
    mode: str
    """A built-in mode, one of your own, or auto; empty: the user's preferred mode, then the agent's."""
    user_id: str
    """Whose preferences apply."""
    model: str
    """A model in place of the agent's own."""
    wait: float
    """Seconds to wait if the session is busy."""
    steer: bool
    """Add the message to the session's unfinished task, if there is one."""
    idempotency_key: str | RequestKey
    """The same key with the same message again gives the task that it began, instead of another one."""
    files: Sequence[FileInput]
    """Files that go along: paths, pairs of a name and the content, or uploads."""
    language: str
    """zh or en, where the agent names none; empty: SEGUE_LANGUAGE, else that of the message."""
    client_tools: Sequence[Mapping[str, Any]]
    """Tools that the caller carries out, each {"name", "description", "parameters"}: a call waits as a question, whose
    answer is the result."""
    origin: MessageOrigin
    """What sends the message: sessions are listed apart by it."""
    remember: bool
    """Whether what the user said of themselves before is in the prompts, and what the message says is remembered."""
    memory_files: Mapping[str, str]
    """The paths of memory files by their names, for a flow to read: {"rules": "rules.md"}."""
    ask_user: bool
    """Whether the task may ask the user questions; by default as its agent does."""
    review_plan: bool
    """Whether a person reviews the task's plan before it runs; by default as its agent says."""
    reply_options: ReplyOptions
    """What is asked of the reply: instructions, the form of the answer, a required call, a model's settings."""


_TEXTS = ("session_id", "agent", "mode", "user_id", "model", "language")
_KINDS: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(_TEXTS, (str, Enum)),
    **dict.fromkeys((*PERSONS, "remember"), (bool,)),
    "wait": (float, int),
}


@dataclass(frozen=True)
class Request:
    """A message and its options."""

    message: str
    session_id: str | None = None
    agent: str = ""
    mode: str = ""
    user_id: str = ANYBODY
    model: str = ""
    wait: float = 0.0
    steer: bool = False
    key: RequestKey | None = None
    files: Sequence[FileInput] = ()
    language: str = ""
    client_tools: Sequence[Mapping[str, Any]] = ()
    reply_options: ReplyOptions = field(default_factory=ReplyOptions)
    origin: MessageOrigin = "python"
    run: ScheduledRun | None = None
    """The run of a schedule that it is."""
    branch: Branch | None = None
    """The branch that it begins."""
    called_by: Task | None = None
    """The task of which it is a call, of an agent that is a tool."""

    @classmethod
    def of(cls, message: Any, options: Mapping[str, Any]) -> Self:
        """What a caller asks for; a member of an enum stands for its value.

        Raises:
            InvalidMessage, UnknownOption.
        """
        if not isinstance(message, str):
            raise InvalidMessage("The message is {kind}, not text: pass a str.", kind=type(message).__name__)
        known = [*MessageOptions.__annotations__]
        if unknown := sorted(options.keys() - set(known)):
            raise UnknownOption(unknown[0], known)
        for name, value in options.items():
            kinds = _KINDS.get(name)
            if kinds and value is not None and not isinstance(value, kinds):
                raise InvalidMessage(
                    "The option {name} is {kind}: pass {expected}.",
                    name=name,
                    kind=type(value).__name__,
                    expected=kinds[0].__name__,
                )
        given = {name: value.value if isinstance(value, Enum) else value for name, value in options.items()}
        if isinstance(key := given.pop("idempotency_key", None), str):
            whole = "\0".join([message, *map(fingerprint, given.get("files") or ())])
            key = RequestKey.named(key, sha256(whole.encode(errors="surrogatepass")).hexdigest()) if key else None
        named = {name: given.pop(name) for name in (*PERSONS, "remember") if name in given}
        changes = {name: value for name, value in named.items() if value is not None}
        if files := check_memory_files(given.pop("memory_files", None)):
            changes["memory_files"] = files
        if changes:
            asked: ReplyOptions = given.get("reply_options") or ReplyOptions()
            given["reply_options"] = asked.model_copy(update=changes)
        return cls(message, key=key, **{name: value for name, value in given.items() if value is not None})


T = TypeVar("T", bound=BaseModel)

_GIVEN_UP = ("cancel", "stop")
"""Requests for a task after which the next message begins another, which knows what it did: no decided call runs."""


Reserve = Callable[[ModelRequest], Awaitable[Reservation | None]]
"""Keeps room for a call where there are limits."""


async def typed_answer(
    model: Model, answer: str, response_model: type[T], prices: Prices | None, reserve: Reserve
) -> tuple[T, Sequence[Usage]]:
    """The answer as an object, and what each call for it used; errors as `extract` and `reserve`."""
    usages: list[Usage] = []

    async def ask(request: ModelRequest) -> ModelReply:
        room = await reserve(request)
        reply = await whole_reply(model, request)
        if room:
            await room.settle(reply)
        usages.append(usage_of(reply, prices, model))
        return reply

    def read(text: str) -> T:
        return response_model.model_validate(read_object(text))

    schema = response_model.model_json_schema()
    return await extract(ask, answer, response_model.__name__, schema, read), usages


_Keeping = AbstractAsyncContextManager[tuple[list[Json], Uploads]]


class Starter:
    """Starts the tasks of new messages."""

    def __init__(
        self,
        storage: Storage,
        registry: Registry,
        runner: Runner,
        control: Control,
        files: MessageFiles,
        modes: Collection[str],
    ) -> None:
        self._storage = storage
        self._registry = registry
        self._runner = runner
        self.control = control
        self._dispatch = control.dispatch
        self._files = files
        self._ids = registry.ids
        self.modes = modes
        self._continuing: set[asyncio.Task[Started]] = set()

    async def close(self) -> None:
        """Leave tasks that were to continue as they are stored."""
        for continuing in tuple(self._continuing):
            continuing.cancel()
        await asyncio.gather(*self._continuing, *self.control.undoing, return_exceptions=True)

    def check_mode(self, mode: str) -> None:
        """Make sure that a mode is registered.

        Raises:
            UnknownMode: listing the modes there are.
        """
        if mode not in self.modes:
            raise UnknownMode(mode, self.modes)

    def new_id(self) -> str:
        """A part of a name that nothing has yet."""
        return self._ids.thread().removeprefix("s-")

    @property
    def quotas(self) -> Quotas:
        """What users and tenants may have."""
        return self._runner.capacity.quotas

    @property
    def agents_file(self) -> str | None:
        """The path of the file that the agents come from."""
        return self._registry.agents_file or None

    def has_agent(self, agent_id: str) -> bool:
        """Whether an agent is registered here."""
        return agent_id in self._registry

    async def check(self, request: Request) -> Agent:
        """The agent that a message would go to now, without storing it; errors as in `start`, as far as it shows."""
        session_id = request.session_id or ""
        beginning = await self._storage.beginning(session_id, request.user_id)
        agent = self._registry.agent(request.agent or (beginning.chosen.agent_id if beginning.chosen else ""))
        mode = self._mode(request, agent, beginning)
        self._registry.language(request.language)
        await self._check(request, agent, session_id or self._ids.thread())
        self._check_memory_files(request, mode)
        request.reply_options.check(agent.agent_id, agent.protocol, mode, ())
        return agent

    async def start(self, request: Request, unlisted: str = "") -> Started:
        """Store a message as a task and run it in the background; `unlisted` is a mode that no message may ask for.

        A message that steers a task is stored with it at once; this returns when its agent knows it, or when another
        task begins with it.
        """
        row, run = await self.control.once(request.key, lambda: self._start(request, unlisted, self._continued))
        return await self.control.taker(row, run) if request.steer else (row, run)

    async def accept(self, request: Request) -> Started:
        """As `start`, but returns as soon as the message is stored, also where its task is about to pause."""
        return await self.control.once(request.key, lambda: self._start(request, "", self._continue_later))

    async def _start(self, request: Request, unlisted: str, go_on: Callable[[Task], Awaitable[Started]]) -> Started:
        thread_id = request.session_id or self._ids.thread()
        beginning = await self._storage.beginning(thread_id, request.user_id)
        chosen = beginning.chosen or Session(thread_id)
        request = replace(
            request, model=request.model or (chosen.model if request.agent in ("", chosen.agent_id) else "")
        )
        agent = self._registry.agent(request.agent or chosen.agent_id)
        mode, language = unlisted or self._mode(request, agent, beginning), self._registry.language(request.language)
        files = await self._read_files(request, agent)
        if files and not request.message.strip():  # prompts, titles and the search have a text
            request = replace(request, message=", ".join(file.attachment.name for file in files))
        asked = language if unlisted and request.language else None  # a conversation's own, before its bot's agent's
        await self._check(request, agent, thread_id)
        _refuse_session_of_another(request, beginning)
        await self._registry.prepare(agent)
        taken = {*self._registry.tools_for(agent), *CONTROL_NAMES}
        offered = (
            await asyncio.to_thread(client_tool_specs, request.client_tools, taken) if request.client_tools else []
        )
        names = [spec["function"]["name"] for spec in offered]
        self._check_memory_files(request, mode)
        request.reply_options.check(agent.agent_id, agent.protocol, mode, names)
        if not unlisted:
            request = await self._recalled(request, agent)
        if request.steer and (steered := await self._steered(thread_id, request, go_on)):
            return steered
        version = self._registry.version(agent)
        leaves = not (unlisted or request.called_by) and await self._dispatch.to_worker(agent.agent_id, mode, version)
        admitted = self._runner.capacity.admitted(None if leaves else Owner.of(thread_id, request.user_id))
        leasing = self._runner.leased(thread_id, request.wait, self._promised if self._dispatch.to_workers else None)
        keeping: _Keeping = self._files.kept(files) if files else nullcontext(([], []))
        async with admitted, leasing as begin, keeping as (attachments, uploads):
            await self._make_room(thread_id)
            new = NewTask(
                task_id=self._ids.task(),
                session_id=thread_id,
                agent_id=agent.agent_id,
                user_id=request.user_id,
                mode=mode,
                model=request.model or self._registry.environment_model(agent),
                message=request.message,
                language=asked or agent.language or language or language_of(request.message),
                agents_file=self._registry.agents_file or None,
                agent_version=version,
                attachments=attachments,
                client_tools=offered,
                reply_options=request.reply_options.json(),
                origin=request.origin,
                asked_by=request.called_by.asked_by if request.called_by else [actor()],
                called_by=request.called_by.task_id if request.called_by else None,
                bot_session=_bot_of(thread_id, request.message) if unlisted == MODE else None,
            )
            row = await self._created(asyncio.create_task(self._store(new, request, leaves, uploads)), leaves)
            return self.control.submit_to_worker(row) if leaves else (row, begin(row))

    async def _recalled(self, request: Request, agent: Agent) -> Request:
        """The request with what its user said of themselves before; what is sent by a schedule says nothing new."""
        options = request.reply_options
        if not options.remember or agent.remember == "off" or not is_known_user(request.origin, request.user_id):
            return request
        known = await known_facts(self._runner.memory, request.user_id)
        changed = {"known": known, "remember": request.run is None}
        return replace(request, reply_options=options.model_copy(update=changed))

    def _check_memory_files(self, request: Request, mode: str) -> None:
        """Refuse memory files that cannot have their path, or that nothing would read."""
        files = request.reply_options.memory_files
        for path in files.values():
            parts_of(path)
        if files and not self._registry.reads_memory(mode):
            raise InvalidMessage(
                "The mode {mode} reads no memory files: leave out memory_files, or use the mode controller or a flow.",
                mode=mode,
            )

    async def _promised(self, thread_id: str) -> bool:
        """Whether a worker will continue a session's task, so that nobody else begins one."""
        return await self._dispatch.awaits_worker(await self._runner.tasks.latest_of(thread_id))

    async def ask(self, request: Request, response_model: type[BaseModel] | None = None) -> Result:
        """Start a task and wait for its result, as an object too where a model of it is given."""
        row, run = await self.start(request)
        result = await self.control.result(row, run)
        if response_model is None or not result["success"]:
            return result
        agent = self._registry.agent(row.agent_id)
        model = self._registry.model_for(agent, row.model)
        reserve = partial(self._reserve, row, agent, model)
        made, usages = await typed_answer(model, result["answer"], response_model, agent.prices, reserve)
        return Result({**result, "object": made, "usage": add_usages([result["usage"], *usages])})

    async def _reserve(self, row: Task, agent: Agent, model: Model, request: ModelRequest) -> Reservation | None:
        """Keep room for a call after the task's end, where nobody can be asked any more."""
        spending = self._runner.spend.of(row.session_id, row.user_id)
        if spending is None or not model.is_language_model:
            return None
        found = await spending.reserve(row.task_id, agent, model, request, self._runner.clock())
        if isinstance(found, Reached):
            raise TaskError(
                "The limit {limit} is too low to convert the answer to an object: task {task_id} has the "
                "answer as text. Raise the limit, then ask again.",
                limit=found.name,
                task_id=row.task_id,
            )
        return found

    def _mode(self, request: Request, agent: Agent, beginning: Beginning) -> str:
        mode = request.mode
        if not mode:
            mode = beginning.default_mode if beginning.default_mode in self.modes else agent.mode
        self.check_mode(mode)
        if mode in ("plan", "controller") and agent.background_tools:
            raise InvalidMessage(
                "The agent {agent} has tools in the background ({tools}), whose results cannot arrive later in the "
                "mode {mode}: use the mode react, plan_react or lifecycle.",
                agent=agent.agent_id,
                tools=listed(agent.background_tools),
                mode=mode,
            )
        return mode

    async def _check(self, request: Request, agent: Agent, thread_id: str) -> None:
        """Refuse what cannot run, before anything is stored."""
        message = request.message
        if not message.strip():
            raise InvalidMessage("The message is empty: write what you want done.")
        self.control.check_message("".join([message, *request.reply_options.instructions]), agent)
        check_session(thread_id)
        await self._runner.spend.check(agent, self._registry.model_for(agent, request.model), thread_id)

    async def _read_files(self, request: Request, agent: Agent) -> list[MessageFile]:
        """The message's files, which the model accepts."""
        if not request.files:
            return []
        files = await self._files.read(request.files)
        model = self._registry.model_for(agent, request.model).name
        check_accepted(files, self._registry.accepted(agent, request.model), model)
        return files

    async def _store(self, new: NewTask, request: Request, left: bool, uploads: Uploads) -> Task:
        """Store a new task under its session's lease, which ends with it where a worker runs it."""
        fence, quotas = self._runner.saver.fence(new.session_id), self._runner.capacity.quotas if left else None
        return await self._runner.tasks.create(
            new,
            fence=fence,
            key=request.key,
            release=left,
            run=request.run,
            branch=request.branch,
            uploads=uploads,
            quotas=quotas,
        )

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
            if last.requested not in _GIVEN_UP:
                raise TaskUnfinished(thread_id, last.task_id, last.status)
            await self._runner.end_cancelled(last)  # its process died before it could, or its client left
        if last and last.status == TaskStatus.ERROR and not last.result:
            await self._runner.settle_task(last)
        elif state.tasks:  # a recovered session: else what its last steps wrote would be thrown away
            await _complete_step(self._runner, thread_id)

    async def _steered(
        self, thread_id: str, request: Request, go_on: Callable[[Task], Awaitable[Started]]
    ) -> Started | None:
        """Add the message to the session's unfinished task, which then goes on; None where it becomes a new task.

        It is stored with the task at once, whatever that does now.
        """
        row = await self._runner.tasks.latest_of(thread_id)
        while row and row.requested == "stop" and row.status in ACTIVE and await self._runs(row):
            await asyncio.sleep(POLL_SECONDS)
            row = await self._runner.tasks.get(row.task_id)
        if not row or row.status not in OPEN or row.requested in _GIVEN_UP:
            return None
        if request.files:
            raise InvalidMessage(
                "Files cannot be added to an unfinished task: wait for its answer, or cancel it, then send them again."
            )
        if request.reply_options.memory_files:
            raise InvalidMessage(
                "Memory files cannot be added to an unfinished task: wait for its answer, or cancel it, then send the "
                "message again."
            )
        if named := [name for name in PERSONS if getattr(request.reply_options, name) is not None]:
            raise InvalidMessage(
                "The option {name} cannot be changed for an unfinished task: leave it out, or send the message after "
                "the task.",
                name=named[0],
            )
        if row.mode == MODE:
            raise TaskUnfinished(thread_id, row.task_id, row.status)
        await self.control.check_resumable(row, None)
        steered = Steered(task_id=row.task_id, message=request.message)
        try:
            row = await self._runner.add_note(row, request.message, steered, request.key)
        except KeyUsed:
            raise
        except TaskError:  # it has just ended
            return None
        return await go_on(row)

    async def _continue_later(self, row: Task) -> Started:
        """As `_continued`, but a task that is about to pause continues in the background once it has."""
        if row.requested != "pause" or not await self._runs(row):
            return await self._continued(row)
        continuing = asyncio.create_task(self._continued(row), name=f"continue {row.task_id}")
        self._continuing.add(continuing)
        continuing.add_done_callback(partial(self._end_continuing, row.task_id))
        return row, None

    def _end_continuing(self, task_id: str, continuing: "asyncio.Task[Started]") -> None:
        """Log why a task that was to continue in the background did not: nobody waits for it."""
        self._continuing.discard(continuing)
        error = None if continuing.cancelled() else continuing.exception()
        if isinstance(error, SegueError):
            logger.warning("Task %s was not continued, and can be resumed: %s", task_id, error)
        elif error:
            logger.error("Task %s was not continued, and can be resumed.", task_id, exc_info=error)

    async def _continued(self, row: Task) -> Started:
        """A task that was steered: it runs on, or continues unless a person is asked meanwhile."""
        while row.requested == "pause" and row.status in ACTIVE and await self._runs(row):
            await asyncio.sleep(POLL_SECONDS)
            row = await self._runner.tasks.get(row.task_id)
        if row.status not in OPEN or row.status == TaskStatus.WAITING:
            return row, None
        if row.status in ACTIVE and await self._runs(row):
            run = self._runner.run_of(row.task_id)
            return row, run.task if run else None
        return await self.control.resume(row.task_id, wait=STOP_SECONDS)

    async def _runs(self, row: Task) -> bool:
        return self._runner.run_of(row.task_id) is not None or await self.control.runs_elsewhere(row.task_id)


def _refuse_session_of_another(request: Request, beginning: Beginning) -> None:
    """Refuse a message to the bot of a conversation that goes on, or to an agent whose caller is not over.

    The bot would take it for the user's, and the caller would get another answer than the one to its call.
    """
    conversation = None if request.origin == "conversation" else beginning.conversation
    for owner in (conversation, None if request.called_by else beginning.caller):
        if owner and not owner.is_over:
            raise TaskUnfinished(owner.session_id, owner.task_id, owner.status)


def _bot_of(conversation_id: str, message: str) -> str | None:
    """The session of a conversation's bot, if that is an agent."""
    return bot_session(conversation_id) if read_config(message).has_agent else None


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
