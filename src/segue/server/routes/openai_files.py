"""Routes of OpenAI's files: uploads, which messages name by their ids."""

from typing import Annotated

from fastapi import Path, Response

from ...core.attachments import UPLOAD_SECONDS, Upload
from ...core.records import Json
from ..errors import JsonResponse, not_found
from ..openai.bodies import FileView
from ..openai.uploaded_files import file_id_of, upload_id_of
from ..responses.bodies import Deleted
from ..service import Service
from ..tenants import Tenant
from .attachments import FILE, file_response
from .dependencies import ServiceDep, TenantDep, routes
from .uploads import BODY, FileDep

router = routes("openai")
FileId = Annotated[str, Path(max_length=100, examples=["file-2f1c9a52-6f1e-4f3e-9a55-0d2a4f5b6c7d"])]


@router.post("/v1/files", response_model=FileView, openapi_extra=BODY)
async def create_file(file: FileDep, service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """Store a file for messages of the next day, whatever its purpose."""
    stored = await service.app.files.upload(*file, tenant.prefix)
    named = file_id_of(stored["upload_id"])
    return JsonResponse(_view(named, await _own_upload(service, tenant, named)))


@router.get("/v1/files/{file_id}", response_model=FileView)
async def openai_file(file_id: FileId, service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """A file that was uploaded within the last day."""
    return JsonResponse(_view(file_id, await _own_upload(service, tenant, file_id)))


@router.get("/v1/files/{file_id}/content", response_class=Response, responses={200: FILE})
async def openai_file_content(file_id: FileId, service: ServiceDep, tenant: TenantDep) -> Response:
    """The content of a file."""
    file = (await _own_upload(service, tenant, file_id)).attachment
    return file_response(file, await service.app.files.get(file.digest))


@router.delete("/v1/files/{file_id}", response_model=Deleted)
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


def _view(file_id: str, upload: Upload) -> Json:
    file = upload.attachment
    return {
        "id": file_id,
        "object": "file",
        "bytes": file.size,
        "created_at": int(upload.created_at),
        "expires_at": int(upload.created_at + UPLOAD_SECONDS),
        "filename": file.name,
        "purpose": "user_data",
        "status": "processed",
    }
