"""MEMORY_WRITING: the round's summary goes into the logs and into the memory file."""

from typing import Any

from segue.core.context import MemoryEntry
from segue.core.errors import MemoryUnavailable
from segue.core.events import ErrorRaised
from segue.core.flows import FlowConfig
from segue.prompts.errors import render

from ..shared.context import NodeContext, NodeRuntime, announce, node_context
from .branches import ids_of
from .outcome import log_of
from .state import FlowNode, FlowState, FlowUpdate


def memory_writing(config: FlowConfig) -> FlowNode:
    """The node of this flow."""

    async def node(state: FlowState, runtime: NodeRuntime) -> FlowUpdate:
        """Write once, also after a crash: the entry's key is the round's. The controller sees an error."""
        outcome = state["outcome"] or {}
        record = {**outcome, "round": state["round"], "trace_id": state["trace_id"]}
        branch, text = outcome["branch"], log_of(outcome, state["language"])
        error = await append_entry(config, state, node_context(runtime), branch, text, state["trace_id"])
        failed = announce(ErrorRaised(message=error, **ids_of(state))) if error else []
        return {"records": [record], "outcome": None, "memory_error": error, "events": failed}

    return node


async def append_entry(
    config: FlowConfig, state: FlowState, work: NodeContext, branch: str, text: str, key: str
) -> str:
    """Append an entry to the flow's memory file; returns why it could not be written."""
    if not config.writes_memory:
        return ""
    path = state["files"][config.subflows_config.memory_writing.name]
    about: dict[str, Any] = {"task_id": state["task_id"], "round": state["round"], "created_at": work.services.clock()}
    try:
        await work.services.memory.append(path, MemoryEntry(key=key, branch=branch, text=text, **about))
    except MemoryUnavailable as error:
        return render(error, state["language"])
    return ""
