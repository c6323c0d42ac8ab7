"""Routes of OpenAI's responses and conversations: a response is a task or part of one, a conversation a session."""

import time
from contextlib import aclosing
from dataclasses import replace
from hashlib import sha256
from typing import Annotated, Literal

from fastapi import Path, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from ...core.records import Json, Session, Task
from ..errors import JsonResponse, Problem, not_found
from ..protocols.response_view import ResponseView, file_parts, frames, input_items, response_view
from ..readers.responses import (
    ConversationChange,
    ConversationRequest,
    ResponseRequest,
    ResponseTasks,
)
from ..readers.segment import Segment, own_segment, segment_of
from ..service import Service
from ..stream import EventStream
from ..tenants import Tenant
from .chat import task_headers
from .dependencies import (
    CONFLICT,
    MODEL_DOWN,
    KeyDep,
    Retries,
    ServiceDep,
    SessionId,
    TenantDep,
    Unset,
    UserName,
    routes,
)
from .openai import Deleted, ItemList, agent_and_mode, item_list

router = routes("openai")
_STREAM = {
    "description": "The response; with `stream` server-sent events.",
    "content": {"text/event-stream": {}},
}
_NOT_REPEATED = {"input", "tools", "stream", "stream_options", "include", "conversation", "prompt_cache_options"}
"""What a response does not repeat of its request."""
ResponseId = Annotated[str, Path(max_length=200, examples=["resp_2f1c9a52-6f1e-4f3e-9a55-0d2a4f5b6c7d"])]


@router.post("/v1/responses", response_model=ResponseView, responses={200: _STREAM, **CONFLICT, **MODEL_DOWN})
async def create_response(
    body: ResponseRequest,
    service: ServiceDep,
    tenant: TenantDep,
    request: Request,
    key: KeyDep,
    x_openwebui_user_id: UserName = None,
    x_stainless_retry_count: Retries = 0,
) -> Response:
    """Answer a message, or continue with a person's decisions; a client that disconnects stops nothing.

    With `background` it returns at once. A response continues after a crash of the service; its stream can be read
    again from any of its events.
    """
    service.refuse_while_draining()
    if body.conversation and body.previous_response_id:
        raise Problem(422, "ConversationAndResponse")
    agent, mode = agent_and_mode(service, body.model)
    about = body.model_dump(mode="json", exclude=_NOT_REPEATED, exclude_none=True, by_alias=True)
    user = x_openwebui_user_id or body.user or "default"
    sender = f"{tenant.person}/{user}\n".encode()
    sent = key, sha256(sender + await request.body()).hexdigest(), x_stainless_retry_count, about
    options: Json = {"agent": agent, "mode": mode, "user_id": tenant.stored(user)}
    options["client_tools"] = body.client_tools
    tasks = ResponseTasks(service, tenant, body, options)
    if body.background and not body.stream:
        return await _view(service, tenant, *await tasks.begin(*sent))
    service.open_stream(tenant)
    try:
        row, start = await tasks.begin(*sent)
        segment = await segment_of(service, row, start)
        if body.stream:
            return EventStream(service, tenant, frames(service, tenant, segment), task_headers(tenant, row))
    except BaseException:
        service.close_stream(tenant)
        raise
    try:
        async with aclosing(frames(service, tenant, segment)) as stream:
            async for _ in stream:
                pass
        return await _view(service, tenant, await service.app.tasks.get(segment.task_id), start)
    finally:
        service.close_stream(tenant)


async def _stored_segment(service: Service, tenant: Tenant, response_id: str) -> Segment:
    """A response of the tenant's that can be read again."""
    segment = await own_segment(service, tenant, response_id)
    if not segment.is_stored:
        raise not_found("unstored_response", response_id)
    return segment


@router.post("/v1/responses/compact", include_in_schema=False)
async def compact(_: TenantDep) -> Response:
    """Responses cannot be compacted; without this route the path would be that of a response."""
    raise HTTPException(404)


@router.get("/v1/responses/{response_id}", response_model=ResponseView, responses={200: _STREAM})
async def response(
    response_id: ResponseId,
    service: ServiceDep,
    tenant: TenantDep,
    stream: bool = False,
    starting_after: Annotated[int | Unset, Query(ge=0, le=2**53, description="The number of the last event.")] = None,
) -> Response:
    """A response as it is now; with `stream` its events, those after a number if it is given, and what follows."""
    segment = await _stored_segment(service, tenant, response_id)
    if stream:
        service.open_stream(tenant)
        missed = frames(service, tenant, segment, -1 if starting_after is None else starting_after)
        return EventStream(service, tenant, missed, task_headers(tenant, segment.row))
    return JsonResponse(await response_view(service, segment, tenant))


