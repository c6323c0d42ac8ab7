"""What tasks used: tokens, calls and cost."""

from datetime import timedelta, timezone
from typing import Annotated, Literal

from fastapi import Query
from pydantic import BaseModel, Field

from ..errors import JsonResponse
from .dependencies import ServiceDep, TenantDep, routes

router = routes("usage")
Days = Annotated[int, Query(ge=1, le=366, description="How many days, today included.")]
UtcOffset = Annotated[
    int, Query(ge=-24 * 60 + 1, le=24 * 60 - 1, description="Where days begin: minutes east of UTC.", examples=[480])
]


class UsageView(BaseModel):
    """What tasks used together. Costs are computed from tokens and prices: they are not what a provider billed."""

    tasks: int
    unfinished: int = Field(description="tasks that have not ended, whose tokens and cost are not known")
    uncounted: int = Field(description="tasks whose models reported no tokens")
    unpriced: int = Field(description="tasks whose cost is not known")
    input: int
    output: int
    calls: int = Field(description="model calls")
    cost: float | None = Field(description="null where that of a task is not known, or currencies differ")
    currency: str
    known_costs: dict[str, float] = Field(description="what the tasks of known cost cost, by currency")
    estimated: int = Field(description="model calls that were interrupted or not counted: only estimates are known")
    estimated_tokens: int = Field(description="what these used, in none of the other numbers")
    estimated_cost: float = Field(description="in US dollars, in none of the other numbers")


class DayUsage(UsageView):
    """The tasks that were begun on a day."""

    day: str = Field(examples=["2026-03-01"])


class AgentUsage(UsageView):
    """The tasks of an agent."""

    agent: str


class UserUsage(UsageView):
    """The tasks of a user."""

    user: str


class ModelUsage(UsageView):
    """The tasks that a model answered."""

    model: str = Field(description="empty where no model was called")


class LimitUsage(BaseModel):
    """What is used of a limit now, by one of those that used the most of it."""

    limit_name: str = Field(examples=["per_user_per_day"])
    unit: Literal["USD", "tokens"]
    name: str = Field(description="of the task, session, user or agent; empty for all of a day")
    day: str = Field(description="the day that it is of; empty for that of a task or session")
    limit: float
    used: float


class UsageReportView(BaseModel):
    """What the tasks that were begun in the last days used."""

    since: str = Field(examples=["2026-02-01"])
    until: str
    total: UsageView
    by_day: list[DayUsage] = Field(description="every day, the oldest first")
    by_agent: list[AgentUsage] = Field(description="the most tokens first")
    by_user: list[UserUsage] = Field(description="the most tokens first")
    by_model: list[ModelUsage] = Field(description="the most tokens first")
    limits: list[LimitUsage] = Field(description="of tasks and sessions those that used the most, and of today")


@router.get("/api/usage", response_model=UsageReportView)
async def usage(service: ServiceDep, tenant: TenantDep, days: Days = 30, utc_offset: UtcOffset = 0) -> JsonResponse:
    """Tokens, model calls and cost of the last days, by day, agent, user and model, and what is used of limits."""
    zone = timezone(timedelta(minutes=utc_offset))
    report = await service.app.tasks.usage_report(days, zone, session_prefix=tenant.prefix)
    form = report.json()
    users = [{**row, "user": tenant.shown(row["user"])} for row in form["by_user"]]
    limits = [{**row, "name": tenant.shown(row["name"])} for row in form["limits"]]
    return JsonResponse({**form, "by_user": users, "limits": limits})
