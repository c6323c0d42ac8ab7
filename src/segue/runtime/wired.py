"""The chat graph with an app's agents and tools in it, for graphs of one's own."""

from collections.abc import Mapping
from typing import Any

from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from ..core.events import to_dict
from ..core.ports import AppContext, RunContext
from ..graphs.chat import build_chat
from ..nodes.chat.run_mode import ModeGraph
from ..nodes.shared.task import GraphInput, TaskOutput
from ..registry import Registry, RunServices


def wired_graph(
    registry: Registry, agent_id: str, modes: Mapping[str, ModeGraph]
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """A chat graph that carries its services with it."""
    chat = build_chat(modes).compile()

    async def segue(state: GraphInput, runtime: Runtime[RunContext]) -> TaskOutput:
        write = get_stream_writer()
        services = RunServices(registry, lambda event: write(to_dict(event)))
        await registry.prepare(registry.agent(agent_id))
        given = list(state["messages"])
        asked: RunContext | None = runtime.context
        fields = {**(asked or RunContext()).model_dump(), "agent": agent_id}
        out = await chat.ainvoke({"messages": given}, context=AppContext.carrying(services, **fields))
        return {"messages": out["messages"][len(given) :], "result": out["result"]}

    graph = StateGraph(TaskOutput, RunContext, input_schema=GraphInput, output_schema=TaskOutput)
    graph.add_node("segue", segue)
    graph.add_edge(START, "segue")
    graph.add_edge("segue", END)
    return graph.compile()
