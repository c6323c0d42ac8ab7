"""Modes of one's own beside the built-in ones, and the chat graph over all of them for graphs of one's own."""

import re
from collections.abc import Mapping
from typing import Any

from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from ..core.errors import ConfigurationError
from ..core.events import to_dict
from ..core.ports import AppContext, RunContext
from ..graphs.chat import MODES, build_chat
from ..nodes.chat.run_mode import ModeGraph
from ..nodes.chat.select_mode import AUTO
from ..nodes.shared.task import GraphInput, TaskOutput
from ..registry import Registry, RunServices

_MODE = re.compile(r"[^\W\d]\w{0,63}")
_NODES = ("INIT", "SELECT_MODE", "FINISH")


def mode_graphs(modes: Mapping[str, Any]) -> dict[str, ModeGraph]:
    """Graphs of one's own, compiled where they are not.

    Raises:
        ConfigurationError: a name is taken, or what it names is not a graph.
    """
    graphs: dict[str, ModeGraph] = {}
    for name, graph in modes.items():
        if name in (*MODES, AUTO, *_NODES) or not _MODE.fullmatch(name):
            raise ConfigurationError(f"A mode cannot be called {name}: take a name of letters that is not built in.")
        if not isinstance(graph, StateGraph | CompiledStateGraph):
            raise ConfigurationError(f"The mode {name} is not a LangGraph graph: {graph!r}.")
        graphs[name] = graph.compile() if isinstance(graph, StateGraph) else graph
    return graphs


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
