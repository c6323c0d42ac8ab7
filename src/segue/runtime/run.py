"""A task that runs in this process: its turn among the others, its state, how it is stopped, and what follows it."""

import asyncio
import json
import logging
import math
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import RunControl
from langgraph.types import Command, Interrupt, StateSnapshot
from pydantic import BaseModel, ValidationError

from ..checkpoints.storage import Storage
from ..checkpoints.tasks import Tasks
from ..core.actor import SEGUE
from ..core.agents import Agent, Budget
from ..core.approval import settled
from ..core.calls import (
    API_CALL,
    BY_SEGUE,
    CLIENT_CALLS,
    HIDDEN,
    INTERRUPT,
    OF_AGENT,
    PAUSE,
    WAIT,
    CallKey,
    CallResult,
    Tool,
    read_answer,
    read_question,
    read_results,
)
from ..core.context import ModelCalls, PromptText
from ..core.conversation import MODE
from ..core.decision import read_object
from ..core.errors import (
    DamagedCheckpoint,
    InvalidAnswer,
    MemoryUnavailable,
    ModelError,
    SegueError,
    TooManyTasks,
    UnknownTask,
    UnreadableReply,
)
from ..core.events import (
    ApprovalRequested,
    Durable,
    Event,
    NotesMoved,
    PauseReason,
    QuestionAnswered,
    QuestionAsked,
    WaitStarted,
)
from ..core.message import ReplyOptions, naming, read_attachment
from ..core.models import ModelReply, ModelRequest, tokens, usage_of
from ..core.records import Call, Json, Task
from ..core.reviews import read_review, write_decisions
from ..core.spend import USD, Owner, Quotas, Reached
from ..core.task import TaskStatus, is_known_user, is_own_message, title_of
from ..core.timeline import Place
from ..memory.folder import MemoryFolder
from ..memory.statements import LONGEST, Statement, find_statements, own_sentences
from ..models.transcript import whole_reply
from ..nodes.calls import written_arguments
from ..nodes.context import STEER, Settled, exchange, truncate_result
from ..nodes.permission import VERSIONS, approval_events, check_answer, seen_outcome, versions_of
from ..nodes.task import GraphInput, additions, compose_result
from ..prompts.catalogue import render, task_text
from ..prompts.protocols import with_choices
from ..registry import Registry
from .reply import Projection, ReplyText, without_said
from .spend import SpendControl

logger = logging.getLogger(__name__)

# The tasks that run at once in a process, and those that wait for them: fair between tenants, within quotas.

MAX_RUNNING = 32
"""Tasks that run at once in a process by default."""
MAX_QUEUED = 256
"""Tasks that may wait for them."""

Slot = asyncio.Future[bool]
"""Whether the task may run; False where it was stopped first."""

_inside: ContextVar[bool] = ContextVar("segue_inside_a_task", default=False)


def is_inside_task() -> bool:
    """Whether a task runs what calls this."""
    return _inside.get()


NOBODY = Owner()


