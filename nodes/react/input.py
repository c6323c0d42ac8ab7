"""INPUT: the next recursion begins, if the budget allows."""

from segue.core.events import Phase, RecursionStart
from segue.core.tools import RECALL
from segue.prompts.catalogue import phrase

from ..shared.context import NodeContext, NodeRuntime, announce, node_context
from ..shared.repeated_calls import repeated_failure
from .call_limits import MOST_UNREADABLE, limit_reached, rounds_of, unreadable_in_a_row
from .state import ReactState, ReactUpdate


async def input_(state: ReactState, runtime: NodeRuntime) -> ReactUpdate:
    """Give the recursion its trace_id and number, or say which budget is spent."""
    work = node_context(runtime)
    if spent := _spent(state, work):
        return {"spent": spent}
    iteration = state["iteration"] + 1
    trace_id = work.services.ids.trace()
    banner = phrase("react", state["language"], i=iteration, n=work.agent.max_iteration)
    work.emit(Phase(task_id=state["task_id"], content=banner))
    start = RecursionStart(
        task_id=state["task_id"], trace_id=trace_id, iteration=iteration, max_iteration=work.agent.max_iteration
    )
    return {"iteration": iteration, "trace_id": trace_id, "decision": None, "outcomes": [], "events": announce(start)}


def _spent(state: ReactState, work: NodeContext) -> str:
    agent, language = work.agent, state["language"]
    match limit_reached(state, work):
        case "iterations":
            return phrase("spent_iterations", language, n=agent.max_iteration)
        case "tool_calls":
            return phrase("spent_calls", language, n=agent.budget.tool_calls)
        case "seconds":
            return phrase("spent_seconds", language, n=f"{agent.budget.seconds:g}")
    if unreadable_in_a_row(state) >= MOST_UNREADABLE:
        return phrase("spent_unreadable", language, n=MOST_UNREADABLE)
    return repeated_failure(rounds_of(state), [*work.tools, RECALL], language)
