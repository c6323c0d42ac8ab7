"""Files of messages: uploaded before the message, and shown with it."""

from typing import Annotated
from urllib.parse import quote

from fastapi import Path as InPath
from fastapi import Response
from pydantic import Field

from ...core.attachments import Attachment
from ..errors import JsonResponse, not_found
from ..views import AttachmentView
from .dependencies import ServiceDep, SessionId, TenantDep, routes
from .uploads import BINARY, BODY, FileDep

router = routes("attachments")
FILE = {
    "description": "The content.",
    "content": {"application/octet-stream": {"schema": BINARY}, "image/png": {"schema": BINARY}},
}
_HEADERS = {"Content-Security-Policy": "sandbox; default-src 'none'", "Cache-Control": "private, max-age=86400"}
UploadId = Annotated[str, InPath(max_length=64)]
Digest = Annotated[str, InPath(max_length=64, examples=["0" * 64])]


class UploadView(AttachmentView):
    """An uploaded file, which one message may take along within a day."""

    upload_id: str = Field(examples=["2f1c9a52-6f1e-4f3e-9a55-0d2a4f5b6c7d"])


@router.post(
    "/api/attachments",
    status_code=201,
    response_model=UploadView,
    openapi_extra=BODY,
)
async def upload_attachment(file: FileDep, service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """Store a file of a message to come: text, PNG, JPEG, GIF, WebP or PDF, as its content says."""
    return JsonResponse(await service.app.files.upload(*file, tenant.prefix), 201)


@router.delete("/api/attachments/{upload_id}", status_code=204)
async def discard_attachment(upload_id: UploadId, service: ServiceDep, tenant: TenantDep) -> Response:
    """Delete an upload that no message took along."""
    if not await service.app.files.discard(upload_id, tenant.prefix):
        raise not_found("file", upload_id)
    return Response(status_code=204)


@router.get("/api/sessions/{session_id}/attachments/{digest}", response_class=Response, responses={200: FILE})
async def attachment(session_id: SessionId, digest: Digest, service: ServiceDep, tenant: TenantDep) -> Response:
    """A file of one of the session's messages; only images are shown in a page, the others are downloaded."""
    thread_id = await service.own_session(tenant, session_id)
    files = await service.app.files.of_session(thread_id)
    file = next((each for each in files if each.digest == digest), None)
    if file is None:
        raise not_found("file", digest)
    return file_response(file, await service.app.files.get(digest))


def file_response(file: Attachment, content: bytes) -> Response:
    """A file as a browser may have it."""
    return Response(content, headers={**_HEADERS, **_shown_as(file)})


def _shown_as(file: Attachment) -> dict[str, str]:
    how = "inline" if file.kind == "image" else "attachment"
    media_type = "text/plain; charset=utf-8" if file.kind == "text" else file.media_type
    return {"Content-Type": media_type, "Content-Disposition": f"{how}; filename*=UTF-8''{quote(file.name, safe='')}"}
