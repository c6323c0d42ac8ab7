"""What many tasks used, by day, agent and model."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date, datetime, time, timedelta, tzinfo
from functools import cached_property
from itertools import groupby
from typing import Annotated, Any

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from .records import Json, Moment, Public, Record
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
class UsageTotal(Public):
    """What tasks used together.

    `cost` is None where that of a task is not known: `unpriced` counts these. `known_costs` are what the others cost,
    by currency. `unfinished` tasks have not ended, so that neither their tokens nor their cost is known. `uncounted`
    ones called models that reported no tokens.
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

    @classmethod
    def of(cls, tasks: Iterable[TaskUsage]) -> "UsageTotal":
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
        )


@dataclass(frozen=True, kw_only=True)
class UsageReport:
    """What the tasks of some days used, in all, by day (each of them, oldest first), by agent and by model."""

    since: date
    until: date
    total: UsageTotal
    by_day: dict[str, UsageTotal]
    by_agent: dict[str, UsageTotal]
    by_model: dict[str, UsageTotal]

    def json(self) -> Json:
        """The public form: each total beside the `day`, `agent` or `model` that it is of."""
        parts = {"day": self.by_day, "agent": self.by_agent, "model": self.by_model}
        listed = {
            f"by_{kind}": [{kind: name} | asdict(of) for name, of in part.items()] for kind, part in parts.items()
        }
        return {"since": str(self.since), "until": str(self.until), "total": asdict(self.total), **listed}


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

    def report(self, tasks: Sequence[TaskUsage]) -> UsageReport:
        """What those of the tasks that began in the period used."""
        tasks = [task for task in tasks if task.created_at >= self.since]  # one whose moment is damaged has 0

        def day_of(task: TaskUsage) -> str:
            return str(datetime.fromtimestamp(task.created_at, self.zone).date())

        days = dict.fromkeys((str(self.first + timedelta(days=n)) for n in range(self.days)), UsageTotal())
        return UsageReport(
            since=self.first,
            until=self.today,
            total=UsageTotal.of(tasks),
            by_day=days | _grouped(tasks, day_of),
            by_agent=_largest_first(_grouped(tasks, lambda task: task.agent_id)),
            by_model=_largest_first(_grouped(tasks, lambda task: task.used_model)),
        )


def _grouped(tasks: Iterable[TaskUsage], key: Callable[[TaskUsage], str]) -> dict[str, UsageTotal]:
    return {name: UsageTotal.of(of) for name, of in groupby(sorted(tasks, key=key), key)}


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