class Capacity:
    """Slots for running tasks. A task that a running one starts and waits for takes none: it could never get it.

    Tenants whose tasks wait take turns; those of one tenant run in their order, as far as their users' quotas allow.
    """

    def __init__(self, running: int = MAX_RUNNING, queued: int = MAX_QUEUED, quotas: Quotas | None = None) -> None:
        self._most_running = running
        self._most_queued = queued
        self.quotas = quotas or Quotas()
        self._running: dict[Slot, Owner] = {}
        self._queues: dict[str, deque[tuple[Slot, Owner]]] = {}
        """By tenant, in the order of their turns."""
        self._starting: list[tuple[Owner, bool]] = []
        """Those that are about to reserve a slot, and whether they will have to wait for it."""

    @asynccontextmanager
    async def admitted(self, owner: Owner | None) -> AsyncIterator[None]:
        """Count a task as it starts; refuse it if it had to wait and the queue is full. None runs elsewhere."""
        if owner is None or _inside.get():
            yield
            return
        begin = [other for other, waits in self._starting if not waits]
        room = len(self._running) + len(begin) < self._most_running and self.is_within_quotas(owner, begin)
        if not room:
            self._check_queue(owner)
        entry = (owner, not room)
        self._starting.append(entry)
        try:
            yield
        finally:
            if entry in self._starting:
                self._starting.remove(entry)

    def _check_queue(self, owner: Owner) -> None:
        waiting = [other for queue in self._queues.values() for slot, other in queue if not slot.done()]
        waiting += [other for other, waits in self._starting if waits]
        if len(waiting) >= self._most_queued:
            raise TooManyTasks(self._most_running, self._most_queued)
        of_tenant = [other for other in waiting if other.tenant == owner.tenant]
        self.quotas.check_queue(of_tenant.count(owner), len(of_tenant))

    def has_room(self, owner: Owner) -> bool:
        """Whether a task could run at once."""
        return len(self._running) < self._most_running and self.is_within_quotas(owner)

    def is_within_quotas(self, owner: Owner, also: Sequence[Owner] = ()) -> bool:
        """Whether another task of the owner may run, if those of `also` run as well."""
        of_user, of_tenant = self.quotas.tasks_per_user, self.quotas.tasks_per_tenant
        if of_user is of_tenant is None:
            return True
        running = [*self._running.values(), *also]
        if of_user is not None and running.count(owner) >= of_user:
            return False
        return of_tenant is None or sum(each.tenant == owner.tenant for each in running) < of_tenant

    def reserve(self, owner: Owner = NOBODY) -> Slot:
        """A slot, now or later; `release` it once it was given."""
        slot: Slot = asyncio.get_running_loop().create_future()
        if started := next((entry for entry in self._starting if entry[0] == owner), None):
            self._starting.remove(started)
        if _inside.get() or self.has_room(owner):
            self._give(slot, owner)
        else:
            self._queues.setdefault(owner.tenant, deque()).append((slot, owner))
        return slot

    @staticmethod
    def enter() -> None:
        """The current asyncio task runs a task from now on."""
        _inside.set(True)

    def release(self, slot: Slot) -> None:
        """Give a slot to those whose turn it is; one that was never given is only left."""
        self._running.pop(slot, None)
        for tenant, queue in [*self._queues.items()]:
            self._queues[tenant] = deque(entry for entry in queue if entry[0] is not slot and not entry[0].done())
        while given := next(self._next(), None):
            tenant, following, owner = given
            queue = self._queues.pop(tenant)
            queue.remove((following, owner))
            self._queues[tenant] = queue  # its next turn comes after those of the others
            self._give(following, owner)
        self._queues = {tenant: queue for tenant, queue in self._queues.items() if queue}

    def _next(self) -> Iterator[tuple[str, Slot, Owner]]:
        """The first task of each tenant that could run, in the order of the tenants' turns."""
        for tenant, queue in self._queues.items():
            if found := next((entry for entry in queue if self.has_room(entry[1])), None):
                yield tenant, *found

    def _give(self, slot: Slot, owner: Owner) -> None:
        self._running[slot] = owner
        slot.set_result(True)


# A task that runs in this process: its turn to run, its state, how it is stopped, and the end of a cancelled one.

MOST_PUBLISHED = 256
"""Events that a run keeps for who comes later; a longer one is read from the log."""


