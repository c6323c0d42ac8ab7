"""The modes and the graphs."""

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from pydantic import BaseModel

from ... import graphs
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
    if name not in _names():
        raise not_found("graph", name)
    return JsonResponse({"name": name, "mermaid": _drawn(name)})


@cache
def _names() -> frozenset[str]:
    return frozenset(module.name for module in iter_modules(graphs.__path__))


@cache
def _drawn(name: str) -> str:
    mermaid: str = import_module(f"{graphs.__name__}.{name}").graph.get_graph().draw_mermaid()
    return mermaid
