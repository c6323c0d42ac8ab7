"""Routes of messages for later and of notifications."""

from typing import Annotated, Literal

from fastapi import Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from ...core.errors import UnknownSchedule
from ...core.message import PERSONS, MemoryPaths
from ...core.notifications import StoredKind
from ...core.records import Json
from ...core.schedules import Schedule
from ...core.task import ANYBODY, LONGEST_NAME, NAME, LanguageChoice
from .. import pages
from ..dependencies import MODEL_DOWN, Before, KeyDep, Limit, PageDep, ServiceDep, TenantDep, Unset, routes
from ..errors import JsonResponse, not_found
from ..middleware import LONGEST_MODEL, MODEL, RequestBody
from ..service import Service
from ..tenants import Tenant
from ..views import Page, fields_of

# Routes of notifications that were not delivered.

notifications_router = routes("notifications")
Status = Annotated[Literal["pending", "dead"] | Unset, Query(description="Only those; by default all.")]


class NotificationView(BaseModel):
    """What a receiver is still to be told. It is sent until the receiver has it, or dead after about a day."""

    notification_id: str = Field(examples=["msg_0f8fad5bd9cb469fa165708673ee1f75"])
    task_id: str
    session_id: str
    receiver: str
    kind: StoredKind = Field(examples=["waiting"])
    status: Literal["pending", "dead"]
    attempts: int
    next_attempt: float | None
    error: str | None = Field(description="why the last attempt failed")
    created_at: float


class ReplayedView(BaseModel):
    """How many notifications are sent again."""

    replayed: int


@notifications_router.get("/api/notifications", response_model=Page[NotificationView])
async def notifications(
    service: ServiceDep, tenant: TenantDep, status: Status = None, limit: Limit = 100, before: Before = None
) -> JsonResponse:
    """The notifications that were not delivered yet, the newest first."""
    found = await service.app.notifications.list(status, prefix=tenant.prefix, limit=limit + 1, before=before)
    items = [_notification_view(each.json(), tenant) for each in found[:limit]]
    return JsonResponse({"items": items, "next": items[-1]["notification_id"] if len(found) > limit else None})


