"""What many tasks used, by day, agent, user and model."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date, datetime, time, timedelta, tzinfo
from functools import cached_property
from itertools import groupby
from typing import Annotated, Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from .records import Count, Json, Moment, Public, Record
from .row_validators import STORED_AS_JSON
from .usage import Usage, add_usages


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
class UsageReport:
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

    return {name: _cost(of) for name, of in groupby(sorted(paid, key=currency), currency)}


def _cost(usages: Iterable[Any]) -> float:
    return float(add_usages(usages)["cost"])
