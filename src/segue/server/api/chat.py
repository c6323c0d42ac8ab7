"""Routes that send a message and stream its task, in Segue's events or AG-UI's."""

from typing import Annotated, Any, Literal

from fastapi import Header, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from ...core.context import Ids
from ...core.conversation import MODE, Conversation
from ...core.errors import InvalidMessage, UnknownThread
from ...core.message import PERSONS, MemoryPaths
from ...core.records import Json, RequestKey, Task
from ...core.task import ANYBODY, LONGEST_NAME, NAME, Language, TaskStatus
from ...runtime.message_files import Uploaded
from ...testing.rehearsal import differences
from ...testing.rehearsal.simulate import load_conversation
from ..dependencies import CONFLICT, MODEL_DOWN, KeyDep, ServiceDep, SessionId, TaskId, TenantDep, Unset, routes
from ..errors import JsonResponse, LongJsonResponse, not_found
from ..frames import position
from ..middleware import LONGEST_MODEL, MODEL, Items, RequestBody
from ..requests import ConversationRequest, answer_waiting, begin_conversation, read_message
from ..service import Begun, Service
from ..stream import EventStream, task_frames, task_headers
from ..tenants import Tenant
from ..views import fields_of

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
    session_id: str | None = Field(default=None, pattern=NAME, max_length=LONGEST_NAME)
    """The session to continue; a new one without it."""
    mode: str | None = Field(default=None, max_length=64)
    """auto, direct, react, plan, …; without it the user's default, else the agent's.

    `conversation` starts a conversation with a simulated user, whose goal the message is; or with the configuration
    that it is as JSON, as in `POST /api/conversations`. If the session's conversation waits for what a person says, it
    answers; calls are approved with `POST /api/tasks/{id}/answer`.
    """
    agent_id: str | None = Field(default=None, max_length=64)
    user_id: str | None = Field(default=None, pattern=NAME, max_length=LONGEST_NAME)
    model: str | None = Field(default=None, pattern=f"^{MODEL}$", max_length=LONGEST_MODEL)
    """Another model for this task, by the agent's own endpoint."""
    wait: float = Field(default=0.0, ge=0, le=60)
    """Waits up to this many seconds if the session is busy."""
    language: Language | None = None
    """The language of the answer, and of an error; without it that of the message, and Accept-Language."""
    attachments: Items[str] = Field(default=[], max_length=100)
    """The `upload_id` of files that go along: see `POST /api/attachments`."""
    memory_files: MemoryPaths = Field(default={})
    """The paths of memory files by their names, for a flow to read: {"rules": "rules.md"}."""
    ask_user: bool | None = None
    """Whether the task may ask the user questions; by default as its agent does."""
    review_plan: bool | None = None
    """Whether a person reviews the task's plan before it runs; by default as its agent says."""
    remember: bool = True
    """Use what the user said of themselves before, and remember what the message says; only with a `user_id`."""
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
        user_id=tenant.stored(body.user_id or ANYBODY),
        model=body.model or "",
        wait=body.wait,
        steer=body.steer,
        files=[Uploaded(upload_id, tenant.prefix) for upload_id in body.attachments],
        language=body.language or "",
        memory_files=body.memory_files,
        **{name: value for name in PERSONS if (value := getattr(body, name)) is not None},
        remember=body.remember and tenant.knows(body.user_id),
        origin=body.origin,
    )


async def _converse(body: ChatRequest, service: Service, tenant: Tenant, key: RequestKey | None) -> Begun:
    """Start a conversation, or answer the one that waits."""
    if body.attachments:
        raise InvalidMessage("A conversation accepts no files: leave out attachments.")
    if body.memory_files:
        raise InvalidMessage("A conversation reads no memory files: leave out memory_files.")
    if named := [name for name in PERSONS if getattr(body, name) is not None]:
        raise InvalidMessage("A conversation does not take {name}: set it on the bot's agent.", name=named[0])
    thread_id = tenant.stored(body.session_id or Ids().thread())
    if answered := await answer_waiting(service, tenant, thread_id, body.message, key):
        return answered
    config = read_message(service.app, body.message, body.agent_id or "", body.model or "")
    if body.language and not config.language:
        config = config.model_copy(update={"language": body.language})
    return await begin_conversation(service, tenant, config, thread_id, body.user_id or ANYBODY, key, body.origin)


