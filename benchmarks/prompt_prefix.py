"""How much of each request the one before it began with: what a provider's prompt cache can serve.

A task of 20 tool calls over a customer-service toolset; requests are OpenAI's chat-completions bodies (tools, then
messages). The share is the common beginning by the length of the request, over all requests but the first.
"""

import asyncio
import json
import sys
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, convert_to_openai_messages

sys.path.insert(0, str(Path(__file__).parents[1]))

from segue.core.agents import Agent
from segue.core.context import AppContext
from segue.graphs.react import build_react
from segue.registry import Registry, services_of
from tests.fakes import ScriptedChatModel, answer, call_tool

CALLS = 20


def get_order(order_id: str) -> dict[str, Any]:
    """Get the status and the items of an order, with prices in USD and the address it goes to."""
    items = [{"item_id": f"{order_id}-{n}", "name": "garden chair", "price": 49.5} for n in range(4)]
    return {"order_id": order_id, "status": "delivered", "items": items, "address": "12 Long Lane, Springfield"}


def find_user(email: str) -> dict[str, str]:
    """Find a user by email address."""
    return {"user_id": email.split("@", maxsplit=1)[0]}


def refund(order_id: str, item_id: str, reason: str) -> str:
    """Refund one item of an order to the way it was paid."""
    return "refunded"


def native_script() -> list[AIMessage]:
    calls = [{"id": f"call_{n}", "name": "get_order", "args": {"order_id": f"W{n:07d}"}} for n in range(CALLS)]
    return [*(AIMessage("", tool_calls=[call]) for call in calls), AIMessage("Those are your orders.")]


def json_script() -> list[str]:
    thought = "The next order is still to be looked up."
    calls = [call_tool(("get_order", {"order_id": f"W{n:07d}"}), thought=thought) for n in range(CALLS)]
    return [*calls, answer("Those are your orders.")]


async def requests(protocol: str, script: list[Any]) -> list[str]:
    """The bodies of a task's requests."""
    model = ScriptedChatModel(script)
    agent = Agent(agent_id="a", model=model, tools=(get_order, find_user, refund), protocol=protocol)
    services = services_of(Registry((agent,), environ={}), lambda event: None)
    await (
        build_react()
        .compile()
        .ainvoke(
            {"messages": [("user", "Look up all my orders, W0000000 to W0000019, and list what I bought.")]},
            {"recursion_limit": 200},
            context=AppContext.carrying(services),
        )
    )
    tools = model.bound_tools[0] if model.bound_tools else []
    return [json.dumps({"tools": tools, "messages": convert_to_openai_messages(sent)}) for sent in model.calls]


def share(bodies: list[str]) -> float:
    return sum(common(a, b) for a, b in pairwise(bodies)) / sum(len(body) for body in bodies[1:])


def common(a: str, b: str) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))


def main() -> None:
    for protocol, script in (("native", native_script()), ("json", json_script())):
        bodies = asyncio.run(requests(protocol, script))
        print(f"{protocol:8} {len(bodies)} requests, {share(bodies):6.1%} of their bytes as in the one before")


if __name__ == "__main__":
    main()
