"""The chat graph: a mode is selected, its graph carries the task, and react takes over where one fails."""

from collections.abc import Mapping
from typing import Any

from langgraph.graph import END, START

from segue.core.context import RunContext
from segue.nodes.chat import (
    FALLBACKS,
    ChatState,
    ModeGraph,
    after_init,
    after_mode,
    after_select_mode,
    condense,
    finish,
    init,
    run_mode,
    select_mode,
)
from segue.nodes.context import Node
from segue.nodes.direct import answer_at_once
from segue.nodes.task import GraphInput, TaskOutput
from segue.registry import AgentGraph

from . import controller, conversation, direct, lifecycle, plan, plan_react, react

MODES: Mapping[str, ModeGraph] = {
    "direct": direct.graph,
    "react": react.graph,
    "plan": plan.graph,
    "plan_react": plan_react.graph,
    "lifecycle": lifecycle.graph,
    "controller": controller.graph,
}

UNLISTED: Mapping[str, ModeGraph] = {"conversation": conversation.nested_graph, "direct_only": direct.graph}
"""Modes of the app that no message may ask for: the message of a conversation is its configuration, and what a chat
client asks for itself is answered without tools, whatever fails."""


def build_chat(modes: Mapping[str, ModeGraph] = MODES) -> AgentGraph[ChatState, GraphInput, TaskOutput]:
    """The graph over these modes, to be compiled with a checkpointer or without; `react` must be among them."""
    own = modes.keys() - MODES.keys()
    graph = AgentGraph(ChatState, RunContext, input_schema=GraphInput, output_schema=TaskOutput)
    graph.add_node("INIT", init(modes, own))
    graph.add_node("CONDENSE", condense)
    graph.add_node("SELECT_MODE", select_mode(modes, own))
    graph.add_node("FINISH", finish)

    graph.add_edge(START, "INIT")
    graph.add_conditional_edges("INIT", after_init, ["CONDENSE", "SELECT_MODE", *modes])
    graph.add_edge("CONDENSE", "SELECT_MODE")
    graph.add_conditional_edges("SELECT_MODE", after_select_mode, list(modes))
    for name, mode in modes.items():
        at_once: Node[Any, Any] | None = answer_at_once if mode is direct.graph else None
        graph.add_node(name, run_mode(name, mode, own=not isinstance(mode.builder, AgentGraph), at_once=at_once))
        if name in FALLBACKS:
            graph.add_conditional_edges(name, after_mode)
        else:
            graph.add_edge(name, "FINISH")
    graph.add_edge("FINISH", END)
    return graph


graph = build_chat().compile()
