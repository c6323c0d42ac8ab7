"""INIT: take the plan, the goal and the names of the memory files in."""

import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from langgraph.config import get_config

from segue.core.decision import read_steps
from segue.core.errors import InvalidMessage, UnreadableReply
from segue.core.flows import FlowConfig
from segue.core.plan import Step
from segue.prompts.language import language_of

from ..shared.channels import replaced
from ..shared.context import NodeContext, NodeRuntime
from .branches import branches_of, flow_context
from .state import FlowNode, FlowState, FlowUpdate


def init(config: FlowConfig) -> FlowNode:
    """The node of this flow."""

    async def node(state: FlowState, runtime: NodeRuntime) -> FlowUpdate:
        """Mint the task's id, unless a caller has, and reset everything that belongs to a task.

        Raises:
            InvalidMessage: there is no goal, or the plan cannot be read.
            ConfigurationError: a tool of the agent has the name of another branch.
        """
        work = flow_context(runtime, config)
        branches_of(config, work)
        for branch in config.subflows_config.executor.branches.values():
            work.services.agent(branch.agent)
        goal = state.get("goal") or config.subflows_config.controller.goal
        if not goal.strip():
            raise InvalidMessage('The flow has no goal: invoke the graph with {"goal": "…"}, or configure one.')
        given = state.get("assignment") or {}
        task_id = given.get("task_id") or work.services.ids.task()
        return {
            "assignment": None,
            "task_id": task_id,
            "language": work.agent.language or given.get("language") or work.context.language or language_of(goal),
            "started_at": given.get("started_at") or work.services.clock(),
            "objective": goal,
            "attachments": list(given.get("attachments", ())),
            "steps": _steps(state.get("plan")),
            "files": state.get("memory_files") or _default_files(config, work, task_id),
            "before": state.get("logs") or "",
            **_UNUSED,
            "records": replaced([]),
            "usage": dict(given.get("usage") or {}),
        }

    return node


_UNUSED: FlowUpdate = {
    "plan": "",
    "goal": "",
    "logs": "",
    "memory_files": {},
    "added": [],
    "round": 0,
    "trace_id": "",
    "memory": "",
    "memory_error": "",
    "asked": 0,
    "complaint": "",
    "branch_node": "",
    "call": None,
    "outcome": None,
    "tool_calls": 0,
    "early_exit": None,
    "result": None,
    "summary": "",
    "status": "",
}


def _steps(given: Any) -> list[dict[str, Any]]:
    """The plan as steps; a text is read as a numbered list."""
    if not given:
        return []
    if isinstance(given, Sequence) and all(isinstance(item, dict) and "step_id" in item for item in given):
        return [Step(**item).model_dump(mode="json") for item in given]
    try:
        return [step.model_dump(mode="json") for step in read_steps(given)]
    except UnreadableReply as error:
        raise InvalidMessage("The plan cannot be read: give a numbered text, or steps with a description.") from error


def _default_files(config: FlowConfig, work: NodeContext, task_id: str) -> dict[str, str]:
    """One file a session, or a task where there is no session; a nested flow has its own."""
    session = str(get_config().get("configurable", {}).get("thread_id", "")) or task_id
    name = config.subflows_config.memory_writing.file
    return {name: f"{_folder(session)}/{config.name}.{name}.md"}


def _folder(session: str) -> str:
    """The session's name as a folder's: what a path cannot hold is replaced, and a digest keeps names apart."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", session)[:48]
    return plain if plain == session else f"{plain}-{sha256(session.encode()).hexdigest()[:8]}"
