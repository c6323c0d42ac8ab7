"""The context of a run: its JSON fields, and the services behind them, ids among them."""

import time
import uuid
from asyncio import AbstractEventLoop, Timeout, get_running_loop, timeout
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, NewType, NoReturn, Protocol

from pydantic import BaseModel, Field, PrivateAttr

from .agents import Agent, AgentTool
from .approval import Grant
from .calls import CallKey, CallResult, Executor, Ledger, Tool
from .conversation import Participants
from .errors import AppClosed, ConfigurationError, FileUnavailable, listed
from .events import Event
from .message import Attachment, ReplyOptions
from .models import Model, Renderings, SentPrompts, Usage
from .provenance import SourcedText, SourceKind
from .spend import Spending
from .task import ANYBODY, LanguageChoice


@dataclass(frozen=True, kw_only=True)
class MemoryEntry:
    """An entry that a round adds to a memory file. Entries with the same `key` are the same entry."""

    key: str
    task_id: str
    round: int
    branch: str
    text: str
    created_at: float
    """Unix seconds."""


@dataclass(frozen=True)
class PromptText:
    """A message of the session with its files, or another text that prompts have, by its `kind`.

    `trusted`: it is the person's own, not one that was imported. `name` is the tool of a description.
    """

    text: str
    trusted: bool = True
    files: tuple[Attachment, ...] = ()
    kind: SourceKind = "user"
    name: str = ""


def descriptions_of(tools: Iterable[Tool]) -> list[PromptText]:
    """What others wrote of these tools: every prompt has it, so it was read before anything else."""
    return [
        PromptText(tool.foreign_text, False, kind="description", name=tool.name) for tool in tools if tool.foreign_text
    ]


class Memory(Protocol):
    """Files of what was done; a name is a relative path such as `logs.md`."""

    async def append(self, name: str, entry: MemoryEntry) -> None:
        """Add the entry to the file; one whose key is there already changes nothing.

        Raises:
            MemoryUnavailable: with the reason, which the controller sees.
        """
        ...

    async def read(self, names: Sequence[str], goal: str, tokens: int) -> str:
        """The newest entries and those relevant to the goal, as Markdown of at most so many tokens.

        A file that does not exist is empty.

        Raises:
            MemoryUnavailable.
        """
        ...

    async def missing(self, names: Sequence[str]) -> Sequence[str]:
        """Those of the files that do not exist.

        Raises:
            MemoryUnavailable.
        """
        ...


ThreadId = NewType("ThreadId", str)
TaskId = NewType("TaskId", str)
TraceId = NewType("TraceId", str)


class Ids:
    """Mints ids: uuid4 here, a counted sequence in tests."""

    def task(self) -> TaskId:
        return TaskId(str(uuid.uuid4()))

    def trace(self) -> TraceId:
        return TraceId(str(uuid.uuid4()))

    def origin(self) -> str:
        """The part of the idempotency keys of a task's calls that forks keep."""
        return str(uuid.uuid4())

    def thread(self) -> ThreadId:
        return ThreadId(f"s-{uuid.uuid4().hex[:12]}")


@dataclass(frozen=True, eq=False)
class GivenAgent:
    """An agent that a run's context holds itself, instead of the id of a registered one."""

    agent: Agent


class RunContext(BaseModel):
    """Options of a run; empty means the default. Studio shows these fields as a form.

    `agent` may also be an `Agent`, which is registered nowhere.
    """

    agent: str = Field(default="", description="id of a registered agent; empty: the first one, travel")
    mode: str = Field(
        default="", description="direct, react, plan, plan_react, lifecycle, controller or auto; empty: the agent's own"
    )
    user_id: str = Field(default=ANYBODY, description="whose preferences apply")
    model: str = Field(default="", description="openai:<name> or offline; empty: the agent's own")
    language: LanguageChoice = Field(default="", description="zh or en; empty: that of the message")
    _given_agent: GivenAgent | None = PrivateAttr(default=None)

    def __init__(self, *, agent: str | Agent = "", **fields: Any) -> None:
        if unknown := [name for name in fields if name not in type(self).model_fields]:
            known = [*type(self).model_fields]
            raise ConfigurationError(
                "The context of a run has no field '{name}'; use {known}.",
                name=unknown[0],
                known=listed(get_close_matches(unknown[0], known, 1) or known),
            )
        given = GivenAgent(agent) if isinstance(agent, Agent) else None
        super().__init__(agent=given.agent.agent_id if given else agent, **fields)
        self._given_agent = given

    @property
    def given_agent(self) -> GivenAgent | None:
        return self._given_agent


