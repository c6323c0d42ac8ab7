"""Routes of OpenAI's API: agents as models, and chat completions."""

from contextlib import aclosing
from typing import Annotated

from fastapi import Header, Path, Request
from fastapi.responses import Response

from ...core.records import Json
from ..errors import JsonResponse, Problem
from ..openai.bodies import CompletionRequest, CompletionView, ModelEntry, ModelList
from ..openai.conversation import Conversation
from ..openai.tasks import CompletionTasks
from ..openai.uploaded_files import with_contents
from ..protocols.chat_completions import Completion, chunks, error_of, result_of
from ..service import Service
from ..sse.stream import EventStream, events_of
from ..tenants import Tenant
from .chat import task_headers
from .dependencies import CONFLICT, LONGEST, MODEL_DOWN, NAME, KeyDep, Retries, ServiceDep, TenantDep, Unset, routes

router = routes("openai")

_STREAM = {
    "description": "The completion; with `stream` server-sent events, one chunk each, and `[DONE]`.",
    "content": {"text/event-stream": {}},
}
SessionName = Annotated[str | Unset, Header(max_length=LONGEST, pattern=NAME, description="Names the session.")]


@router.get("/v1/models", response_model=ModelList)
async def agent_models(service: ServiceDep, _: TenantDep) -> JsonResponse:
    """The agents, each also with every mode: `travel`, `travel:plan`."""
    names = [name for agent in service.app.agents for name in (agent, *(f"{agent}:{m}" for m in service.app.modes))]
    return JsonResponse({"object": "list", "data": [_entry(name) for name in names]})


@router.get("/v1/models/{model}", response_model=ModelEntry)
async def agent_model(
    model: Annotated[str, Path(max_length=130, examples=["travel:plan"])], service: ServiceDep, _: TenantDep
) -> JsonResponse:
    """An agent, or an agent in a mode."""
    agent_and_mode(service, model)
    return JsonResponse(_entry(model))


def _entry(name: str) -> Json:
    return {"id": name, "object": "model", "created": 0, "owned_by": "segue"}


@router.post("/v1/chat/completions", response_model=CompletionView, responses={200: _STREAM, **CONFLICT, **MODEL_DOWN})
async def chat_completions(
    body: CompletionRequest,
    service: ServiceDep,
    tenant: TenantDep,
    request: Request,
    key: KeyDep,
    x_session_id: SessionName = None,
    x_openwebui_chat_id: SessionName = None,
    x_stainless_retry_count: Retries = 0,
) -> Response:
    """Answer a conversation's last message, or go on by results of its tools; a client that disconnects stops nothing.

    The session is named by a header, `metadata.session_id` or `user`, else by how the conversation begins. Earlier
    messages are recognised: only the last one is new. Another one in its place is answered in a fork.
    """
    service.refuse_while_draining()
    agent, mode = agent_and_mode(service, body.model)
    name = x_session_id or x_openwebui_chat_id or (body.metadata or {}).get("session_id") or body.user or ""
    conversation = Conversation.of(await with_contents(service, tenant, body.messages), name, agent)
    if conversation.results:
        body.check_with_result()
    options: Json = {"agent": agent, "mode": mode, "user_id": tenant.stored(body.user or "default")}
    options["client_tools"] = body.client_tools
    tasks = CompletionTasks(service, tenant, options)
    service.open_stream(tenant)
    try:
        row, after = await tasks.begin(conversation, x_stainless_retry_count, key)
        before = await service.app.tasks.events(row.task_id, limit=after) if after else []
        completion = Completion(row, body.model, before)
        if body.stream:
            usage = body.stream_options is not None and body.stream_options.include_usage
            frames = chunks(service, tenant, completion, after, usage)
            return EventStream(service, tenant, frames, task_headers(tenant, row))
    except BaseException:
        service.close_stream(tenant)
        raise
    try:
        return await _whole(service, tenant, completion, after)
    finally:
        service.close_stream(tenant)


async def _whole(service: Service, tenant: Tenant, completion: Completion, after: int) -> Response:
    task_id = completion.row.task_id
    async with aclosing(events_of(service, task_id, after)) as events:
        async for event in events:
            for _ in completion.deltas(event):
                pass
    result = await result_of(service, tenant, completion)
    headers = task_headers(tenant, completion.row)
    if result["status"] == "error":
        return JsonResponse({"error": error_of(result)}, 502, headers)
    return JsonResponse(completion.whole(result), 200, headers)


def agent_and_mode(service: Service, model: str) -> tuple[str, str]:
    """The agent and the mode that a model's name stands for.

    Raises:
        Problem: there is no such model.
    """
    agent, _, mode = model.partition(":")
    if agent not in service.app.agents or (mode and mode not in service.app.modes):
        raise Problem(404, "model_not_found", name="model", missing=model)
    return agent, mode
