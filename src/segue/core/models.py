"""Models as the nodes call them: the request, the pieces of a reply, the size of a prompt, usage, and the port."""

import json
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar

from .agents import Prices
from .errors import Clause, UnreadableReply
from .message import PARTS, attached

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage


OFFLINE = "offline"
"""The name of the offline planner: rules, not a language model."""
KEPT = "kept"
"""Under this key a message's `additional_kwargs` hold what the model wants back: {"of": its endpoint and name, …}."""
Purpose = Literal["decide", "plan", "answer", "extract", "converse", "summary", "digest"]
REFUSAL = "refusal"
"""The `finish_reason` of a reply that says why there is no answer."""


UNREADABLE = "unreadable"
"""The `finish_reason` of a reply that cannot be read."""


def is_local(model: str) -> bool:
    """Whether a model of this name is loaded from a file."""
    return model.startswith("local:")


@dataclass(frozen=True)
class ModelRequest:
    """One call of a model.

    `schema` is the JSON schema of the reply, or None for prose. `tools` are OpenAI-format function specs, each with a
    `segue` key: {"keywords": [...], "title": str, "read_only": bool}. `native` binds the tools as function calls
    instead of asking for a schema.
    `strict`: an endpoint that can keeps to the schema. `tool_choice` is empty where the model decides, `required`, or
    the name of the tool to call. `settings` replace the model's own, by their names in chat completions.
    `nudge` is a user's message to close with, for an endpoint that refuses to continue from an assistant's. `seed` is
    sent to endpoints that take one. `files` are the contents, by digest, of the files that messages name and that are
    sent as parts.
    """

    purpose: Purpose
    messages: Sequence["BaseMessage"]
    schema: Mapping[str, Any] | None = None
    tools: Sequence[Mapping[str, Any]] = ()
    native: bool = False
    nudge: str = ""
    seed: int | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)
    strict: bool = False
    tool_choice: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def may_answer(self) -> bool:
        """Whether the reply may be the answer of the task."""
        return self.purpose == "answer" or (self.purpose == "decide" and (self.native or self.schema is not None))


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
    reason: Clause | str
    seconds: float = 0.0


@dataclass(frozen=True)
class RawCall:
    """A function call as the model wrote it: `arguments` is text that may not be valid JSON."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class ModelReply:
    """The whole reply.

    `usage` counts tokens as {"input", "output"}, and "cached" of the input where the endpoint says so. `cost` is in US
    dollars; None: it is not known. `unreadable` says why a reply cannot be read; then it has no calls. `kept` is what
    the model wants back with its calls.
    """

    text: str
    finish_reason: str = "stop"
    usage: Mapping[str, int] = field(default_factory=dict)
    tool_calls: tuple[RawCall, ...] = ()
    cost: float | None = None
    unreadable: UnreadableReply | None = None
    has_reasoning: bool = field(default=False, compare=False)
    """Whether the model reasoned, so that a reply without a text is only a thought."""
    kept: Mapping[str, Any] = field(default_factory=dict)


ModelPiece = TextDelta | ReasoningDelta | CallDelta | Withdrawn | Hidden | Retry | ModelReply


class Model(Protocol):
    """An agent's model, ready to call."""

    name: str
    is_language_model: bool
    endpoint: str
    """Whose habits apply: an endpoint's address with the model; empty where there is none."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPiece, None]:
        """Yield the deltas, then exactly one `ModelReply`."""
        ...


# The size of prompts: a rough count of tokens, the prefix shared with the one before, and cached renderings.

_WIDE = re.compile(r"[\u2e80-\uffef]+")


@dataclass(frozen=True)
class PromptSize:
    """Characters of one prompt with its tools or its schema, and of its messages those that began the one before."""

    chars: int
    prefix_chars: int


class SentPrompts:
    """The last prompt for each purpose of a run."""

    def __init__(self) -> None:
        self._last: dict[str, list[str]] = {}
        self.most_tokens: dict[str, int] = {}
        """What prompts of a model may have, by its name, where its endpoint refused a longer one."""

    def add(self, request: ModelRequest) -> PromptSize:
        """Measure a prompt, a line for each message, beside the last one for its purpose."""
        beside = _beside(request)
        texts = [f"{_text(message)}\n" for message in request.messages]
        before, self._last[request.purpose] = self._last.get(request.purpose, []), texts
        shared = min(_shared(before, texts), _chars(before), _chars(texts))
        return PromptSize(_chars(texts) + (len(_json(beside)) if beside else 0), shared)


def _chars(texts: Sequence[str]) -> int:
    """Characters of all texts, without the last line's end."""
    return sum(map(len, texts)) - bool(texts)


