"""One model call, no tools."""

from langgraph.graph import END, START

from segue.core.context import RunContext
from segue.nodes.direct import DirectState, answer, init
from segue.nodes.task import GraphInput, ModeOutput
from segue.registry import AgentGraph


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
