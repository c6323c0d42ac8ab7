"""Whether the service is alive, and whether it takes on work."""

from fastapi import APIRouter
from pydantic import BaseModel

from ..errors import ErrorBody, Json
from .wiring import Serving

router = APIRouter(tags=["health"])


class Health(BaseModel):
    """It is."""

    status: str


@router.get("/healthz", response_model=Health)
async def healthz() -> Json:
    """The process is running."""
    return Json({"status": "alive"})


@router.get(
    "/readyz", response_model=Health, responses={503: {"model": ErrorBody, "description": "No work is accepted now."}}
)
async def readyz(service: Serving) -> Json:
    """The database can be written, and the service is not stopping."""
    await service.check_ready()
    return Json({"status": "ready"})
