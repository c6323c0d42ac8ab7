"""A support agent with the OpenAI Agents SDK; refunds need approval."""

import asyncio

from agents import Agent, Runner, SQLiteSession, function_tool, set_default_openai_api, set_tracing_disabled

set_default_openai_api("chat_completions")
set_tracing_disabled(True)


@function_tool
def lookup(order_id: int) -> str:
    """Look up an order."""
    return f"Order {order_id} is packed."


@function_tool(needs_approval=True)
def refund(order_id: int) -> str:
    """Refund an order."""
    return f"Order {order_id} is refunded."


support = Agent(
    name="support",
    model="gpt-4.1-mini",
    tools=[lookup, refund],
    instructions="Look an order up before you refund it.",
)


async def main() -> None:
    session = SQLiteSession("ann", "before.db")
    result = await Runner.run(support, "Please refund order 17", session=session)
    state = result.to_state()  # store state.to_string() to answer in another process
    for call in result.interruptions:
        print("approve?", call.name, call.arguments)
        state.approve(call)
    result = await Runner.run(support, state, session=session)
    print(result.final_output)
    session.close()


if __name__ == "__main__":
    asyncio.run(main())
