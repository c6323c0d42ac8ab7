"""Routes of OpenAI's API: agents as models, chat completions and files."""

from collections.abc import Mapping
from contextlib import aclosing
from typing import Annotated, Any, Literal

from fastapi import Header, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...core.attachments import UPLOAD_SECONDS, Upload
from ...core.records import Json
from ..errors import ErrorBody, JsonResponse, Problem, not_found
from ..protocols.chat_completions import Completion, CompletionView, chunks, error_of, result_of
from ..readers.completions import CompletionRequest, CompletionTasks
from ..readers.continuation import Conversation
from ..readers.messages import file_id_of, upload_id_of, with_contents
from ..request_body import LONGEST, NAME
from ..service import Service
from ..stream import EventStream, events_of
from ..tenants import Tenant
from .chat import task_headers
from .dependencies import (
    CONFLICT,
    MODEL_DOWN,
    KeyDep,
    Responses,
    Retries,
    ServiceDep,
    TenantDep,
    Unset,
    UserName,
    routes,
)
from .files import BINARY, FILE, FormDep, file_response

router = routes("openai")

_STREAM = {
    "description": "The completion; with `stream` server-sent events, one chunk each, and `[DONE]`.",
    "content": {"text/event-stream": {}},
}
SessionName = Annotated[str | Unset, Header(max_length=LONGEST, pattern=NAME, description="Names the session.")]


class ModelEntry(BaseModel):
    """An agent, or an agent in a mode."""

    id: str = Field(examples=["travel:plan"])
    object: Literal["model"]
    created: int
    owned_by: str


class ModelList(BaseModel):
    """What `model` may be."""

    object: Literal["list"]
    data: list[ModelEntry]


class ItemList(BaseModel):
    """A page of items."""

    object: Literal["list"]
    data: list[dict[str, Any]]
    first_id: str | None
    last_id: str | None
    has_more: bool


class Deleted(BaseModel):
    """What was deleted."""

    id: str
    object: Literal["response", "conversation.deleted", "file"]
    deleted: Literal[True]


def item_list(items: list[Json]) -> Json:
    """The fields of an `ItemList`."""
    first, last = (items[0]["id"], items[-1]["id"]) if items else (None, None)
    return {"object": "list", "data": items, "first_id": first, "last_id": last, "has_more": False}


@router.get("/v1/models", response_model=ModelList)
async def agent_models(service: ServiceDep, _: TenantDep) -> JsonResponse:
    """The agents, each also with every mode: `travel`, `travel:plan`."""
    names = [name for agent in service.agents for name in (agent, *(f"{agent}:{m}" for m in service.app.modes))]
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


_FAILED: Responses = {
    500: {"model": ErrorBody, "description": "The task ended with an error: the same request again begins another."}
}


@router.post(
    "/v1/chat/completions",
    response_model=CompletionView,
    responses={200: _STREAM, **CONFLICT, **_FAILED, **MODEL_DOWN},
)
async def chat_completions(
    body: CompletionRequest,
    service: ServiceDep,
    tenant: TenantDep,
    request: Request,
    key: KeyDep,
    x_session_id: SessionName = None,
    x_openwebui_chat_id: SessionName = None,
    x_openwebui_user_id: UserName = None,
    x_stainless_retry_count: Retries = 0,
) -> Response:
    """Answer a conversation's last message, or continue with results of its tools.

    A client that disconnects stops nothing.

    The session is named by a header, `metadata.session_id` or `user`, else by how the conversation begins. Earlier
    messages of the same user, agent and mode are recognised: only the last one is new. Another one in its place is
    answered in a fork.
    """
    service.refuse_while_draining()
    agent, mode = agent_and_mode(service, body.model)
    name = x_session_id or x_openwebui_chat_id or (body.metadata or {}).get("session_id") or body.user or ""
    user = x_openwebui_user_id or body.user or "default"
    parties = (tenant.person, user, agent, mode)
    conversation = Conversation.of(await with_contents(service, tenant, body.messages), name, parties)
    options: Json = {"agent": agent, "mode": mode, "user_id": tenant.stored(user)}
    options |= {"client_tools": body.client_tools, "reply_options": body.reply_options(conversation.instructions)}
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


_SHOULD_RETRY: Mapping[bool, Mapping[str, str]] = {True: {"x-should-retry": "false"}, False: {}}
"""What the `openai` package reads before it sends a request again, by whether the task is over."""


async def _whole(service: Service, tenant: Tenant, completion: Completion, after: int) -> Response:
    task_id = completion.row.task_id
    async with aclosing(events_of(service, task_id, after)) as events:
        async for event in events:
            for _ in completion.deltas(event):
                pass
    result = await result_of(service, tenant, completion)
    headers = task_headers(tenant, completion.row)
    if result["status"] == "error":
        is_over = (await service.app.tasks.get(task_id)).is_over
        return JsonResponse({"error": error_of(result)}, 500 if is_over else 502, {**headers, **_SHOULD_RETRY[is_over]})
    return JsonResponse(completion.whole(result), 200, headers)