@dataclass
class Run:
    """A task's row, the fence that it writes under, and what was streamed of its answer so far.

    It is `stoppable` while the graph runs: its final status is then stored without interruption.
    """

    row: Task
    fence: int
    slot: Slot
    control: RunControl = field(default_factory=RunControl)
    model_calls: ModelCalls = field(default_factory=ModelCalls)
    task: "asyncio.Task[Json] | None" = None
    stoppable: bool = False
    cancelled_by: str = ""
    """Who cancelled it, if anybody did."""
    abandoned: bool = False
    """Its lease is left to expire: the database failed the task."""
    reply: ReplyText = field(default_factory=ReplyText)
    stored: int = 0
    """The number of its last stored event, as far as this process stored any."""
    published: list[Event] = field(default_factory=list)
    """Its stored events from the first one on, without a gap, and not more than `MOST_PUBLISHED`."""
    streamed: dict[tuple[str, str], int] = field(default_factory=dict)
    """Characters that were streamed, by the type of the event and by the model call."""
    next_id: str = ""
    """The task that begins after it with what was added too late."""

    def note(self, event: Event) -> None:
        """Note an event that was stored."""
        self.stored = max(self.stored, event.seq)
        if event.seq == len(self.published) + 1 <= MOST_PUBLISHED:
            self.published.append(event)
        if isinstance(event, NotesMoved):
            self.next_id = event.next_task_id

    def published_after(self, number: int) -> Sequence[Event] | None:
        """All stored events after that number, for who comes later; None where only the log has them."""
        return self.published[max(number, 0) :] if 0 < self.stored == len(self.published) else None

    @property
    def partial(self) -> str:
        """What was streamed of the answer and not discarded."""
        return self.reply.whole

    @property
    def reason(self) -> str:
        """Why it was stopped."""
        return self.control.drain_reason or ""

    def pause(self, reason: str) -> None:
        """Stop at the next boundary, or in the queue; the first reason counts, unless the lease is lost.

        From any thread.
        """
        if not self.reason or reason == PauseReason.LEASE_LOST:
            self.control.request_drain(reason)
        with suppress(RuntimeError):  # the loop is closed, so nothing waits any more
            self.slot.get_loop().call_soon_threadsafe(self._leave_queue)

    def _leave_queue(self) -> None:
        if not self.slot.done():
            self.slot.set_result(False)

    def stop(self) -> None:
        """Stop where it is: the step under way runs again on resume, its finished tool calls do not."""
        if self.stoppable and self.task is not None:
            self.task.cancel()
        else:
            self.pause(PauseReason.NOT_BEGUN)

    @property
    def cancelled(self) -> bool:
        return bool(self.cancelled_by)

    def cancel(self, by: str = SEGUE) -> None:
        """Stop where it is and for good; once is enough, a second time would interrupt the storing of its result."""
        if not self.cancelled:
            self.cancelled_by = by
            self.stop()


def retrieve_error(run: asyncio.Task[Any]) -> None:
    """What a run raised was stored with its task, so that asyncio does not warn about it."""
    if not run.cancelled():
        run.exception()


def is_of_task(state: StateSnapshot, task_id: str) -> bool:
    """Whether the thread's newest checkpoint belongs to this task."""
    values = state.values or {}
    return task_id in (values.get("task_id"), (values.get("assignment") or {}).get("task_id"))


RunInput = GraphInput | Command[Any] | None
"""What the graph of a task is invoked with; None to continue."""


def initial_input(row: Task) -> RunInput:
    """The message that a task begins with."""
    message = HumanMessage(row.message, additional_kwargs=naming(row.attachments))
    return {"messages": [message], "assignment": {"task_id": row.task_id}}


def resume_input(state: StateSnapshot, row: Task) -> RunInput:
    """The message, if the graph does not have it yet, a person's answer, or None."""
    if not is_of_task(state, row.task_id):
        return initial_input(row)
    answer = row.answer
    for question in state.interrupts:
        if answer and question.id == answer["interrupt_id"]:
            value = write_decisions(question.value, answer["value"])
            if isinstance(question.value, Mapping) and OF_AGENT in question.value:
                value = {"interrupt_id": question.value[OF_AGENT]["interrupt_id"], "value": value}
            return Command(resume={question.id: value})
    return None


