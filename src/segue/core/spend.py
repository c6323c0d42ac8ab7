"""Limits of what model calls use, quotas of tenants, and reports of usage."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date, datetime, time, timedelta, tzinfo
from functools import cached_property
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Protocol, Self, TypeVar, runtime_checkable
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator
from typing_extensions import TypedDict

from .agents import Agent, load_table, read_file
from .bounds import MOST_COUNT
from .errors import Clause, ConfigurationError, InvalidAnswer, InvalidMessage, TaskError, TooManyTasks
from .json import Public
from .models import Model, ModelReply, ModelRequest, Usage, add_usages, plain_tokens, prompt_tokens, tokens
from .records import STORED_AS_JSON, Count, Json, Moment, Record

# Quotas: how many tasks of a user and of a tenant run and wait at once, and how many schedules a tenant has.


@dataclass(frozen=True)
class Owner:
    """Whose a task is. A tenant's name begins the names of its sessions, up to a colon; others have none."""

    tenant: str = ""
    user: str = ""

    @classmethod
    def of(cls, thread_id: str, user_id: str) -> Self:
        name, colon, _ = thread_id.partition(":")
        return cls(name if colon else "", user_id)


class Quotas(BaseModel):
    """What a user and a tenant may have; None is no limit."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    tasks_per_user: int | None = Field(default=None, ge=1, le=MOST_COUNT)
    """Tasks of a user that run at once; others wait."""
    tasks_per_tenant: int | None = Field(default=None, ge=1, le=MOST_COUNT)
    """Tasks of a tenant that run at once; others wait."""
    queued_per_user: int | None = Field(default=None, ge=0, le=MOST_COUNT)
    """Tasks of a user that may wait; another message is refused."""
    queued_per_tenant: int | None = Field(default=None, ge=0, le=MOST_COUNT)
    """Tasks of a tenant that may wait; another message is refused."""

    schedules_per_tenant: int | None = Field(default=1000, ge=0, le=MOST_COUNT)
    """Active schedules of a tenant in the database; another one is refused."""

    @property
    def limit_queues(self) -> bool:
        return self.queued_per_user is not None or self.queued_per_tenant is not None

    def check_queue(self, of_user: int, of_tenant: int) -> None:
        """Refuse a task where so many of its user and its tenant wait already."""
        if self.queued_per_user is not None and of_user >= self.queued_per_user:
            raise OverQuota(Clause("this user"), self.queued_per_user)
        if self.queued_per_tenant is not None and of_tenant >= self.queued_per_tenant:
            raise OverQuota(Clause("this tenant"), self.queued_per_tenant)

    def check_schedules(self, of_tenant: int) -> None:
        """Refuse a schedule where so many of its tenant are active already."""
        if self.schedules_per_tenant is not None and of_tenant >= self.schedules_per_tenant:
            raise InvalidMessage(
                "{most} schedules are active, which is the limit: pause or delete one, or raise schedules_per_tenant.",
                most=self.schedules_per_tenant,
            )


class OverQuota(TooManyTasks):
    """As many tasks of a user or a tenant wait as may; nothing was stored. Try again later."""

    def __init__(self, whose: Clause, most: int) -> None:
        TaskError.__init__(
            self,
            "Too many tasks of {whose} wait: {most} is the limit. Try again when one of them has begun.",
            whose=whose,
            most=most,
        )


def load_quotas(path: str | Path) -> Quotas | None:
    """The `[quotas]` table of an agents file; None where it has none."""
    return load_table(path, "quotas", Quotas)


# Limits of what model calls use, in US dollars and tokens, and what a call uses at most.

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

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

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
    """What tokens {"input", "output"} of an agent's model cost in US dollars, by its prices or those that are known."""
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
    """A person's answer to a limit that is reached: the new limit, as {"limit": 5} or a text; None cancels the task."""
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
    """Limits, read from a table where they are one."""
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
            ) from None
        reason = first["msg"].removeprefix("Value error, ")
        raise ConfigurationError("{where}: {field}: {reason}.", where=where, field=field, reason=reason) from None


def load_spend(path: str | Path) -> SpendLimits | None:
    """The limits of an agents file, its table `[spend]`; None where it has none."""
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


