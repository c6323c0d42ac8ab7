"""Routes of conversations between a user, a bot and an API: one is a task, and its id a session."""

from typing import Any

from pydantic import BaseModel, Field

from ...core.conversation import Conversation
from ...core.errors import UnknownThread
from ...core.records import Json
from ...core.task_status import TaskStatus
from ...rehearsal.simulate import load_conversation
from ..errors import JsonResponse, LongJsonResponse, not_found
from ..readers.conversations import ConversationRequest, begin
from ..service import Service
from ..tenants import Tenant
from ..views import fields_of
from .dependencies import CONFLICT, MODEL_DOWN, KeyDep, ServiceDep, SessionId, TenantDep, routes

router = routes("conversations")


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
    ending: EndingView | None
    question: dict[str, Any] | None = Field(description="what a person is asked, while it waits")
    error: str | None


@router.post("/api/conversations", status_code=201, response_model=TranscriptView, responses={**CONFLICT, **MODEL_DOWN})
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
        await begin(service, tenant, body.config, thread_id, body.user_id or "default", key)
    return JsonResponse(await _view(service, tenant, thread_id), 201)


@router.get("/api/conversations/{conversation_id}", response_model=TranscriptView)
async def show_conversation(conversation_id: SessionId, service: ServiceDep, tenant: TenantDep) -> LongJsonResponse:
    """A conversation as far as it got."""
    try:
        return LongJsonResponse(await _view(service, tenant, tenant.stored(conversation_id)))
    except UnknownThread:
        raise not_found("conversation", conversation_id) from None


async def _view(service: Service, tenant: Tenant, thread_id: str) -> Json:
    conversation = await load_conversation(service.app, thread_id)
    task = await service.app.tasks.get(conversation.task_id)
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
        "ending": fields_of(EndingView, ending) if ending else None,
    }
