"""Routes of sessions: history, snapshots, forks and deletion."""

from typing import Annotated, Any

from fastapi import Query, Response
from pydantic import BaseModel, ConfigDict, Field

from ...core.ids import Ids
from ..errors import JsonResponse
from ..views import Page, SessionView, SnapshotView, TaskView, session_view, snapshot_view
from .dependencies import CONFLICT, LONGEST, NAME, Before, Limit, ServiceDep, SessionId, TenantDep, Unset, routes
from .rewind import EffectView

router = routes("sessions")
KeepMemory = Annotated[bool, Query(description="Keep what its tasks wrote to memory files.")]


class ForkRequest(BaseModel):
    """Where to fork, and what to call the new session."""

    model_config = ConfigDict(extra="forbid")

    checkpoint_id: str = Field(max_length=64)
    session_id: str | None = Field(default=None, pattern=NAME, max_length=LONGEST)


class ForkView(BaseModel):
    """The new session, its newest task (one that had not ended there can be resumed), and the effects that stay."""

    session_id: str
    task_id: str | None
    status: str | None
    effects: list[EffectView]


@router.get("/api/sessions", response_model=Page[SessionView])
async def sessions(service: ServiceDep, tenant: TenantDep, limit: Limit = 50) -> JsonResponse:
    """The sessions, the last used first."""
    rows = await service.app.threads(limit=limit, prefix=tenant.prefix)
    return JsonResponse({"items": [session_view(row, tenant) for row in rows], "next": None})


@router.get("/api/sessions/{session_id}/tasks", response_model=Page[TaskView])
async def session_tasks(
    session_id: SessionId, service: ServiceDep, tenant: TenantDep, limit: Limit = 50, before: Before = None
) -> JsonResponse:
    """The session's tasks, the latest first."""
    thread_id = await service.own_session(tenant, session_id)
    return JsonResponse(await service.page_of_tasks(tenant, limit, before, session_id=thread_id))


@router.get("/api/sessions/{session_id}/history", response_model=Page[dict[str, Any]], responses=CONFLICT)
async def history(
    session_id: SessionId,
    service: ServiceDep,
    tenant: TenantDep,
    limit: Limit = 100,
    before: Annotated[int | Unset, Query(ge=0, le=2**53, description="The `next` of the page before.")] = None,
) -> JsonResponse:
    """The messages in OpenAI's format, oldest first; the first page is the latest, `next` leads further back."""
    messages = await service.app.history(await service.own_session(tenant, session_id))
    end = len(messages) if before is None else min(before, len(messages))
    start = max(0, end - limit)
    return JsonResponse({"items": messages[start:end], "next": start or None})


@router.get("/api/sessions/{session_id}/snapshots", response_model=Page[SnapshotView], responses=CONFLICT)
async def snapshots(
    session_id: SessionId, service: ServiceDep, tenant: TenantDep, limit: Limit = 50, before: Before = None
) -> JsonResponse:
    """The snapshots that the session can be forked at, newest first."""
    thread_id = await service.own_session(tenant, session_id)
    rows = await service.app.snapshots(thread_id, limit=limit + 1, before=before)
    items = [snapshot_view(row, tenant) for row in rows[:limit]]
    return JsonResponse({"items": items, "next": rows[limit - 1]["checkpoint_id"] if len(rows) > limit else None})


@router.post("/api/sessions/{session_id}/fork", status_code=201, response_model=ForkView, responses=CONFLICT)
async def fork(session_id: SessionId, body: ForkRequest, service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """Start a new session from a snapshot of this one; `effects` are the calls after it that stay in effect."""
    thread_id = await service.own_session(tenant, session_id)
    new = tenant.stored(body.session_id or Ids().thread())
    row = await service.app.fork(thread_id, body.checkpoint_id, session_id=new)
    stay = [each for each in await service.app.effects(thread_id, body.checkpoint_id) if each["undo"] != "done"]
    about = {"task_id": row["task_id"], "status": row["status"], "effects": stay}
    return JsonResponse({"session_id": tenant.shown(new), **about}, 201)


@router.delete("/api/sessions/{session_id}", status_code=204, responses=CONFLICT)
async def delete(
    session_id: SessionId, service: ServiceDep, tenant: TenantDep, keep_memory: KeepMemory = False
) -> Response:
    """Delete the session and everything that it holds; its forks stay."""
    await service.app.delete(await service.own_session(tenant, session_id), keep_memory=keep_memory)
    return Response(status_code=204)
