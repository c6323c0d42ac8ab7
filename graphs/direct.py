"""One model call, no tools."""

from langgraph.graph import END, START

from segue.agent_graph import AgentGraph
from segue.core.context import RunContext
from segue.nodes.direct.answer import answer
from segue.nodes.direct.init import init
from segue.nodes.direct.state import DirectState
from segue.nodes.shared.task import GraphInput, ModeOutput


def build_direct() -> AgentGraph[DirectState, GraphInput, ModeOutput]:
    """The graph, to be compiled with a checkpointer or without."""
    graph = AgentGraph(DirectState, RunContext, input_schema=GraphInput, output_schema=ModeOutput)
    graph.add_node("INIT", init)
    graph.add_node("ANSWER", answer)

    graph.add_edge(START, "INIT")
    graph.add_edge("INIT", "ANSWER")
    graph.add_edge("ANSWER", END)
    return graph


graph = build_direct().compile()
