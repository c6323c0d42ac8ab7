"""The recursive state machine: INPUT → CALL_LLM → CALL_TOOL | PLAN | REMEND | ASK_USER → INPUT … → ANSWER."""

from langgraph.graph import END, START

from segue.core.context import RunContext
from segue.nodes.react import (
    after_ask_user,
    after_call_llm,
    after_call_tool,
    after_input,
    after_remend,
    answer,
    ask_user,
    call_llm,
    call_tool,
    finish,
    init,
    input_,
    plan,
    remend,
)
from segue.nodes.react_prompt import ReactState
from segue.nodes.task import GraphInput, TaskOutput
from segue.registry import AgentGraph


def build_react() -> AgentGraph[ReactState, GraphInput, TaskOutput]:
    """The graph, to be compiled with a checkpointer or without."""
    graph = AgentGraph(ReactState, RunContext, input_schema=GraphInput, output_schema=TaskOutput)
    graph.add_node("INIT", init)
    graph.add_node("INPUT", input_)
    graph.add_node("CALL_LLM", call_llm)
    graph.add_node("CALL_TOOL", call_tool)
    graph.add_node("PLAN", plan)
    graph.add_node("REMEND", remend)
    graph.add_node("ASK_USER", ask_user)
    graph.add_node("ANSWER", answer)
    graph.add_node("FINISH", finish)

    graph.add_edge(START, "INIT")
    graph.add_edge("INIT", "INPUT")
    graph.add_conditional_edges("INPUT", after_input)
    graph.add_conditional_edges("CALL_LLM", after_call_llm)
    graph.add_conditional_edges("CALL_TOOL", after_call_tool)
    graph.add_edge("PLAN", "INPUT")
    graph.add_conditional_edges("REMEND", after_remend)
    graph.add_conditional_edges("ASK_USER", after_ask_user)
    graph.add_edge("ANSWER", END)
    graph.add_edge("FINISH", END)
    return graph


graph = build_react().compile()
