"""Routes of sessions: history, snapshots, forks, deletion and permissions."""

import asyncio
import time
from dataclasses import replace
from typing import Annotated, Any

from fastapi import Query, Response
from pydantic import BaseModel, Field

from ...core.records import Json, Session
from ...core.session_filter import Sender, SessionFilter
from ...core.timeline import Branch
from ..errors import JsonResponse, LongJsonResponse
from ..request_body import LONGEST, LONGEST_MODEL, MODEL, NAME, RequestBody
from ..service import Service
from ..tenants import Tenant
from ..views import (
    HitView,
    Page,
    PermissionView,
    SessionView,
    SnapshotView,
    TaskView,
    hit_view,
    permission_view,
    session_view,
    snapshot_view,
    with_html,
)
from .dependencies import CONFLICT, Before, Html, KeyDep, Limit, ServiceDep, SessionId, TenantDep, Unset, routes
from .rewind import EffectView, remaining_effects

router = routes("sessions")
Search = Annotated[str, Query(max_length=200, description="A text in the title or in the first message.")]
Archived = Annotated[bool, Query(description="The archived ones instead of the others.")]
SentBy = Annotated[Sender | Unset, Query(description="Only those that people began, or that programs did.")]
Words = Annotated[
    str, Query(max_length=200, description="Words or their beginnings; of Chinese any part, whatever the case.")
]
OfSession = Annotated[str, Query(max_length=LONGEST, description="Only in this session.")]
KeepMemory = Annotated[bool, Query(description="Keep what its tasks wrote to memory files.")]


class ForkRequest(RequestBody):
    """Where to fork, and what to call the new session."""

    checkpoint_id: str = Field(max_length=64)
    session_id: str | None = Field(default=None, pattern=NAME, max_length=LONGEST)


class ForkView(BaseModel):
    """The new session, its newest task (one that had not ended there can be resumed), and the effects that stay."""

    session_id: str
    task_id: str | None
    status: str | None
    effects: list[EffectView]


class Choices(RequestBody):
    """What messages to the session use that name no agent or model of their own; an empty text takes it back."""

    title: str | None = Field(default=None, max_length=200)
    agent_id: str | None = Field(default=None, max_length=64)
    model: str | None = Field(default=None, pattern=f"^{MODEL}?$", max_length=LONGEST_MODEL)


class SessionChange(Choices):
    """What is changed of a session; `pinned` and `archived` are those of its whole conversation."""

    pinned: bool | None = None
    archived: bool | None = None


class NewSession(Choices):
    """A session without a message."""

    session_id: str | None = Field(default=None, pattern=NAME, max_length=LONGEST)


@router.get("/api/sessions", response_model=Page[SessionView])
async def sessions(
    service: ServiceDep,
    tenant: TenantDep,
    limit: Limit = 50,
    q: Search = "",
    bots: bool = False,
    archived: Archived = False,
    sender: SentBy = None,
) -> JsonResponse:
    """The sessions, pinned ones and the last used first; those of conversations' bots with `bots` only."""
    which = SessionFilter(prefix=tenant.prefix, search=q.strip(), bots=bots, archived=archived, sender=sender)
    rows = await service.app.sessions.list(limit, which, pinned_first=True)
    return JsonResponse({"items": [session_view(row, tenant) for row in rows], "next": None})


@router.get("/api/search", response_model=Page[HitView])
async def search(
    q: Words,
    service: ServiceDep,
    tenant: TenantDep,
    session_id: OfSession = "",
    limit: Limit = 20,
    before: Before = None,
) -> JsonResponse:
    """Where every word is in a message or an answer, newest first, one place for each task."""
    of = tenant.stored(session_id) if session_id else ""
    if before is not None:
        await service.own_task(tenant, before)
    hits = await service.app.sessions.search(
        q, prefix=tenant.prefix, session_id=of, limit=limit + 1, before=before or ""
    )
    items = [hit_view(hit, tenant) for hit in hits[:limit]]
    return JsonResponse({"items": items, "next": items[-1]["task_id"] if len(hits) > limit else None})


