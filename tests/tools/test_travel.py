"""The travel tools: the arithmetic by hand, both languages, and every city."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import segue.tools.travel as travel
from segue.tools.registry import BadArguments, BoundTool, as_tool
from segue.tools.travel import CITIES, interest_named
from tests.cases import cases

TOOLS: dict[str, BoundTool] = {bound.name: bound for bound in map(as_tool, travel.TRAVEL)}
NAMES = [city["name"]["zh"] for city in CITIES]


def matches_of(**wish: Any) -> dict[str, int]:
    return {match["city"]: match["score"] for match in travel.search_cities(**wish)["matches"]}


def hours_of(city: str) -> dict[str, int]:
    facts = next(facts for facts in CITIES if facts["name"]["zh"] == city)
    return {sight["name"]["zh"]: sight["hours"] for sight in facts["sights"]}


def texts_in(value: Any) -> Iterator[str]:
    """Every text of a JSON value, keys left out."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from texts_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts_in(inner)


# Facts


def test_the_file_names_its_source_and_licence() -> None:
    facts = json.loads((Path(travel.__file__).parent / "travel.json").read_text(encoding="utf-8"))
    assert facts["source"]["repository"].endswith("tiammomo/ShuaiTravelAgent")
    assert "MIT" in facts["source"]["licence"]


def test_nine_cities_with_thirty_five_sights_and_foods_for_each() -> None:
    assert NAMES == ["北京", "上海", "杭州", "成都", "西安", "厦门", "呼和浩特", "呼伦贝尔", "包头"]
    assert sum(len(city["sights"]) for city in CITIES) == 35
    assert all(2 <= len(city["foods"]) <= 4 for city in CITIES)


@cases("city", NAMES)
def test_every_tag_is_an_interest_that_finds_its_city(city: str) -> None:
    for tag in travel.get_city_info(city)["tags"]:
        assert interest_named(tag)
        assert city in travel.search_cities(interests=[tag])["cities"]


@cases("city", [city["name"]["en"] for city in CITIES])
def test_english_results_hold_no_chinese_besides_the_local_names(city: str) -> None:
    results = [
        travel.get_city_info(city),
        travel.calculate_budget(city, 2),
        travel.generate_route(city, 2),
        travel.search_cities(interests=["food", "nature"]),
    ]
    sights = travel.query_attractions([city])
    for sight in sights["attractions"][city]:
        assert not sight.pop("name_zh").isascii()
    for text in texts_in([*results, sights]):
        assert not any("\u4e00" <= char <= "\u9fff" for char in text), text


# Budget


@cases(
    "city, days, expected",
    [
        ("北京", 3, (145, 600, 300, 450, 2495)),
        ("北京", 1, (145, 200, 100, 150, 1595)),
        ("上海", 2, (619, 480, 240, 360, 2699)),
        ("成都", 4, (185, 560, 280, 420, 2445)),
        ("厦门", 3, (0, 540, 270, 405, 2215)),
        ("呼和浩特", 1, (100, 140, 70, 105, 1415)),
        ("包头", 30, (110, 3600, 1800, 2700, 9210)),
    ],
)
def test_budget_is_tickets_shares_of_the_daily_budget_and_getting_there(
    city: str, days: int, expected: tuple[int, ...]
) -> None:
    budget = travel.calculate_budget(city, days)
    assert tuple(budget[key] for key in ("tickets", "meals", "local_transport", "lodging", "total")) == expected
    assert budget["getting_there"] == 1000
    assert str(expected[-1]) in budget["summary"]


def test_the_budget_is_said_in_the_language_of_the_city() -> None:
    assert travel.calculate_budget("北京", 3)["summary"] == (
        "**北京 3 天预算：约 2495 元**\n\n门票 145 + 餐饮 600 + 市内交通 300 + 住宿 450 + 往返交通 1000"
    )
    assert travel.calculate_budget("Beijing", 1)["summary"] == (
        "**Beijing, 1 day: about 1595 CNY**\n\n"
        "tickets 145 + meals 200 + local transport 100 + lodging 150 + getting there 1000"
    )


@cases("name", ["calculate_budget", "generate_route"])
@cases("days", [0, -1, 31, 2.5, "three"])
async def test_days_outside_one_to_thirty_are_refused(name: str, days: Any) -> None:
    with pytest.raises(BadArguments, match="days"):
        await TOOLS[name].call({"city": "北京", "days": days})


# Names


@cases("name", ["西安", "西安市", "Xi'an", "xi’an", "XIAN", " Xian "])
def test_a_city_is_known_by_its_spellings(name: str) -> None:
    assert travel.get_city_info(name)["city"] in {"西安", "Xi'an"}


def test_an_unknown_city_names_the_known_ones_in_its_language() -> None:
    with pytest.raises(ValueError, match=r"London.*Beijing.*Baotou"):
        travel.get_city_info("London")
    with pytest.raises(ValueError, match=r"伦敦.*北京.*包头"):
        travel.query_attractions(["北京", "伦敦"])


def test_an_unknown_interest_or_season_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"skiing.*food"):
        travel.search_cities(interests=["skiing"])
    with pytest.raises(ValueError, match=r"雨季.*春季"):
        travel.search_cities(season="雨季")


# Search


