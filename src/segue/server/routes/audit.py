"""The audit log: who decided what in the sessions of the key."""

from typing import Annotated, Any

from fastapi import Query
from pydantic import BaseModel, Field

from ...core.audit import AuditEntry
from ...core.records import Json
from ..errors import JsonResponse
from ..tenants import Tenant
from ..views import Page
from .dependencies import Limit, ServiceDep, TenantDep, Unset, routes

router = routes("audit")
OfSession = Annotated[str, Query(max_length=128, description="Only entries of this session.")]
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


@router.get("/api/audit", response_model=Page[AuditEntryView])
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
    names = {"session_id": tenant.shown(form.pop("thread_id")), "user_id": tenant.shown(entry.user_id)}
    return {**form, **names, "details": details}
