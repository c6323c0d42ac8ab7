"""Routes of usage, the audit log, health and metrics."""

from datetime import timedelta, timezone
from importlib.metadata import version
from typing import Annotated, Any, Literal

from fastapi import Query, Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, Field

from ...core.audit import AuditEntry
from ...core.records import Json
from ...core.task import MOST_SESSION
from ..dependencies import Limit, ServiceDep, TenantDep, Unset, new_router, routes
from ..errors import ErrorBody, JsonResponse
from ..tenants import Tenant
from ..views import Page

# The audit log: who decided what in the sessions of the key.

audit_router = routes("audit")
OfSession = Annotated[str, Query(max_length=MOST_SESSION, description="Only entries of this session.")]
OfUser = Annotated[str, Query(max_length=255, description="Only entries of this user's tasks.")]
ByActor = Annotated[str, Query(max_length=64, description="Only what this actor did, such as key:NAME.")]
OfAction = Annotated[str, Query(max_length=64, description="Only this action, such as approved or deleted.")]
Position = Annotated[int | Unset, Query(ge=1, le=2**53, description="The `next` of the page before.")]
_NAMES = ("from",)
"""Details that name a session."""


class AuditEntryView(BaseModel):
    """An entry of the audit log: what somebody decided, or that a task stopped or went on."""

    position: int = Field(description="the place in the log of the whole database")
    moment: float
    actor: str = Field(description="who acted: key:NAME, http, terminal, python, or segue", examples=["key:support"])
    action: str = Field(examples=["approved"])
    session_id: str
    task_id: str
    user_id: str = Field(description="whose task it is")
    details: dict[str, Any] = Field(description="ids and names, nothing that was said")
    digest: str


@audit_router.get("/api/audit", response_model=Page[AuditEntryView])
async def audit(
    service: ServiceDep,
    tenant: TenantDep,
    session_id: OfSession = "",
    user_id: OfUser = "",
    actor: ByActor = "",
    action: OfAction = "",
    limit: Limit = 50,
    before: Position = None,
) -> JsonResponse:
    """Who decided what in the key's sessions, the latest first; empty where the database has no audit log."""
    entries = await service.app.audit.list(
        session_id=tenant.stored(session_id) if session_id else "",
        user_id=tenant.stored(user_id) if user_id else "",
        actor=actor,
        action=action,
        session_prefix=tenant.prefix,
        before=before or 2**62,
        limit=limit + 1,
    )
    items = [_view(entry, tenant) for entry in entries[:limit]]
    return JsonResponse({"items": items, "next": items[-1]["position"] if len(entries) > limit else None})


def _view(entry: AuditEntry, tenant: Tenant) -> Json:
    form = entry.json()
    details = {name: tenant.shown(value) if name in _NAMES else value for name, value in entry.details.items()}
    names = {"session_id": tenant.shown(form.pop("session_id")), "user_id": tenant.shown(entry.user_id)}
    return {**form, **names, "details": details}


# Health, readiness and metrics of the service, and what it says about itself.

router = new_router("health")


class Health(BaseModel):
    """The status of the service."""

    status: str


class Readiness(Health):
    """That work is accepted, and the model that does it."""

    model: str = Field(description="the default agent's; `offline` is the offline planner", examples=["offline"])
    workers: int = Field(description="the workers that run tasks of the database; 0 over SQLite")
    waiting_for_worker: int = Field(description="tasks that wait for a worker, where none takes them")
    waiting_for_version: int = Field(description="tasks that keep a version of their agent which is not there")


@router.get("/healthz", response_model=Health)
async def healthz() -> JsonResponse:
    """Check that the process is running."""
    return JsonResponse({"status": "alive"})


@router.get(
    "/readyz",
    response_model=Readiness,
    responses={503: {"model": ErrorBody, "description": "No work is accepted now."}},
)
async def readyz(service: ServiceDep) -> JsonResponse:
    """Check that the database can be written and the service is not stopping."""
    found = await service.check_ready()
    return JsonResponse({"status": "ready", "model": service.default_model, **found._asdict()})


about_router = routes("service")


class Limits(BaseModel):
    """The limits of a key, or of the whole service where it has none."""

    messages_a_minute: int
    requests_a_minute: int
    streams: int = Field(description="open at once, in each process")
    tasks: int = Field(description="running or queued at once, in each process")
    body_bytes: int = Field(description="of a request without a file")
    upload_bytes: int = Field(description="of a file")
    import_bytes: int = Field(description="of an imported session")


class About(BaseModel):
    """What the service is: its version, its default model, and its limits."""

    version: str = Field(examples=["0.2.0"])
    model: str = Field(description="the default agent's; `offline` is the offline planner", examples=["offline"])
    limits: Limits


@about_router.get("/api/service", response_model=About)
async def about(service: ServiceDep, _: TenantDep) -> JsonResponse:
    """The service's version, default model and limits."""
    settings = service.settings
    limits = Limits(
        messages_a_minute=settings.chats_a_minute,
        requests_a_minute=settings.requests_a_minute,
        streams=settings.streams,
        tasks=settings.tasks,
        body_bytes=settings.body_bytes,
        upload_bytes=settings.upload_bytes,
        import_bytes=settings.import_bytes,
    )
    return JsonResponse({"version": version("segue"), "model": service.default_model, "limits": limits.model_dump()})


metrics_router = routes("metrics")
_METRICS = {"description": "The metrics.", "content": {"text/plain": {"schema": {"type": "string"}}}}


@metrics_router.get("/metrics", response_class=Response, responses={200: _METRICS})
async def metrics(service: ServiceDep) -> Response:
    """Give the service's metrics in Prometheus' text format: totals over all tenants."""
    return Response(await service.metrics.exposition(), media_type=CONTENT_TYPE_LATEST)


# What tasks used: tokens, calls and cost.

usage_router = routes("usage")
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


@usage_router.get("/api/usage", response_model=UsageReportView)
async def usage(service: ServiceDep, tenant: TenantDep, days: Days = 30, utc_offset: UtcOffset = 0) -> JsonResponse:
    """Tokens, model calls and cost of the last days, by day, agent, user and model, and what is used of limits."""
    zone = timezone(timedelta(minutes=utc_offset))
    report = await service.app.tasks.usage_report(days, zone, session_prefix=tenant.prefix)
    form = report.json()
    users = [{**row, "user": tenant.shown(row["user"])} for row in form["by_user"]]
    limits = [{**row, "name": tenant.shown(row["name"])} for row in form["limits"]]
    return JsonResponse({**form, "by_user": users, "limits": limits})
