"""Routes of notifications that were not delivered."""

from typing import Annotated, Literal

from fastapi import Query
from pydantic import BaseModel, Field

from ...core.records import Json
from ..errors import JsonResponse, not_found
from ..tenants import Tenant
from ..views import Page
from .dependencies import Before, Limit, ServiceDep, TenantDep, Unset, routes

router = routes("notifications")
Status = Annotated[Literal["pending", "dead"] | Unset, Query(description="Only those; by default all.")]


class NotificationView(BaseModel):
    """What a receiver is still to be told. It is sent until the receiver has it, or dead after about a day."""

    notification_id: str = Field(examples=["msg_0f8fad5bd9cb469fa165708673ee1f75"])
    task_id: str
    session_id: str
    receiver: str
    kind: str = Field(description="waiting, done, error, limit, cancelled or taken_over", examples=["waiting"])
    status: Literal["pending", "dead"]
    attempts: int
    next_attempt: float | None
    error: str | None = Field(description="why the last attempt failed")
    created_at: float


class ReplayedView(BaseModel):
    """How many notifications are sent again."""

    replayed: int


@router.get("/api/notifications", response_model=Page[NotificationView])
async def notifications(
    service: ServiceDep, tenant: TenantDep, status: Status = None, limit: Limit = 100, before: Before = None
) -> JsonResponse:
    """The notifications that were not delivered yet, the newest first."""
    found = await service.app.notifications.list(status, prefix=tenant.prefix, limit=limit + 1, before=before)
    items = [_view(each.json(), tenant) for each in found[:limit]]
    return JsonResponse({"items": items, "next": items[-1]["notification_id"] if len(found) > limit else None})


@router.post("/api/notifications/replay", response_model=ReplayedView)
async def replay_dead_notifications(service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """Send every dead notification again."""
    return JsonResponse({"replayed": await service.app.notifications.replay_dead(prefix=tenant.prefix)})


@router.post("/api/notifications/{notification_id:path}/replay", response_model=ReplayedView)
async def replay_notification(notification_id: str, service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """Send a notification again now, with all its attempts."""
    if not await service.app.notifications.replay(notification_id, prefix=tenant.prefix):
        raise not_found("notification", notification_id)
    return JsonResponse({"replayed": 1})


def _view(form: Json, tenant: Tenant) -> Json:
    return {**form, "session_id": tenant.shown(form.pop("thread_id"))}