# What many tasks used, by day, agent, user and model.


class _Counts(TypedDict, total=False):
    """What a task's result says that it used."""

    input: int
    output: int
    calls: int
    cost: float | None
    currency: str


_COUNTS = TypeAdapter(_Counts)


@dataclass(frozen=True, kw_only=True)
class TaskUsage(Record):
    """A task, as far as its use is concerned; its `result` is None until it ends."""

    agent_id: str = ""
    user_id: str = ""
    model: str = ""
    created_at: Moment = 0.0
    result: Annotated[Json | None, STORED_AS_JSON] = None

    @cached_property
    def usage(self) -> Usage | None:
        """What it used; empty where it called no model, None where it has not ended, or that cannot be read."""
        if self.result is None:
            return None
        try:
            return dict(_COUNTS.validate_python(self.result.get("usage") or {}))
        except ValidationError:
            return None

    @property
    def used_model(self) -> str:
        return str((self.result or {}).get("model") or self.model)


@dataclass(frozen=True, kw_only=True)
class EstimatedUsage(Record):
    """A model call that no task's result counts, or not in full; `cost` is in billionths of a US dollar."""

    row_name = "model call"
    is_recoverable = False

    user_id: str
    agent_id: str
    model: str
    created_at: Moment
    tokens: Count
    cost: Count


@dataclass(frozen=True, kw_only=True)
class UsageTotal(Public):
    """What tasks used together.

    `cost` is None where that of a task is not known: `unpriced` counts these. `known_costs` are what the others cost,
    by currency. `unfinished` tasks have not ended, so that neither their tokens nor their cost is known. `uncounted`
    ones called models that reported no tokens. `estimated` calls are those whose use counts for limits and is not
    known: they were interrupted, or their endpoint counts no tokens; their tokens and cost are in none of the others.
    """

    tasks: int = 0
    unfinished: int = 0
    uncounted: int = 0
    unpriced: int = 0
    input: int = 0
    output: int = 0
    calls: int = 0
    cost: float | None = 0.0
    currency: str = ""
    known_costs: dict[str, float] = field(default_factory=dict)
    estimated: int = 0
    estimated_tokens: int = 0
    estimated_cost: float = 0.0
    """US dollars."""

    @classmethod
    def of(cls, tasks: Iterable[TaskUsage], estimates: Sequence[EstimatedUsage] = ()) -> "UsageTotal":
        every = [task.usage for task in tasks]
        ended = [usage for usage in every if usage is not None]
        priced = [usage for usage in ended if not usage or usage.get("cost") is not None]
        total = add_usages(ended)
        unpriced = len(every) - len(priced)
        return cls(
            tasks=len(every),
            unfinished=len(every) - len(ended),
            uncounted=sum(map(_is_uncounted, ended)),
            unpriced=unpriced,
            input=total.get("input", 0),
            output=total.get("output", 0),
            calls=total.get("calls", 0),
            cost=None if unpriced else total.get("cost", 0.0),
            currency=total.get("currency", ""),
            known_costs=_by_currency(priced),
            estimated=len(estimates),
            estimated_tokens=sum(call.tokens for call in estimates),
            estimated_cost=sum(call.cost for call in estimates) / 1_000_000_000,
        )


@dataclass(frozen=True, kw_only=True)
class LimitUse(Public):
    """What is used of a limit now: in US dollars or tokens, as its `unit` says.

    `name` is that of the task, session, user or agent that has it, empty for all of a `day`.
    """

    limit_name: str
    unit: str
    name: str
    day: str
    limit: float
    used: float


@dataclass(frozen=True, kw_only=True)
class UsageReport(Public):
    """What the tasks of some days used, in all, by day (each of them, oldest first), by agent, user and model.

    `limits` are those of today, or of no day, with what is used of them.
    """

    since: date
    until: date
    total: UsageTotal
    by_day: dict[str, UsageTotal]
    by_agent: dict[str, UsageTotal]
    by_user: dict[str, UsageTotal]
    by_model: dict[str, UsageTotal]
    limits: Sequence[LimitUse] = ()

    def by(self, kind: str) -> dict[str, UsageTotal]:
        """The totals by day, agent, user or model."""
        return {"day": self.by_day, "agent": self.by_agent, "user": self.by_user, "model": self.by_model}[kind]

    def json(self) -> Json:
        """The public form: each total beside the `day`, `agent`, `user` or `model` that it is of."""
        listed = {
            f"by_{kind}": [{kind: name} | asdict(of) for name, of in self.by(kind).items()] for kind in REPORTED_BY
        }
        head = {"since": str(self.since), "until": str(self.until), "total": asdict(self.total)}
        return {**head, **listed, "limits": [limit.json() for limit in self.limits]}