class AppContext(RunContext):
    """The context as the app passes it: the services ride along and stay out of the schema."""

    _services: "Services | None" = PrivateAttr(default=None)

    @classmethod
    def carrying(cls, services: "Services", **fields: Any) -> "AppContext":
        context = cls(**fields)
        context._services = services
        return context

    @property
    def services(self) -> "Services | None":
        return self._services


class Agents(Protocol):
    """The agents of an app, with their models and tools."""

    def agent(self, name: str) -> Agent: ...

    def model_for(self, agent: Agent, override: str = "") -> Model: ...

    def tools_for(self, agent: Agent) -> Mapping[str, Tool]: ...

    def tools_in(self, agent: Agent, mode: str) -> Mapping[str, Tool]: ...

    def tools_named(self, names: Sequence[str], agent: Agent, mode: str) -> Mapping[str, Tool]: ...

    @property
    def auto_approves(self) -> bool:
        """Whether the configuration of a conversation may approve calls of tools."""
        ...

    def accepted(self, agent: Agent, override: str = "") -> Collection[str]: ...


async def _no_entries(of: str) -> Sequence[Any]:
    return ()


async def _nothing_known() -> Sequence[PromptText] | None:
    return None


async def _nothing_used() -> Usage:
    return {}


async def _no_files(digest: str) -> bytes:
    raise FileUnavailable("missing", digest)


async def _not_recorded(source: str, events: Sequence[dict[str, Any]]) -> None: ...


