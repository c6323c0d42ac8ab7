"""Routes of agents and their tasks."""

from pydantic import BaseModel

from ...core.agents import Agent
from ...core.records import Json
from ..errors import JsonResponse, not_found
from ..views import Page, TaskView
from .dependencies import Before, Limit, ServiceDep, TenantDep, routes

router = routes("agents")


class AgentView(BaseModel):
    """An agent that messages may be sent to."""

    agent_id: str
    description: str
    mode: str
    max_iteration: int
    default: bool


def _view(agent: Agent, default: str) -> Json:
    shown = {name: getattr(agent, name) for name in AgentView.model_fields if name != "default"}
    return {**shown, "default": agent.agent_id == default}


@router.get("/api/agents", response_model=Page[AgentView])
async def agents(service: ServiceDep, _: TenantDep) -> JsonResponse:
    """The agents; a message that names none goes to the default one."""
    known = service.app.agents
    default = service.settings.default_agent or next(iter(known))
    return JsonResponse({"items": [_view(agent, default) for agent in known.values()], "next": None})


@router.get("/api/agents/{agent_id}/tasks", response_model=Page[TaskView])
async def agent_tasks(
    agent_id: str, service: ServiceDep, tenant: TenantDep, limit: Limit = 50, before: Before = None
) -> JsonResponse:
    """The agent's tasks, the latest first."""
    if agent_id not in service.app.agents:
        raise not_found("agent", agent_id)
    return JsonResponse(await service.page_of_tasks(tenant, limit, before, agent_id=agent_id))
