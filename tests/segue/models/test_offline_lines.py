"""A message of several lines, as one that is added to while its task runs: each line speaks for its own tool."""

from typing import Annotated, Any

import pytest
from pydantic import Field

from segue.tools.registry import tool

from .offline_tools import LIBRARY, Talk

Room = Annotated[str, Field(description="The room", examples=["Oslo", "Lima", "Cairo"])]


@tool
def ship(order_id: int) -> str:
    """Ship an order."""
    return "shipped"


@tool
def stocktake(order_id: int) -> str:
    """Count the stock of an order."""
    return "counted"


STORE = (ship, stocktake)


@tool(keywords=["book", "预订"])
def reserve(
    room: Room, seats: Annotated[int, Field(description="Seats", json_schema_extra={"keywords": ["seat", "座"]})]
) -> str:
    """Reserve a room."""
    return "reserved"


@tool(keywords=["clean", "打扫"])
def tidy(room: Room) -> str:
    """Have a room cleaned."""
    return "clean"


@tool(keywords=["offers", "budget"])
def offers(room: Room, budget: Annotated[int | None, Field(json_schema_extra={"keywords": ["budget"]})] = None) -> str:
    """List offers within a budget."""
    return "none"


@tool(read_only=True, keywords=["budget"])
def spent(month: Annotated[str, Field(pattern=r"^\d{4}-\d{2}$", description="Month")]) -> str:
    """Say what a month cost."""
    return "0"


ROOMS = (reserve, tidy, offers, spent)
Made = tuple[str, dict[str, Any]]


def reserved(room: str) -> Made:
    return "reserve", {"room": room, "seats": 4}


def tidied(room: str) -> Made:
    return "tidy", {"room": room}


SHIP, COUNT = ("ship", {"order_id": 82}), "stocktake"


@pytest.mark.parametrize(
    ("tools", "text", "calls"),
    [
        (STORE, "ship order 82\nand stocktake of order 83", [SHIP, (COUNT, {"order_id": 83})]),
        (STORE, "stocktake of order 83\nship order 82", [SHIP, (COUNT, {"order_id": 83})]),
        (STORE, "ship order 82\nand the stocktake", [SHIP, (COUNT, {"order_id": 82})]),
        (STORE, "ship order 82\nship order 84", [SHIP, ("ship", {"order_id": 84})]),
        (ROOMS, "clean Oslo\nbook Lima for 4 seats", [reserved("Lima"), tidied("Oslo")]),
        (ROOMS, "打扫 Oslo\n预订 Lima，4 座", [reserved("Lima"), tidied("Oslo")]),
        (ROOMS, "clean Oslo\nbook it for 4 seats", [reserved("Oslo"), tidied("Oslo")]),
        (ROOMS, "In Lima:\nbook 4 seats\nclean up", [reserved("Lima"), tidied("Lima")]),
        (ROOMS, "book Oslo\n4 seats", [reserved("Oslo")]),
        (ROOMS, "offers for Oslo\nbudget 500", [("offers", {"room": "Oslo", "budget": 500})]),
        (
            LIBRARY,
            "renew L-017 for 2 weeks\nlate fee of L-020 after 3 weeks",
            [("late_fee", {"loan_id": "L-020", "weeks": 3}), ("renew_loan", {"loan_id": "L-017", "weeks": 2})],
        ),
    ],
)  # fmt: skip
async def test_a_line_gives_its_own_tool_what_it_says_and_the_lines_before_the_rest(
    tools: tuple[Any, ...], text: str, calls: list[Made]
) -> None:
    talk = Talk(tools)
    await talk.say(text)
    assert sorted(map(str, talk.calls)) == sorted(map(str, calls))


async def test_a_later_lines_value_is_not_taken_for_another_tool_that_asks_for_it() -> None:
    talk = Talk(ROOMS)
    answer = await talk.say("book 4 seats\nclean Lima")
    assert talk.calls == [tidied("Lima")]
    assert "**The room**" in answer
    await talk.say("Oslo")
    assert talk.calls == [reserved("Oslo")]


async def test_a_quotation_of_several_lines_is_not_cut_at_the_names_in_it() -> None:
    talk = Talk(LIBRARY)
    await talk.say("Find books about “the sea\nrenew the opening hours”")
    assert talk.calls == [("find_books", {"subject": "the sea\nrenew the opening hours"})]