REPORTED_BY = ("day", "agent", "user", "model")


@dataclass(frozen=True)
class Period:
    """The last days, today included, as a clock somewhere shows them; without a zone the local one."""

    today: date
    days: int
    zone: tzinfo | None = None

    @classmethod
    def last(cls, days: int, now: float, zone: tzinfo | None = None) -> "Period":
        return cls(datetime.fromtimestamp(now, zone).date(), days, zone)

    @property
    def first(self) -> date:
        return self.today - timedelta(days=self.days - 1)

    @property
    def since(self) -> float:
        """Unix seconds of its beginning."""
        return datetime.combine(self.first, time.min, self.zone).timestamp()

    def report(
        self, tasks: Sequence[TaskUsage], estimates: Sequence[EstimatedUsage] = (), limits: Sequence[LimitUse] = ()
    ) -> UsageReport:
        """What the tasks used that began in the period, and the estimated calls that were made in it."""
        used = _Used(
            [task for task in tasks if task.created_at >= self.since],  # one whose moment is damaged has 0
            [call for call in estimates if call.created_at >= self.since],
        )

        def day_of(each: TaskUsage | EstimatedUsage) -> str:
            return str(datetime.fromtimestamp(each.created_at, self.zone).date())

        days = dict.fromkeys((str(self.first + timedelta(days=n)) for n in range(self.days)), UsageTotal())
        return UsageReport(
            since=self.first,
            until=self.today,
            total=UsageTotal.of(used.tasks, used.estimates),
            by_day=days | used.by(day_of),
            by_agent=_largest_first(used.by(lambda each: each.agent_id)),
            by_user=_largest_first(used.by(lambda each: each.user_id)),
            by_model=_largest_first(used.by(_model_of)),
            limits=limits,
        )


@dataclass(frozen=True)
class _Used:
    tasks: Sequence[TaskUsage]
    estimates: Sequence[EstimatedUsage]

    def by(self, key: Callable[[TaskUsage | EstimatedUsage], str]) -> dict[str, UsageTotal]:
        tasks, estimates = _grouped(self.tasks, key), _grouped(self.estimates, key)
        return {name: UsageTotal.of(tasks.get(name, ()), estimates.get(name, ())) for name in {**tasks, **estimates}}


def _model_of(each: TaskUsage | EstimatedUsage) -> str:
    return each.used_model if isinstance(each, TaskUsage) else each.model


U = TypeVar("U", TaskUsage, EstimatedUsage)


def _grouped(used: Iterable[U], key: Callable[[Any], str]) -> dict[str, list[U]]:
    found: dict[str, list[U]] = {}
    for each in sorted(used, key=key):
        found.setdefault(key(each), []).append(each)
    return found


def _largest_first(totals: dict[str, UsageTotal]) -> dict[str, UsageTotal]:
    def size(entry: tuple[str, UsageTotal]) -> tuple[int, int]:
        return entry[1].input + entry[1].output, entry[1].tasks

    return dict(sorted(totals.items(), key=size, reverse=True))


def _is_uncounted(usage: Usage) -> bool:
    tokens = usage.get("input", 0) + usage.get("output", 0)
    return bool(usage.get("calls")) and not tokens and usage.get("cost") is None


def _by_currency(priced: Iterable[Usage]) -> dict[str, float]:
    """What cost something, by its currency."""
    paid = [usage for usage in priced if usage.get("cost")]

    def currency(usage: Usage) -> str:
        return str(usage.get("currency", ""))

    return {name: float(add_usages(of)["cost"]) for name, of in groupby(sorted(paid, key=currency), currency)}
