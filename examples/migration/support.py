"""A support agent with Segue; refunds need approval."""

import asyncio

import segue


@segue.tool(read_only=True)
def lookup(order_id: int) -> str:
    """Look up an order."""
    return f"Order {order_id} is packed."


@segue.tool(needs_approval=True)
def refund(order_id: int) -> str:
    """Refund an order."""
    return f"Order {order_id} is refunded."


support = segue.Agent(
    agent_id="support",
    model="openai:gpt-4.1-mini",
    protocol="native",
    mode="react",
    tools=[lookup, refund],
    prompt="Look an order up before you refund it.",
)


async def main() -> None:
    async with segue.open("after.db", agents=[support]) as app:
        result = await app.ask("Please refund order 17", agent="support", session_id="ann")
        for call in (await app.question(result.task_id))["calls"]:
            print("approve?", call["name"], call["arguments"])
        result = await app.answer(result.task_id, "approve")
        print(result.answer)


if __name__ == "__main__":
    asyncio.run(main())
