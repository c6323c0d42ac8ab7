"""The mode over a flow: a given plan, or one made first, is carried out by the controller–executor graph."""

from collections.abc import Hashable
from typing import Any

from langgraph.graph import END, START

from segue.core.context import RunContext
from segue.core.flows import FlowConfig, flow_config
from segue.nodes.controller import ControllerInput, ControllerState, after_init, controller_executor, given_plan, init
from segue.nodes.plan import after_decompose, after_make_plan, decompose_calls, make_plan
from segue.nodes.plan import init as begin_plan
from segue.nodes.task import TaskOutput
from segue.registry import AgentGraph

from .controller_executor import compiled

DEFAULT = FlowConfig(name="controller")


def build_controller(
    config: FlowConfig | dict[str, Any] = DEFAULT,
) -> AgentGraph[ControllerState, ControllerInput, TaskOutput]:
    """The graph, to be compiled with a checkpointer or without; where no plan can be had, the flow goes without.

    Raises:
        ConfigurationError: saying what of the flow's configuration is wrong.
    """
    config = flow_config(config)
    graph = AgentGraph(ControllerState, RunContext, input_schema=ControllerInput, output_schema=TaskOutput)
    graph.add_node("INIT", init(begin_plan))
    graph.add_node("GIVEN_PLAN", given_plan)
    graph.add_node("MAKE_PLAN", make_plan)
    graph.add_node("DECOMPOSE", decompose_calls)
    graph.add_node("CONTROLLER_EXECUTOR", controller_executor(compiled(config), config.name))

    graph.add_edge(START, "INIT")
    graph.add_conditional_edges("INIT", after_init)
    graph.add_edge("GIVEN_PLAN", "CONTROLLER_EXECUTOR")
    planned: dict[Hashable, str] = {
        "SCHEDULE": "CONTROLLER_EXECUTOR",
        "GIVE_UP": "CONTROLLER_EXECUTOR",
        "MAKE_PLAN": "MAKE_PLAN",
    }
    graph.add_conditional_edges("MAKE_PLAN", after_make_plan, planned | {"DECOMPOSE": "DECOMPOSE"})
    graph.add_conditional_edges("DECOMPOSE", after_decompose, planned)
    graph.add_edge("CONTROLLER_EXECUTOR", END)
    return graph


graph = build_controller().compile()