def _shared(before: Sequence[str], texts: Sequence[str]) -> int:
    """Characters of the beginning that two prompts share; most of their messages are the same."""
    shared = 0
    for one, other in zip(before, texts, strict=False):
        if one != other:
            return shared + common_prefix(one, other)
        shared += len(one)
    return shared


def _text(message: "BaseMessage") -> str:
    calls = getattr(message, "tool_calls", None)
    return f"{message.type}: {message.text}{_json(calls) if calls else ''}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def common_prefix(first: str, second: str) -> int:
    """The length of the beginning that two texts share, by bisection: slices are compared fast."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if first[low:middle] == second[low:middle] else (low, middle - 1)
    return low


def tokens(text: str) -> int:
    """A rough count that errs high: one a wide character, one for three others."""
    wide = 0 if text.isascii() else sum(map(len, _WIDE.findall(text)))
    return wide + plain_tokens(len(text) - wide)


def plain_tokens(chars: int) -> int:
    """A rough count of the tokens of so many characters, none of them wide."""
    return (chars + 2) // 3


def prompt_tokens(request: ModelRequest) -> int:
    """A rough count of a prompt's tokens, with its tools or its schema and the files that are sent as parts."""
    messages = sum(tokens(_text(message)) for message in request.messages)
    files = sum(file.tokens for message in request.messages for file in attached(message, PARTS))
    beside = _beside(request)
    return messages + files + (tokens(_json(beside)) if beside else 0)


def _beside(request: ModelRequest) -> Any:
    """The tools or the schema that are sent with the messages."""
    return [tool["function"] for tool in request.tools] if request.native else request.schema


S = TypeVar("S")
T = TypeVar("T")
P = ParamSpec("P")

MOST_CHARS = 16_000_000
"""Characters that are kept; beyond it the cache is cleared."""

_ENTRY_CHARS = 200
"""What an entry takes beside its text."""


class Renderings:
    """Renderings by the identity of what they render: what is in the state is replaced, never changed."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], dict[int, tuple[object, Any]]] = {}
        self._chars = 0

    def each(
        self, render: Callable[Concatenate[S, P], T], subjects: Iterable[S], *arguments: P.args, **named: P.kwargs
    ) -> list[T]:
        """`render(subject, …)` for each of them, from the last time if it was asked for before."""
        known = self._known.setdefault((render, *arguments, *named.values()), {})
        return [
            known[id(subject)][1]
            if id(subject) in known
            else self._add(known, subject, render(subject, *arguments, **named))
            for subject in subjects
        ]

    def _add(self, known: dict[int, tuple[object, Any]], subject: object, value: T) -> T:
        """Keep a rendering together with its subject, whose id stays taken that way."""
        self._chars += _ENTRY_CHARS + (len(value) if isinstance(value, str) else 0)
        if self._chars > MOST_CHARS:
            self._known.clear()
            self._chars = 0
        known[id(subject)] = (subject, value)
        return value


# What model calls used: {"input", "output", "calls", "cost", "currency"}, tokens and money.
#
# A `cost` of None is not known. It is known where every call has a price, in one currency.

Usage = dict[str, Any]


def usage_of(reply: ModelReply, prices: Prices | None, model: Model) -> Usage:
    """What a call used; it costs what the agent's prices say, else what the model knows."""
    used: Usage = {name: reply.usage.get(name, 0) for name in ("input", "output")} | {"calls": 1}
    if not model.is_language_model:
        return used | {"cost": 0.0}
    if prices is not None and reply.usage:
        return used | {"cost": prices.cost(used["input"], used["output"]), "currency": prices.currency}
    return used | ({"cost": None} if reply.cost is None else {"cost": reply.cost, "currency": "USD"})


def add_usages(usages: Iterable[Mapping[str, Any]]) -> Usage:
    """The sum; empty where nothing was called."""
    called = [usage for usage in usages if usage]
    if not called:
        return {}
    total: Usage = {name: sum(usage.get(name, 0) for usage in called) for name in ("input", "output", "calls")}
    return total | add_costs((usage.get("cost"), usage.get("currency", "")) for usage in called)


def add_costs(costs: Iterable[tuple[float | None, str]]) -> Usage:
    """{"cost"} of costs with their currencies, and "currency" where there is one."""
    known = [*costs]
    currencies = {currency for cost, currency in known if currency}
    if len(currencies) > 1 or any(cost is None for cost, _ in known):
        return {"cost": None}
    total: Usage = {"cost": sum(cost or 0.0 for cost, _ in known)}
    return total | {"currency": currencies.pop()} if currencies else total
