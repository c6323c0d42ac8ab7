"""Routes that send a message and stream its task."""

from typing import Annotated, Literal
from urllib.parse import quote

from fastapi import Header, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from ...core.ids import Ids
from ...core.records import Json
from ..service import Service
from ..sse.frames import position
from ..sse.stream import EventStream
from ..tenants import Tenant
from .dependencies import CONFLICT, LONGEST, MODEL_DOWN, NAME, ServiceDep, TaskId, TenantDep, Unset, routes

router = routes("chat")

_EXAMPLE = 'data: {"type": "token", "content": "\\u5317", "task_id": "2f1c9a52-…", "attempt": 1}\n\n'
_FRAME = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "description": "task_id:seq, on what is kept"},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
    "required": ["data"],
}
_STREAM = {
    "description": "Server-sent events: one `data:` line of JSON each, `done` with the result last.",
    "headers": {
        "X-Task-Id": {"schema": {"type": "string"}},
        "X-Session-Id": {"schema": {"type": "string"}, "description": "Percent-encoded where it is not ASCII."},
    },
    "content": {"text/event-stream": {"itemSchema": _FRAME, "example": _EXAMPLE}},
}


class ChatRequest(BaseModel):
    """A message, its agent and its mode."""

    model_config = ConfigDict(
        extra="forbid",
        use_attribute_docstrings=True,
        json_schema_extra={"examples": [{"message": "规划北京三日游", "session_id": "session_123", "mode": "react"}]},
    )

    message: str = Field(min_length=1)
    session_id: str | None = Field(default=None, pattern=NAME, max_length=LONGEST)
    """The session to continue; a new one without it."""
    mode: str | None = Field(default=None, max_length=64)
    """auto, direct, react, plan, …; without it the user's default, else the agent's."""
    agent_id: str | None = Field(default=None, max_length=64)
    user_id: str | None = Field(default=None, pattern=NAME, max_length=LONGEST)
    model: str | None = Field(default=None, pattern=r"^(offline|openai:[\w./:@-]{1,200})$")
    """Another model for this task, by the agent's own endpoint."""
    wait: float = Field(default=0.0, ge=0, le=60)
    """Waits up to this many seconds if the session is busy."""
    language: Literal["zh", "en"] | None = None
    """The language of the answer, and of an error; without it that of the message, and Accept-Language."""
    steer: bool = False
    """Add the message to the session's unfinished task, if there is one."""


@router.post("/api/chat", response_class=StreamingResponse, responses={200: _STREAM, **CONFLICT, **MODEL_DOWN})
async def chat(body: ChatRequest, service: ServiceDep, tenant: TenantDep, request: Request) -> EventStream:
    """Send a message and stream its task. A client that disconnects does not stop it."""
    request.scope["segue_language"] = body.language
    service.refuse_while_draining()
    service.open_stream(tenant)
    try:
        row = await _start(body, service, tenant)
        after = await _already_sent(service, row) if body.steer else 0
        return _stream(service, tenant, row, after)
    except BaseException:
        service.close_stream(tenant)
        raise


@router.get("/api/tasks/{task_id}/stream", response_class=StreamingResponse, responses={200: _STREAM})
async def stream(
    task_id: TaskId,
    service: ServiceDep,
    tenant: TenantDep,
    last_event_id: Annotated[str, Header(description="The id of the last frame that came: the rest follows.")] = "",
    after: Annotated[int | Unset, Query(ge=0, le=2**53, description="The same, as a bare number.")] = None,
) -> EventStream:
    """Stream a task: its events after the given one, then new ones, then `done`."""
    row = await service.own_task(tenant, task_id)
    service.open_stream(tenant)
    return _stream(service, tenant, row, position(last_event_id, task_id) if after is None else after)


async def _start(body: ChatRequest, service: Service, tenant: Tenant) -> Json:
    thread_id = tenant.stored(body.session_id or Ids().thread())
    with service.starting_task(tenant, thread_id):
        return await service.app.start(
            body.message,
            session_id=thread_id,
            agent=body.agent_id or service.settings.default_agent,
            mode=body.mode or "",
            user_id=tenant.stored(body.user_id or "default"),
            model=body.model or "",
            wait=body.wait,
            steer=body.steer,
            language=body.language or "",
        )


async def _already_sent(service: Service, row: Json) -> int:
    """The number of the event before the task was steered; 0 for a task that has only begun."""
    forms = await service.app.events(row["task_id"])
    return max((form["seq"] - 1 for form in forms if form["type"] == "steered"), default=0)


def _stream(service: Service, tenant: Tenant, row: Json, after: int) -> EventStream:
    ids = {"X-Task-Id": row["task_id"], "X-Session-Id": _header(tenant.shown(row["thread_id"]))}
    return EventStream(service, tenant, row, after, ids)


def _header(name: str) -> str:
    """A name as a header can carry it: percent-encoded where it is not ASCII."""
    return quote(name, safe=":@")
