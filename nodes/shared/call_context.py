"""The context of a call that a node is about to run."""

from typing import Any

from langgraph.config import get_config

from segue.core.tools import CallKey
from segue.tools.calls.context import CallContext, idempotency_key

from .context import NodeContext


def call_context(
    work: NodeContext, key: CallKey, call: dict[str, Any], origin: str, *, step_id: str = "", trace_id: str = ""
) -> CallContext:
    """Describe the call to its tool; `origin` is fixed in the state, is kept by forks, and is one call's alone."""
    return CallContext(
        idempotency_key=idempotency_key(origin, call["name"], call["arguments"]),
        tool=call["name"],
        session_id=str(get_config().get("configurable", {}).get("thread_id", "")),
        task_id=key.task_id,
        step_id=step_id,
        trace_id=trace_id,
        user_id=work.context.user_id,
    )
