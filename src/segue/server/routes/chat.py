"""Routes that send a message and stream its task, in Segue's events or AG-UI's."""

from collections.abc import Mapping
from typing import Annotated, Literal
from urllib.parse import quote

from fastapi import Header, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import ConfigDict, Field

from ...core.context import Ids
from ...core.conversation import MODE
from ...core.errors import InvalidMessage
from ...core.records import RequestKey, Task
from ...runtime.message_files import Uploaded
from ..errors import not_found
from ..frames import position
from ..protocols.ag_ui import frames
from ..readers import conversations
from ..readers.ag_ui import RunInput, begin
from ..request_body import LONGEST, LONGEST_MODEL, MODEL, NAME, Items, RequestBody
from ..service import Begun, Service
from ..stream import EventStream, task_frames
from ..tenants import Tenant
from .dependencies import CONFLICT, MODEL_DOWN, KeyDep, ServiceDep, TaskId, TenantDep, Unset, routes

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


class ChatRequest(RequestBody):
    """A message, its agent and its mode."""

    model_config = ConfigDict(
        use_attribute_docstrings=True,
        json_schema_extra={"examples": [{"message": "规划北京三日游", "session_id": "session_123", "mode": "react"}]},
    )

    message: str = Field(min_length=1)
    session_id: str | None = Field(default=None, pattern=NAME, max_length=LONGEST)
    """The session to continue; a new one without it."""
    mode: str | None = Field(default=None, max_length=64)
    """auto, direct, react, plan, …; without it the user's default, else the agent's.

    `conversation` starts a conversation with a simulated user, whose goal the message is; or with the configuration
    that it is as JSON, as in `POST /api/conversations`. If the session's conversation waits for what a person says, it
    answers; calls are approved with `POST /api/tasks/{id}/answer`.
    """
    agent_id: str | None = Field(default=None, max_length=64)
    user_id: str | None = Field(default=None, pattern=NAME, max_length=LONGEST)
    model: str | None = Field(default=None, pattern=f"^{MODEL}$", max_length=LONGEST_MODEL)
    """Another model for this task, by the agent's own endpoint."""
    wait: float = Field(default=0.0, ge=0, le=60)
    """Waits up to this many seconds if the session is busy."""
    language: Literal["zh", "en"] | None = None
    """The language of the answer, and of an error; without it that of the message, and Accept-Language."""
    attachments: Items[str] = Field(default=[], max_length=100)
    """The `upload_id` of files that go along: see `POST /api/attachments`."""
    steer: bool = False
    """Add the message to the session's unfinished task, if there is one."""
    origin: Literal["api", "page"] = "api"
    """`page` where a person writes it: `GET /api/sessions?sender=people` lists the sessions that people began."""


@router.post("/api/chat", response_class=StreamingResponse, responses={200: _STREAM, **CONFLICT, **MODEL_DOWN})
async def chat(body: ChatRequest, service: ServiceDep, tenant: TenantDep, request: Request, key: KeyDep) -> EventStream:
    """Send a message and stream its task. A client that disconnects does not stop it."""
    request.scope["segue_language"] = body.language
    service.refuse_while_draining()
    service.open_stream(tenant)
    try:
        begin = _converse if body.mode == MODE else _start
        row, after = await service.known(key) or await begin(body, service, tenant, key)
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
    so_far: Annotated[bool, Query(description="Add what was streamed of the answer so far, as one token.")] = False,
) -> EventStream:
    """Stream a task: its events after the given one, then new ones, then `done`."""
    row = await service.own_task(tenant, task_id)
    service.open_stream(tenant)
    return _stream(service, tenant, row, position(last_event_id, task_id) if after is None else after, so_far)


async def _start(body: ChatRequest, service: Service, tenant: Tenant, key: RequestKey | None) -> Begun:
    return await service.start(
        tenant,
        body.message,
        key,
        session_id=tenant.stored(body.session_id or Ids().thread()),
        agent=body.agent_id or "",
        mode=body.mode or "",
        user_id=tenant.stored(body.user_id or "default"),
        model=body.model or "",
        wait=body.wait,
        steer=body.steer,
        files=[Uploaded(upload_id, tenant.prefix) for upload_id in body.attachments],
        language=body.language or "",
        origin=body.origin,
    )


async def _converse(body: ChatRequest, service: Service, tenant: Tenant, key: RequestKey | None) -> Begun:
    """Start a conversation, or answer the one that waits.

    Raises:
        InvalidMessage: files go along.
    """
    if body.attachments:
        raise InvalidMessage("A conversation accepts no files: leave out attachments.")
    thread_id = tenant.stored(body.session_id or Ids().thread())
    if answered := await conversations.answer_waiting(service, tenant, thread_id, body.message, key):
        return answered
    config = conversations.read_message(service.app, body.message, body.agent_id or "", body.model or "")
    if body.language and not config.language:
        config = config.model_copy(update={"language": body.language})
    return await conversations.begin(service, tenant, config, thread_id, body.user_id or "default", key, body.origin)


def _stream(service: Service, tenant: Tenant, row: Task, after: int, so_far: bool = False) -> EventStream:
    return EventStream(service, tenant, task_frames(service, tenant, row, after, so_far), task_headers(tenant, row))


def task_headers(tenant: Tenant, row: Task) -> Mapping[str, str]:
    """The task and its session; a name that is not ASCII is percent-encoded."""
    return {"X-Task-Id": row.task_id, "X-Session-Id": quote(tenant.shown(row.thread_id), safe=":@")}


ag_ui_router = routes("ag-ui")
_AG_UI_STREAM = {"description": "Server-sent events of AG-UI 1.0.", "content": {"text/event-stream": {}}}


@ag_ui_router.post(
    "/ag-ui/{agent_id}", response_class=StreamingResponse, responses={200: _AG_UI_STREAM, **CONFLICT, **MODEL_DOWN}
)
async def run(agent_id: str, body: RunInput, service: ServiceDep, tenant: TenantDep, key: KeyDep) -> EventStream:
    """Run an agent for an AG-UI client; a client that disconnects stops nothing.

    `threadId` is the session. Only the last message is new. A task that waits for a person ends the run with an
    interrupt, which the next run answers in `resume`.
    """
    service.refuse_while_draining()
    if agent_id not in service.agents:
        raise not_found("agent", agent_id)
    service.open_stream(tenant)
    try:
        row, after = await begin(service, tenant, agent_id, body, key)
        return EventStream(service, tenant, frames(service, tenant, body, row, after), task_headers(tenant, row))
    except BaseException:
        service.close_stream(tenant)
        raise
