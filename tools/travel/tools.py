"""The travel agent's tools: cities, sights, foods, budgets and routes, for Chinese and English readers.

Every result names things, and has a `summary` in Markdown, in the language of the arguments. An unknown city, interest
or season is a ValueError that names the known ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from segue.tools.registry import tool
from segue.tools.travel.facts import (
    CITIES,
    BudgetMax,
    BudgetMin,
    City,
    CityName,
    CityNames,
    Days,
    Interests,
    Language,
    Per,
    ReaderLanguage,
    Season,
    Sight,
    SomeDays,
    budget_summary,
    city_named,
    enough_days,
    info_summary,
    interest_named,
    language_of,
    route_summary,
    search_summary,
    season_named,
    sights_summary,
    text,
    translated,
)

MEALS, LOCAL_TRANSPORT, LODGING = 40, 20, 30
"""Shares of a city's daily budget, per cent."""
GETTING_THERE = 1000
HOURS_A_DAY = 8
TRIP = (
    *("规划", "之旅", "旅游计划", "旅行计划", "出游计划", "旅游方案", "行程", "攻略", "自由行"),
    *(f"{number}{unit}游" for unit in ("日", "天", " 日") for number in "0123456789一二两三四五六七八九十几多"),
    *("itinerary", "trip", "travel plan", "holiday in", "vacation in"),
)
"""Words of a whole-trip request, which calls for four of the tools together; 日游 is also part of 生日游戏."""


@dataclass(frozen=True)
class _TripRequest:
    interests: Sequence[str]
    low: int | None
    high: int | None
    season: str | None
    days: int | None

    @property
    def empty(self) -> bool:
        return not self.interests and {self.low, self.high, self.season, self.days} == {None}