def _unchanged(events: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [dict(event) for event in events]


@dataclass
class ModelCalls:
    """The model calls of a run that are under way. A stop ends them at once, since they have no effect."""

    stopped: bool = False
    _limits: set[Timeout] = field(default_factory=set)

    @asynccontextmanager
    async def within(self, seconds: float) -> AsyncIterator[Timeout]:
        """Make a call, which a TimeoutError ends after these seconds, or when the run is stopped."""
        async with timeout(seconds) as limit:
            self._limits.add(limit)
            try:
                yield limit
            finally:
                self._limits.discard(limit)

    def stop(self) -> None:
        """End the calls; no other one begins."""
        self.stopped = True
        for limit in self._limits:
            if not limit.expired():
                limit.reschedule(0)


@dataclass(kw_only=True)
class Services:
    """Everything outside the state that a node may use."""

    agents: Agents
    participants: Participants
    emit: Callable[[Event], None]
    memory: Memory
    ledger: Ledger | None = None
    executor: Executor | None = None
    """What carries out the calls of the task; None: the tools here."""
    graph_executor: Executor | None = None
    """What carries out those of a graph's own tools, which read its state; None: the tools here."""
    ids: Ids = field(default_factory=Ids)
    clock: Callable[[], float] = time.time
    began: float = 0.0
    """When this run began, by the clock."""
    notes: Callable[[str], Awaitable[Sequence[str]]] = _no_entries
    """What a person added to the unfinished task, oldest first."""
    subtasks: Callable[[str], Awaitable[Sequence[Mapping[str, Any]]]] = _no_entries
    """The subtasks that were added to a lifecycle run from outside, oldest first."""
    said: Callable[[], Awaitable[Sequence[PromptText] | None]] = _nothing_known
    """The messages of the session and what was added to them; None where nothing remembers them."""
    permissions: Callable[[str], Awaitable[Sequence[Grant]]] = _no_entries
    """The calls of an agent that a person allowed in this task or session."""
    files: Callable[[str], Awaitable[bytes]] = _no_files
    """The content of a message's file, by its digest."""
    pausing: Callable[[], bool] = lambda: False
    """Whether a pause is requested."""
    cancelled: Callable[[], bool] = lambda: False
    """Whether the task is being cancelled."""
    model_calls: ModelCalls = field(default_factory=ModelCalls)
    announced: Callable[[Iterable[Mapping[str, Any]]], list[dict[str, Any]]] = _unchanged
    """A node's durable events as they are stored: a part of a task says which one it is."""
    record: Callable[[str, Sequence[dict[str, Any]]], Awaitable[None]] = _not_recorded
    """Stores durable events of a node that still runs, those of one source once; without the app they are left out."""
    earlier: Sequence[Any] = ()
    """The messages of the session before the task's, of which a mode is given those that fit."""
    client_tools: Mapping[str, Tool] = field(default_factory=dict)
    """Those that the task's client carries out."""
    reply_options: ReplyOptions = field(default_factory=ReplyOptions)
    """What the task's message asks of its reply."""
    agent_calls: "AgentCalls | None" = None
    """Carries out the calls of tools that are agents; None: they need the app."""
    spending: Spending | None = None
    """The limits of what its model calls may use; None: there are none."""
    prompts: SentPrompts = field(default_factory=SentPrompts)
    """The last prompts of this run."""
    renderings: Renderings = field(default_factory=Renderings)
    """Texts and sizes of what the state holds."""
    entered: dict[object, SourcedText] = field(default_factory=dict)
    """What entered the session, as it was read in this run."""
    part_of: Mapping[str, Any] = field(default_factory=dict)
    """The task that a graph joins if it was given no assignment; empty: it begins its own."""
    used: list[Usage] = field(default_factory=list)
    """What each model call of this run used."""
    used_before: Callable[[], Awaitable[Usage]] = _nothing_used
    """What the task used in all, as far as it is stored."""
    own_nodes: set[str] = field(default_factory=set)
    """The checkpoint namespaces of Segue's nodes within a part: their events say what they do, not their messages."""
    within: tuple[str, ...] = ()
    """The modes that the run is in, the outermost first."""

    def __post_init__(self) -> None:
        self.began = self.began or self.clock()

    def agent(self, name: str) -> Agent:
        return self.agents.agent(name)

    def model_for(self, agent: Agent, override: str = "") -> Model:
        return self.agents.model_for(agent, override)

    def tools_for(self, agent: Agent) -> Mapping[str, Tool]:
        own = self.agents.tools_for(agent)
        return {**own, **self.client_tools} if self.client_tools else own


@dataclass(frozen=True)
class Share:
    """The part that a call of an agent has of what is left of its caller's budget.

    `calls` were decided together and have no result, this one among them: each has its place in the budget. Of those
    that run together this one is number `place` from 0, and has one of `parts`. All of that follows from the state, so
    that a call which is made again has the same.
    """

    calls: Collection[CallKey] = ()
    place: int = 0
    parts: int = 1

    def of(self, left: int) -> int:
        """The calls that are its own of so many."""
        whole, more = divmod(max(left, 0), self.parts)
        return whole + (self.place < more)


@dataclass(frozen=True)
class Surrounding:
    """The task around foreign code (a tool, or a graph of one's own).

    It has the context for Segue's graphs in that code, and the task's event loop.
    """

    context: AppContext
    outer: "Services"
    """Those of the node that runs it."""
    loop: AbstractEventLoop
    later: bool = False
    """Whether the result of a call may come with a later call."""
    share: Share = Share()
    """That of the call."""


SURROUNDING: ContextVar[Surrounding | None] = ContextVar("segue_surrounding", default=None)
"""Set while a tool or a foreign graph runs."""


@contextmanager
def surrounding(context: AppContext, outer: "Services", later: bool = False, share: Share = Share()) -> Iterator[None]:
    """Run a tool or a graph of somebody else: Segue's graphs in it have the context, on this loop."""
    before = SURROUNDING.set(Surrounding(context, outer, get_running_loop(), later, share))
    try:
        yield
    finally:
        SURROUNDING.reset(before)


@dataclass(frozen=True, kw_only=True)
class AgentCall:
    """A call of a tool that is another agent.

    `ask` gives the answer to what the agent asks, once there is one; until then it interrupts the graph. `ids` are
    those of events about the call, and `source` is what its event is stored under.
    """

    agent: AgentTool
    message: str
    key: str
    """The call's idempotency key."""
    index: int
    ids: Mapping[str, Any]
    source: str
    services: Services
    ask: Callable[[Any], Any]
    later: bool = False
    """Whether to return as soon as the task has begun: a later call `joins` it."""
    joins: str = ""
    """The task that a call in the background began, whose result this call gives."""
    share: Share = Share()


class AgentCalls(Protocol):
    """What carries out the calls of a task whose tools are agents."""

    async def call(self, call: AgentCall) -> CallResult: ...

    async def ended(self, task_ids: Collection[str]) -> Collection[str]:
        """Those of the tasks in the background that have ended."""
        ...


class Closed:
    """Raises AppClosed on any attribute access."""

    def __getattr__(self, name: str) -> NoReturn:
        raise AppClosed
