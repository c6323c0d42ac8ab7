"""The offline planner with the tools that come with Segue."""

import json
from typing import Any

import pytest

from segue.tools.calculator import CALCULATOR
from segue.tools.clock import CLOCK
from segue.tools.travel.tools import TRAVEL

from .offline_tools import Talk, said

TOOLS = (*TRAVEL, *CALCULATOR, *CLOCK)
THREE_DAYS_WITHOUT_BUDGET = [
    ("query_attractions", {"cities": ["北京"]}),
    ("get_city_info", {"city": "北京"}),
    ("generate_route", {"city": "北京", "days": 3}),
]


@pytest.mark.parametrize(
    ("text", "city"), [("帮我规划一个北京3日游，包括景点和美食", "北京"), ("Plan a 3-day trip to Beijing", "Beijing")]
)
async def test_a_trip_is_planned_with_every_tool_that_belongs_to_it(text: str, city: str) -> None:
    steps = json.loads(await said("plan", text, TOOLS))["steps"]
    calls: dict[str, Any] = {step["action"]: step["params"] for step in steps}
    assert calls == {
        "query_attractions": {"cities": [city]},
        "get_city_info": {"city": city},
        "calculate_budget": {"city": city, "days": 3},
        "generate_route": {"city": city, "days": 3},
        "none": {},
    }


@pytest.mark.parametrize(
    ("messages", "calls"),
    [
        (["推荐一些适合美食游的城市"], [("search_cities", {"interests": ["美食"]})]),
        (["12的5次方是多少？"], [("calculate", {"expression": "12**5"})]),
        (["5 plus 3"], [("calculate", {"expression": "5 + 3"})]),
        (["推荐海边的城市", "那预算500以内的呢？"], [("search_cities", {"interests": ["海边"], "budget_max": 500})]),
        (["北京有什么好玩的", "那上海呢？"], [("query_attractions", {"cities": ["上海"]})]),
        (["北京有什么好玩的", "那三天的预算一共多少？"], [("calculate_budget", {"city": "北京", "days": 3})]),
        (["预算在300到500元的城市"], [("search_cities", {"budget_min": 300, "budget_max": 500})]),
        (["北京3日游", "预算在300到500元的城市"], [("search_cities", {"budget_min": 300, "budget_max": 500})]),
        (["推荐北京的美食"], [("get_city_info", {"city": "北京"})]),
        (["北京的行程，不要预算，三天"], THREE_DAYS_WITHOUT_BUDGET),
        (["现在几点了？"], [("current_time", {})]),
        (["Explain the metro"], []),
        (["北京的地铁怎么坐"], []),
    ],
)
async def test_a_talk_leads_to_the_calls_that_were_meant(messages: list[str], calls: list) -> None:
    talk = Talk(TOOLS)
    for message in messages:
        await talk.say(message)
    assert talk.calls == calls
