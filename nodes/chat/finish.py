"""FINISH: the task ends with its mode's result."""

from collections.abc import Mapping
from typing import Any

from segue.core.conversation import MODE

from ..shared.context import NodeContext, NodeRuntime, announce, node_context
from ..shared.task import end_task
from .state import ChatState, ChatUpdate


async def finish(state: ChatState, runtime: NodeRuntime) -> ChatUpdate:
    """Say that the task is complete, which model answered, and which calls may or may not have taken effect."""
    work = node_context(runtime)
    ledger, result = work.services.ledger, state["result"] or {}
    unknown = await ledger.unknown(state["task_id"]) if ledger else ()
    result = {**result, "unknown_outcomes": [*unknown], "model": _model_of(result, work)}
    return {"result": result, "events": announce(*end_task(state, result, answered=False))}


def _model_of(result: Mapping[str, Any], work: NodeContext) -> str:
    """The name of the agent's model; empty where it was not called, or each participant has its own."""
    called = (result.get("usage") or {}).get("calls")
    return work.model.name if called and result.get("mode") != MODE else ""