@router.post("/api/sessions", status_code=201, response_model=SessionView, responses=CONFLICT)
async def create(body: NewSession, service: ServiceDep, tenant: TenantDep, key: KeyDep) -> JsonResponse:
    """Create a session without a message, with an agent and a model of its own if they are named."""
    new, made = await service.new_session(tenant, body.session_id, key)
    if not made:
        session = _chosen(service, Session(new, created_at=time.time()), body)
        await service.once(key, service.app.sessions.create(session, key, body.title or ""))
    return JsonResponse(await _view(service, tenant, new), 201)


@router.get("/api/sessions/{session_id}", response_model=SessionView)
async def session(session_id: SessionId, service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """A session as the list shows it."""
    return JsonResponse(await _view(service, tenant, await service.own_session(tenant, session_id)))


@router.get("/api/sessions/{session_id}/tasks", response_model=Page[TaskView])
async def session_tasks(
    session_id: SessionId,
    service: ServiceDep,
    tenant: TenantDep,
    limit: Limit = 50,
    before: Before = None,
    html: Html = False,
) -> JsonResponse:
    """The session's tasks, the latest first."""
    thread_id = await service.own_session(tenant, session_id)
    page = await service.page_of_tasks(tenant, limit, before, session_id=thread_id)
    if html:
        page["items"] = await asyncio.to_thread(lambda: [with_html(task) for task in page["items"]])
    return JsonResponse(page)


@router.get("/api/sessions/{session_id}/history", response_model=Page[dict[str, Any]], responses=CONFLICT)
async def history(
    session_id: SessionId,
    service: ServiceDep,
    tenant: TenantDep,
    limit: Limit = 100,
    before: Annotated[int | Unset, Query(ge=0, le=2**53, description="The `next` of the page before.")] = None,
) -> LongJsonResponse:
    """The messages in OpenAI's format, oldest first; the first page is the latest, `next` leads further back."""
    thread_id = await service.own_session(tenant, session_id)
    messages = await service.app.history(thread_id) if await service.app.tasks.newest(thread_id) else []
    end = len(messages) if before is None else min(before, len(messages))
    start = max(0, end - limit)
    return LongJsonResponse({"items": messages[start:end], "next": start or None})


@router.get("/api/sessions/{session_id}/snapshots", response_model=Page[SnapshotView], responses=CONFLICT)
async def snapshots(
    session_id: SessionId, service: ServiceDep, tenant: TenantDep, limit: Limit = 50, before: Before = None
) -> JsonResponse:
    """The snapshots that the session can be forked at, newest first."""
    thread_id = await service.own_session(tenant, session_id)
    rows = await service.app.sessions.snapshots(thread_id, limit + 1, before)
    items = [snapshot_view(row, tenant) for row in rows[:limit]]
    return JsonResponse({"items": items, "next": rows[limit - 1].checkpoint_id if len(rows) > limit else None})


class BranchView(BaseModel):
    """A branch of a conversation: it repeats its parent before a turn, and differs from there on."""

    session_id: str
    parent: str | None = Field(description="the session that it repeats; null for the first one")
    turn: int = Field(description="the first turn that is its own, from 1")
    turns: int
    updated_at: float


@router.get("/api/sessions/{session_id}/branches", response_model=Page[BranchView])
async def branches(session_id: SessionId, service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """The branches of the session's conversation, the first one at the beginning; empty where it has none."""
    found = await service.app.sessions.branches(await service.own_session(tenant, session_id))
    items = [await _branch(service, tenant, each) for each in found]
    return JsonResponse({"items": items, "next": None})


async def _branch(service: Service, tenant: Tenant, branch: Branch) -> Json:
    row = await service.app.sessions.get(branch.thread_id)
    names = {"session_id": tenant.shown(branch.thread_id), "parent": tenant.shown(branch.parent) or None}
    return {**names, "turn": branch.turn, "turns": row.turns, "updated_at": row.updated_at}


@router.post("/api/sessions/{session_id}/fork", status_code=201, response_model=ForkView, responses=CONFLICT)
async def fork(
    session_id: SessionId, body: ForkRequest, service: ServiceDep, tenant: TenantDep, key: KeyDep
) -> JsonResponse:
    """Start a new session from a snapshot of this one; `effects` are the calls after it that stay in effect."""
    thread_id = await service.own_session(tenant, session_id)
    new, made = await service.new_session(tenant, body.session_id, key)
    if not made:
        await service.once(key, service.app.rewind.fork(thread_id, body.checkpoint_id, new, key))
    stay = await remaining_effects(service, thread_id, body.checkpoint_id)
    return JsonResponse({"session_id": tenant.shown(new), **await service.newest(new), "effects": stay}, 201)


@router.patch("/api/sessions/{session_id}", status_code=204)
async def change(session_id: SessionId, body: SessionChange, service: ServiceDep, tenant: TenantDep) -> Response:
    """Rename, pin or archive the session, or choose the agent and the model that its next messages use."""
    thread_id = await service.own_session(tenant, session_id)
    if body.agent_id is not None or body.model is not None:
        chosen = await service.app.sessions.choices(thread_id) or Session(thread_id, created_at=time.time())
        await service.app.sessions.choose(_chosen(service, chosen, body))
    if body.pinned is not None or body.archived is not None:
        await service.app.sessions.file(thread_id, pinned=body.pinned, archived=body.archived)
    if body.title is not None:
        await service.app.rename(thread_id, body.title)
    return Response(status_code=204)


def _chosen(service: Service, session: Session, body: Choices) -> Session:
    """The session with what the request chooses.

    Raises:
        UnknownAgent, UnknownModel.
    """
    agent_id = session.agent_id if body.agent_id is None else body.agent_id
    model = session.model if body.model is None else body.model
    service.app.model_for(agent_id, model)
    return replace(session, agent_id=agent_id, model=model)


async def _view(service: Service, tenant: Tenant, thread_id: str) -> Json:
    return session_view(await service.app.sessions.get(thread_id), tenant)


@router.delete("/api/sessions/{session_id}", status_code=204, responses=CONFLICT)
async def delete(
    session_id: SessionId, service: ServiceDep, tenant: TenantDep, keep_memory: KeepMemory = False
) -> Response:
    """Delete the session and everything that it holds, and the branches of its conversation; its forks stay."""
    await service.app.delete(await service.own_session(tenant, session_id), keep_memory=keep_memory)
    return Response(status_code=204)


permissions_router = routes("permissions")
OfTool = Annotated[str, Query(max_length=2000, description="Only this tool, or this rule as it is listed.")]
OfAgent = Annotated[str, Query(max_length=200, description="Only tools of this agent.")]


class RevokedView(BaseModel):
    """How many permissions were revoked."""

    revoked: int


@permissions_router.get("/api/permissions", response_model=Page[PermissionView])
async def permissions(service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """The tools that run without approval, in every session."""
    rows = await service.app.sessions.permissions(prefix=tenant.prefix)
    return JsonResponse({"items": [permission_view(row, tenant) for row in rows], "next": None})


@permissions_router.get("/api/sessions/{session_id}/permissions", response_model=Page[PermissionView])
async def session_permissions(session_id: SessionId, service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """The tools that run without approval in the session, or in a task of it."""
    rows = await service.app.sessions.permissions(await service.own_session(tenant, session_id))
    return JsonResponse({"items": [permission_view(row, tenant) for row in rows], "next": None})


@permissions_router.delete("/api/sessions/{session_id}/permissions", response_model=RevokedView)
async def revoke(
    session_id: SessionId, service: ServiceDep, tenant: TenantDep, tool: OfTool = "", agent_id: OfAgent = ""
) -> JsonResponse:
    """Have the session's tools ask for approval again, or only one of them."""
    thread_id = await service.own_session(tenant, session_id)
    return JsonResponse({"revoked": await service.app.revoke(thread_id, tool=tool, agent_id=agent_id)})
