"""Routes of links that show a conversation, read-only, to whoever has them."""

import asyncio
from typing import Annotated

from fastapi import Path, Query
from pydantic import BaseModel, Field

from ...core.conversation import MODE
from ...core.records import Json, Share, Task
from ..errors import JsonResponse, not_found
from ..markdown import render
from ..middleware import SHARED
from ..request_body import RequestBody
from ..views import Page
from .dependencies import Before, ServiceDep, SessionId, TenantDep, routes
from .sessions import RevokedView

router = routes("shares")
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


@router.post("/api/sessions/{session_id}/share", status_code=201, response_model=NewShareView)
async def share(session_id: SessionId, body: ShareRequest, service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """Make a link that shows the session's turns so far to whoever has it, without a key, until it expires."""
    thread_id = await service.own_session(tenant, session_id)
    token, made = await service.app.sessions.shares.create(thread_id, body.hours * 3600)
    return JsonResponse({**_view(made), "token": token, "path": f"{PAGE}#{token}"}, 201, _PRIVATE)


@router.get("/api/sessions/{session_id}/share", response_model=Page[ShareView])
async def shares(session_id: SessionId, service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """The links to the session that work, oldest first, without their tokens."""
    found = await service.app.sessions.shares.list(await service.own_session(tenant, session_id))
    return JsonResponse({"items": [_view(each) for each in found], "next": None})


@router.delete("/api/sessions/{session_id}/share", response_model=RevokedView)
async def unshare(
    session_id: SessionId, service: ServiceDep, tenant: TenantDep, share_id: OfShare = ""
) -> JsonResponse:
    """Revoke the links to the session, or one of them: they stop working at once."""
    thread_id = await service.own_session(tenant, session_id)
    return JsonResponse({"revoked": await service.app.sessions.shares.revoke(thread_id, share_id)})


def _view(made: Share) -> Json:
    return {name: value for name, value in made.json().items() if name != "thread_id"}


Token = Annotated[str, Path(max_length=100, examples=["dGhpcyBpcyBub3QgYSByZWFsIHRva2Vu"])]


@public_router.get(f"{SHARED}{{token}}", response_model=SharedView)
async def shared(token: Token, service: ServiceDep, before: Before = None) -> JsonResponse:
    """A shared conversation: what was said until it was shared, and nothing else. It needs no key."""
    found = await service.app.sessions.shares.find(token)
    if found is None:
        raise not_found("share", "")
    if before and (await service.app.tasks.get(before)).thread_id != found.thread_id:
        raise not_found("task", before)
    shown, until = found.thread_id, found.created_at
    tasks = await service.app.tasks.list(session_id=shown, limit=TURNS + 1, before=before, until=until)
    items = await asyncio.to_thread(lambda: [_turn(task, found) for task in reversed(tasks[:TURNS])])
    row = await service.app.sessions.get(shown)
    title = "" if row.mode == MODE and row.message.startswith(row.title) else row.title
    page = {"items": items, "next": tasks[TURNS - 1].task_id if len(tasks) > TURNS else None}
    return JsonResponse({"title": title, "expires_at": found.expires_at, **page}, headers=_PRIVATE)


def _turn(task: Task, found: Share) -> Json:
    """A turn as it was shared: the message of a simulated conversation, which configures it, is not shown."""
    answer = str((task.result or {}).get("answer") or "") if task.updated_at <= found.created_at else ""
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
