"""Routes of sessions, their permissions and their shares."""

import asyncio
import time
from dataclasses import replace
from typing import Annotated, Any

from fastapi import Path, Query, Response
from pydantic import BaseModel, Field

from ...core.conversation import MODE
from ...core.records import Hit, Json, Sender, Session, SessionChanges, SessionFilter, Share, Task, Thread
from ...core.task import LONGEST_NAME, NAME
from ...core.timeline import Branch
from .. import pages
from ..dependencies import (
    CONFLICT,
    Before,
    Html,
    KeyDep,
    Limit,
    PageDep,
    ServiceDep,
    SessionId,
    TenantDep,
    Unset,
    routes,
)
from ..errors import JsonResponse, LongJsonResponse, not_found
from ..markdown import render
from ..middleware import LONGEST_MODEL, MODEL, SHARED, RequestBody
from ..service import Service
from ..tenants import Tenant
from ..views import (
    Page,
    PermissionView,
    SnapshotView,
    TaskView,
    hit_view,
    own_answer,
    permission_view,
    session_view,
    snapshot_view,
    with_html,
)
from .rewind import EffectView, remaining_effects

router = routes("sessions")
Search = Annotated[str, Query(max_length=200, description="A text in the title or in the first message.")]
Archived = Annotated[bool, Query(description="The archived ones instead of the others.")]
SentBy = Annotated[Sender | Unset, Query(description="Only those that people began, or that programs did.")]
Words = Annotated[
    str, Query(max_length=200, description="Words or their beginnings; of Chinese any part, whatever the case.")
]
OfSession = Annotated[str, Query(max_length=LONGEST_NAME, description="Only in this session.")]
KeepMemory = Annotated[bool, Query(description="Keep what its tasks wrote to memory files.")]


class ForkRequest(RequestBody):
    """Where to fork, and what to call the new session."""

    checkpoint_id: str = Field(max_length=64)
    session_id: str | None = Field(default=None, pattern=NAME, max_length=LONGEST_NAME)


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

    session_id: str | None = Field(default=None, pattern=NAME, max_length=LONGEST_NAME)


@router.get("/api/sessions", response_model=Page[Thread])
async def sessions(
    service: ServiceDep,
    tenant: TenantDep,
    limit: Limit = 50,
    before: Before = None,
    q: Search = "",
    bots: bool = False,
    archived: Archived = False,
    sender: SentBy = None,
) -> JsonResponse:
    """The sessions, pinned ones and the last used first; those of conversations' bots with `bots` only."""
    which = SessionFilter(prefix=tenant.prefix, search=q.strip(), bots=bots, archived=archived, sender=sender)
    after = None
    if before is not None:
        pinned, updated_at, name = pages.read_place(before, [0, 0.0, ""])
        after = bool(pinned), updated_at, tenant.stored(name)
    rows = await service.app.sessions.list(limit + 1, which, pinned_first=True, after=after)
    items = [session_view(row, tenant) for row in rows[:limit]]
    if len(rows) <= limit:
        return JsonResponse(pages.page(items, None))
    last = rows[limit - 1]
    return JsonResponse(pages.page(items, [int(last.pinned), last.updated_at, tenant.shown(last.session_id)]))


@router.get("/api/search", response_model=Page[Hit])
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


@router.post("/api/sessions", status_code=201, response_model=Thread, responses=CONFLICT)
async def create(body: NewSession, service: ServiceDep, tenant: TenantDep, key: KeyDep) -> JsonResponse:
    """Create a session without a message, with an agent and a model of its own if they are named."""
    new, made = await service.new_session(tenant, body.session_id, key)
    if not made:
        session = _choose(service, Session(new, created_at=time.time()), body)
        await service.once(key, service.app.sessions.create(session, key, body.title or ""))
    return JsonResponse(await _view(service, tenant, new), 201)


@router.get("/api/sessions/{session_id}", response_model=Thread)
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
async def branches(
    session_id: SessionId,
    service: ServiceDep,
    tenant: TenantDep,
    page: PageDep,
) -> JsonResponse:
    """The branches of the session's conversation, the first one at the beginning; empty where it has none."""
    found = await service.app.sessions.branches(await service.own_session(tenant, session_id))
    items = [await _branch(service, tenant, each) for each in found]
    return JsonResponse(page.cut(items))