@tool(
    read_only=True,
    idempotent=True,
    title="推荐城市 · Find cities",
    keywords=[
        *(
            "城市",
            "适合",
            "目的地",
            "去处",
            "去哪",
            "去哪里",
            "去哪儿",
            "哪些地方",
            "哪个地方",
            "什么地方",
            "个地方",
            "的地方",
        ),
        *("哪里好玩", "哪儿好玩", "哪里旅游", "哪儿旅游", "有什么推荐", "求推荐", "推荐旅游", "推荐去"),
        *("cities", "a city", "which city", "what city", "destination", "somewhere", "where to go", "where to travel"),
        *("where should i go", "where should we go", "where can i go", "where can we go", "good place for"),
    ],
)
def search_cities(
    interests: Interests = None,
    budget_min: BudgetMin = None,
    budget_max: BudgetMax = None,
    season: Season = None,
    days: SomeDays = None,
    per: Per = None,
    language: ReaderLanguage = None,
) -> dict[str, Any]:
    """Find cities by interests, budget, season and days, best match first.

    A city scores 30 for each interest, 20 for a daily budget within the bounds or 10 for one below the least, 15 for
    the season, 10 where its recommended days fit into the stay; 50 if nothing was asked. Where interests are asked for,
    a city that serves none of them is left out.
    """
    language = language or language_of(interests or ([season] if season else ()))
    if budget_min is not None and budget_max is not None and budget_min > budget_max:
        raise ValueError(f"budget_min {budget_min} is above budget_max {budget_max} (最低预算高于最高预算).")
    requested = [interest_named(name) for name in interests or ()]
    share = 1 if days is None or per == "day" else days
    low, high = (None if bound is None else bound // share for bound in (budget_min, budget_max))
    wish = _TripRequest(requested, low, high, season_named(season) if season else None, days)
    matches = [_match(city, wish, language) for city in sorted(CITIES, key=lambda city: _place(city, wish))]
    matches = sorted((match for match in matches if match["score"]), key=lambda match: -match["score"])
    names = [match["city"] for match in matches]
    daily = {} if share == 1 or high is None else {"daily_budget_max": high}
    summary = search_summary(matches, high if daily else None, language)
    return {"cities": names, **daily, "matches": matches, "count": len(names), "summary": summary}


@tool(
    read_only=True,
    idempotent=True,
    title="查询景点 · Sights",
    keywords=[
        *TRIP,
        *("景点", "景区", "名胜", "门票", "门票多少钱", "好玩", "玩", "看什么", "逛", "打卡"),
        *("哪些地方", "什么地方", "的地方", "哪里好玩", "哪儿好玩"),
        *("sight", "sightseeing", "attraction", "landmark", "to see", "to visit", "things to do"),
        *("what to do", "ticket", "how long", "玩多久"),
    ],
)
def query_attractions(cities: CityNames) -> dict[str, Any]:
    """List the sights of one or more cities, with their kind, hours and ticket in CNY."""
    language = language_of(cities)
    found = {city["name"][language]: city for city in map(city_named, cities)}
    attractions = {name: [_sight(sight, language) for sight in city["sights"]] for name, city in found.items()}
    summary = "\n\n".join(sights_summary(name, sights, language) for name, sights in attractions.items())
    return {"cities": list(found), "attractions": attractions, "summary": summary}


@tool(
    read_only=True,
    idempotent=True,
    title="城市介绍与美食 · City and food",
    keywords=[
        *TRIP,
        *("美食", "食物", "小吃", "好吃", "吃什么", "特产", "特色", "介绍", "了解", "城市信息"),
        *("最佳季节", "什么时候去", "什么季节", "几月去"),
        *("food", "cuisine", "dish", "eat", "specialty", "tell me about", "introduce", "introduction"),
        *("information about", "info about", "info on", "best time to", "best season", "when to visit"),
        *("expensive", "cheap", "cheaper", "cheapest", "price level", "贵不贵", "贵吗", "更贵", "便宜", "物价"),
        *("how many days", "how long", "几天合适", "玩几天", "待几天"),
    ],
)
def get_city_info(city: CityName) -> dict[str, Any]:
    """Describe a city: region, character, best seasons, daily budget in CNY, recommended days and well-known foods."""
    language, facts = language_of([city]), city_named(city)
    info = {
        "city": facts["name"][language],
        "region": translated(facts["region"], language),
        "tags": [translated(tag, language) for tag in facts["tags"]],
        "best_seasons": [translated(season, language) for season in facts["seasons"]],
        "daily_budget": facts["daily_budget"],
        "recommended_days": facts["recommended_days"],
        "foods": [food[language] for food in facts["foods"]],
    }
    return {**info, "summary": info_summary(info, language)}


@tool(
    read_only=True,
    idempotent=True,
    title="计算预算 · Budget",
    keywords=[
        *TRIP,
        *("预算", "费用", "花费", "多少钱", "开销", "花多少", "要花", "够玩", "够吗", "够不够", "计算"),
        *("budget", "cost", "expense", "how much money", "enough", "calculate"),
    ],
)
def calculate_budget(city: CityName, days: Days) -> dict[str, Any]:
    """Estimate what a stay costs in CNY, getting there included.

    All tickets in full; of the city's daily budget 40 % for meals, 20 % for local transport, 30 % for lodging, each
    day; 1000 to get there and back.
    """
    language, facts = language_of([city]), city_named(city)
    daily = facts["daily_budget"] * days
    costs = {
        "tickets": sum(sight["ticket"] for sight in facts["sights"]),
        "meals": daily * MEALS // 100,
        "local_transport": daily * LOCAL_TRANSPORT // 100,
        "lodging": daily * LODGING // 100,
        "getting_there": GETTING_THERE,
    }
    budget = {"city": facts["name"][language], "days": days, "currency": "CNY", **costs, "total": sum(costs.values())}
    return {**budget, "summary": budget_summary(budget, language)}


@tool(
    read_only=True,
    idempotent=True,
    title="生成路线 · Route",
    keywords=[*TRIP, "路线", "线路", "日程", "怎么安排", "怎么玩", "route", "schedule", "days in", "天游"],
)
def generate_route(city: CityName, days: Days) -> dict[str, Any]:
    """Spread a city's sights over the days of a stay, at most 8 hours of sights a day, and name a food for each day.

    Days that no sight needs are free; `left_out` names the sights that find no room.
    """
    language, facts = language_of([city]), city_named(city)
    per_day = _spread(facts["sights"], days)
    route = [
        {
            "day": index + 1,
            "attractions": [sight["name"][language] for sight in sights],
            "hours": _hours(sights),
            "food": facts["foods"][index % len(facts["foods"])][language],
        }
        for index, sights in enumerate(per_day)
    ]
    placed = [sight for sights in per_day for sight in sights]
    left_out = [sight["name"][language] for sight in facts["sights"] if sight not in placed]
    name = facts["name"][language]
    return {
        **{"city": name, "days": days, "route": route, "left_out": left_out},
        "summary": route_summary(name, route, left_out, language),
    }


TRAVEL = (search_cities, query_attractions, get_city_info, calculate_budget, generate_route)


def _met(city: City, wish: _TripRequest) -> list[str]:
    return [tag for tag in city["tags"] if interest_named(tag) in wish.interests]


def _place(city: City, wish: _TripRequest) -> int:
    """Among equals, where what was asked for comes early among a city's tags."""
    met = _met(city, wish)
    return city["tags"].index(met[0]) if met else 0


def _match(city: City, wish: _TripRequest, language: Language) -> dict[str, Any]:
    met = _met(city, wish)
    reasons = [(30, translated(tag, language)) for tag in met] + _budget_reason(city["daily_budget"], wish, language)
    if wish.season in city["seasons"]:
        reasons.append((15, translated(wish.season, language)))
    if wish.days and city["recommended_days"] <= wish.days:
        reasons.append((10, enough_days(city["recommended_days"], language)))
    score = 50 if wish.empty else sum(points for points, _ in reasons)
    return {
        "city": city["name"][language],
        "score": 0 if wish.interests and not met else score,
        "reasons": [text for _, text in reasons],
        "tags": [translated(tag, language) for tag in city["tags"]],
        "daily_budget": city["daily_budget"],
        "recommended_days": city["recommended_days"],
        "sights": [sight["name"][language] for sight in city["sights"]],
    }


def _budget_reason(daily: int, wish: _TripRequest, language: Language) -> list[tuple[int, str]]:
    if wish.low is None and wish.high is None:
        return []
    if wish.high is not None and daily > wish.high:
        return [(0, text("above_budget", language))]
    if wish.low is not None and daily < wish.low:
        return [(10, text("below_budget", language))]
    return [(20, text("within_budget", language))]


def _sight(sight: Sight, language: Language) -> dict[str, Any]:
    local = {} if language == "zh" else {"name_zh": sight["name"]["zh"]}
    facts = {"type": translated(sight["kind"], language), "hours": sight["hours"], "ticket": sight["ticket"]}
    return {"name": sight["name"][language], **local, **facts}


def _spread(sights: Sequence[Sight], days: int) -> list[list[Sight]]:
    """The sights of each day, in the order, by fame or longest first, that leaves the fewest out."""
    by_length = sorted(sights, key=lambda sight: -sight["hours"])
    return max((_fill(order, days) for order in (sights, by_length)), key=lambda filled: sum(map(len, filled)))


def _fill(sights: Sequence[Sight], days: int) -> list[list[Sight]]:
    filled: list[list[Sight]] = [[] for _ in range(days)]
    for sight in sights:
        quietest = min(filled, key=_hours)
        if _hours(quietest) + sight["hours"] <= HOURS_A_DAY:
            quietest.append(sight)
    return filled


def _hours(sights: Sequence[Sight]) -> int:
    return sum(sight["hours"] for sight in sights)
