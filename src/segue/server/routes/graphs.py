"""The modes and the graphs."""

from pydantic import BaseModel

from ...runtime.drawings import drawing
from ..errors import JsonResponse, not_found
from .dependencies import ServiceDep, TenantDep, routes

router = routes("graphs")


class Modes(BaseModel):
    """The modes that a message may ask for."""

    items: list[str]


class Drawing(BaseModel):
    """A graph as Mermaid text."""

    name: str
    mermaid: str


@router.get("/api/modes", response_model=Modes)
async def modes(service: ServiceDep, _: TenantDep) -> JsonResponse:
    """The modes that a message may ask for."""
    return JsonResponse({"items": service.app.modes})


@router.get("/api/graphs/{name}", response_model=Drawing)
async def graph(name: str, _: TenantDep) -> JsonResponse:
    """A graph's diagram: react, direct, plan, chat, …"""
    mermaid = drawing(name)
    if mermaid is None:
        raise not_found("graph", name)
    return JsonResponse({"name": name, "mermaid": mermaid})
