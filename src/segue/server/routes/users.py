"""Routes of users' preferences."""

from typing import Annotated

from fastapi import Path
from pydantic import BaseModel, Field

from ..errors import JsonResponse
from ..request_body import RequestBody
from .dependencies import LONGEST, NAME, ServiceDep, TenantDep, routes

router = routes("users")
UserId = Annotated[str, Path(pattern=NAME, max_length=LONGEST, examples=["alice"])]


class Preferences(RequestBody):
    """The mode of a message that names none; empty leaves it to the agent."""

    default_mode: str = Field(max_length=64, examples=["react"])


class ModeUsed(BaseModel):
    """A mode that answered the user, and how they rated it."""

    query: str
    mode: str
    rating: int | None


class PreferencesView(BaseModel):
    """A user's default mode, and the modes that answered them, the newest first."""

    default_mode: str
    mode_history: list[ModeUsed]


@router.get("/api/users/{user_id}/preferences", response_model=PreferencesView)
async def preferences(user_id: UserId, service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """The user's default mode, and the modes that answered them; both empty for a user who is not known yet."""
    return JsonResponse(await service.app.preferences(tenant.stored(user_id)))


@router.put("/api/users/{user_id}/preferences", response_model=PreferencesView)
async def prefer(user_id: UserId, body: Preferences, service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """Set the user's default mode."""
    await service.app.set_preferences(tenant.stored(user_id), default_mode=body.default_mode)
    return JsonResponse(await service.app.preferences(tenant.stored(user_id)))
