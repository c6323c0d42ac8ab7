"""Routes of OpenAI's conversations: a conversation is a session."""

import time
from dataclasses import replace
from typing import Annotated, Literal

from fastapi import Query

from ...core.records import Json, Session
from ..errors import JsonResponse, not_found
from ..protocols.response_view import file_parts
from ..responses.bodies import ConversationChange, ConversationRequest, ConversationView, Deleted, ItemList
from ..service import Service
from ..tenants import Tenant
from .dependencies import CONFLICT, KeyDep, ServiceDep, SessionId, TenantDep, Unset, routes
from .responses import item_list

router = routes("openai")
_ROLES = ("user", "assistant")
After = Annotated[str | Unset, Query(max_length=200, description="The id of the last item of the page before.")]


@router.post("/v1/conversations", response_model=ConversationView, responses=CONFLICT)
async def create_conversation(
    service: ServiceDep, tenant: TenantDep, key: KeyDep, body: ConversationRequest | None = None
) -> JsonResponse:
    """Create a conversation without a message."""
    new, made = await service.new_session(tenant, None, key)
    if not made:
        metadata = (body.metadata if body else None) or {}
        session = Session(new, metadata=metadata, created_at=time.time())
        await service.once(key, service.app.sessions.create(session, key))
    return JsonResponse(await _view(service, tenant, new))


@router.get("/v1/conversations/{session_id}", response_model=ConversationView)
async def conversation(session_id: SessionId, service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """A conversation, which any session is."""
    return JsonResponse(await _view(service, tenant, await service.own_session(tenant, session_id)))


@router.post("/v1/conversations/{session_id}", response_model=ConversationView)
async def change_conversation(
    session_id: SessionId, body: ConversationChange, service: ServiceDep, tenant: TenantDep
) -> JsonResponse:
    """Change a conversation's metadata."""
    thread_id = await service.own_session(tenant, session_id)
    session = await _session(service, thread_id)
    await service.app.sessions.choose(replace(session, metadata=body.metadata))
    return JsonResponse(await _view(service, tenant, thread_id))


@router.delete("/v1/conversations/{session_id}", response_model=Deleted, responses=CONFLICT)
async def delete_conversation(session_id: SessionId, service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """Delete a conversation and everything that it holds."""
    await service.app.delete(await service.own_session(tenant, session_id))
    return JsonResponse({"id": session_id, "object": "conversation.deleted", "deleted": True})


@router.get("/v1/conversations/{session_id}/items", response_model=ItemList, responses=CONFLICT)
async def conversation_items(
    session_id: SessionId,
    service: ServiceDep,
    tenant: TenantDep,
    order: Literal["asc", "desc"] = "desc",
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    after: After = None,
) -> JsonResponse:
    """The messages of a conversation."""
    thread_id = await service.own_session(tenant, session_id)
    said = await service.app.history(thread_id) if await service.app.tasks.newest(thread_id) else []
    items = [_item(number, message) for number, message in enumerate(said) if message["role"] in _ROLES]
    items = [item for item in items if item["content"]]
    if order == "desc":
        items.reverse()
    ids = [item["id"] for item in items]
    if after and after not in ids:
        raise not_found("item", after)
    first = ids.index(after) + 1 if after else 0
    return JsonResponse({**item_list(items[first : first + limit]), "has_more": len(items) > first + limit})


def _item(number: int, message: Json) -> Json:
    """A message of a session's history as an item."""
    kind = "input_text" if message["role"] == "user" else "output_text"
    text = message["content"]
    more: Json = {} if kind == "input_text" else {"annotations": [], "logprobs": []}
    content = [{"type": kind, "text": text, **more}] if isinstance(text, str) and text else []
    content += file_parts(message.get("attachments", ()))
    return {
        "id": f"item_{number}",
        "type": "message",
        "status": "completed",
        "role": message["role"],
        "content": content,
    }


async def _session(service: Service, thread_id: str) -> Session:
    """What was chosen for a session, which began with its first message if nothing was."""
    if session := await service.app.sessions.choices(thread_id):
        return session
    (*_, first) = await service.app.tasks.list(session_id=thread_id, limit=-1)
    return Session(thread_id, created_at=first.created_at)


async def _view(service: Service, tenant: Tenant, thread_id: str) -> Json:
    session = await _session(service, thread_id)
    about = {"created_at": int(session.created_at), "metadata": dict(session.metadata)}
    return {"id": tenant.shown(thread_id), "object": "conversation", **about}