def _stream(service: Service, tenant: Tenant, row: Task, after: int, so_far: bool = False) -> EventStream:
    return EventStream(service, tenant, task_frames(service, tenant, row, after, so_far), task_headers(tenant, row))


# Routes of conversations between a user, a bot and an API: one is a task, and its id a session.

conversations_router = routes("conversations")


class EndingView(BaseModel):
    """How a conversation ended."""

    reason: str = Field(description="user_ended, turn_limit, session_length or user_failed")
    turns: int
    usage: dict[str, Any] = Field(description="{input, output, calls} by role, as far as models counted them")
    seconds: float


class TranscriptView(BaseModel):
    """A conversation as far as it got; its task is followed, paused, resumed, answered and cancelled as any other."""

    session_id: str
    task_id: str
    status: str
    config: dict[str, Any] = Field(description="what differs from the defaults")
    language: str
    utterances: list[dict[str, Any]] = Field(description="{index, turn, role, text, action, data, …} as far as set")
    differences: list[dict[str, Any]] = Field(
        description="{index, turn, expected, got, similarity} where the bot would have differed from a reference"
    )
    ending: EndingView | None
    question: dict[str, Any] | None = Field(description="what a person is asked, while it waits")
    error: str | None


@conversations_router.post(
    "/api/conversations", status_code=201, response_model=TranscriptView, responses={**CONFLICT, **MODEL_DOWN}
)
async def start_conversation(
    body: ConversationRequest, service: ServiceDep, tenant: TenantDep, key: KeyDep
) -> JsonResponse:
    """Start a conversation between a user, a bot and an API, which runs in the background.

    `GET /api/tasks/{task_id}/stream` follows it. Where the user is a person (`input_user`), or an approval is
    requested, it waits: `POST /api/tasks/{task_id}/answer` answers.
    """
    service.refuse_while_draining()
    thread_id, made = await service.new_session(tenant, body.session_id, key)
    if not made:
        await begin_conversation(service, tenant, body.config, thread_id, body.user_id or ANYBODY, key)
    return JsonResponse(await _view(service, tenant, thread_id), 201)


@conversations_router.get("/api/conversations/{conversation_id}", response_model=TranscriptView)
async def show_conversation(conversation_id: SessionId, service: ServiceDep, tenant: TenantDep) -> LongJsonResponse:
    """A conversation as far as it got."""
    try:
        return LongJsonResponse(await _view(service, tenant, tenant.stored(conversation_id)))
    except UnknownThread:
        raise not_found("conversation", conversation_id) from None


async def _view(service: Service, tenant: Tenant, thread_id: str) -> Json:
    conversation = await load_conversation(service.app, thread_id)
    task = await service.app.task(conversation.task_id)
    waits = task.status == TaskStatus.WAITING
    return {
        "session_id": tenant.shown(thread_id),
        "task_id": task.task_id,
        "status": str(task.status),
        **_transcript(conversation),
        "question": await service.app.question(task.task_id) if waits else None,
        "error": tenant.without_prefix(task.error) if task.error else None,
    }


def _transcript(conversation: Conversation) -> Json:
    ending = conversation.ending
    return {
        "config": conversation.config.model_dump(mode="json", exclude_defaults=True),
        "language": conversation.language,
        "utterances": [utterance.json() for utterance in conversation.utterances],
        "differences": [each.json() for each in differences(conversation)],
        "ending": fields_of(EndingView, ending) if ending else None,
    }
