"""The agent and the services of a flow, and those of a branch of it."""

from dataclasses import replace
from typing import Any

from segue.core.context import AppContext
from segue.core.flows import FlowConfig

from ..shared.context import NodeContext, NodeRuntime, node_context
from ..shared.part_services import part_services
from .state import FlowState


def flow_context(runtime: NodeRuntime, config: FlowConfig) -> NodeContext:
    """What a node works with: the agent is the controller's."""
    work, name = node_context(runtime), config.subflows_config.controller.agent
    return replace(work, agent=work.services.agent(name)) if name else work


def branch_context(state: FlowState, work: NodeContext, agent_id: str) -> AppContext:
    """The context of a branch's graph: its events name the round that it belongs to."""
    agent = work.services.agent(agent_id or work.agent.agent_id)
    services = part_services(work.services, work.services.ledger, parent_id=state["trace_id"])
    own = {"agent": agent.agent_id, "model": "" if agent_id and agent.model is not None else work.context.model}
    return AppContext.carrying(services, **{**work.context.model_dump(), **own})


def ids_of(state: FlowState) -> dict[str, Any]:
    """What every event of this round carries."""
    return {"task_id": state["task_id"], "trace_id": state["trace_id"], "iteration": state["round"]}
