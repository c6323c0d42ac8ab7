"""Health, readiness and metrics of the service, and what it says about itself."""

from importlib.metadata import version

from fastapi import Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, Field

from ..errors import ErrorBody, JsonResponse
from .dependencies import ServiceDep, TenantDep, new_router, routes

router = new_router("health")


class Health(BaseModel):
    """The status of the service."""

    status: str


class Readiness(Health):
    """That work is accepted, and the model that does it."""

    model: str = Field(description="the default agent's; `offline` is the offline planner", examples=["offline"])
    workers: int = Field(description="the workers that run tasks of the database; 0 over SQLite")
    waiting_for_worker: int = Field(description="tasks that wait for a worker, where none takes them")
    waiting_for_version: int = Field(description="tasks that keep a version of their agent which is not there")


@router.get("/healthz", response_model=Health)
async def healthz() -> JsonResponse:
    """Check that the process is running."""
    return JsonResponse({"status": "alive"})


@router.get(
    "/readyz",
    response_model=Readiness,
    responses={503: {"model": ErrorBody, "description": "No work is accepted now."}},
)
async def readyz(service: ServiceDep) -> JsonResponse:
    """Check that the database can be written and the service is not stopping."""
    found = await service.check_ready()
    return JsonResponse({"status": "ready", "model": service.default_model, **found._asdict()})


about_router = routes("service")


class Limits(BaseModel):
    """The limits of a key, or of the whole service where it has none."""

    messages_a_minute: int
    requests_a_minute: int
    streams: int = Field(description="open at once, in each process")
    tasks: int = Field(description="running or queued at once, in each process")
    body_bytes: int = Field(description="of a request without a file")
    upload_bytes: int = Field(description="of a file")
    import_bytes: int = Field(description="of an imported session")


class About(BaseModel):
    """What the service is: its version, its default model, and its limits."""

    version: str = Field(examples=["0.2.0"])
    model: str = Field(description="the default agent's; `offline` is the offline planner", examples=["offline"])
    limits: Limits


@about_router.get("/api/service", response_model=About)
async def about(service: ServiceDep, _: TenantDep) -> JsonResponse:
    """The service's version, default model and limits."""
    settings = service.settings
    limits = Limits(
        messages_a_minute=settings.chats_a_minute,
        requests_a_minute=settings.requests_a_minute,
        streams=settings.streams,
        tasks=settings.tasks,
        body_bytes=settings.body_bytes,
        upload_bytes=settings.upload_bytes,
        import_bytes=settings.import_bytes,
    )
    return JsonResponse({"version": version("segue"), "model": service.default_model, "limits": limits.model_dump()})


metrics_router = routes("metrics")
_METRICS = {"description": "The metrics.", "content": {"text/plain": {"schema": {"type": "string"}}}}


@metrics_router.get("/metrics", response_class=Response, responses={200: _METRICS})
async def metrics(service: ServiceDep) -> Response:
    """Give the service's metrics in Prometheus' text format: totals over all tenants."""
    return Response(await service.metrics.exposition(), media_type=CONTENT_TYPE_LATEST)
