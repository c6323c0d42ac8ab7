"""A conversation: USER → BOT ⇄ API, until the user ends it or a limit is reached."""

from typing import Any

from langgraph.graph import END, START

from segue.core.context import RunContext
from segue.core.conversation import ConversationConfig
from segue.nodes.conversation import after_api, after_bot, after_user, api, bot, finish, init, init_from_form, user
from segue.nodes.participants import ConversationForm, ConversationState
from segue.nodes.task import GraphInput, TaskOutput
from segue.registry import AgentGraph

MOST_NODES = 100_000
"""Nodes of one conversation; its own limits are far below."""


def build_conversation(*, nested: bool = False) -> AgentGraph[ConversationState, Any, TaskOutput]:
    """The graph, to be compiled with a checkpointer or without.

    Its input is a configuration, field by field; that of a `nested` one is a message with the configuration as JSON.
    """
    given: type[Any] = GraphInput if nested else ConversationConfig
    graph = AgentGraph(ConversationState, RunContext, input_schema=given, output_schema=TaskOutput)
    if nested:
        graph.add_node("INIT", init)
    else:
        graph.add_node("INIT", init_from_form, input_schema=ConversationForm)
    graph.add_node("USER", user)
    graph.add_node("BOT", bot)
    graph.add_node("API", api)
    graph.add_node("FINISH", finish)

    graph.add_edge(START, "INIT")
    graph.add_edge("INIT", "USER")
    graph.add_conditional_edges("USER", after_user)
    graph.add_conditional_edges("BOT", after_bot)
    graph.add_conditional_edges("API", after_api)
    graph.add_edge("FINISH", END)
    return graph


graph = build_conversation().compile().with_config(recursion_limit=MOST_NODES)
nested_graph = build_conversation(nested=True).compile().with_config(recursion_limit=MOST_NODES)
