"""Routes of files: data files and charts, and attachments of messages."""

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import Depends, Query, Request, Response
from fastapi import Path as InPath
from fastapi.responses import FileResponse
from pydantic import BaseModel, Field
from starlette.datastructures import UploadFile

from ...core.errors import UnknownAgent
from ...core.message import Attachment
from ...core.records import Json
from ...runtime.message_files import check_accepted
from ...tools.data.sources import DataFile, DataFolder, store_file
from ..dependencies import CONFLICT, PageDep, ServiceDep, SessionId, TenantDep, Unset, routes
from ..errors import JsonResponse, Problem, not_found
from ..service import Service
from ..views import AttachmentView, Page

BINARY = {"type": "string", "format": "binary"}
_FORM = {"type": "object", "properties": {"file": BINARY}, "required": ["file"]}
BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": BINARY}, "multipart/form-data": {"schema": _FORM}},
    }
}
"""The bodies of a route that takes in a file, as the OpenAPI document has them."""
Name = Annotated[
    str | Unset,
    Query(min_length=1, max_length=255, description="What the file is called; of a form, in place of its own name."),
]


async def _form(request: Request, name: Name = None) -> tuple[str, bytes, Mapping[str, str]]:
    """The name and the content, and the other fields of the form."""
    if not request.headers.get("Content-Type", "").startswith("multipart/form-data"):
        if name is None:
            raise Problem(422, "NoFileName")
        return name, await request.body(), {}
    async with request.form(max_files=1) as form:
        file = next((part for part in form.values() if isinstance(part, UploadFile)), None)
        if file is None or not (named := name or file.filename):
            raise Problem(422, "NoFile")
        fields = {field: value for field, value in form.items() if isinstance(value, str)}
        return named, await file.read(), fields


FormDep = Annotated[tuple[str, bytes, Mapping[str, str]], Depends(_form)]


def _file(form: FormDep) -> tuple[str, bytes]:
    return form[0], form[1]


FileDep = Annotated[tuple[str, bytes], Depends(_file)]


router = routes("files")
MOST_FILES = 200
"""Files of the folder beyond which none is taken in."""
_CHART = re.compile(r"[\w-]+\.png")
_IMAGE = {"description": "The picture.", "content": {"image/png": {"schema": BINARY}}}
_IMAGE_HEADERS = {"Content-Security-Policy": "sandbox; default-src 'none'", "Cache-Control": "private, no-cache"}


class FileView(BaseModel):
    """A file that the data tools read."""

    name: str = Field(examples=["sales.csv"])
    bytes: int
    changed_at: float


@router.get("/api/files", response_model=Page[FileView])
async def files(_: TenantDep, page: PageDep) -> JsonResponse:
    """The files of the data folder."""
    found = await asyncio.to_thread(DataFolder.of().files)
    return JsonResponse(page.cut([_view(file) for file in found], lambda file: [file["name"]]))


@router.post(
    "/api/files",
    status_code=201,
    response_model=FileView,
    responses=CONFLICT,
    openapi_extra=BODY,
)
async def upload(file: FileDep, service: ServiceDep, _: TenantDep) -> JsonResponse:
    """Store a data file, .csv or .parquet; the name in the answer differs if there is another file of that name."""
    _refuse_where_shared(service)
    folder = DataFolder.of()
    if len(await asyncio.to_thread(folder.files)) >= MOST_FILES:
        raise Problem(409, "TooManyFiles", most=MOST_FILES)
    stored = await asyncio.to_thread(store_file, *file, folder.path)
    return JsonResponse(_view(_named(folder, stored)), 201)


@router.delete("/api/files/{name}", status_code=204, responses=CONFLICT)
async def delete_file(name: str, service: ServiceDep, _: TenantDep) -> Response:
    """Delete a data file."""
    file = await asyncio.to_thread(_named, DataFolder.of(), name)
    _refuse_where_shared(service)
    await asyncio.to_thread(file.path.unlink, missing_ok=True)
    return Response(status_code=204)


