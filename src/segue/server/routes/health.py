"""Whether the service is alive, and whether it takes on work."""

from fastapi import APIRouter
from pydantic import BaseModel

from ..errors import ErrorBody, JsonResponse
from .dependencies import ServiceDep

router = APIRouter(tags=["health"])


class Health(BaseModel):
    """It is."""

    status: str


@router.get("/healthz", response_model=Health)
async def healthz() -> JsonResponse:
    """The process is running."""
    return JsonResponse({"status": "alive"})


@router.get(
    "/readyz", response_model=Health, responses={503: {"model": ErrorBody, "description": "No work is accepted now."}}
)
async def readyz(service: ServiceDep) -> JsonResponse:
    """The database can be written, and the service is not stopping."""
    await service.check_ready()
    return JsonResponse({"status": "ready"})
