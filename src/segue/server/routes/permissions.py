"""Permissions: tools that need no further approval."""

from typing import Annotated, Literal

from fastapi import Query
from pydantic import BaseModel, Field

from ...core.records import Json, Permission
from ..errors import JsonResponse
from ..tenants import Tenant
from ..views import TASK_ID, Page
from .dependencies import ServiceDep, SessionId, TenantDep, routes

router = routes("permissions")
OfTool = Annotated[str, Query(max_length=2000, description="Only this tool, or this rule as it is listed.")]
OfAgent = Annotated[str, Query(max_length=200, description="Only tools of this agent.")]


class PermissionView(BaseModel):
    """A tool of an agent that runs without approval in a session, or in one task of it."""

    session_id: str = Field(examples=["session_123"])
    agent_id: str = Field(examples=["support"])
    tool: str = Field(description="its name, or with arguments a rule", examples=["refund", 'refund {"order_id": 17}'])
    scope: Literal["task", "session"]
    task_id: str = Field(description="the task whose question was answered so", examples=[TASK_ID])
    granted_at: float


class RevokedView(BaseModel):
    """How many permissions were revoked."""

    revoked: int


@router.get("/api/permissions", response_model=Page[PermissionView])
async def permissions(service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """The tools that run without approval, in every session."""
    rows = await service.app.sessions.permissions(prefix=tenant.prefix)
    return JsonResponse({"items": [_view(row, tenant) for row in rows], "next": None})


@router.get("/api/sessions/{session_id}/permissions", response_model=Page[PermissionView])
async def session_permissions(session_id: SessionId, service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """The tools that run without approval in the session, or in a task of it."""
    rows = await service.app.sessions.permissions(await service.own_session(tenant, session_id))
    return JsonResponse({"items": [_view(row, tenant) for row in rows], "next": None})


@router.delete("/api/sessions/{session_id}/permissions", response_model=RevokedView)
async def revoke(
    session_id: SessionId, service: ServiceDep, tenant: TenantDep, tool: OfTool = "", agent_id: OfAgent = ""
) -> JsonResponse:
    """Have the session's tools ask for approval again, or only one of them."""
    thread_id = await service.own_session(tenant, session_id)
    return JsonResponse({"revoked": await service.app.revoke(thread_id, tool=tool, agent_id=agent_id)})


def _view(row: Permission, tenant: Tenant) -> Json:
    kept = {name: value for name, value in row.json().items() if name in PermissionView.model_fields}
    return {"session_id": tenant.shown(row.thread_id), **kept}
