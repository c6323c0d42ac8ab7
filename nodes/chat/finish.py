"""FINISH: the task ends with its mode's result."""

from ..shared.context import NodeRuntime, announce, node_context
from ..shared.task import end_task
from .state import ChatState, ChatUpdate


async def finish(state: ChatState, runtime: NodeRuntime) -> ChatUpdate:
    """Say that the task is complete, and which of its calls may or may not have taken effect."""
    ledger = node_context(runtime).services.ledger
    unknown = await ledger.unknown(state["task_id"]) if ledger else ()
    result = {**(state["result"] or {}), "unknown_outcomes": [*unknown]}
    return {"result": result, "events": announce(*end_task(state, result, answered=False))}