def answer_events(state: StateSnapshot, row: Task) -> Sequence[Durable]:
    """What a person answered to a graph of one's own, a tool or a called agent; Segue's own nodes tell of theirs."""
    asked = next((each for each in state.interrupts if row.answer and each.id == row.answer["interrupt_id"]), None)
    if row.answer is None or asked is None:
        return []
    answer, question = row.answer["value"], read_question(asked.value)
    of_agent = question.get(OF_AGENT)
    asks = of_agent if isinstance(of_agent, Mapping) else {}
    by_segue = isinstance(asked.value, Mapping) and (BY_SEGUE in asked.value or CLIENT_CALLS in asked.value)
    if question["kind"] == INTERRUPT or (question["kind"] == "question" and not by_segue):
        text = str(answer.get("answer", answer) if isinstance(answer, Mapping) else answer)
        return [QuestionAnswered(task_id=row.task_id, question=str(question.get("question", "")), answer=text)]
    if read_review(asked.value) is None and not (asks and question["kind"] == "approval"):
        return []
    calls = question["calls"]
    verdicts = {verdict.index: verdict for verdict in settled(calls, answer)}
    return approval_events(calls, verdicts, str(asks.get("agent_id", row.agent_id)), task_id=row.task_id)


def question_of(interrupts: Iterable[Interrupt]) -> Interrupt | None:
    """What a person is asked, if a graph that stopped asks anything."""
    asked = next((asked for asked in interrupts if asked.value != {"kind": PAUSE}), None)
    return asked and Interrupt(value=read_question(asked.value), id=asked.id)


def asking_events(task_id: str, interrupt_id: str, question: Json) -> Sequence[Durable]:
    """That a person is asked, or that the task waits; nothing of a call that a conversation carries out."""
    ids: dict[str, Any] = {"task_id": task_id, "interrupt_id": interrupt_id}
    if question["kind"] == API_CALL:
        return []
    if question["kind"] == WAIT:
        return [WaitStarted(until=question["until"], name=question["event"], **ids)]
    if "question" not in question:
        return [ApprovalRequested(calls=question.get("calls", []), **ids)]
    more = {name: question[name] for name in (CLIENT_CALLS, "choices") if name in question}
    return [QuestionAsked(question=question["question"], **more, **ids)]


def describe_question(question: Json) -> str:
    """What a person is asked, or the task waits for, as a banner says it."""
    if "question" in question:
        return with_choices(question["question"], question.get("choices", ()))
    return "\n".join(f"{call['name']}: {written_arguments(call['arguments'])}" for call in question.get("calls", ()))


def wait_of(question: Json) -> Json:
    """The columns of a task that say what it waits for, if it asks no person."""
    return {"due": question["until"], "awaited": question["event"] or None} if question["kind"] == WAIT else {}


def stored_answer(question: Json, answer: Any, tools: Mapping[str, Tool]) -> Any:
    """A person's answer to a question in the form that the graph is resumed with; `tools` are those of an approval."""
    if calls := question.get(CLIENT_CALLS):
        return {"results": read_results(answer, calls)}
    if question["kind"] == WAIT:
        raise InvalidAnswer("The task is not waiting for a person. {what}", what=question["question"])
    if question["kind"] != "approval":
        reply = read_answer(answer)
        return reply.json() if question["kind"] == "question" else reply.text
    verdicts = check_answer(question["calls"], tools, answer)
    given = [verdict.model_dump(mode="json", exclude_none=True, exclude={"by"}) for verdict in verdicts]
    return {"verdicts": given, VERSIONS: versions_of(question["calls"])}


_UNFIT = (ValueError, TypeError, LookupError, AttributeError, NotImplementedError)
"""What a channel or reducer makes of values that are not of its kind."""


async def state_at(
    graph: CompiledStateGraph[Any, Any, Any, Any], config: RunnableConfig, subgraphs: bool = False
) -> StateSnapshot:
    """The state of a thread, read in whole."""
    thread_id = str(config["configurable"]["thread_id"])
    try:
        state = await graph.aget_state(config, subgraphs=subgraphs)
        messages: list[AnyMessage] = state.values.get("messages", [])
    except _UNFIT as error:
        raise DamagedCheckpoint(thread_id, f"its values do not fit: {type(error).__name__}") from error
    if not all(issubclass(kind, BaseMessage) for kind in set(map(type, messages))):
        raise DamagedCheckpoint(thread_id, "its messages cannot be read")
    return state


