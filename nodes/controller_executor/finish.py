"""FINISH: the flow ends with the result, the summary and the status of its early exit."""

from segue.core.events import FlowEnd
from segue.core.flows import FlowConfig
from segue.core.plan import Step

from ..shared.context import NodeRuntime, announce, node_context
from ..shared.plan_progress import answer_steps, step_events
from .branches import ids_of
from .memory_writing import append_entry
from .state import FlowNode, FlowState, FlowUpdate


def finish(config: FlowConfig) -> FlowNode:
    """The node of this flow."""

    async def node(state: FlowState, runtime: NodeRuntime) -> FlowUpdate:
        """Write the end down, also in the memory file."""
        end = state["early_exit"] or {}
        summary, status = end["summary"], end["status"]
        await append_entry(config, state, node_context(runtime), status, summary, f"{state['trace_id']}/end")
        old = tuple(Step(**step) for step in state["steps"])
        steps = answer_steps(old) if status == "finished" else old
        ended = FlowEnd(flow=config.name, status=status, summary=summary, **ids_of(state))
        return {
            "steps": [step.model_dump(mode="json") for step in steps],
            "result": end["result"],
            "summary": summary,
            "status": status,
            "events": announce(*step_events(old, steps, ids_of(state)), ended),
        }

    return node
