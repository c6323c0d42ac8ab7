"""A conversation: USER → BOT ⇄ API, until the user ends it or a limit is reached."""

from langgraph.graph import END, START

from segue.agent_graph import AgentGraph
from segue.core.context import RunContext
from segue.nodes.conversation.api import api
from segue.nodes.conversation.bot import bot
from segue.nodes.conversation.finish import finish
from segue.nodes.conversation.init import init
from segue.nodes.conversation.routes import after_bot, after_user
from segue.nodes.conversation.state import ConversationState
from segue.nodes.conversation.user import user
from segue.nodes.shared.task import GraphInput, TaskOutput

MOST_NODES = 100_000
"""Nodes of one conversation; its own limits are far below."""


def build_conversation() -> AgentGraph[ConversationState, GraphInput, TaskOutput]:
    """The graph, to be compiled with a checkpointer or without."""
    graph = AgentGraph(ConversationState, RunContext, input_schema=GraphInput, output_schema=TaskOutput)
    graph.add_node("INIT", init)
    graph.add_node("USER", user)
    graph.add_node("BOT", bot)
    graph.add_node("API", api)
    graph.add_node("FINISH", finish)

    graph.add_edge(START, "INIT")
    graph.add_edge("INIT", "USER")
    graph.add_conditional_edges("USER", after_user)
    graph.add_conditional_edges("BOT", after_bot)
    graph.add_edge("API", "BOT")
    graph.add_edge("FINISH", END)
    return graph


graph = build_conversation().compile().with_config(recursion_limit=MOST_NODES)
