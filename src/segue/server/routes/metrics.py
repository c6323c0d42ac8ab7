"""Prometheus metrics of the service."""

from fastapi import Response
from prometheus_client import CONTENT_TYPE_LATEST

from .dependencies import ServiceDep, routes

router = routes("metrics")
_METRICS = {"description": "The metrics.", "content": {"text/plain": {"schema": {"type": "string"}}}}


@router.get("/metrics", response_class=Response, responses={200: _METRICS})
async def metrics(service: ServiceDep) -> Response:
    """Give the service's metrics in Prometheus' text format: totals over all tenants."""
    return Response(await service.metrics.exposition(), media_type=CONTENT_TYPE_LATEST)
