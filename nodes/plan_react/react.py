"""REACT: hand the plan to the react graph, which carries it out with judgement."""

from typing import Any

from langgraph.graph.state import CompiledStateGraph

from segue.core.usage import add_usages

from ..shared.context import Node, NodeRuntime, announce
from ..shared.task import PlannedTask, end_task

NAME = "plan_react"


def react(graph: CompiledStateGraph[Any, Any, Any, Any]) -> Node[PlannedTask, PlannedTask]:
    """The node over this react graph."""

    async def run_react(state: PlannedTask, runtime: NodeRuntime) -> PlannedTask:
        """Run the react graph with the plan preloaded, and count the planning's tokens in."""
        given = state["messages"]
        inherited = {"task_id": state["task_id"], "language": state["language"], "plan": state["plan"]}
        inherited["vetted"] = state.get("vetted", [])
        out = await graph.ainvoke({"messages": given, "assignment": inherited}, context=runtime.context)
        usage = add_usages([out["result"]["usage"], state["usage"]])
        result = {**out["result"], "mode": NAME, "usage": usage}
        fresh = [message.model_copy(update={"id": None}) for message in out["messages"][len(given) :]]
        return {"messages": fresh, "result": result, "events": announce(*end_task(state, result, answered=False))}

    return run_react
