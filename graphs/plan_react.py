"""A plan whose steps need judgement: MAKE_PLAN → DECOMPOSE → REACT, the react graph with that plan preloaded."""

from langgraph.graph import END, START

from segue.core.context import RunContext
from segue.nodes.plan import PlanState, after_decompose, after_make_plan, decompose, give_up, init, make_plan, react
from segue.nodes.task import GraphInput, ModeOutput
from segue.registry import AgentGraph

from .react import graph as react_graph


def build_plan_react() -> AgentGraph[PlanState, GraphInput, ModeOutput]:
    """The graph, to be compiled with a checkpointer or without."""
    graph = AgentGraph(PlanState, RunContext, input_schema=GraphInput, output_schema=ModeOutput)
    graph.add_node("INIT", init)
    graph.add_node("MAKE_PLAN", make_plan)
    graph.add_node("DECOMPOSE", decompose)
    graph.add_node("REACT", react(react_graph))
    graph.add_node("GIVE_UP", give_up)

    graph.add_edge(START, "INIT")
    graph.add_edge("INIT", "MAKE_PLAN")
    graph.add_conditional_edges("MAKE_PLAN", after_make_plan)
    graph.add_conditional_edges(
        "DECOMPOSE", after_decompose, {"SCHEDULE": "REACT", "MAKE_PLAN": "MAKE_PLAN", "GIVE_UP": "GIVE_UP"}
    )
    graph.add_edge("REACT", END)
    graph.add_edge("GIVE_UP", END)
    return graph


graph = build_plan_react().compile()