async def _branch(service: Service, tenant: Tenant, branch: Branch) -> Json:
    row = await service.app.sessions.get(branch.session_id)
    names = {"session_id": tenant.shown(branch.session_id), "parent": tenant.shown(branch.parent) or None}
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


class TitleView(BaseModel):
    """A session's title."""

    title: str


@router.post("/api/sessions/{session_id}/title", response_model=TitleView, responses=CONFLICT)
async def make_title(session_id: SessionId, service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """Have the agent's model name the session, once; a title that it has already stays."""
    thread_id = await service.own_session(tenant, session_id)
    return JsonResponse({"title": await service.app.sessions.make_title(thread_id)})


@router.patch("/api/sessions/{session_id}", status_code=204)
async def change(session_id: SessionId, body: SessionChange, service: ServiceDep, tenant: TenantDep) -> Response:
    """Rename, pin or archive the session, or choose the agent and the model that its next messages use."""
    thread_id = await service.own_session(tenant, session_id)
    changes = SessionChanges(**body.model_dump())
    if changes.choices:
        _choose(service, await service.app.sessions.settings(thread_id) or Session(thread_id), body)
    await service.app.sessions.change(thread_id, changes)
    return Response(status_code=204)


def _choose(service: Service, session: Session, body: Choices) -> Session:
    """The session with what the request chooses."""
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
    await service.app.sessions.delete(await service.own_session(tenant, session_id), keep_memory=keep_memory)
    return Response(status_code=204)


permissions_router = routes("permissions")
OfTool = Annotated[str, Query(max_length=2000, description="Only this tool, or this rule as it is listed.")]
OfAgent = Annotated[str, Query(max_length=200, description="Only tools of this agent.")]


class RevokedView(BaseModel):
    """How many permissions were revoked."""

    revoked: int


@permissions_router.get("/api/permissions", response_model=Page[PermissionView])
async def permissions(service: ServiceDep, tenant: TenantDep, page: PageDep) -> JsonResponse:
    """The tools that run without approval, in every session."""
    rows = await service.app.sessions.permissions(prefix=tenant.prefix)
    return JsonResponse(page.cut([permission_view(row, tenant) for row in rows], _granted))


@permissions_router.get("/api/sessions/{session_id}/permissions", response_model=Page[PermissionView])
async def session_permissions(
    session_id: SessionId,
    service: ServiceDep,
    tenant: TenantDep,
    page: PageDep,
) -> JsonResponse:
    """The tools that run without approval in the session, or in a task of it."""
    rows = await service.app.sessions.permissions(await service.own_session(tenant, session_id))
    return JsonResponse(page.cut([permission_view(row, tenant) for row in rows], _granted))


def _granted(permission: Json) -> pages.Place:
    """The place of a permission, the oldest first."""
    return [permission["granted_at"], *(permission[name] for name in ("tool", "session_id", "agent_id", "task_id"))]


@permissions_router.delete("/api/sessions/{session_id}/permissions", response_model=RevokedView)
async def revoke(
    session_id: SessionId, service: ServiceDep, tenant: TenantDep, tool: OfTool = "", agent_id: OfAgent = ""
) -> JsonResponse:
    """Have the session's tools ask for approval again, or only one of them."""
    thread_id = await service.own_session(tenant, session_id)
    return JsonResponse({"revoked": await service.app.sessions.revoke(thread_id, tool=tool, agent_id=agent_id)})


# Routes of links that show a conversation, read-only, to whoever has them.

shares_router = routes("shares")
public_router = routes("shares", needs_key=False)
PAGE = "/shared"
"""The document of the page that shows a shared conversation; the token is the address's fragment, which is not sent."""
MOST_HOURS = 24 * 365
TURNS = 50
"""Turns of one answer."""
_PRIVATE = {"Cache-Control": "no-store", "X-Robots-Tag": "noindex"}
OfShare = Annotated[str, Query(max_length=64, description="Only this link; by default all of the session's.")]


class ShareRequest(RequestBody):
    """How long the link works."""

    hours: float = Field(default=168, gt=0, le=MOST_HOURS)


class ShareView(BaseModel):
    """A link to a session."""

    share_id: str
    created_at: float
    expires_at: float


class NewShareView(ShareView):
    """A link with its token, which is not stored: it is not shown again."""

    token: str
    path: str = Field(description="the address on this service", examples=["/shared#TOKEN"])


class SharedTurn(BaseModel):
    """A message and its answer, as Markdown and as sanitised HTML."""

    task_id: str
    message: str
    files: list[str] = Field(description="names of the message's files")
    agent_id: str
    status: str
    answer: str
    html: str
    created_at: float


class SharedView(BaseModel):
    """A shared conversation, oldest turn first; `next` is the `before` of the turns before them."""

    title: str
    expires_at: float
    items: list[SharedTurn]
    next: str | None


@shares_router.post("/api/sessions/{session_id}/share", status_code=201, response_model=NewShareView)
async def share(session_id: SessionId, body: ShareRequest, service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """Make a link that shows the session's turns so far to whoever has it, without a key, until it expires."""
    thread_id = await service.own_session(tenant, session_id)
    token, made = await service.app.sessions.shares.create(thread_id, body.hours * 3600)
    return JsonResponse({**_share_view(made), "token": token, "path": f"{PAGE}#{token}"}, 201, _PRIVATE)


@shares_router.get("/api/sessions/{session_id}/share", response_model=Page[ShareView])
async def shares(
    session_id: SessionId,
    service: ServiceDep,
    tenant: TenantDep,
    page: PageDep,
) -> JsonResponse:
    """The links to the session that work, oldest first, without their tokens."""
    found = await service.app.sessions.shares.list(await service.own_session(tenant, session_id))
    items = [_share_view(each) for each in found]
    return JsonResponse(page.cut(items, lambda item: [item["created_at"], item["share_id"]]))


@shares_router.delete("/api/sessions/{session_id}/share", response_model=RevokedView)
async def unshare(
    session_id: SessionId, service: ServiceDep, tenant: TenantDep, share_id: OfShare = ""
) -> JsonResponse:
    """Revoke the links to the session, or one of them: they stop working at once."""
    thread_id = await service.own_session(tenant, session_id)
    return JsonResponse({"revoked": await service.app.sessions.shares.revoke(thread_id, share_id)})


def _share_view(made: Share) -> Json:
    return {name: value for name, value in made.json().items() if name != "session_id"}


Token = Annotated[str, Path(max_length=100, examples=["dGhpcyBpcyBub3QgYSByZWFsIHRva2Vu"])]


@public_router.get(f"{SHARED}{{token}}", response_model=SharedView)
async def shared(token: Token, service: ServiceDep, before: Before = None) -> JsonResponse:
    """A shared conversation: what was said until it was shared, and nothing else. It needs no key."""
    found = await service.app.sessions.shares.find(token)
    if found is None:
        raise not_found("share", "")
    if before and (await service.app.task(before)).session_id != found.session_id:
        raise not_found("task", before)
    shown, until = found.session_id, found.created_at
    tasks = await service.app.tasks.list(session_id=shown, limit=TURNS + 1, before=before, until=until)
    items = await asyncio.to_thread(lambda: [_turn(task, found) for task in reversed(tasks[:TURNS])])
    row = await service.app.sessions.get(shown)
    title = "" if row.mode == MODE and row.message.startswith(row.title) else row.title
    page = {"items": items, "next": tasks[TURNS - 1].task_id if len(tasks) > TURNS else None}
    return JsonResponse({"title": title, "expires_at": found.expires_at, **page}, headers=_PRIVATE)


def _turn(task: Task, found: Share) -> Json:
    """A turn as it was shared: the message of a simulated conversation, which configures it, is not shown."""
    answer = own_answer(task.result) if task.updated_at <= found.created_at else ""
    return {
        "task_id": task.task_id,
        "message": "" if task.mode == MODE else task.message,
        "files": [str(file["name"]) for file in task.attachments],
        "agent_id": task.agent_id,
        "status": str(task.status),
        "answer": answer,
        "html": render(answer),
        "created_at": task.created_at,
    }