def recursion_limit(agent: Agent) -> int:
    """The most nodes that a task of the agent may run, in each graph."""
    return 20 + 4 * agent.max_iteration + 2 * agent.budget.tool_calls


async def language_by_now(graph: CompiledStateGraph[Any, Any, Any, Any], row: Task) -> str:
    """The language of a task as its graph has it: that of a conversation may be its first message's."""
    try:
        state = await state_at(graph, {"configurable": {"thread_id": row.session_id}}, subgraphs=True)
    except SegueError:
        return row.reply_language
    nested = (task.state.values for task in state.tasks if isinstance(task.state, StateSnapshot))
    known = [values for values in (*nested, state.values) if values.get("task_id") == row.task_id]
    return next((str(values["language"]) for values in known if values.get("language")), row.reply_language)


def thread_config(thread_id: str) -> RunnableConfig:
    """LangGraph's way to name a thread."""
    return {"configurable": {"thread_id": thread_id}}


def config_of(place: Place) -> RunnableConfig:
    """LangGraph's way to name a snapshot."""
    return {
        "configurable": {
            "thread_id": place.session_id,
            "checkpoint_ns": place.inside,
            "checkpoint_id": place.checkpoint_id,
        }
    }


async def close_turn(
    graph: CompiledStateGraph[Any, Any, Any, Any],
    config: RunnableConfig,
    state: StateSnapshot,
    row: Task,
    calls: Sequence[Call],
    partial: str,
    result: Json,
) -> None:
    """End the turn of a task that will not continue, so that the thread can take the next message.

    `calls` are the task's in the ledger, all settled. Their exchange and `partial`, marked as interrupted, follow what
    the history has. `state` is the thread's, and belongs to the task.
    """
    values = state.values
    if values.get("result") and not state.tasks:
        return  # it had ended, or was closed before
    mark = task_text("interrupted", row.language or values.get("language") or "en")
    closing = AIMessage(f"{partial}\n\n{mark}".strip(), additional_kwargs={"interrupted": True})
    messages = values.get("messages", [])
    added = [HumanMessage(note, additional_kwargs={STEER: True}) for note in row.notes[len(additions(messages)) :]]
    update = {
        "messages": [*added, *_missing(messages, row, calls), closing],
        "result": result,
        "assignment": None,
    }
    await graph.aupdate_state(config, {**update, "task_id": row.task_id}, as_node="FINISH")


def _missing(messages: Sequence[AnyMessage], row: Task, calls: Sequence[Call]) -> list[AnyMessage]:
    """The exchanges of the calls that the history does not have yet, a recursion's or step's together."""
    known = [m.additional_kwargs.get("key") for m in messages if isinstance(m, ToolMessage)]
    rounds: dict[str, list[Settled]] = {}
    for place, call in enumerate(calls):
        key = CallKey(row.task_id, call.scope, call.idx)
        if asdict(key) not in known:
            call_id = f"{row.task_id[:8]}-{place}"
            settled = _settled(call, call_id, key, row.language or "en")
            rounds.setdefault(call.scope, []).append(settled)
    return [message for made in rounds.values() for message in exchange("", made)]


def _settled(call: Call, call_id: str, key: CallKey, language: str) -> Settled:
    """A call as the history keeps it; of one with a hidden result, nothing that a model may not see."""
    outcome = call.outcome or {}
    arguments = {} if outcome.get(HIDDEN) else call.arguments
    return Settled(call_id, call.name, arguments, seen_outcome(outcome, key, language), key)


def usage_by_events(known: Projection, agent: Agent | None) -> Json:
    """What a task used until now, in the form of its result; without its agent, costs are in US dollars."""
    usage = known.usage.as_dict()
    if usage["cost"]:
        usage["currency"] = agent.prices.currency if agent and agent.prices else USD
    return usage


