"""The context that a tool gets, and the arguments of a check; `tests/runtime/test_unknown_outcomes.py` has the rest."""

from typing import Annotated

import pytest
from langchain_core.tools import InjectedToolArg, StructuredTool

import segue
from segue import Agent, CallContext
from segue.core.errors import ConfigurationError
from tests.modes import agent_that


def of_langchain(seen: list[CallContext], synchronous: bool) -> StructuredTool:
    def pay(order: str, call: Annotated[CallContext, InjectedToolArg]) -> str:
        """Pay an order."""
        seen.append(call)
        return f"{order} paid"

    async def pay_async(order: str, call: CallContext) -> str:
        """Pay an order."""
        return pay(order, call)

    if synchronous:
        return StructuredTool.from_function(pay)
    return StructuredTool.from_function(coroutine=pay_async, name="pay")


@pytest.mark.parametrize("kind", ["langchain", "langchain async", "function"])
async def test_the_context_reaches_every_kind_of_tool_and_no_model_sees_it(kind: str) -> None:
    seen: list[CallContext] = []

    def pay(order: str, call: CallContext | None = None) -> str:
        """Pay an order."""
        assert call
        seen.append(call)
        return f"{order} paid"

    tool = pay if kind == "function" else of_langchain(seen, synchronous=kind == "langchain")
    agent = agent_that("react", ("pay", {"order": "A1"}), tools=(tool,))
    async with segue.open(":memory:", agents=[agent]) as app:
        result = await app.ask("pay A1", agent="a")
    assert result["history"][0]["result"] == {"success": "A1 paid"}
    assert seen[0].idempotency_key
    sent = str(agent.model.calls[0])
    assert '"order"' in sent
    assert '"call"' not in sent


async def test_a_check_may_only_ask_for_arguments_of_its_tool() -> None:
    def was_paid(invoice: str) -> str:
        return invoice

    @segue.tool(check=was_paid)
    def pay(order: str) -> str:
        """Pay an order."""
        return order

    with pytest.raises(ConfigurationError, match="The check of the tool pay takes invoice"):
        async with segue.open(":memory:", agents=[Agent(agent_id="a", tools=(pay,))]):
            pass
