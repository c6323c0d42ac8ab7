"""A mode of two: direct writes a draft, and react checks it with the agent's tools."""

from langchain_core.messages import AnyMessage, HumanMessage
from langgraph.graph import END, START, MessagesState, StateGraph

import segue


def ask_for_check(state: MessagesState) -> dict[str, list[AnyMessage]]:
    """Put the question again, with the draft."""
    question, draft = state["messages"][-2:]
    task = f"{question.text}\n\nCheck this draft with your tools, and correct it: {draft.text}"
    return {"messages": [HumanMessage(task)]}


builder = StateGraph(MessagesState)
builder.add_node("draft", segue.graph("direct"))
builder.add_node("ask_for_check", ask_for_check)
builder.add_node("check", segue.graph("react"))
builder.add_edge(START, "draft")
builder.add_edge("draft", "ask_for_check")
builder.add_edge("ask_for_check", "check")
builder.add_edge("check", END)
graph = builder.compile()