def cancelled_result(
    row: Task, partial: str, calls: Sequence[Call], unknown: Sequence[Json], known: Projection, agent: Agent | None
) -> Json:
    """The result of a task that was cancelled: what it thought, called and used until then, from its log and ledger."""
    budget, usage = agent.budget if agent else Budget(), usage_by_events(known, agent)
    history = [
        {
            "step": step,
            "phase": "execution",
            "action": call.name,
            "result": truncate_result(CallResult.without_labels(call.outcome or {}), budget.result_chars),
            "description": "",
        }
        for step, call in enumerate(calls, start=1)
    ]
    result = compose_result(
        row.mode,
        partial,
        preamble=partial.removesuffix(without_said(known.said, partial)),
        history=history,
        reasoning="\n".join(text for text in known.thoughts if text),
        usage=usage,
    )
    model = next(reversed(known.models), "")
    return {
        **result,
        "success": False,
        "status": TaskStatus.CANCELLED.value,
        "unknown_outcomes": [*unknown],
        "model": model,
    }


def stopped(row: Task) -> Json:
    """The result of a task that was stopped before it had one."""
    return {"success": False, "answer": "", "mode": row.mode, "status": TaskStatus.PAUSED.value}


# What a person said in a session, whether it was here that they did, and what else its prompts had.


class Prompts(Protocol):
    """What the prompts of tasks have that nobody said in their session."""

    def reads_memory(self, mode: str) -> bool:
        """Whether the tasks of a mode read memory files."""
        ...

    def descriptions(self, task: Task) -> Sequence[PromptText]:
        """What others wrote of the tools of a task."""
        ...


MEMORY = PromptText("", trusted=False, kind="memory")
"""What an earlier task read of memory files: its answer may say it."""


async def said_in(tasks: Tasks, thread_id: str, prompts: Prompts, until: float = math.inf) -> Sequence[PromptText]:
    """The messages of a session with their files, and what was added to them, oldest first.

    `until` is when the last task that counts was created.
    """
    rows = await tasks.list(thread_id=thread_id, limit=-1)
    counted = await _with_callers([row for row in reversed(rows) if row.created_at <= until], tasks)
    last = counted[-1].task_id if counted else ""
    answers = await _answers(counted, tasks)
    said = [each for row in counted for each in await _said(row, tasks, answers)]
    earlier = [row for row in counted if row.task_id != last]
    return [*said, *_memory(earlier, prompts), *_descriptions(counted, prompts)]


def _memory(rows: Iterable[Task], prompts: Prompts) -> Sequence[PromptText]:
    """What earlier tasks read of memory files."""
    return [MEMORY] if any(map(prompts.reads_memory, {row.ran_mode for row in rows})) else []


def _descriptions(rows: Iterable[Task], prompts: Prompts) -> Iterable[PromptText]:
    """What others wrote of the tools of these tasks: their answers and the history may say it."""
    return dict.fromkeys(each for row in rows for each in prompts.descriptions(row))


class SaidSoFar:
    """What was said in the session of a task that runs; what was said before it is read once."""

    def __init__(
        self,
        tasks: Tasks,
        task: Task,
        notes: Callable[[str], Awaitable[Sequence[str]]],
        prompts: Prompts,
    ) -> None:
        self._tasks = tasks
        self._task = task
        self._notes = notes
        self._prompts = prompts
        self._before: Sequence[PromptText] | None = None

    async def __call__(self) -> Sequence[PromptText]:
        if self._before is None:
            rows = await self._tasks.list(thread_id=self._task.session_id, limit=-1)
            whole = await _with_callers([*reversed(rows)], self._tasks)
            others = [row for row in whole if row.task_id != self._task.task_id]
            answers = await _answers(others, self._tasks)
            said = [each for row in others for each in await _said(row, self._tasks, answers)]
            described = _descriptions([*others, self._task], self._prompts)
            self._before = [*said, *_memory(others, self._prompts), *described]
        task = replace(self._task, notes=[*await self._notes(self._task.task_id)])
        answers = await self._tasks.answers(task_id=task.task_id)
        return [*self._before, *await _said(task, self._tasks, answers)]


