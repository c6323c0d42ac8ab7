"""A task that runs in this process: its mode, its turn among the others, its state, and how it is stopped."""

import asyncio
import math
import re
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import Any, Protocol

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import RunControl
from langgraph.types import Checkpointer, Command, Interrupt, StateSnapshot
from pydantic import Field, create_model

from ..checkpoints.tasks import Tasks
from ..core.actor import SEGUE
from ..core.agents import Agent, Budget
from ..core.calls import (
    API_CALL,
    CLIENT_CALLS,
    HIDDEN,
    PAUSE,
    WAIT,
    CallKey,
    Tool,
    read_answer,
    read_question,
    read_results,
)
from ..core.context import AppContext, GivenAgent, PromptText, RunContext
from ..core.errors import (
    ConfigurationError,
    DamagedCheckpoint,
    InvalidAnswer,
    SegueError,
    TooManyTasks,
    UnknownMode,
    UnknownTask,
)
from ..core.events import (
    ApprovalRequested,
    Durable,
    Event,
    NotesMoved,
    PauseReason,
    QuestionAsked,
    WaitStarted,
)
from ..core.flows import FlowConfig
from ..core.message import naming, read_attachment
from ..core.records import Call, Json, Task
from ..core.reviews import write_decisions
from ..core.spend import USD, Owner, Quotas
from ..core.timeline import Place
from ..graphs.chat import MODES, UNLISTED, build_chat
from ..graphs.controller import build_controller
from ..graphs.controller_executor import build_controller_executor
from ..graphs.conversation import build_conversation
from ..graphs.direct import build_direct
from ..graphs.lifecycle import MOST_NODES, build_lifecycle
from ..graphs.plan import build_plan
from ..graphs.plan_react import build_plan_react
from ..graphs.react import build_react
from ..nodes.calls import written_arguments
from ..nodes.chat import AUTO, ModeGraph
from ..nodes.context import STEER, NodeRuntime, Settled, exchange, node_context, truncate_result
from ..nodes.permission import VERSIONS, check_answer, seen_outcome, versions_of
from ..nodes.task import GraphInput, TaskOutput, additions, compose_result
from ..prompts.catalogue import phrase
from ..registry import EXAMPLES, AgentGraph, Registry
from .reply import Projection, ReplyText

# Modes of one's own beside the built-in ones, and graphs with agents of one's own.

_MODE = re.compile(r"[^\W\d]\w{0,63}")
_NODES = ("INIT", "SELECT_MODE", "FINISH")
_BUILT: Mapping[str, Callable[[], AgentGraph[Any, Any, Any]]] = {
    "controller": build_controller,
    "controller_executor": build_controller_executor,
    "conversation": build_conversation,
    "direct": build_direct,
    "react": build_react,
    "plan": build_plan,
    "plan_react": build_plan_react,
    "lifecycle": build_lifecycle,
}


MOST_STEPS = 10_007
"""Steps that a mode of one's own may take: LangGraph's default, whatever the agent's budget."""

_LONG = ("lifecycle", "conversation", "controller", "controller_executor")
"""Graphs whose runs take many nodes."""


def mode_graphs(modes: Mapping[str, Any]) -> dict[str, ModeGraph]:
    """Graphs of one's own, compiled where they are not; a flow's configuration becomes the graph of its mode.

    Raises:
        ConfigurationError: a name is taken, or what it names is not a graph.
    """
    graphs: dict[str, ModeGraph] = {}
    for name, given in modes.items():
        if name in (*MODES, *UNLISTED, AUTO, *_NODES) or not _MODE.fullmatch(name):
            raise ConfigurationError(
                "A mode cannot be called {name}: use a name of letters that is not a built-in mode.", name=name
            )
        graph = build_controller(given.model_copy(update={"name": name})) if isinstance(given, FlowConfig) else given
        if not isinstance(graph, StateGraph | CompiledStateGraph):
            raise ConfigurationError("The mode {name} is not a LangGraph graph: {graph}.", name=name, graph=repr(graph))
        compiled = graph.compile() if isinstance(graph, StateGraph) else graph
        limited = isinstance(given, FlowConfig) or "recursion_limit" in (compiled.config or {})
        graphs[name] = compiled if limited else compiled.with_config(recursion_limit=MOST_STEPS)
    return graphs


@lru_cache(maxsize=16)
def _compiled(*modes: tuple[str, ModeGraph]) -> ModeGraph:
    return build_chat(dict(modes)).compile()


def chat_graph(modes: Mapping[str, ModeGraph]) -> ModeGraph:
    """The chat graph over these modes, without a checkpointer: compiling it takes half the time of opening an app."""
    return _compiled(*modes.items())


