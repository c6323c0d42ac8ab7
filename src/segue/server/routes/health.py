"""Health and readiness of the service."""

from fastapi import APIRouter
from pydantic import BaseModel

from ..errors import ErrorBody, JsonResponse
from .dependencies import ServiceDep

router = APIRouter(tags=["health"])


class Health(BaseModel):
    """The status of the service."""

    status: str


@router.get("/healthz", response_model=Health)
async def healthz() -> JsonResponse:
    """Check that the process is running."""
    return JsonResponse({"status": "alive"})


@router.get(
    "/readyz", response_model=Health, responses={503: {"model": ErrorBody, "description": "No work is accepted now."}}
)
async def readyz(service: ServiceDep) -> JsonResponse:
    """Check that the database can be written and the service is not stopping."""
    await service.check_ready()
    return JsonResponse({"status": "ready"})
