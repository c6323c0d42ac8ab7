"""INIT: take the plan, the goal and the names of the memory files in."""

import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import PurePosixPath

from langgraph.config import get_config

from segue.core.errors import InvalidMessage
from segue.core.flows import FlowConfig
from segue.prompts.language import language_of

from ..shared.channels import replaced
from ..shared.context import NodeRuntime
from ..shared.task import given_steps
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
        for each in config.subflows_config.executor.branches.values():
            work.services.agent(each.agent)
        goal = state.get("goal") or config.subflows_config.controller.goal
        if not goal.strip():
            raise InvalidMessage('The flow has no goal: invoke the graph with {"goal": "…"}, or configure one.')
        given = state.get("assignment") or {}
        task_id = given.get("task_id") or work.services.ids.task()
        session = str(get_config().get("configurable", {}).get("thread_id", "")) or task_id
        branch = given.get("branch") or config.name
        return {
            "assignment": None,
            "task_id": task_id,
            "language": work.agent.language or given.get("language") or work.context.language or language_of(goal),
            "started_at": given.get("started_at") or work.services.clock(),
            "objective": goal,
            "attachments": list(given.get("attachments", ())),
            "steps": given_steps(state.get("plan")),
            "branch": branch,
            "files": _files(config, state.get("memory_files") or {}, session, branch),
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


def _files(config: FlowConfig, given: Mapping[str, str], session: str, branch: str) -> dict[str, str]:
    """The paths of the memory files by their names: the caller's, the flow's own, and those that it reads by name."""
    writing, reading = config.subflows_config.memory_writing, config.subflows_config.memory_reading
    own = _with_suffix(writing.file) if writing.file else f"{branch if len(branch) <= 60 else _plain(branch)}.logs.md"
    named = {name: _with_suffix(name) for name in reading.files or ()}
    return {**named, writing.name: f"{_plain(session)}/{own}" if writing.in_session else own, **given}


def _with_suffix(name: str) -> str:
    """The name of a memory file, which is Markdown where it does not say so."""
    return name if PurePosixPath(name).suffix else f"{name}.md"


def _plain(text: str) -> str:
    """A text as part of a path: what a path cannot hold is replaced, and a digest keeps different texts apart."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", text)[:48]
    return plain if plain == text else f"{plain}-{sha256(text.encode()).hexdigest()[:8]}"
