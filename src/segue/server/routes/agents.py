"""Routes of agents, their models and their tasks."""

import asyncio

from fastapi import Request
from pydantic import BaseModel, Field

from ...core.agents import Agent
from ...core.errors import SegueError
from ...core.models import OFFLINE
from ...core.records import Json
from ...core.tools import Tool
from ...prompts.language import Language
from ...prompts.problems import render_over_http
from ..errors import JsonResponse, language_of, not_found
from ..service import Service
from ..views import Page, TaskView
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
        await asyncio.to_thread(_view, service, agent, language_of(request.scope))
        for agent in service.app.agents.values()
    ]
    return JsonResponse({"items": items, "next": None})


@router.get("/api/models", response_model=Page[ModelView])
async def models(service: ServiceDep, _: TenantDep) -> JsonResponse:
    """The configured models, and the offline planner, which is always there."""
    agents = service.app.agents
    named = {agent.agent_id: agents.model_name(agent) for agent in agents.values()}
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
    if agent_id not in service.app.agents:
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
    return {
        **{name: getattr(agent, name) for name in ("agent_id", "description", "mode", "max_iteration")},
        "modes": service.app.modes,
        "default": agent.agent_id == service.default_agent,
        "model": agents.model_name(agent),
        "reads_files": agents.reads_files(agent),
        "tools": tools,
        "error": error,
    }


def _tool(tool: Tool) -> Json:
    return {
        "name": tool.name,
        "title": tool.spec["segue"]["title"],
        "description": tool.spec["function"].get("description", ""),
        "read_only": tool.read_only,
        "needs_approval": tool.needs_approval,
    }
