"""Routes of agents, their models and tasks, and of modes and graphs."""

import asyncio
import re
from dataclasses import asdict
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from fastapi import Request
from langgraph.graph.state import CompiledStateGraph
from pydantic import BaseModel, Field

from segue import graphs

from ...core.agents import Agent
from ...core.conversation import MODE as CONVERSATION
from ...core.errors import SegueError
from ...core.models import OFFLINE
from ...core.records import Json
from ...core.tools import Tool
from ...prompts.catalogue import mode_label
from ...prompts.errors import render_over_http
from ...prompts.language import Language
from ..errors import JsonResponse, language_of, not_found
from ..graph_layout import lay_out
from ..service import Service
from ..views import Page, TaskView, fields_of
from .dependencies import Before, Limit, ServiceDep, TenantDep, routes

router = routes("agents")


class ToolView(BaseModel):
    """A tool of an agent."""

    name: str = Field(examples=["get_weather"])
    title: str
    description: str
    read_only: bool
    needs_approval: bool


class AgentView(BaseModel):
    """An agent that messages may be sent to."""

    agent_id: str
    description: str
    suggestions: list[str] = Field(description="messages to begin with, in the request's language where it has them")
    mode: str = Field(description="used for a message that names none")
    modes: list[str] = Field(description="what a message may name")
    max_iteration: int
    default: bool
    model: str = Field(examples=["openai:gpt-4.1-mini"])
    reads_files: bool = Field(description="whether its tools read files that were uploaded to /api/files")
    tools: list[ToolView] = Field(description="those of MCP servers once they were used")
    error: str = Field(description="why its tools cannot be used; empty if they can")


class ModelView(BaseModel):
    """A model, and the agents that answer with it unless a message names another."""

    model: str = Field(examples=["openai:gpt-4.1-mini"])
    offline: bool = Field(description="whether it is the offline planner: rules, not a language model")
    default: bool
    agents: list[str]


@router.get("/api/agents", response_model=Page[AgentView])
async def agents(service: ServiceDep, _: TenantDep, request: Request) -> JsonResponse:
    """The agents; a message that names none goes to the default one."""
    items = [
        await asyncio.to_thread(_view, service, agent, language_of(request.scope)) for agent in service.agents.values()
    ]
    return JsonResponse({"items": items, "next": None})


@router.get("/api/models", response_model=Page[ModelView])
async def models(service: ServiceDep, _: TenantDep) -> JsonResponse:
    """The configured models, and the offline planner, which is always there."""
    agents = service.app.agents
    named = {agent.agent_id: agents.model_name(agent) for agent in service.agents.values()}
    items = [
        {
            "model": model,
            "offline": model == OFFLINE,
            "default": model == named[service.default_agent],
            "agents": [agent_id for agent_id, its_own in named.items() if its_own == model],
        }
        for model in dict.fromkeys([*named.values(), OFFLINE])
    ]
    return JsonResponse({"items": items, "next": None})


@router.get("/api/agents/{agent_id}/tasks", response_model=Page[TaskView])
async def agent_tasks(
    agent_id: str, service: ServiceDep, tenant: TenantDep, limit: Limit = 50, before: Before = None
) -> JsonResponse:
    """The agent's tasks, the latest first."""
    if agent_id not in service.agents:
        raise not_found("agent", agent_id)
    return JsonResponse(await service.page_of_tasks(tenant, limit, before, agent_id=agent_id))


def _view(service: Service, agent: Agent, language: Language) -> Json:
    agents = service.app.agents
    tools: list[Json] = []
    error = ""
    try:
        tools = [_tool(tool) for tool in agents.tools_for(agent).values()]
    except SegueError as fault:
        error = render_over_http(fault, language)
    return fields_of(
        AgentView,
        agent,
        suggestions=_suggestions(agent, tools, language),
        modes=service.app.modes,
        default=agent.agent_id == service.default_agent,
        model=agents.model_name(agent),
        reads_files=agents.reads_files(agent),
        tools=tools,
        error=error,
    )


SUGGESTED = 3
"""How many messages are derived from an agent's tools."""
_SENTENCE = re.compile(r"(.{2,120}?)(?:\.(?=\s+[^a-z])|\.?$|(?<=[!?。！？]))", re.MULTILINE)
"""One of at most 120 characters, without its full stop."""


def _suggestions(agent: Agent, tools: list[Json], language: Language) -> list[str]:
    """The agent's own, else what its first tools say that they do."""
    own = agent.suggestions
    if isinstance(own, dict):
        own = own.get(language) or next(iter(own.values()), ())
    does = (_SENTENCE.match(tool["description"]) for tool in tools)
    return [*own] or [sentence[1] for sentence in does if sentence][:SUGGESTED]


def _tool(tool: Tool) -> Json:
    title, description = tool.spec.get("segue", {}).get("title", ""), tool.spec["function"].get("description", "")
    return fields_of(ToolView, tool, title=title, description=description)


graphs_router = routes("graphs")


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


@graphs_router.get("/api/modes", response_model=Modes)
async def modes(service: ServiceDep, _: TenantDep, request: Request) -> JsonResponse:
    """The modes that a message may ask for."""
    names, language = [*service.app.modes, CONVERSATION], language_of(request.scope)
    described = [
        {"name": name, "label": mode_label(name, language), "description": service.app.mode_description(name, language)}
        for name in names
    ]
    return JsonResponse({"items": names, "modes": described})


@graphs_router.get("/api/graphs/{name}", response_model=Drawing)
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
