"""The lifecycle graph: RECEIVING → CONTEXT_FETCHING → DECOMPOSING → … → COMPLETED."""

from langgraph.graph import END, START

from segue.core.context import RunContext
from segue.core.lifecycle import Coordinator
from segue.nodes.lifecycle import (
    Decompose,
    LifecycleState,
    Restored,
    SubTaskWork,
    after_context_fetching,
    after_decomposing,
    after_executing,
    after_paused,
    after_receiving,
    after_scheduling,
    completed,
    context_fetching,
    decomposing,
    error,
    execute_subtask,
    executing,
    paused,
    receiving,
    route_start,
    scheduling,
    stepwise,
)
from segue.nodes.task import GraphInput, TaskOutput
from segue.registry import AgentGraph

from .react import graph as react_graph

MOST_NODES = 1_000
"""Nodes of one run; a hundred tasks take some two hundred."""


def build_lifecycle(
    coordinator: Coordinator | None = None,
    decompose: Decompose | None = None,
    concurrency: int = 1,
    restored: Restored | None = None,
) -> AgentGraph[LifecycleState, GraphInput, TaskOutput]:
    """The graph, to be compiled with a checkpointer or without.

    Without a coordinator the context is the agent's tools; without `decompose` the agent's model decomposes the goal.
    With `restored` the run continues from what was done before.
    """
    graph = AgentGraph(LifecycleState, RunContext, input_schema=GraphInput, output_schema=TaskOutput)
    graph.add_node("RECEIVING", stepwise(receiving(restored)))
    graph.add_node("CONTEXT_FETCHING", stepwise(context_fetching(coordinator)))
    graph.add_node("DECOMPOSING", stepwise(decomposing(decompose)))
    graph.add_node("SCHEDULING", stepwise(scheduling, holds=True))
    graph.add_node("EXECUTING", stepwise(executing(concurrency), holds=True))
    graph.add_node("EXECUTE_SUBTASK", stepwise(execute_subtask(react_graph)), input_schema=SubTaskWork)
    graph.add_node("PAUSED", stepwise(paused(restored)))
    graph.add_node("COMPLETED", stepwise(completed))
    graph.add_node("ERROR", stepwise(error))

    graph.add_conditional_edges(START, route_start(restored))
    graph.add_conditional_edges("RECEIVING", after_receiving)
    graph.add_conditional_edges("CONTEXT_FETCHING", after_context_fetching)
    graph.add_conditional_edges("DECOMPOSING", after_decomposing)
    graph.add_conditional_edges("SCHEDULING", after_scheduling)
    graph.add_conditional_edges("PAUSED", after_paused)
    graph.add_conditional_edges("EXECUTING", after_executing, ["EXECUTE_SUBTASK", "PAUSED", "COMPLETED", "ERROR"])
    graph.add_edge("EXECUTE_SUBTASK", "EXECUTING")
    graph.add_edge("COMPLETED", END)
    graph.add_edge("ERROR", END)
    return graph


graph = build_lifecycle().compile().with_config(recursion_limit=MOST_NODES)
