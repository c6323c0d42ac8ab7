"""What known models cost, without the network."""

from pathlib import Path

import pytest

import segue
from segue.core.agents import Agent, Prices
from segue.models.openai.model import known_cost
from tests.cases import cases
from tests.loopback import LoopbackServer, Text

OPENAI = "https://api.openai.com/v1"
USAGE = {"input": 1000, "output": 100}


async def test_a_model_costs_what_is_known_of_it_at_its_endpoint() -> None:
    cost = await known_cost("gpt-4.1-mini", OPENAI, USAGE)
    assert cost and 0 < cost < 0.1
    cached = await known_cost("gpt-4.1-mini", OPENAI, {**USAGE, "cached": 900})
    assert cached and cached < cost
    assert await known_cost("gpt-4.1-mini-2025-04-14", OPENAI, USAGE) == cost


@cases(
    "name, address, usage",
    [
        ("gpt-4.1-mini", "http://127.0.0.1:8085/v1", USAGE),
        ("gpt-4.1-mini", "http://localhost/api.openai.com/v1", USAGE),
        ("no-such-model", OPENAI, USAGE),
        ("gpt-4.1-mini", OPENAI, {}),
        ("gpt-4.1-mini", OPENAI, {**USAGE, "cached": 1001}),
        ("gpt-4.1-mini", OPENAI, {**USAGE, "output": -1}),
    ],
)
async def test_what_is_not_known_is_not_0(name: str, address: str, usage: dict[str, int]) -> None:
    assert await known_cost(name, address, usage) is None


@cases("price", [-1, float("nan"), float("inf"), 1e300])
def test_a_price_is_a_number(price: float) -> None:
    with pytest.raises(ValueError, match="input"):
        Prices(input=price, output=1)


async def test_a_task_at_an_endpoint_without_known_prices_says_so(tmp_path: Path) -> None:
    async with LoopbackServer([Text("hello", usage={"prompt_tokens": 9, "completion_tokens": 3})]) as server:
        agent = Agent(agent_id="a", model="openai:gpt-4.1-mini", base_url=server.base_url, mode="direct")
        async with segue.open(tmp_path / "a.db", agents=[agent]) as app:
            result = await app.ask("hi", agent="a")
            assert result.usage["input"] == 9 and result.usage["cost"] is None
            assert (await app.tasks.usage()).cost is None
