"""REACT: hand the plan to the react graph, which carries it out with judgement."""

from collections.abc import Awaitable
from typing import Any, Protocol

from langchain_core.messages import AnyMessage
from langgraph.graph.state import CompiledStateGraph
from typing_extensions import TypedDict

from segue.core.events import TaskComplete

from ..shared.context import NodeRuntime, announce

NAME = "plan_react"


class PlannedTask(TypedDict):
    """What this node reads of the state."""

    messages: list[AnyMessage]
    task_id: str
    nested: bool
    language: str
    plan: list[dict[str, Any]]
    usage: dict[str, Any]


class CarriedOut(TypedDict):
    """What this node returns."""

    messages: list[AnyMessage]
    result: dict[str, Any]
    events: list[dict[str, Any]]


class ReactNode(Protocol):
    """The node over one react graph."""

    def __call__(self, state: PlannedTask, runtime: NodeRuntime) -> Awaitable[CarriedOut]: ...


def react(graph: CompiledStateGraph[Any, Any, Any, Any]) -> ReactNode:
    """The node over this react graph."""

    async def carry_out(state: PlannedTask, runtime: NodeRuntime) -> CarriedOut:
        """Run the react graph with the plan preloaded, and count the planning's tokens in."""
        given = state["messages"]
        inherited = {"task_id": state["task_id"], "language": state["language"], "plan": state["plan"]}
        out = await graph.ainvoke({"messages": given, "assignment": inherited}, context=runtime.context)
        usage = dict(out["result"]["usage"])
        for name in ("input", "output", "calls", "cost"):
            if name in state["usage"]:
                usage[name] = usage.get(name, 0) + state["usage"][name]
        result = {**out["result"], "mode": NAME, "usage": usage}
        status = "done" if result["success"] else "error"
        ended = [] if state["nested"] else [TaskComplete(task_id=state["task_id"], status=status, result=result)]
        fresh = [message.model_copy(update={"id": None}) for message in out["messages"][len(given) :]]
        return {"messages": fresh, "result": result, "events": announce(*ended)}

    return carry_out