async def _with_callers(rows: Sequence[Task], tasks: Tasks) -> Sequence[Task]:
    """A session's tasks behind those that had been begun in the session which called it: what they know, it knows."""
    found = [*rows]
    while found and found[0].called_by:
        caller = await tasks.get(found[0].called_by)
        above = await tasks.list(thread_id=caller.session_id, limit=-1)
        found = [*(row for row in reversed(above) if row.created_at <= caller.created_at), *found]
    return found


async def _answers(rows: Sequence[Task], tasks: Tasks) -> Mapping[str, Sequence[str]]:
    """What persons answered to the questions of tasks, by task."""
    found: dict[str, Sequence[str]] = {}
    for thread_id in dict.fromkeys(row.session_id for row in rows):
        found |= await tasks.answers(thread_id=thread_id)
    return found


async def _said(row: Task, tasks: Tasks, answers: Mapping[str, Sequence[str]]) -> Sequence[PromptText]:
    """What a person said in a task: its message, what they added, and their answers, not what they were asked."""
    answered = [PromptText(text) for text in answers.get(row.task_id, ())]
    if row.called_by:  # another agent wrote the message, from what its own session knows
        return [*(PromptText(note) for note in row.notes), *answered]
    own, files = await _is_own(row, tasks), tuple(read_attachment(form) for form in row.attachments)
    known = ReplyOptions.of(row.reply_options).known
    return [PromptText(row.message, own, files), *(PromptText(text, own) for text in (*row.notes, *known)), *answered]


async def _is_own(row: Task, tasks: Tasks) -> bool:
    """Whether a message was sent here: a copy has its original, with the same words; that of an import has none."""
    while row.copy_of:
        try:
            original = await tasks.get(row.copy_of)
        except UnknownTask:
            return False
        if original.message != row.message or not set(row.notes) <= set(original.notes):
            return False
        row = original
    return True


# What follows a task's end: what its user said of themselves is remembered, and calls of its model for that.

MOST_KNOWN = 1_000
"""Tokens of what is known of a user in a prompt; beyond them the oldest is left out."""
MOST_TITLED = 2_000
"""Characters of a message and of its answer from which a title is made."""
MOST_FACTS = 20
"""Facts of one message."""


async def known_facts(memory: MemoryFolder, user_id: str) -> list[str]:
    """What a user said of themselves, as far as prompts have it; nothing where it cannot be read."""
    try:
        facts = await memory.facts(user_id=user_id)
    except MemoryUnavailable as error:
        logger.warning("What user %s said of themselves cannot be read: %s", user_id, error)
        return []
    kept: list[str] = []
    used = 0
    for fact in reversed(facts):
        used += tokens(fact.text)
        if used > MOST_KNOWN:
            break
        kept.append(fact.text)
    return kept[::-1]


class _Found(BaseModel):
    subject: str
    text: str


class _Facts(BaseModel):
    facts: list[_Found]