@notifications_router.post("/api/notifications/replay", response_model=ReplayedView)
async def replay_dead_notifications(service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """Send every dead notification again."""
    return JsonResponse({"replayed": await service.app.notifications.replay_dead(prefix=tenant.prefix)})


@notifications_router.post("/api/notifications/{notification_id:path}/replay", response_model=ReplayedView)
async def replay_notification(notification_id: str, service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """Send a notification again now, with all its attempts."""
    if not await service.app.notifications.replay(notification_id, prefix=tenant.prefix):
        raise not_found("notification", notification_id)
    return JsonResponse({"replayed": 1})


def _notification_view(form: Json, tenant: Tenant) -> Json:
    return {**form, "session_id": tenant.shown(form.pop("session_id"))}


# Routes of messages for later: stored, listed, paused and deleted.

router = routes("schedules")
ScheduleId = Annotated[str, Path(max_length=100, examples=["schedule-4f1c9a526f1e"])]


class ScheduleRequest(RequestBody):
    """A message for later: `at` a moment, or again and again by a cron expression, `every`."""

    model_config = ConfigDict(
        use_attribute_docstrings=True,
        json_schema_extra={
            "examples": [
                {"message": "What is the weather in Beijing?", "every": "0 9 * * mon", "timezone": "Asia/Shanghai"}
            ]
        },
    )

    message: str = Field(min_length=1)
    at: str | float | None = Field(default=None, examples=["2027-12-01T18:00+01:00"])
    """ISO 8601, Unix seconds, or a time of day such as 18:00."""
    every: str | None = Field(default=None, max_length=200, examples=["0 9 * * mon"])
    """Minute, hour, day, month and weekday."""
    timezone: str = Field(default="", max_length=60, examples=["Asia/Shanghai"])
    """The zone of `at` and `every`; by default the service's."""
    overlap: Literal["skip", "queue"] = "skip"
    """What becomes of a run while the last one is unfinished."""
    missed: Literal["once", "skip", "all"] = "once"
    """Of the runs that no process was there for, make up for one, none, or all."""
    session_id: str | None = Field(default=None, pattern=NAME, max_length=LONGEST_NAME)
    """The session of every run; without it each has a new one."""
    agent_id: str = Field(default="", max_length=64)
    mode: str = Field(default="", max_length=64)
    user_id: str = Field(default=ANYBODY, pattern=NAME, max_length=LONGEST_NAME)
    model: str = Field(default="", pattern=f"^({MODEL})?$", max_length=LONGEST_MODEL)
    language: LanguageChoice = ""
    memory_files: MemoryPaths = Field(default={})
    """The paths of memory files by their names, for a flow to read."""
    ask_user: bool | None = None
    """Whether its tasks may ask the user questions; by default as their agent does."""
    review_plan: bool | None = None
    """Whether a person reviews the plan of each task before it runs; by default as its agent says."""
    remember: bool = True
    """Use what the user said of themselves before; only with a `user_id`."""
    origin: Literal["api", "page"] = "api"
    """`page` where a person writes it."""


class ScheduleChange(RequestBody):
    """Whether the schedule runs."""

    active: bool


class ScheduleView(BaseModel):
    """A message for later."""

    schedule_id: str
    message: str
    session_id: str | None = Field(description="null where each run has a new one")
    agent_id: str
    mode: str = Field(description="empty: the user's, or the agent's own")
    every: str | None
    timezone: str
    overlap: str
    missed: str
    active: bool
    next_run: float | None
    last_task: str | None
    problem: str | None = Field(description="why the last run was not started")
    created_at: float


@router.post("/api/schedules", status_code=201, response_model=ScheduleView, responses=MODEL_DOWN)
async def create_schedule(body: ScheduleRequest, service: ServiceDep, tenant: TenantDep, key: KeyDep) -> JsonResponse:
    """Send a message later, once or again and again."""
    service.refuse_while_draining()
    given = body.model_dump(exclude={"message", "agent_id"})
    given |= {"agent": body.agent_id, "user_id": tenant.stored(body.user_id), "idempotency_key": key}
    given["remember"] = body.remember and tenant.knows(body.user_id)
    if body.session_id:
        given["session_id"] = tenant.stored(body.session_id)
    given = {name: value for name, value in given.items() if value is not None or name not in PERSONS}
    times = {name: given.pop(name) for name in ("at", "every") if given[name] is None}
    made = await service.app.schedules.create(body.message, {**given, **times}, prefix=tenant.prefix)
    return JsonResponse(_view(made, tenant), 201)


@router.get("/api/schedules", response_model=Page[ScheduleView])
async def schedules(service: ServiceDep, tenant: TenantDep, page: PageDep) -> JsonResponse:
    """The messages for later, those that are sent next first."""
    found = await service.app.schedules.list(tenant.prefix)
    return JsonResponse(page.cut([_view(each, tenant) for each in found], _next_first))


def _next_first(schedule: Json) -> pages.Place:
    """The place of a schedule: those that are sent next first, and at the end those that are paused."""
    return [int(not schedule["active"]), schedule["next_run"] or 0, schedule["schedule_id"]]


@router.get("/api/schedules/{schedule_id}", response_model=ScheduleView)
async def schedule(schedule_id: ScheduleId, service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """A message for later."""
    return JsonResponse(_view(await _own(service, tenant, schedule_id), tenant))


@router.patch("/api/schedules/{schedule_id}", response_model=ScheduleView)
async def change_schedule(
    schedule_id: ScheduleId, body: ScheduleChange, service: ServiceDep, tenant: TenantDep
) -> JsonResponse:
    """Pause a schedule, or resume it: what it missed while it was paused is left out."""
    found = await _own(service, tenant, schedule_id)
    does = service.app.schedules.resume if body.active else service.app.schedules.pause
    return JsonResponse(_view(await does(found.schedule_id), tenant))


@router.delete("/api/schedules/{schedule_id}", status_code=204)
async def delete_schedule(schedule_id: ScheduleId, service: ServiceDep, tenant: TenantDep) -> Response:
    """Delete a schedule; its sessions stay."""
    await service.app.schedules.delete((await _own(service, tenant, schedule_id)).schedule_id)
    return Response(status_code=204)


async def _own(service: Service, tenant: Tenant, schedule_id: str) -> Schedule:
    try:
        return await service.app.schedules.get(tenant.stored(schedule_id))
    except UnknownSchedule:
        raise not_found("schedule", schedule_id) from None


def _view(made: Schedule, tenant: Tenant) -> Json:
    form = made.json()
    session, problem = form["session_id"], form["problem"]
    shown = {
        "schedule_id": tenant.shown(made.schedule_id),
        "session_id": session and tenant.shown(session),
        "agent_id": made.agent_id,
        "mode": form.get("mode", ""),
        "problem": problem and tenant.without_prefix(problem),
    }
    return fields_of(ScheduleView, made, **{**form, **shown})
