"""A support agent with LangChain's create_agent; refunds need approval."""

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command


def lookup(order_id: int) -> str:
    """Look up an order."""
    return f"Order {order_id} is packed."


def refund(order_id: int) -> str:
    """Refund an order."""
    return f"Order {order_id} is refunded."


with SqliteSaver.from_conn_string("before.db") as saver:
    agent = create_agent(
        ChatOpenAI(model="gpt-4.1-mini"),
        [lookup, refund],
        system_prompt="Look an order up before you refund it.",
        middleware=[HumanInTheLoopMiddleware(interrupt_on={"refund": True})],
        checkpointer=saver,
    )
    config = {"configurable": {"thread_id": "ann"}}
    state = agent.invoke({"messages": [("user", "Please refund order 17")]}, config)
    for request in state["__interrupt__"][0].value["action_requests"]:
        print("approve?", request["name"], request["args"])
    state = agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), config)
    print(state["messages"][-1].text)