@router.get("/v1/responses/{response_id}/input_items", response_model=ItemList)
async def response_input_items(
    response_id: ResponseId, service: ServiceDep, tenant: TenantDep, order: Literal["asc", "desc"] = "desc"
) -> JsonResponse:
    """What a response answers."""
    items = input_items(await _stored_segment(service, tenant, response_id))
    return JsonResponse(item_list(items if order == "asc" else items[::-1]))


@router.post("/v1/responses/{response_id}/cancel", response_model=ResponseView, responses=CONFLICT)
async def cancel_response(response_id: ResponseId, service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """Cancel a response's task; one that is cancelled stays so."""
    segment = await _stored_segment(service, tenant, response_id)
    if not segment.is_last:
        raise Problem(409, "ResponseContinued", named=response_id)
    if segment.status != "cancelled":
        await service.app.cancel(segment.task_id)
    return await _view(service, tenant, await service.app.tasks.get(segment.task_id), segment.start)


@router.delete("/v1/responses/{response_id}", response_model=Deleted, responses=CONFLICT)
async def delete_response(response_id: ResponseId, service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """Delete a response that is the only one of its conversation, with that."""
    segment = await _stored_segment(service, tenant, response_id)
    thread_id = segment.row.thread_id
    tasks = await service.app.tasks.list(session_id=thread_id, limit=2)
    branches = await service.app.sessions.branches(thread_id)
    if len(tasks) > 1 or branches or segment.start or not segment.is_last:
        raise Problem(409, "PartOfConversation", named=tenant.shown(thread_id))
    await service.app.delete(thread_id)
    return JsonResponse({"id": response_id, "object": "response", "deleted": True})


async def _view(service: Service, tenant: Tenant, row: Task, start: int) -> JsonResponse:
    segment = await segment_of(service, row, start)
    return JsonResponse(await response_view(service, segment, tenant), 200, task_headers(tenant, row))


conversations_router = routes("openai")
_ROLES = ("user", "assistant")
After = Annotated[str | Unset, Query(max_length=200, description="The id of the last item of the page before.")]


class ConversationView(BaseModel):
    """A conversation, which is a session."""

    id: str
    object: Literal["conversation"]
    created_at: int
    metadata: dict[str, str]


@conversations_router.post("/v1/conversations", response_model=ConversationView, responses=CONFLICT)
async def create_conversation(
    service: ServiceDep, tenant: TenantDep, key: KeyDep, body: ConversationRequest | None = None
) -> JsonResponse:
    """Create a conversation without a message."""
    new, made = await service.new_session(tenant, None, key)
    if not made:
        metadata = (body.metadata if body else None) or {}
        session = Session(new, metadata=metadata, created_at=time.time())
        await service.once(key, service.app.sessions.create(session, key))
    return JsonResponse(await _conversation_view(service, tenant, new))


@conversations_router.get("/v1/conversations/{session_id}", response_model=ConversationView)
async def conversation(session_id: SessionId, service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """A conversation, which any session is."""
    return JsonResponse(await _conversation_view(service, tenant, await service.own_session(tenant, session_id)))


@conversations_router.post("/v1/conversations/{session_id}", response_model=ConversationView)
async def change_conversation(
    session_id: SessionId, body: ConversationChange, service: ServiceDep, tenant: TenantDep
) -> JsonResponse:
    """Change a conversation's metadata."""
    thread_id = await service.own_session(tenant, session_id)
    session = await _session(service, thread_id)
    await service.app.sessions.choose(replace(session, metadata=body.metadata))
    return JsonResponse(await _conversation_view(service, tenant, thread_id))


@conversations_router.delete("/v1/conversations/{session_id}", response_model=Deleted, responses=CONFLICT)
async def delete_conversation(session_id: SessionId, service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """Delete a conversation and everything that it holds."""
    await service.app.delete(await service.own_session(tenant, session_id))
    return JsonResponse({"id": session_id, "object": "conversation.deleted", "deleted": True})


@conversations_router.get("/v1/conversations/{session_id}/items", response_model=ItemList, responses=CONFLICT)
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
    items = [_message_item(number, message) for number, message in enumerate(said) if message["role"] in _ROLES]
    items = [item for item in items if item["content"]]
    if order == "desc":
        items.reverse()
    ids = [item["id"] for item in items]
    if after and after not in ids:
        raise not_found("item", after)
    first = ids.index(after) + 1 if after else 0
    return JsonResponse({**item_list(items[first : first + limit]), "has_more": len(items) > first + limit})


def _message_item(number: int, message: Json) -> Json:
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


async def _conversation_view(service: Service, tenant: Tenant, thread_id: str) -> Json:
    session = await _session(service, thread_id)
    about = {"created_at": int(session.created_at), "metadata": dict(session.metadata)}
    return {"id": tenant.shown(thread_id), "object": "conversation", **about}
