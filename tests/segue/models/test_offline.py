"""The offline planner: what it calls, what it answers, and what it says that it did not use."""

from typing import Any

import pytest

from segue.tools.calculator import CALCULATOR
from segue.tools.clock import CLOCK
from segue.tools.registry import tool
from segue.tools.travel.tools import TRAVEL

from .offline_tools import LIBRARY, MACHINES, Talk

TOOLS = (*TRAVEL, *CALCULATOR, *CLOCK)
Calls = list[tuple[str, dict[str, Any]]]


def trip(city: str, days: int = 3) -> Calls:
    return [
        ("query_attractions", {"cities": [city]}),
        ("get_city_info", {"city": city}),
        ("calculate_budget", {"city": city, "days": days}),
        ("generate_route", {"city": city, "days": days}),
    ]


@tool
def ship(order_id: int) -> str:
    """Ship an order."""
    return "shipped"


@tool
def get_weather(city: str) -> str:
    """Say what the weather is in a city."""
    return "sunny"


@tool(read_only=True)
def search_flights(destination: str, max_price: int | None = None) -> str:
    """Search for flights."""
    return "none"


PLAIN = (ship, get_weather, search_flights)

CASES: list[tuple[Any, str, Calls]] = [
    (TOOLS, "帮我规划一个北京3日游，包括景点和美食", trip("北京")),
    (TOOLS, "Plan a 3-day trip to Beijing", trip("Beijing")),
    (TOOLS, "推荐一些适合美食游的城市", [("search_cities", {"interests": ["美食"]})]),
    (TOOLS, "预算在300到500元的城市", [("search_cities", {"budget_min": 300, "budget_max": 500})]),
    (TOOLS, "推荐北京的美食", [("get_city_info", {"city": "北京"})]),
    (TOOLS, "北京的行程，不要预算，三天", [call for call in trip("北京") if call[0] != "calculate_budget"]),
    (TOOLS, "12的5次方是多少？", [("calculate", {"expression": "12的5次方"})]),
    (TOOLS, "5 plus 3", [("calculate", {"expression": "5 plus 3"})]),
    (TOOLS, "现在几点了？", [("current_time", {})]),
    (TOOLS, "北京的地铁怎么坐", []),
    (TOOLS, "Explain the metro", []),
    (LIBRARY, "When is Northgate open?", [("opening_hours", {"branch": "Northgate"})]),
    (LIBRARY, "renew L-017 for two weeks", [("renew_loan", {"loan_id": "L-017", "weeks": 2})]),
    (LIBRARY, "Find books about “The Open Fine”", [("find_books", {"subject": "The Open Fine"})]),
    (
        LIBRARY,
        "河西馆和东门馆的开放时间",
        [("opening_hours", {"branch": "河西馆"}), ("opening_hours", {"branch": "东门馆"})],
    ),
    (
        LIBRARY,
        "Northgate opening hours, and the late fee of L-020 after 3 weeks",
        [("opening_hours", {"branch": "Northgate"}), ("late_fee", {"loan_id": "L-020", "weeks": 3})],
    ),
    (LIBRARY, "Please don't renew L-017", []),
    (MACHINES, "M-02 温度读数", [("read_sensor", {"machine": "M-02", "sensor": "温度"})]),
    (MACHINES, "Which machines are above 80?", [("machines_by_temperature", {"temp_min": 80})]),
    (MACHINES, "critical alarms of M-02, no ticket", [("alarms", {"machine": "M-02", "severities": ["critical"]})]),
    (MACHINES, "When was the pump history of M-05 written?", [("pump_history", {"machine": "M-05"})]),
    (MACHINES, "move load from M-01 to M-02", [("move_load", {"source": "M-01", "target": "M-02"})]),
    (MACHINES, "2024-05-01 or 24/7?", []),
    (PLAIN, "ship order 82\nship order 84", [("ship", {"order_id": 82}), ("ship", {"order_id": 84})]),
    (PLAIN, "search flights to Rome below 200", [("search_flights", {"destination": "Rome", "max_price": 200})]),
    (PLAIN, 'get_weather({"city": "Oslo"})', [("get_weather", {"city": "Oslo"})]),
    (PLAIN, "If order 82 is paid, ship it", []),
    (PLAIN, "the weather in Oslo", []),
]


@pytest.mark.parametrize("native", [False, True], ids=["json", "native"])
@pytest.mark.parametrize(("tools", "text", "calls"), CASES)
async def test_a_message_leads_to_the_calls_that_it_asks_for(tools: Any, text: str, calls: Calls, native: bool) -> None:
    talk = Talk(tools, native)
    await talk.say(text)
    assert talk.calls == calls


@pytest.mark.parametrize("native", [False, True], ids=["json", "native"])
@pytest.mark.parametrize(
    ("tools", "messages", "calls"),
    [
        (TOOLS, ["北京有什么好玩的", "那上海呢？"], [("query_attractions", {"cities": ["上海"]})]),
        (TOOLS, ["北京有什么好玩的", "那三天的预算一共多少？"], [("calculate_budget", {"city": "北京", "days": 3})]),
        (
            TOOLS,
            ["推荐海边的城市", "那预算500以内的呢？"],
            [("search_cities", {"interests": ["海边"], "budget_max": 500})],
        ),
        (
            TOOLS,
            ["北京3日游", "预算在300到500元的城市"],
            [("search_cities", {"budget_min": 300, "budget_max": 500})],
        ),
        (LIBRARY, ["Is Northgate open?", "thanks!", "and Riverside?"], [("opening_hours", {"branch": "Riverside"})]),
        (LIBRARY, ["Is Northgate open?", "Does Riverside have a swimming pool?"], []),
        (LIBRARY, ["续借 L-017 一周", "那3周的逾期费呢？"], [("late_fee", {"loan_id": "L-017", "weeks": 3})]),
        (LIBRARY, ["续借 L-017", "两周吧"], [("renew_loan", {"loan_id": "L-017", "weeks": 2})]),
        (LIBRARY, ["renew L-017 for 2 weeks", "and L-018?"], []),
        (
            MACHINES,
            ["Open a ticket, urgent", "the pump leaks"],
            [("open_ticket", {"title": "the pump leaks", "urgent": True})],
        ),
        (MACHINES, ["Open a ticket", "no, never mind"], []),
        (PLAIN, ["the weather", "Oslo"], [("get_weather", {"city": "Oslo"})]),
    ],
)  # fmt: skip
async def test_a_follow_up_takes_the_rest_from_the_conversation(
    tools: Any, messages: list[str], calls: Calls, native: bool
) -> None:
    talk = Talk(tools, native)
    for message in messages:
        await talk.say(message)
    assert talk.calls == calls
