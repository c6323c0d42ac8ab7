"""A controller chooses a branch a round, with memory: MEMORY_READING → CONTROLLER → EXECUTOR → MEMORY_WRITING → …"""

import sys
from typing import Any

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from segue.core.context import RunContext
from segue.core.errors import ConfigurationError
from segue.core.flows import BranchConfig, FlowConfig, flow_config, with_branches
from segue.nodes.control_decision import (
    FlowInput,
    FlowOutput,
    FlowState,
    controller,
    memory_reading,
    memory_writing,
    parameters_of,
    plan,
)
from segue.nodes.controller_executor import (
    after_branch,
    after_controller,
    after_executor,
    after_memory_reading,
    after_memory_writing,
    answer,
    ask_user,
    executor,
    finish,
    init,
    subgraph,
)
from segue.registry import AgentGraph

from .react import graph as react_graph

NODES_A_ROUND = 8
"""Nodes that a round takes at most: three tries of the controller, and an approval."""

Graph = CompiledStateGraph[Any, Any, Any, Any]


def build_controller_executor(
    config: FlowConfig | dict[str, Any] | None = None,
) -> AgentGraph[FlowState, FlowInput, FlowOutput]:
    """The graph of a flow, to be compiled with a checkpointer or without; see `compiled` for its limit of steps.

    Raises:
        ConfigurationError: saying what of the configuration is wrong.
    """
    config = flow_config(config or {})
    graphs = {name: _graph_of(name, branch) for name, branch in config.subflows_config.executor.branches.items()}
    config = _with_graphs(config, graphs)
    branches = config.subflows_config.executor.branches

    graph = AgentGraph(FlowState, RunContext, input_schema=FlowInput, output_schema=FlowOutput)
    graph.add_node("INIT", init(config))
    graph.add_node("MEMORY_READING", memory_reading(config))
    graph.add_node("CONTROLLER", controller(config))
    graph.add_node("EXECUTOR", executor(config))
    graph.add_node("ASK_USER", ask_user)
    graph.add_node("PLAN", plan)
    graph.add_node("ANSWER", answer)
    for name, branch in branches.items():
        graph.add_node(name, subgraph(name, branch, graphs[name], config))
    graph.add_node("MEMORY_WRITING", memory_writing(config))
    graph.add_node("FINISH", finish(config))

    graph.add_edge(START, "INIT")
    graph.add_edge("INIT", "MEMORY_READING")
    graph.add_conditional_edges("MEMORY_READING", after_memory_reading)
    others = ["ASK_USER", "PLAN", "ANSWER", *branches]
    graph.add_conditional_edges("CONTROLLER", after_controller, ["CONTROLLER", "EXECUTOR", *others, "FINISH"])
    graph.add_conditional_edges("EXECUTOR", after_executor)
    for name in others:
        graph.add_conditional_edges(name, after_branch)
    graph.add_conditional_edges("MEMORY_WRITING", after_memory_writing)
    graph.add_edge("FINISH", END)
    return graph


def compiled(config: FlowConfig | dict[str, Any] | None = None, **options: Any) -> Graph:
    """The compiled graph, with as many steps as its rounds may take; `options` as of LangGraph's `compile`."""
    config = flow_config(config or {})
    steps = sys.maxsize // 2 if config.max_round is None else 20 + NODES_A_ROUND * config.max_round
    return build_controller_executor(config).compile(**options).with_config(recursion_limit=steps)


def _graph_of(name: str, branch: BranchConfig) -> Graph:
    """The graph of a branch: an agent's is react, a flow's is one such as this."""
    if branch.agent:
        return react_graph
    if isinstance(branch.flow, str):
        raise ConfigurationError(
            "The branch '{name}' names the flow '{flow}', which works only in an agents file: give a "
            "FlowConfig, or write [flows.{flow}] in the same file.",
            name=name,
            flow=branch.flow,
        )
    if branch.flow is not None:
        return compiled(branch.flow)
    given = branch.graph
    if not isinstance(given, StateGraph | CompiledStateGraph):
        raise ConfigurationError(
            "The branch '{name}' is not a LangGraph graph: {given}. Give one, compiled or not.",
            name=name,
            given=repr(given),
        )
    return given.compile() if isinstance(given, StateGraph) else given


def _with_graphs(config: FlowConfig, graphs: dict[str, Graph]) -> FlowConfig:
    """The configuration with the graphs of its branches compiled, and what each of them takes."""
    branches = config.subflows_config.executor.branches
    given = {name: branch for name, branch in branches.items() if branch.graph is not None}
    made = {
        name: {"graph": graphs[name], "parameters": branch.parameters or parameters_of(name, graphs[name])}
        for name, branch in given.items()
    }
    return with_branches(config, branches | {n: b.model_copy(update=made[n]) for n, b in given.items()})


graph = compiled()
