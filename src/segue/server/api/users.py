"""Routes of users: their preferences, what they said of themselves, and their memory files."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from fastapi import Path, Query, Response
from pydantic import BaseModel, Field

from ...core.errors import UnknownFact, UnknownMemory
from ...core.records import UserPreferences
from ...core.task import ANYBODY, LONGEST_NAME, NAME
from ...memory.folder import MOST_EDITED
from .. import pages
from ..dependencies import PageDep, ServiceDep, TenantDep, routes
from ..errors import JsonResponse, not_found
from ..middleware import RequestBody
from ..views import Page

router = routes("users")
UserId = Annotated[str, Path(pattern=NAME, max_length=LONGEST_NAME, examples=["alice"])]


class Preferences(RequestBody):
    """The mode of a message that names none; empty leaves it to the agent."""

    default_mode: str = Field(max_length=64, examples=["react"])


@router.get("/api/users/{user_id}/preferences", response_model=UserPreferences)
async def preferences(user_id: UserId, service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """The user's default mode, and the modes that answered them; both empty for a user who is not known yet."""
    return JsonResponse((await service.app.preferences(tenant.stored(user_id))).json())


@router.put("/api/users/{user_id}/preferences", response_model=UserPreferences)
async def prefer(user_id: UserId, body: Preferences, service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """Set the user's default mode."""
    await service.app.set_preferences(tenant.stored(user_id), default_mode=body.default_mode)
    return JsonResponse((await service.app.preferences(tenant.stored(user_id))).json())


class FactView(BaseModel):
    """What a user said of themselves, in their words, and the task whose message has it."""

    key: str
    subject: str = Field(examples=["allergy: peanut"])
    text: str = Field(examples=["I'm allergic to peanuts"])
    task_id: str
    created_at: float
    earlier: list["FactView"] = Field(description="what it replaces, oldest first")


class FactChange(RequestBody):
    """Other words for what the user said."""

    text: str = Field(min_length=1, max_length=MOST_EDITED, examples=["I'm allergic to peanuts and soy"])


FactKey = Annotated[str, Path(max_length=300)]


@router.get("/api/users/{user_id}/facts", response_model=Page[FactView])
async def facts(user_id: UserId, service: ServiceDep, tenant: TenantDep, page: PageDep) -> JsonResponse:
    """What holds of what the user said of themselves, the last said last."""
    found = [fact.json() for fact in await service.app.memory.facts(user_id=tenant.stored(user_id))]
    return JsonResponse(page.cut(found))


@router.put("/api/users/{user_id}/facts/{key}", response_model=Page[FactView])
async def edit_fact(
    user_id: UserId, key: FactKey, body: FactChange, service: ServiceDep, tenant: TenantDep
) -> JsonResponse:
    """Replace the words of a fact; its source and what it replaced stay."""
    with _known(key):
        await service.app.memory.edit_fact(key, body.text, user_id=tenant.stored(user_id))
    return await facts(user_id, service, tenant, pages.Asked(pages.MOST_ITEMS, None))


@router.delete("/api/users/{user_id}/facts/{key}", status_code=204)
async def forget_fact(user_id: UserId, key: FactKey, service: ServiceDep, tenant: TenantDep) -> Response:
    """Delete a fact, with what it replaced. `DELETE /api/memory` deletes all that is remembered of a user."""
    with _known(key):
        await service.app.memory.forget_fact(key, user_id=tenant.stored(user_id))
    return Response(status_code=204)


@contextmanager
def _known(key: str) -> Iterator[None]:
    try:
        yield
    except UnknownFact:
        raise not_found("fact", key) from None


memory_router = routes("memory")
MemoryOwner = Annotated[
    str, Query(pattern=NAME, max_length=LONGEST_NAME, description="The user whose files are meant.", examples=["alice"])
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


@memory_router.get("/api/memory", response_model=Page[MemoryFileView])
async def memory_files(
    service: ServiceDep,
    tenant: TenantDep,
    page: PageDep,
    user_id: MemoryOwner = ANYBODY,
) -> JsonResponse:
    """The user's memory files."""
    found = await service.app.memory.files(user_id=tenant.stored(user_id))
    return JsonResponse(page.cut(found, lambda file: [file["name"]]))


@memory_router.get("/api/memory/{file:path}", response_model=MemoryView)
async def memory(
    file: FileName, service: ServiceDep, tenant: TenantDep, user_id: MemoryOwner = ANYBODY
) -> JsonResponse:
    """A memory file."""
    with _found(file):
        return JsonResponse(await service.app.memory.show(file, user_id=tenant.stored(user_id)))


@memory_router.delete("/api/memory", status_code=204)
async def clear_memory(
    service: ServiceDep, tenant: TenantDep, user_id: MemoryOwner = ANYBODY, task_id: OfTask = ""
) -> Response:
    """Delete all of the user's memory files, or of all of them what a task wrote."""
    owner = tenant.stored(user_id)
    if task_id:
        await service.app.memory.forget(task_id=task_id, user_id=owner)
    else:
        await service.app.memory.clear(user_id=owner)
    return Response(status_code=204)


@memory_router.delete("/api/memory/{file:path}", response_model=ForgottenView)
async def forget(
    file: FileName, service: ServiceDep, tenant: TenantDep, user_id: MemoryOwner = ANYBODY, task_id: OfTask = ""
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
