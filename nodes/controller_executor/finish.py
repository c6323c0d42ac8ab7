"""FINISH: the flow ends with the result, the summary and the status of its early exit."""

from segue.core.events import FlowEnd
from segue.core.flows import FlowConfig

from ..shared.context import NodeRuntime, announce, node_context
from .memory_writing import remember
from .services import ids_of
from .state import FlowNode, FlowState, FlowUpdate


def finish(config: FlowConfig) -> FlowNode:
    """The node of this flow."""

    async def node(state: FlowState, runtime: NodeRuntime) -> FlowUpdate:
        """Write the end down, also in the memory file."""
        end = state["early_exit"] or {}
        summary, status = end["summary"], end["status"]
        await remember(config, state, node_context(runtime), status, summary, f"{state['trace_id']}/end")
        ended = FlowEnd(flow=config.name, status=status, summary=summary, **ids_of(state))
        return {"result": end["result"], "summary": summary, "status": status, "events": announce(ended)}

    return node