@cases(
    "wish, city, score",
    [
        ({}, "北京", 50),
        ({"interests": ["美食"]}, "成都", 30),
        ({"interests": ["美食", "休闲"]}, "成都", 60),
        ({"interests": ["美食", "小吃"]}, "成都", 30),
        ({"budget_max": 500}, "北京", 20),
        ({"budget_min": 500, "budget_max": 500}, "北京", 20),
        ({"budget_min": 501}, "北京", 10),
        ({"season": "秋天"}, "北京", 15),
        ({"interests": ["历史"], "budget_max": 600, "season": "春季"}, "北京", 65),
        ({"interests": ["历史"], "budget_max": 400}, "北京", 30),
        ({"interests": ["人文历史"]}, "杭州", 30),
    ],
)
def test_score(wish: dict[str, Any], city: str, score: int) -> None:
    assert matches_of(**wish)[city] == score


def test_a_city_above_the_budget_says_so() -> None:
    matches = travel.search_cities(interests=["food"], budget_max=400)["matches"]
    reasons = {match["city"]: match["reasons"] for match in matches}
    assert reasons["Shanghai"] == ["food", "above the budget"]
    assert reasons["Chengdu"] == ["food", "within the budget"]


def test_nothing_found_is_said() -> None:
    result = travel.search_cities(budget_max=100)
    assert (result["cities"], result["count"]) == ([], 0)
    assert "没有" in result["summary"]


def test_bounds_the_wrong_way_round_are_refused() -> None:
    with pytest.raises(ValueError, match=r"500.*above.*300"):
        travel.search_cities(budget_min=500, budget_max=300)


@cases(
    "wish, first",
    [
        ({}, "推荐 9 个城市"),
        ({"interests": ["food"]}, "6 cities"),
        ({"season": "winter"}, "One city fits"),
        ({"season": "冬天"}, "推荐 1 个城市"),
    ],
)
def test_a_search_answers_in_the_language_of_the_interests(wish: dict[str, Any], first: str) -> None:
    assert travel.search_cities(**wish)["summary"].startswith(first)


# Sights and city


def test_sights_of_several_cities_each_once() -> None:
    result = travel.query_attractions(["北京", "上海市", "北京"])
    assert result["cities"] == ["北京", "上海"]
    assert result["attractions"]["北京"][0] == {"name": "故宫", "type": "历史遗迹", "hours": 4, "ticket": 60}
    assert "- 故宫（历史遗迹）：约 4 小时，门票 60 元" in result["summary"]
    assert "- 外滩（城市景观）：约 3 小时，免费" in result["summary"]


# Route


@cases("city", NAMES)
@cases("days", [1, 3, 30])
def test_a_route_has_each_sight_at_most_once_and_no_day_too_long(city: str, days: int) -> None:
    result, hours = travel.generate_route(city, days), hours_of(city)
    seen = [sight for day in result["route"] for sight in day["attractions"]]
    assert [day["day"] for day in result["route"]] == list(range(1, days + 1))
    assert sorted(seen + result["left_out"]) == sorted(hours)
    assert all(day["hours"] == sum(hours[sight] for sight in day["attractions"]) <= 8 for day in result["route"])
    assert all(day["food"] in travel.get_city_info(city)["foods"] for day in result["route"])


def test_a_short_stay_sees_as_many_sights_as_fit_and_names_the_rest() -> None:
    result = travel.generate_route("Shanghai", 1)
    assert result["route"][0]["attractions"] == ["The Bund", "Oriental Pearl Tower", "Yu Garden"]
    assert result["left_out"] == ["Shanghai Disneyland"]
    assert "No time for: Shanghai Disneyland" in result["summary"]


def test_spare_days_are_free_and_told_in_one_line() -> None:
    summary = travel.generate_route("包头", 30)["summary"]
    assert summary.splitlines()[-1] == "- 第 4–30 天：自由活动；品尝涮羊肉、莜面、烧麦"
    assert len(summary.splitlines()) == 5
    assert travel.generate_route("Baotou", 4)["summary"].endswith("- Day 4: free; try mutton hotpot")


# Marks and schemas


@cases("bound", TOOLS.values())
def test_the_tools_only_read_and_explain_every_argument(bound: BoundTool) -> None:
    properties = bound.spec["function"]["parameters"]["properties"]
    assert bound.read_only
    assert bound.idempotent
    assert all(
        field["description"] and field.keys() & {"keywords", "aliases", "format"} for field in properties.values()
    )


def test_names_in_both_languages_are_examples() -> None:
    cities = TOOLS["query_attractions"].spec["function"]["parameters"]["properties"]["cities"]["examples"]
    search = TOOLS["search_cities"].spec["function"]["parameters"]["properties"]
    interests, seasons = search["interests"]["examples"], search["season"]["examples"]
    assert {"北京", "Beijing", "西安", "Xi'an", "Xian"} <= set(cities)
    assert {"美食", "food", "草原", "grassland"} <= set(interests)
    assert {"春季", "春天", "spring"} <= set(seasons)
    assert all(len(example) > 1 for example in [*cities, *interests, *seasons])


def test_every_example_of_an_interest_finds_a_city() -> None:
    interests = TOOLS["search_cities"].spec["function"]["parameters"]["properties"]["interests"]
    assert [name for name in interests["examples"] if not travel.search_cities(interests=[name])["cities"]] == []


async def test_results_are_json_and_fit_into_a_prompt() -> None:
    results = [
        await TOOLS["search_cities"].call({}),
        await TOOLS["query_attractions"].call({"cities": NAMES}),
        await TOOLS["generate_route"].call({"city": "Chengdu", "days": 30}),
    ]
    for result in results:
        text = json.dumps(result, ensure_ascii=False)
        assert json.loads(text) == result
        assert len(text) <= 4000
