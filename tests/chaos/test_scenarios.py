import json

import pytest

import segue
from segue import Agent, tool
from segue.core.errors import ConfigurationError
from segue.testing.chaos.world import record_scenarios

CALLED = ["find_booking", "verify_passenger", "search_flights", "quote_change", "change_booking"]
SCENARIO = "travel_change:change_without_fee"


def _tool(name: str) -> object:
    def call(reference: str) -> str:
        """Do something about a booking."""
        raise AssertionError("no tool runs while a scenario is recorded")

    call.__name__ = name
    return tool(call)


def _agent(names: list[str], protocol: str) -> Agent:
    return Agent(agent_id="desk", tools=[_tool(name) for name in names], protocol=protocol, prompt="You help.")


@pytest.mark.parametrize("protocol", ["json", "native"])
async def test_a_scenario_becomes_a_session_whose_model_makes_the_calls_of_the_script(protocol: str) -> None:
    async with segue.open(":memory:", agents=[_agent(CALLED, protocol)]) as app:
        recorded = await record_scenarios(app, SCENARIO, 0)
        assert recorded == await record_scenarios(app, SCENARIO, 0)
    (turns,) = [cassette.turns for cassette in recorded.values()]
    assert [call.name for turn in turns for call in turn.tool_calls] == CALLED
    replies = [call.reply for turn in turns for call in turn.model_calls]
    made = [
        called
        for reply in replies
        for called in (
            [call.name for call in reply.tool_calls]
            if protocol == "native"
            else [call["name"] for call in json.loads(reply.text)["action"]["result"]["output"].get("tool_calls", ())]
        )
    ]
    assert made == CALLED
    assert {turn.agent for turn in turns} == {"desk"}


async def test_an_agent_without_the_tools_of_a_workflow_is_refused() -> None:
    async with segue.open(":memory:", agents=[_agent(CALLED[:-1], "json")]) as app:
        with pytest.raises(ConfigurationError, match="missing: change_booking"):
            await record_scenarios(app, SCENARIO, 0)
