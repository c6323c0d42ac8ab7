"""A LangGraph graph that refunds an order once a person agrees."""

import re

from langchain_core.messages import AIMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, interrupt


class State(MessagesState):
    order_id: int


def find_order(state: State) -> dict[str, int]:
    return {"order_id": int(re.findall(r"\d+", state["messages"][-1].text)[0])}


def refund(state: State) -> dict[str, list[AIMessage]]:
    order = state["order_id"]
    if interrupt(f"Refund order {order}? (yes or no)") != "yes":
        return {"messages": [AIMessage(f"Order {order} is not refunded.")]}
    return {"messages": [AIMessage(f"Order {order} is refunded.")]}  # the payment would be made here


builder = StateGraph(State)
builder.add_node("find_order", find_order)
builder.add_node("refund", refund)
builder.add_edge(START, "find_order")
builder.add_edge("find_order", "refund")
builder.add_edge("refund", END)


if __name__ == "__main__":
    with SqliteSaver.from_conn_string("before.db") as saver:
        graph = builder.compile(checkpointer=saver)
        config = {"configurable": {"thread_id": "ann"}}
        state = graph.invoke({"messages": [("user", "Please refund order 17")]}, config)
        print(state["__interrupt__"][0].value)
        state = graph.invoke(Command(resume="yes"), config)
        print(state["messages"][-1].text)
