"""The modes and the graphs."""

import asyncio
from dataclasses import asdict
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from fastapi import Request
from langgraph.graph.state import CompiledStateGraph
from pydantic import BaseModel, Field

from ... import graphs
from ...core.records import Json
from ...prompts.modes import mode_description, mode_label
from ..errors import JsonResponse, language_of, not_found
from ..graph_layout import lay_out
from .dependencies import ServiceDep, TenantDep, routes

router = routes("graphs")


class ModeView(BaseModel):
    """A mode as a list of choices shows it, in the request's language."""

    name: str = Field(examples=["react"])
    label: str = Field(examples=["ReAct"])
    description: str


class Modes(BaseModel):
    """The modes that a message may ask for."""

    items: list[str]
    modes: list[ModeView]


class NodeView(BaseModel):
    """A node's box, by its centre."""

    name: str
    x: float
    y: float
    width: float
    height: float


class EdgeView(BaseModel):
    """An edge as the data of an SVG path."""

    source: str
    target: str
    path: str
    conditional: bool


class Drawing(BaseModel):
    """A graph as Mermaid text, and laid out to be drawn."""

    name: str
    mermaid: str
    width: float
    height: float
    nodes: list[NodeView]
    edges: list[EdgeView]


@router.get("/api/modes", response_model=Modes)
async def modes(service: ServiceDep, _: TenantDep, request: Request) -> JsonResponse:
    """The modes that a message may ask for."""
    names, language = service.app.modes, language_of(request.scope)
    described = [
        {"name": name, "label": mode_label(name, language), "description": mode_description(name, language)}
        for name in names
    ]
    return JsonResponse({"items": names, "modes": described})


@router.get("/api/graphs/{name}", response_model=Drawing)
async def graph(name: str, service: ServiceDep, _: TenantDep) -> JsonResponse:
    """A graph's diagram: react, direct, plan, chat, …, or a registered mode."""
    if own := service.app.own_modes.get(name):
        return JsonResponse(await asyncio.to_thread(_drawn, name, own))
    if name not in _names():
        raise not_found("graph", name)
    return JsonResponse(await asyncio.to_thread(_built_in, name))


@cache
def _names() -> frozenset[str]:
    return frozenset(module.name for module in iter_modules(graphs.__path__))


@cache
def _built_in(name: str) -> Json:
    return _drawn(name, import_module(f"{graphs.__name__}.{name}").graph)


def _drawn(name: str, compiled: CompiledStateGraph[Any, Any, Any, Any]) -> Json:
    drawing = compiled.get_graph()
    conditional = {(edge.source, edge.target): edge.conditional for edge in drawing.edges}
    layout = lay_out([*drawing.nodes], [*conditional])
    return {
        "name": name,
        "mermaid": drawing.draw_mermaid(),
        "width": layout.width,
        "height": layout.height,
        "nodes": [asdict(box) for box in layout.boxes],
        "edges": [{**asdict(curve), "conditional": conditional[curve.source, curve.target]} for curve in layout.curves],
    }
