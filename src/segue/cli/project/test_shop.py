"""Tests of the agent, without a key: python test_shop.py, or pytest."""

import asyncio
from pathlib import Path

import segue

AGENTS = Path(__file__).with_name("agents.toml")


async def ask(message: str) -> segue.Result:
    """Ask the offline planner, which chooses tools by their keywords."""
    async with segue.open(":memory:", agents=segue.load_agents(AGENTS)) as app:
        return await app.ask(message, agent="support", model="offline")


def test_an_order_is_looked_up() -> None:
    result = asyncio.run(ask("Where is my order 17?"))
    assert "Order 17 is shipped." in result.answer


def test_a_refund_waits_for_approval() -> None:
    assert asyncio.run(ask("Please refund order 17")).status == "waiting"


if __name__ == "__main__":
    test_an_order_is_looked_up()
    test_a_refund_waits_for_approval()
    print("2 tests passed")
