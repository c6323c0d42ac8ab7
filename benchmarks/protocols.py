"""What a model makes of the two protocols: readable replies, right calls, tokens; prints a table.

The same messages go to an agent of each protocol, each in a session of its own. Most messages ask for certain calls.
"""

import argparse
import asyncio
import json
import sys
from collections import Counter
from typing import Any, Literal

import segue
from segue.core.events import ErrorRaised, ModelCalled
from segue.core.records import TaskTrace

PROTOCOLS: tuple[Literal["json", "native"], ...] = ("json", "native")
Calls = list[tuple[str, dict[str, Any]]]


@segue.tool(read_only=True)
def look_up_order(order_id: int) -> str:
    """Say what is in an order, and where it is."""
    return f"Order {order_id}: one lamp, shipped on Monday."


@segue.tool(read_only=True)
def find_products(words: str, max_price: float | None = None) -> str:
    """Search the shop's products."""
    return "Lamp, 35 EUR; desk lamp, 29 EUR."


@segue.tool(read_only=True)
def convert_money(amount: float, from_currency: str, to_currency: str) -> str:
    """Convert an amount between currencies, given by their three letters."""
    return f"{amount} {from_currency} are {amount * 2} {to_currency}."


@segue.tool(read_only=True)
def set_address(order_id: int, street: str, city: str) -> str:
    """Change the address that an order goes to."""
    return f"Order {order_id} goes to {street}, {city}."


@segue.tool(read_only=True)
def book_pickup(order_id: int, day: Literal["monday", "wednesday", "friday"]) -> str:
    """Have a parcel picked up from the customer."""
    return f"Order {order_id} is picked up on {day}."


@segue.tool(read_only=True)
def refund(order_id: int, amount: float) -> str:
    """Pay money back for an order."""
    return f"{amount} EUR are paid back for order {order_id}."


TOOLS = [look_up_order, find_products, convert_money, set_address, book_pickup, refund]
TASKS: list[tuple[str, Calls]] = [
    ("Where is my order 17?", [("look_up_order", {"order_id": 17})]),
    ("Please refund 20.5 EUR for order 4711.", [("refund", {"order_id": 4711, "amount": 20.5})]),
    ("How much are 80 USD in EUR?", [("convert_money", {"amount": 80, "from_currency": "USD", "to_currency": "EUR"})]),
    (
        "Send order 12 to Main Street 5 in Berlin instead.",
        [("set_address", {"order_id": 12, "street": "Main Street 5", "city": "Berlin"})],
    ),
    ("Please pick up the parcel of order 9 on Friday.", [("book_pickup", {"order_id": 9, "day": "friday"})]),
    (
        "What did I buy with orders 21 and 22?",
        [("look_up_order", {"order_id": 21}), ("look_up_order", {"order_id": 22})],
    ),
    (
        "Do you have a lamp for at most 30 EUR? Search for “lamp”.",
        [("find_products", {"words": "lamp", "max_price": 30})],
    ),
    ("Thank you, that is all!", []),
    ("订单 305 现在到哪里了？", [("look_up_order", {"order_id": 305})]),
    ("请为订单 88 退款 15 欧元。", [("refund", {"order_id": 88, "amount": 15})]),
    (
        "Pick up order 31 on Monday, and refund 12 EUR for it.",
        [("book_pickup", {"order_id": 31, "day": "monday"}), ("refund", {"order_id": 31, "amount": 12})],
    ),
    ("How are you today?", []),
]


def is_strict(call: ModelCalled, protocol: str) -> bool:
    """Whether a reply was read as it stands: one JSON object, or text and calls in their own field."""
    if protocol == "native":
        return not call.reply.get("tool_calls") or call.reply.get("finish_reason") == "tool_calls"
    try:
        return isinstance(json.loads(call.reply.get("text", "")), dict)
    except ValueError:
        return False


def measure(trace: TaskTrace, protocol: str, expected: Calls) -> Counter[str]:
    replies = [event for event in trace.events if isinstance(event, ModelCalled)]
    unreadable = sum(isinstance(event, ErrorRaised) and not event.final for event in trace.events)
    ran = [(call.name, call.arguments) for call in trace.calls]
    return Counter(
        {
            "tasks": 1,
            "with the right calls": int(sorted(ran, key=str) == sorted(expected, key=str)),
            "replies": len(replies),
            "unreadable": unreadable,
            "repaired": sum(not is_strict(reply, protocol) for reply in replies) - unreadable,
            "prompt characters": sum(reply.prompt_chars for reply in replies),
            "prompt tokens": sum(reply.input for reply in replies),
            "reply tokens": sum(reply.output for reply in replies),
        }
    )


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="such as openai:gpt-4.1-mini; OPENAI_API_KEY has the key")
    parser.add_argument("--base-url", help="another endpoint than OpenAI's")
    given = parser.parse_args()
    agents = [
        segue.Agent(
            agent_id=protocol,
            model=given.model,
            base_url=given.base_url,
            protocol=protocol,
            tools=TOOLS,
            mode="react",
            prompt="You help the customers of a shop.",
            temperature=0,
            max_iteration=5,
            ask_user=False,
            read_timeout=300,
        )
        for protocol in PROTOCOLS
    ]
    sums = {protocol: Counter[str]() for protocol in PROTOCOLS}
    async with segue.open(":memory:", agents=agents) as app:
        for message, expected in TASKS:
            for protocol, total in sums.items():
                result = await app.ask(message, agent=protocol)
                trace = await app.tasks.trace(result.task_id)
                total.update(measure(trace, protocol, expected))
                print(
                    f"{protocol}: {message} → {[(call.name, call.arguments) for call in trace.calls]}", file=sys.stderr
                )
    print("| | " + " | ".join(PROTOCOLS) + " |")
    print("| --- |" + " --: |" * len(PROTOCOLS))
    for name in sums["json"]:
        print(f"| {name} | " + " | ".join(f"{total[name]:,}" for total in sums.values()) + " |")


if __name__ == "__main__":
    asyncio.run(main())
