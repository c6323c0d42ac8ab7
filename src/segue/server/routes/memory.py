"""Memory files: what tasks wrote for the rounds and tasks after them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from fastapi import Path, Query, Response
from pydantic import BaseModel, Field

from ...core.errors import UnknownMemory
from ..errors import JsonResponse, not_found
from ..views import Page
from .dependencies import LONGEST, NAME, ServiceDep, TenantDep, routes

router = routes("memory")
UserId = Annotated[
    str, Query(pattern=NAME, max_length=LONGEST, description="The user whose files are meant.", examples=["alice"])
]
FileName = Annotated[str, Path(max_length=1000, description="May have slashes.", examples=["coding/logs.md"])]
OfTask = Annotated[str, Query(max_length=200, description="Only the entries of this task.")]


class MemoryFileView(BaseModel):
    """A memory file, and which tasks wrote to it."""

    name: str = Field(examples=["coding/logs.md"])
    bytes: int
    entries: int
    tasks: list[str]
    updated_at: float
    error: str = Field(description="why it cannot be read; empty if it can")


class MemoryEntryView(BaseModel):
    """What a round of a task left in the file."""

    key: str
    task_id: str
    round: int
    branch: str
    text: str
    created_at: float


class MemoryView(BaseModel):
    """A memory file: its whole text, and the entries in it."""

    name: str
    text: str
    entries: list[MemoryEntryView]


class ForgottenView(BaseModel):
    """How many entries were removed."""

    entries: int


@router.get("/api/memory", response_model=Page[MemoryFileView])
async def memory_files(service: ServiceDep, tenant: TenantDep, user_id: UserId = "default") -> JsonResponse:
    """The user's memory files."""
    return JsonResponse({"items": await service.app.memory.files(user_id=tenant.stored(user_id)), "next": None})


@router.get("/api/memory/{file:path}", response_model=MemoryView)
async def memory(file: FileName, service: ServiceDep, tenant: TenantDep, user_id: UserId = "default") -> JsonResponse:
    """A memory file."""
    with _found(file):
        return JsonResponse(await service.app.memory.show(file, user_id=tenant.stored(user_id)))


@router.delete("/api/memory", status_code=204)
async def clear_memory(
    service: ServiceDep, tenant: TenantDep, user_id: UserId = "default", task_id: OfTask = ""
) -> Response:
    """Delete all of the user's memory files, or of all of them what a task wrote."""
    owner = tenant.stored(user_id)
    if task_id:
        await service.app.memory.forget(task_id=task_id, user_id=owner)
    else:
        await service.app.memory.clear(user_id=owner)
    return Response(status_code=204)


@router.delete("/api/memory/{file:path}", response_model=ForgottenView)
async def forget(
    file: FileName, service: ServiceDep, tenant: TenantDep, user_id: UserId = "default", task_id: OfTask = ""
) -> JsonResponse:
    """Delete a memory file, or what a task wrote to it."""
    with _found(file):
        forgotten = await service.app.memory.forget(name=file, task_id=task_id, user_id=tenant.stored(user_id))
        return JsonResponse({"entries": forgotten})


@contextmanager
def _found(file: str) -> Iterator[None]:
    try:
        yield
    except UnknownMemory:
        raise not_found("memory", file) from None