def agent_and_mode(service: Service, model: str) -> tuple[str, str]:
    """The agent and the mode that a model's name stands for.

    Raises:
        Problem: there is no such model.
    """
    agent, _, mode = model.partition(":")
    if agent not in service.agents or (mode and mode not in service.app.modes):
        raise Problem(404, "model_not_found", name="model", missing=model)
    return agent, mode


files_router = routes("openai")


Purpose = Literal["user_data", "vision", "assistants"]


class FileTerms(BaseModel):
    """What a file is for, and how long it is kept: the fields beside the file."""

    model_config = ConfigDict(extra="forbid")

    purpose: Purpose = "user_data"
    anchor: Literal["created_at"] = Field(default="created_at", alias="expires_after[anchor]")
    seconds: int = Field(
        default=int(UPLOAD_SECONDS), alias="expires_after[seconds]", ge=1, le=int(UPLOAD_SECONDS), strict=False
    )


class FileView(BaseModel):
    """A file that was uploaded."""

    id: str = Field(examples=["file-2f1c9a52-6f1e-4f3e-9a55-0d2a4f5b6c7d"])
    object: Literal["file"]
    bytes: int
    created_at: int
    expires_at: int
    filename: str
    purpose: Purpose
    status: Literal["processed"]


class FileList(BaseModel):
    """A page of the files."""

    object: Literal["list"]
    data: list[FileView]
    first_id: str | None
    last_id: str | None
    has_more: bool


_FORM = FileTerms.model_json_schema()
_FILE_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/octet-stream": {"schema": BINARY},
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "properties": {"file": BINARY, **_FORM["properties"]},
                    "required": ["file"],
                }
            },
        },
    }
}
FileId = Annotated[str, Path(max_length=100, examples=["file-2f1c9a52-6f1e-4f3e-9a55-0d2a4f5b6c7d"])]


@files_router.post("/v1/files", response_model=FileView, openapi_extra=_FILE_BODY)
async def create_file(form: FormDep, service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """Store a file for messages of the next day, or of a shorter time that `expires_after` says."""
    name, content, fields = form
    terms = _terms(fields)
    about = {"purpose": terms.purpose, "seconds": terms.seconds}
    stored = await service.app.files.upload(name, content, tenant.prefix, about)
    return JsonResponse(_file_view(await _own_upload(service, tenant, file_id_of(stored["upload_id"]))))


def _terms(fields: Mapping[str, str]) -> FileTerms:
    try:
        return FileTerms.model_validate(fields)
    except ValidationError as error:
        found = [{**each, "loc": ("body", *each["loc"])} for each in error.errors()]
        raise RequestValidationError(found) from None


@files_router.get("/v1/files", response_model=FileList)
async def openai_files(
    service: ServiceDep,
    tenant: TenantDep,
    purpose: Annotated[str | Unset, Query(max_length=64, description="Only files of this purpose.")] = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 10_000,
    after: Annotated[str | Unset, Query(max_length=100, description="The last file of the page before.")] = None,
    order: Literal["asc", "desc"] = "desc",
) -> JsonResponse:
    """The files that were uploaded and have not expired."""
    files = [_file_view(upload) for upload in await service.app.files.uploads(tenant.prefix)]
    if order == "desc":
        files.reverse()
    ids = [file["id"] for file in files]
    if after is not None and after not in ids:
        raise not_found("file", after)
    rest = files[ids.index(after) + 1 if after is not None else 0 :]
    found = [file for file in rest if purpose in (None, file["purpose"])]
    return JsonResponse({**item_list(found[:limit]), "has_more": len(found) > limit})


@files_router.get("/v1/files/{file_id}", response_model=FileView)
async def openai_file(file_id: FileId, service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """A file that was uploaded and has not expired."""
    return JsonResponse(_file_view(await _own_upload(service, tenant, file_id)))


@files_router.get("/v1/files/{file_id}/content", response_class=Response, responses={200: FILE})
async def openai_file_content(file_id: FileId, service: ServiceDep, tenant: TenantDep) -> Response:
    """The content of a file."""
    file = (await _own_upload(service, tenant, file_id)).attachment
    return file_response(file, await service.app.files.get(file.digest))


@files_router.delete("/v1/files/{file_id}", response_model=Deleted)
async def delete_openai_file(file_id: FileId, service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """Delete a file; messages that took it along keep it."""
    if not await service.app.files.discard(upload_id_of(file_id), tenant.prefix):
        raise not_found("file", file_id)
    return JsonResponse({"id": file_id, "object": "file", "deleted": True})


async def _own_upload(service: Service, tenant: Tenant, file_id: str) -> Upload:
    upload = await service.app.files.uploaded(upload_id_of(file_id), tenant.prefix)
    if upload is None:
        raise not_found("file", file_id)
    return upload


def _file_view(upload: Upload) -> Json:
    file = upload.attachment
    return {
        "id": file_id_of(upload.upload_id),
        "object": "file",
        "bytes": file.size,
        "created_at": int(upload.created_at),
        "expires_at": int(upload.expires_at),
        "filename": file.name,
        "purpose": upload.purpose,
        "status": "processed",
    }