@router.get("/api/files/charts/{name}", response_class=FileResponse, responses={200: _IMAGE})
async def chart(name: Annotated[str, InPath(examples=["sales-bar-0a1b2c3d4e.png"])], _: TenantDep) -> FileResponse:
    """A chart that a tool drew, by the name in its result."""
    path = DataFolder.of().charts / name
    if not _CHART.fullmatch(name) or not await asyncio.to_thread(_is_plain_file, path):
        raise not_found("file", name)
    return FileResponse(path, media_type="image/png", headers=_IMAGE_HEADERS)


def _view(file: DataFile) -> Json:
    return {"name": file.name, "bytes": file.size, "changed_at": file.changed / 1e9}


def _named(folder: DataFolder, name: str) -> DataFile:
    """The folder's file of exactly that name."""
    found = next((file for file in folder.files() if file.name == name), None)
    if found is None:
        raise not_found("file", name)
    return found


def _is_plain_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _refuse_where_shared(service: Service) -> None:
    """Take in and delete nothing where another tenant's agents read the same folder."""
    if service.settings.keys.are_several:
        raise Problem(409, "SharedFolder")


attachments_router = routes("attachments")
FILE = {
    "description": "The content.",
    "content": {"application/octet-stream": {"schema": BINARY}, "image/png": {"schema": BINARY}},
}
_ATTACHMENT_HEADERS = {
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "Cache-Control": "private, max-age=86400",
}
UploadId = Annotated[str, InPath(max_length=64)]
Digest = Annotated[str, InPath(max_length=64, examples=["0" * 64])]


_ForAgent = Annotated[
    str | Unset,
    Query(max_length=255, description="The message's agent: a file that its model does not accept is refused."),
]


class UploadView(AttachmentView):
    """An uploaded file, which one message may take along within a day."""

    upload_id: str = Field(examples=["2f1c9a52-6f1e-4f3e-9a55-0d2a4f5b6c7d"])


@attachments_router.post(
    "/api/attachments",
    status_code=201,
    response_model=UploadView,
    openapi_extra=BODY,
)
async def upload_attachment(
    file: FileDep, service: ServiceDep, tenant: TenantDep, agent_id: _ForAgent = None
) -> JsonResponse:
    """Store a file of a message to come: text, PNG, JPEG, GIF, WebP or PDF, as its content says."""
    if agent_id is not None:
        if (agent := service.agents.get(agent_id)) is None:
            raise UnknownAgent(agent_id, service.agents)
        registry = service.app.agents
        check_accepted(await service.app.files.read([file]), registry.accepted(agent), registry.model_name(agent))
    return JsonResponse(await service.app.files.upload(*file, tenant.prefix), 201)


@attachments_router.delete("/api/attachments/{upload_id}", status_code=204)
async def discard_attachment(upload_id: UploadId, service: ServiceDep, tenant: TenantDep) -> Response:
    """Delete an upload that no message took along."""
    if not await service.app.files.discard(upload_id, tenant.prefix):
        raise not_found("file", upload_id)
    return Response(status_code=204)


@attachments_router.get(
    "/api/sessions/{session_id}/attachments/{digest}", response_class=Response, responses={200: FILE}
)
async def attachment(session_id: SessionId, digest: Digest, service: ServiceDep, tenant: TenantDep) -> Response:
    """A file of one of the session's messages; only images are shown in a page, the others are downloaded."""
    thread_id = await service.own_session(tenant, session_id)
    files = await service.app.files.of_session(thread_id)
    file = next((each for each in files if each.digest == digest), None)
    if file is None or file.url:
        raise not_found("file", digest)
    return file_response(file, await service.app.files.get(digest))


def file_response(file: Attachment, content: bytes) -> Response:
    """A file as a browser may have it."""
    return Response(content, headers={**_ATTACHMENT_HEADERS, **_shown_as(file)})


def _shown_as(file: Attachment) -> dict[str, str]:
    how = "inline" if file.kind == "image" else "attachment"
    media_type = "text/plain; charset=utf-8" if file.kind == "text" else file.media_type
    return {"Content-Type": media_type, "Content-Disposition": f"{how}; filename*=UTF-8''{quote(file.name, safe='')}"}
