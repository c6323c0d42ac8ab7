"""Limits of what model calls use, in US dollars and tokens, and what a call uses at most."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Literal, Protocol, runtime_checkable
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from .agents import Agent, read_file
from .errors import ConfigurationError, InvalidAnswer
from .models import Model, ModelReply, ModelRequest
from .prompt_size import plain_tokens, prompt_tokens, tokens
from .records import Json

SPEND: Final = "spend"
"""The kind of question that a task waits with where a limit is reached."""
CANCEL: Final = "cancel"
"""The answer that raises no limit."""
NANO: Final = 1_000_000_000
"""Costs are counted in billionths of a US dollar, which add up exactly."""
USD: Final = "USD"
TOKENS: Final = "tokens"
Unit = Literal["USD", "tokens"]
ScopeKind = Literal["task", "session", "user", "agent", "day"]
KINDS: Final[Mapping[ScopeKind, str]] = {
    "task": "per_task",
    "session": "per_session",
    "user": "per_user_per_day",
    "agent": "per_agent_per_day",
    "day": "per_day",
}
"""What a limit can be of, with the limit's name; that of tokens ends with `_tokens`."""
_PER_DAY: Final = ("user", "agent", "day")

_Dollars = Field(default=None, gt=0, le=1e9)
_Tokens = Field(default=None, gt=0, le=10**15)


class Limits(BaseModel):
    """What may be used; None: no limit."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    per_task: float | None = _Dollars
    """US dollars that one task may cost."""
    per_session: float | None = _Dollars
    """US dollars that all tasks of a session may cost."""
    per_user_per_day: float | None = _Dollars
    """US dollars that a user's tasks may cost on one day."""
    per_agent_per_day: float | None = _Dollars
    """US dollars that an agent's calls may cost on one day."""
    per_day: float | None = _Dollars
    """US dollars that all calls of one day may cost."""
    per_task_tokens: int | None = _Tokens
    """Tokens, of prompts and replies, that one task may use."""
    per_session_tokens: int | None = _Tokens
    """Tokens that all tasks of a session may use."""
    per_user_per_day_tokens: int | None = _Tokens
    """Tokens that a user's tasks may use on one day."""
    per_agent_per_day_tokens: int | None = _Tokens
    """Tokens that an agent's calls may use on one day."""
    per_day_tokens: int | None = _Tokens
    """Tokens that all calls of one day may use."""

    def of(self, kind: ScopeKind) -> "Allowed":
        """What calls of a scope may use together."""
        name = KINDS[kind]
        dollars: float | None = getattr(self, name)
        return Allowed(None if dollars is None else nano(dollars), getattr(self, f"{name}_tokens"))

    @property
    def in_dollars(self) -> bool:
        """Whether one of them is in US dollars."""
        return any(self.of(kind).cost is not None for kind in KINDS)


