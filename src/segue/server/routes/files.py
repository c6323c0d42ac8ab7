"""Data files that agents read, and the charts that their tools drew."""

import asyncio
import re
from pathlib import Path
from typing import Annotated

from fastapi import Path as InPath
from fastapi import Response
from fastapi.responses import FileResponse
from pydantic import BaseModel, Field

from ...core.records import Json
from ...tools.data.folder import DataFile, DataFolder, store_file
from ..errors import JsonResponse, Problem, not_found
from ..service import Service
from ..views import Page
from .dependencies import CONFLICT, ServiceDep, TenantDep, routes
from .uploads import BINARY, BODY, FileDep

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
async def files(_: TenantDep) -> JsonResponse:
    """The files of the data folder."""
    found = await asyncio.to_thread(DataFolder.of().files)
    return JsonResponse({"items": [_view(file) for file in found], "next": None})


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
    if len(service.settings.keys.tenants) > 1:
        raise Problem(409, "SharedFolder")