class Afterwards:
    """What is done once a task has its result; calls of a model are made in the background."""

    def __init__(
        self, storage: Storage, registry: Registry, memory: MemoryFolder, spend: SpendControl, clock: Any
    ) -> None:
        self._storage = storage
        self._registry = registry
        self._memory = memory
        self._spend = spend
        self._clock = clock
        self._under_way: set[asyncio.Task[None]] = set()

    async def remember(self, row: Task) -> None:
        """Keep by rules what the user says of themselves; before the end is stored, so that nothing is lost."""
        if self._way(row) == "rules":
            texts = [row.message, *(await self._storage.tasks.get(row.task_id)).notes]
            await self._keep(row, [each for text in texts for each in find_statements(text)])

    def begin(self, row: Task) -> None:
        """Begin what a model is asked after the task."""
        if self._way(row) == "model":
            self.start(self._ask_what_to_remember(row))

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something in the background; closing waits for it."""
        task = asyncio.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def close(self) -> None:
        """Wait until nothing is under way."""
        await asyncio.gather(*self._under_way, return_exceptions=True)

    def _way(self, row: Task) -> str:
        """How the message's facts are found: rules, model or off."""
        agent = self._registry.of(row).get(row.agent_id)
        if agent is None or not (is_known_user(row.origin, row.user_id) and is_own_message(row.origin)):
            return "off"
        if row.mode == MODE or not ReplyOptions.of(row.reply_options).remember:
            return "off"  # the message of a conversation is about its simulated user
        if agent.remember == "model" and not self._registry.model_for(agent, row.model).is_language_model:
            return "rules"
        return agent.remember

    async def _keep(self, row: Task, statements: Sequence[Statement]) -> None:
        if not statements:
            return
        try:
            await self._memory.remember(statements, row.task_id, self._clock(), user_id=row.user_id)
        except MemoryUnavailable as error:
            logger.warning("What task %s says of its user was not remembered: %s", row.task_id, error)

    async def _ask_what_to_remember(self, row: Task) -> None:
        """Have the model pick what is remembered: nothing but the user's own words can be picked."""
        own = " ".join("\n".join(own_sentences(row.message)).split())
        if not own:
            return
        agent, language = self._registry.of(row).agent(row.agent_id), row.reply_language
        try:
            known = [fact.subject for fact in await self._memory.facts(user_id=row.user_id)]
        except MemoryUnavailable as error:
            logger.warning("What task %s says of its user was not remembered: %s", row.task_id, error)
            return
        system = render("remember", language, subjects=", ".join(known) or "-")
        request = ModelRequest(
            purpose="extract", messages=[SystemMessage(system), HumanMessage(own)], schema=_Facts.model_json_schema()
        )
        if (text := await self.ask(row, agent, request)) is None:
            return
        try:
            found = _Facts.model_validate(read_object(text)).facts[:MOST_FACTS]
        except (UnreadableReply, ValidationError) as error:
            logger.warning("The model did not say what to remember of task %s: %s", row.task_id, error)
            return
        said = [Statement(" ".join(f.subject.lower().split()), " ".join(f.text.split())) for f in found]
        await self._keep(
            row, [each for each in said if each.subject and 0 < len(each.text) <= LONGEST and each.text in own]
        )

    async def title(self, row: Task) -> str:
        """A title for the session of a task, from its message and answer; empty where no model gives one."""
        agent = self._registry.of(row).get(row.agent_id)
        if agent is None or not self._registry.model_for(agent, row.model).is_language_model:
            return ""
        answer = str((row.result or {}).get("answer", ""))
        data = json.dumps({"message": row.message[:MOST_TITLED], "answer": answer[:MOST_TITLED]}, ensure_ascii=False)
        messages = [SystemMessage(render("title", row.reply_language)), HumanMessage(data)]
        text = await self.ask(row, agent, ModelRequest(purpose="summary", messages=messages)) or ""
        return title_of(text.strip().partition("\n")[0].strip(" \"'“”「」《》#*."))

    async def ask(self, row: Task, agent: Agent, request: ModelRequest) -> str | None:
        """The model's reply to a call after a task, counted in the task's cost; None where there is none.

        It may take the agent's `read_timeout` in all: closing waits for it.
        """
        try:
            model = self._registry.of(row).model_for(agent, row.model)
            spending = self._spend.of(row.session_id, row.user_id)
            room = spending and await spending.reserve(row.task_id, agent, model, request, self._clock())
            if isinstance(room, Reached):
                logger.warning("No call is made after task %s: the limit %s is reached.", row.task_id, room.name)
                return None
            try:
                async with asyncio.timeout(agent.read_timeout):
                    reply = await whole_reply(model, request)
            except TimeoutError:
                if room:
                    await room.settle(ModelReply(""))
                seconds = f"{agent.read_timeout:g}"
                logger.warning("A call after task %s took longer than %s s and was cancelled.", row.task_id, seconds)
                return None
            except ModelError:
                if room:
                    room.release()
                raise
            if room:
                await room.settle(reply)
            await self._storage.tasks.move(row.task_id, None, used=usage_of(reply, agent.prices, model))
        except SegueError as error:
            logger.warning("A call after task %s failed: %s", row.task_id, error)
            return None
        return reply.text
