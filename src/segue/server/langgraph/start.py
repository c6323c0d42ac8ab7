"""Where a service has graphs, what serves them: their packages are not imported without."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from ..service import Service


@asynccontextmanager
async def serving_langgraph(application: FastAPI, service: Service) -> AsyncIterator[None]:
    """Offer the graphs that the settings name."""
    if service.settings.graphs is None:
        yield
        return
    from .endpoint import serving_graphs

    async with serving_graphs(application, service, service.settings.graphs):
        yield