class SpendLimits(Limits):
    """The limits of a database's model calls."""

    timezone: str = "UTC"
    """Where days begin, such as `Asia/Shanghai`; the same for all processes of a database."""
    by_tenant: bool | None = None
    """Each tenant has these limits for itself; None: where API keys or `tenants` are set."""
    tenants: dict[str, Limits] = {}
    """The limits of single tenants, in place of these."""
    raise_over_http: bool = True
    """Clients of the service may raise limits that are reached; off: only Python and `segue answer`."""

    @field_validator("timezone")
    @classmethod
    def _is_known(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (KeyError, ValueError, OSError) as error:
            raise ValueError(f"'{name}' is not a time zone, such as UTC or Asia/Shanghai") from error
        return name

    @property
    def is_empty(self) -> bool:
        """Whether there is no limit."""
        return not any(limits.of(kind) for limits in (self, *self.tenants.values()) for kind in KINDS)

    def of_tenant(self, tenant: str) -> Limits:
        return self.tenants.get(tenant, self)

    def day(self, now: float) -> str:
        """The day of a moment, in Unix seconds."""
        return str(datetime.fromtimestamp(now, ZoneInfo(self.timezone)).date())


@dataclass(frozen=True)
class Allowed:
    """What may be used together; None: no limit. Costs are in billionths of a US dollar."""

    cost: int | None = None
    tokens: int | None = None

    def __bool__(self) -> bool:
        return self.cost is not None or self.tokens is not None


@dataclass(frozen=True)
class Scope:
    """The calls that a limit is of; `name` is that of their task, session, user or agent."""

    kind: ScopeKind
    name: str
    tenant: str
    day: str = ""

    @property
    def key(self) -> str:
        """What it is stored under, and called in questions: it tells no names."""
        named = "\0".join((self.kind, self.name, self.tenant, self.day))
        return sha256(named.encode(errors="surrogatepass")).hexdigest()[:32]


@dataclass(frozen=True)
class LimitedScope:
    """A scope that has a limit; `thread_id` is empty where it outlives the session."""

    scope: Scope
    allowed: Allowed
    thread_id: str = ""


@dataclass(frozen=True, kw_only=True)
class PlannedCall:
    """A call of a model, and what it uses at most; the cost is in billionths of a US dollar."""

    call_id: str
    thread_id: str
    task_id: str
    user_id: str
    agent_id: str
    model: str
    created_at: float
    tokens: int
    cost: int


@dataclass(frozen=True, kw_only=True)
class Reached:
    """A limit that leaves no room for a call: what is used, and what the call needs."""

    scope: Scope
    unit: Unit
    limit: float
    used: float
    needs: float

    @property
    def name(self) -> str:
        """The limit's name in the configuration."""
        return KINDS[self.scope.kind] + ("" if self.unit == USD else "_tokens")

    @property
    def least(self) -> float:
        """The lowest limit that leaves room for the call."""
        return self.used + self.needs

    @property
    def suggestion(self) -> str:
        """A higher limit, as a person may answer: the limit doubled until the call fits."""
        factor = 2 ** max(1, math.ceil(math.log2(self.least / self.limit)))
        return _digits(self.limit * factor)

    def json(self) -> Json:
        """The fields of the question."""
        about = {"limit_name": self.name, "unit": self.unit, "scope": self.scope.key}
        day = {"day": self.scope.day} if self.scope.day else {}
        amounts = {"limit": self.limit, "used": self.used, "needs": self.needs}
        return {**about, **day, **amounts, "suggestion": self.suggestion}


@dataclass(frozen=True)
class Raised:
    """A person's new limit for a scope."""

    scope: str
    unit: Unit
    limit: float

    @property
    def allowed(self) -> Allowed:
        return Allowed(cost=nano(self.limit)) if self.unit == USD else Allowed(tokens=int(self.limit))


class Reservation(Protocol):
    """The room of a call that is made now. One that is not settled is used up."""

    async def settle(self, reply: ModelReply, thoughts: Iterable[str] = ()) -> None:
        """Count what the call used, estimated where nobody counted it, in place of what it was to use at most."""
        ...

    def release(self) -> None:
        """Count nothing: the call was refused."""
        ...


class Spending(Protocol):
    """The limits of a run's calls."""

    async def reserve(
        self, task_id: str, agent: Agent, model: Model, request: ModelRequest, now: float
    ) -> Reservation | Reached:
        """Keep room for a call in all limits, or say which one leaves none.

        Raises:
            ConfigurationError: a limit is in US dollars, and the price of the model is not known.
        """
        ...


@runtime_checkable
class Priced(Protocol):
    """A model whose price is known."""

    async def cost(self, usage: Mapping[str, int]) -> float | None:
        """What tokens {"input", "output"} cost in US dollars; None where that is not known."""
        ...


async def dollars(agent: Agent, model: Model, usage: Mapping[str, int]) -> float:
    """What tokens {"input", "output"} of an agent's model cost in US dollars, by its prices or those that are known.

    Raises:
        ConfigurationError: that is not known.
    """
    prices = agent.prices
    if prices is not None and prices.currency != USD:
        raise ConfigurationError(
            "The prices of the agent {agent} are in {currency}, and limits are in US dollars: give its prices in USD, "
            "or limit its tokens.",
            agent=agent.agent_id,
            currency=prices.currency,
        )
    if prices is not None:
        return prices.cost(usage["input"], usage["output"])
    known = await model.cost(usage) if isinstance(model, Priced) else None
    if known is None:
        raise ConfigurationError(
            "A limit is in US dollars, and the price of the agent {agent}'s model {model} is not known: give the agent "
            "prices, or limit its tokens.",
            agent=agent.agent_id,
            model=model.name,
        )
    return known


def nano(dollars: float) -> int:
    """US dollars in billionths, rounded up."""
    return math.ceil(round(dollars * NANO, 3))


def public(cost: int) -> float:
    """Billionths of a US dollar in dollars."""
    return cost / NANO


def most_tokens(agent: Agent, request: ModelRequest) -> dict[str, int]:
    """The tokens {"input", "output"} that a call uses at most.

    Those of the prompt are estimated. Without a limit in tokens a reply may have the agent's `reply_chars`, and where
    the agent asks for reasoning its `reasoning_chars`.
    """
    budget = agent.budget
    chars = budget.reply_chars + (budget.reasoning_chars if agent.reasoning_effort else 0)
    most = request.settings.get("max_tokens") or agent.max_tokens or plain_tokens(chars)
    return {"input": prompt_tokens(request), "output": int(most)}


def reply_tokens(reply: ModelReply, thoughts: Iterable[str]) -> int:
    """A rough count of a reply's tokens, with its calls and the reasoning before it."""
    calls = (f"{call.name}{call.arguments}" for call in reply.tool_calls)
    return sum(map(tokens, (reply.text, *calls, *thoughts)))


_AMOUNT = re.compile(
    r"(?P<before>(?:US ?)?\$|USD)?\s*(?P<number>(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|\.\d+)"
    r"\s*(?P<after>USD|dollars?|美元|tokens?|个?词元)?",
    re.IGNORECASE,
)
_CANCELS = (CANCEL, "取消")
MOST: Final[Mapping[str, float]] = {USD: 1e9, TOKENS: 1e15}
"""The highest limits."""


def read_limit(question: Mapping[str, Any], answer: object) -> Raised | None:
    """A person's answer to a limit that is reached: the new limit, as {"limit": 5} or a text; None cancels the task.

    Raises:
        InvalidAnswer: it is neither, or leaves no room for the call that waits.
    """
    given, unit = answer, question["unit"]
    if isinstance(answer, Mapping):
        if answer.get("manual_finish") or answer.get(CANCEL) is True:
            return None
        given = answer.get("limit", answer.get("answer"))
    if isinstance(given, str):
        if given.strip().lower() in _CANCELS:
            return None
        given = _amount(given, unit)
    if isinstance(given, bool) or not isinstance(given, int | float) or not -MOST[unit] <= given <= MOST[unit]:
        raise InvalidAnswer(
            'The answer does not fit the question: give the new limit, such as {form}, or "cancel".',
            form=f'{{"limit": {question["suggestion"]}}}',
        )
    least = question["used"] + question["needs"]
    if not least <= given + 1e-9:
        raise InvalidAnswer(
            "A limit of {limit} is too low for the next call: give {least} or more, or cancel the task.",
            limit=_digits(given),
            least=_digits(least),
        )
    return Raised(question["scope"], unit, given)


def _amount(text: str, unit: Unit) -> float | None:
    """The number that a person writes, where a comma only separates thousands; None if it is none of that unit."""
    found = _AMOUNT.fullmatch(text.strip())
    if found is None:
        return None
    units = {_unit(each) for each in (found["before"], found["after"]) if each}
    return float(found["number"].replace(",", "")) if units <= {unit} else None


def _unit(name: str) -> Unit:
    return TOKENS if name.casefold().startswith("token") or name.endswith("词元") else USD


def _digits(amount: float) -> str:
    """An amount in digits, as a person can write it back."""
    return f"{amount:.9f}".rstrip("0").rstrip(".")


_SHOWN = ("limit_name", "unit", "day", "limit", "used", "needs", "suggestion")


def limit_of(question: Mapping[str, Any]) -> Json | None:
    """What a question says of the limit that is reached; None of any other question."""
    return {name: question[name] for name in _SHOWN if name in question} if question["kind"] == SPEND else None


def spend_limits(given: "SpendLimits | Mapping[str, Any]", where: str = "spend") -> SpendLimits:
    """Limits, read from a table where they are one.

    Raises:
        ConfigurationError: naming the field that is wrong.
    """
    if isinstance(given, SpendLimits):
        return given
    try:
        return SpendLimits.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            known = Limits if len(first["loc"]) > 1 else SpendLimits
            raise ConfigurationError(
                "{where} has an unknown field '{field}': use {known}.",
                where=where,
                field=field,
                known=", ".join(known.model_fields),
            ) from error
        reason = first["msg"].removeprefix("Value error, ")
        raise ConfigurationError("{where}: {field}: {reason}.", where=where, field=field, reason=reason) from error


def load_spend(path: str | Path) -> SpendLimits | None:
    """The limits of an agents file, its table `[spend]`; None where it has none.

    Raises:
        ConfigurationError: naming the field that is wrong.
    """
    table = read_file(Path(path)).get("spend")
    return None if table is None else spend_limits(table, f"[spend] in {path}")


def limited_scopes(
    limits: Limits, tenant: str, day: str, named: Mapping[ScopeKind, str], thread_id: str
) -> Iterator[LimitedScope]:
    """The scopes of a call that have limits, the narrowest first; `named` are their names by kind."""
    for kind in KINDS:
        if allowed := limits.of(kind):
            is_daily = kind in _PER_DAY
            scope = Scope(kind, named.get(kind, ""), tenant, day if is_daily else "")
            yield LimitedScope(scope, allowed, "" if is_daily else thread_id)
