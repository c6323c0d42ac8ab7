"""Routes of OpenAI's files: uploads, which messages name by their ids."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from fastapi import Path, Query, Response
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError

from ...core.attachments import Upload
from ...core.records import Json
from ..errors import JsonResponse, not_found
from ..openai.bodies import FileList, FileTerms, FileView
from ..openai.uploaded_files import file_id_of, upload_id_of
from ..responses.bodies import Deleted
from ..service import Service
from ..tenants import Tenant
from .attachments import FILE, file_response
from .dependencies import ServiceDep, TenantDep, Unset, routes
from .responses import item_list
from .uploads import BINARY, FormDep

router = routes("openai")
_FORM = FileTerms.model_json_schema()
_BODY: dict[str, Any] = {
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


@router.post("/v1/files", response_model=FileView, openapi_extra=_BODY)
async def create_file(form: FormDep, service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """Store a file for messages of the next day, or of a shorter time that `expires_after` says."""
    name, content, fields = form
    terms = _terms(fields)
    about = {"purpose": terms.purpose, "seconds": terms.seconds}
    stored = await service.app.files.upload(name, content, tenant.prefix, about)
    return JsonResponse(_view(await _own_upload(service, tenant, file_id_of(stored["upload_id"]))))


def _terms(fields: Mapping[str, str]) -> FileTerms:
    try:
        return FileTerms.model_validate(fields)
    except ValidationError as error:
        found = [{**each, "loc": ("body", *each["loc"])} for each in error.errors()]
        raise RequestValidationError(found) from None


@router.get("/v1/files", response_model=FileList)
async def openai_files(
    service: ServiceDep,
    tenant: TenantDep,
    purpose: Annotated[str | Unset, Query(max_length=64, description="Only files of this purpose.")] = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 10_000,
    after: Annotated[str | Unset, Query(max_length=100, description="The last file of the page before.")] = None,
    order: Literal["asc", "desc"] = "desc",
) -> JsonResponse:
    """The files that were uploaded and have not expired."""
    files = [_view(upload) for upload in await service.app.files.uploads(tenant.prefix)]
    if order == "desc":
        files.reverse()
    ids = [file["id"] for file in files]
    if after is not None and after not in ids:
        raise not_found("file", after)
    rest = files[ids.index(after) + 1 if after is not None else 0 :]
    found = [file for file in rest if purpose in (None, file["purpose"])]
    return JsonResponse({**item_list(found[:limit]), "has_more": len(found) > limit})


@router.get("/v1/files/{file_id}", response_model=FileView)
async def openai_file(file_id: FileId, service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """A file that was uploaded and has not expired."""
    return JsonResponse(_view(await _own_upload(service, tenant, file_id)))


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


def _view(upload: Upload) -> Json:
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