def wired_graph(
    registry: Registry, agent_id: str, modes: Mapping[str, ModeGraph]
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """A chat graph that carries its services with it; within a task, those of the task."""
    chat = chat_graph(modes)

    async def segue(state: GraphInput, runtime: NodeRuntime) -> TaskOutput:
        work, given = node_context(runtime), list(state["messages"])
        await registry.prepare(registry.agent(agent_id))
        context = AppContext.carrying(work.services, **{**work.context.model_dump(), "agent": agent_id})
        out = await chat.ainvoke({"messages": given}, context=context)
        return {"messages": out["messages"][len(given) :], "result": out["result"]}

    graph = AgentGraph(TaskOutput, RunContext, input_schema=GraphInput, output_schema=TaskOutput)
    graph.registry = registry
    graph.add_node("segue", segue)
    graph.add_edge(START, "segue")
    graph.add_edge("segue", END)
    return graph.compile()


def graph(
    name: str = "chat",
    *,
    agents: Iterable[Agent] = (),
    modes: Mapping[str, Any] | None = None,
    checkpointer: Checkpointer = None,
) -> CompiledStateGraph[Any, RunContext, Any, Any]:
    """One of Segue's graphs with agents of your own, for `langgraph.json`, `invoke` or a graph of your own.

    The first of the agents is the default one; the examples follow. `name` is `chat` or a built-in mode, and `modes`
    are graphs by name beside the built-in ones, for `chat`. Nothing is opened or connected here.

    Raises:
        UnknownMode: there is no graph of that name.
        UnknownTool, ConfigurationError: an agent or a mode is wrong.
    """
    if name not in (*_BUILT, "chat"):
        raise UnknownMode(name, ["chat", *_BUILT])
    all_modes = {**MODES, **mode_graphs(modes or {})}
    built = build_chat(all_modes) if name == "chat" else _BUILT[name]()
    own = list(agents)
    built.registry, built.own_agents = _registry(own), tuple(map(GivenAgent, own))
    built.context_schema = _context_of(built.registry)
    compiled = built.compile(checkpointer=checkpointer, name=name)
    return compiled.with_config(recursion_limit=MOST_NODES) if name in _LONG else compiled


def _registry(own: Sequence[Agent]) -> Registry:
    names = {agent.agent_id for agent in own}
    registry = Registry([*own, *(agent for agent in EXAMPLES if agent.agent_id not in names)])
    for agent in own:
        registry.register(agent)
    return registry


def _context_of(registry: Registry) -> type[RunContext]:
    """The context whose form in Studio offers these agents."""
    about = f"id of an agent; empty: {registry.agent('').agent_id}"
    field = Field(default="", description=about, json_schema_extra={"enum": ["", *registry]})
    return create_model("RunContext", __base__=RunContext, agent=(str, field))


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
        """Count a task as it starts; refuse it where it would have to wait and the queue is full. None runs elsewhere.

        Raises:
            TooManyTasks, OverQuota.
        """
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
        waiting = [*(other for _, other in self._waiting()), *(other for other, waits in self._starting if waits)]
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

    def _waiting(self) -> Iterator[tuple[Slot, Owner]]:
        return (entry for queue in self._queues.values() for entry in queue if not entry[0].done())

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
            return Command(resume={question.id: write_decisions(question.value, answer["value"])})
    return None


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
        choices = [f"- {choice}" for choice in question.get("choices", ())]
        return "\n".join([question["question"], *choices])
    return "\n".join(f"{call['name']}: {written_arguments(call['arguments'])}" for call in question.get("calls", ()))


def wait_of(question: Json) -> Json:
    """The columns of a task that say what it waits for, if it asks no person."""
    return {"due": question["until"], "awaited": question["event"] or None} if question["kind"] == WAIT else {}


def stored_answer(question: Json, answer: Any, tools: Mapping[str, Tool]) -> Any:
    """A person's answer to a question in the form that the graph is resumed with; `tools` are those of an approval.

    Raises:
        InvalidAnswer: it does not fit the question.
    """
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
    """The state of a thread, read in whole.

    Raises:
        DamagedCheckpoint: it cannot be read, or holds what no message is.
    """
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
    mark = phrase("interrupted", row.language or values.get("language") or "en")
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
            "result": truncate_result(call.outcome or {}, budget.result_chars),
            "description": "",
        }
        for step, call in enumerate(calls, start=1)
    ]
    result = compose_result(
        row.mode,
        partial,
        history=history,
        reasoning="\n".join(text for text in known.thoughts if text),
        usage=usage,
    )
    model = next(reversed(known.models), "")
    return {**result, "success": False, "status": "cancelled", "unknown_outcomes": [*unknown], "model": model}


def stopped(row: Task) -> Json:
    """The result of a task that was stopped before it had one."""
    return {"success": False, "answer": "", "mode": row.mode, "status": "paused"}


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
    counted = [row for row in reversed(rows) if row.created_at <= until]
    last = counted[-1].task_id if counted else ""
    said = [each for row in counted for each in await _said(row, tasks)]
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
            others = [row for row in reversed(rows) if row.task_id != self._task.task_id]
            said = [each for row in others for each in await _said(row, self._tasks)]
            described = _descriptions([*others, self._task], self._prompts)
            self._before = [*said, *_memory(others, self._prompts), *described]
        task = replace(self._task, notes=[*await self._notes(self._task.task_id)])
        return [*self._before, *await _said(task, self._tasks)]


async def _said(row: Task, tasks: Tasks) -> Sequence[PromptText]:
    own, files = await _is_own(row, tasks), tuple(read_attachment(form) for form in row.attachments)
    return [PromptText(row.message, own, files), *(PromptText(note, own) for note in row.notes)]


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
