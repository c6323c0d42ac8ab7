"""What nodes are given: the context's JSON fields, and the services behind them."""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from .agents import Agent
from .events import Event
from .ids import Ids
from .participants import Participants
from .records import Call

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

Purpose = Literal["decide", "plan", "answer", "extract", "converse"]


@dataclass(frozen=True, eq=False)
class GivenAgent:
    """An agent that a run's context holds itself, instead of the id of a registered one."""

    agent: Agent


class RunContext(BaseModel):
    """Options of a run; empty means the default. Studio shows these fields as a form.

    `agent` may also be an `Agent`, which is registered nowhere.
    """

    model_config = ConfigDict(extra="ignore")

    agent: str = Field(default="", description="id of a registered agent; empty: the first one, travel")
    mode: str = Field(
        default="", description="direct, react, plan, plan_react, lifecycle, controller or auto; empty: the agent's own"
    )
    user_id: str = Field(default="default", description="whose preferences apply")
    model: str = Field(default="", description="openai:<name> or offline; empty: the agent's own")
    language: Literal["", "zh", "en"] = Field(default="", description="zh or en; empty: that of the message")
    _given_agent: GivenAgent | None = PrivateAttr(default=None)

    def __init__(self, *, agent: str | Agent = "", **fields: Any) -> None:
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


@dataclass(frozen=True)
class ModelRequest:
    """One call of a model.

    `schema` is the JSON schema of the reply, or None for prose. `tools` are OpenAI-format function specs, each with a
    `segue` key: {"keywords": [...], "title": str, "read_only": bool}. `native` binds the tools as function calls
    instead of asking for a schema.
    `nudge` is a user's message to close with, for an endpoint that refuses to go on from an assistant's. `seed` is
    sent to endpoints that take one.
    """

    purpose: Purpose
    messages: Sequence["BaseMessage"]
    schema: Mapping[str, Any] | None = None
    tools: Sequence[Mapping[str, Any]] = ()
    native: bool = False
    nudge: str = ""
    seed: int | None = None


@dataclass(frozen=True)
class TextDelta:
    """A piece of a reply, as it arrives."""

    text: str


@dataclass(frozen=True)
class CallDelta:
    """A function call begins to arrive: what was streamed of this reply so far was its thought."""

    name: str


@dataclass(frozen=True)
class ReasoningDelta:
    """A piece of the model's reasoning, which is no part of its reply."""

    text: str


@dataclass(frozen=True)
class Withdrawn:
    """The text so far was reasoning, which follows as such: discard what was streamed of it."""


@dataclass(frozen=True)
class Hidden:
    """Characters that arrived and are not shown, of arguments and the like."""

    chars: int = 0


@dataclass(frozen=True)
class Retry:
    """The call is made again, after `seconds`: discard what was streamed of it."""

    attempt: int
    reason: str
    seconds: float = 0.0


@dataclass(frozen=True)
class RawCall:
    """A function call as the model wrote it: `arguments` is text that may not be valid JSON."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class ModelReply:
    """The whole reply; `usage` counts tokens as {"input", "output"}."""

    text: str
    finish_reason: str = "stop"
    usage: Mapping[str, int] = field(default_factory=dict)
    tool_calls: tuple[RawCall, ...] = ()


ModelPiece = TextDelta | ReasoningDelta | CallDelta | Withdrawn | Hidden | Retry | ModelReply


class Model(Protocol):
    """An agent's model, ready to call."""

    name: str
    is_language_model: bool

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPiece, None]:
        """Yield the deltas, then exactly one `ModelReply`.

        Raises:
            ModelError: what went wrong, in a sentence.
        """
        ...


@dataclass(frozen=True)
class CallKey:
    """What identifies one tool call for ever: fixed in the state before the call runs.

    `scope` is the recursion's trace_id, or step_id#attempt; `index` the call's place in it.
    """

    task_id: str
    scope: str
    index: int


@dataclass(frozen=True)
class Claim:
    """The ledger's answer to an intent.

    `fresh`: run it. `finished`: it ran, with `outcome`. `interrupted`: it was under way when its process ended.
    `doubtful`: it never ran, but one like it, of the same task, may or may not have taken effect.
    `moved`: the interrupted call was made from another place, so its idempotency key was another one.
    """

    state: Literal["fresh", "finished", "interrupted", "doubtful"]
    outcome: Mapping[str, Any] | None = None
    moved: bool = False


class Ledger(Protocol):
    """Remembers every tool call, so that none is run twice."""

    async def read(self, key: CallKey) -> Mapping[str, Any] | None: ...

    async def claim(self, key: CallKey, name: str, arguments: Mapping[str, Any]) -> Claim: ...

    async def settle(self, key: CallKey, outcome: Mapping[str, Any]) -> None: ...

    async def unknown(self, task_id: str) -> Sequence[Mapping[str, Any]]: ...

    async def finished(self) -> Sequence[Call]: ...


@dataclass(frozen=True, kw_only=True)
class MemoryEntry:
    """What a round leaves in a memory file; `key` identifies it for ever: the same key again is the same entry."""

    key: str
    task_id: str
    round: int
    branch: str
    text: str
    created_at: float
    """Unix seconds."""


class Memory(Protocol):
    """Files of what was done; a name is a relative path such as `logs.md`."""

    async def append(self, name: str, entry: MemoryEntry) -> None:
        """Add the entry to the file; one whose key is there already changes nothing.

        Raises:
            MemoryUnavailable: with the reason, as the controller is told it.
        """
        ...

    async def read(self, names: Sequence[str], goal: str, tokens: int) -> str:
        """The newest entries and those relevant to the goal, as Markdown of at most so many tokens.

        A file that does not exist is empty.

        Raises:
            MemoryUnavailable.
        """
        ...


class Tool(Protocol):
    """A tool as the graphs see it."""

    @property
    def name(self) -> str: ...

    @property
    def read_only(self) -> bool: ...

    @property
    def idempotent(self) -> bool: ...

    @property
    def needs_approval(self) -> bool: ...

    @property
    def timeout(self) -> float | None: ...

    @property
    def spec(self) -> Mapping[str, Any]: ...

    async def call(self, arguments: Mapping[str, Any]) -> Any: ...


API_CALL = "api_call"
"""The kind of interrupt that the conversation answers: an agent that is its bot calls the API."""
PAUSE = "pause"
"""The kind of interrupt that is no question: a node stops, since a pause was requested."""


class Services(Protocol):
    """Everything outside the state that a node may use."""

    ledger: Ledger | None
    memory: Memory
    ids: Ids
    began: float
    participants: Participants

    def agent(self, name: str) -> Agent: ...

    def model_for(self, agent: Agent, override: str = "") -> Model: ...

    def tools_for(self, agent: Agent) -> Mapping[str, Tool]: ...

    def emit(self, event: Event) -> None: ...

    def announced(self, events: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """A node's durable events as they are stored: a part of a task says which one it is."""
        ...

    def clock(self) -> float: ...

    def pausing(self) -> bool: ...

    async def notes(self, task_id: str) -> Sequence[str]: ...
