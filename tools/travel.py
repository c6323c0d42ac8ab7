"""The travel agent's facts and tools, for Chinese and English readers.

Every result names things, and has a `summary` in Markdown, in the language of the arguments. An unknown city, interest
or season is a ValueError that names the known ones.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

from pydantic import Field

from segue.prompts.catalogue import Language, Texts, joined

from .registry import tool

# The facts of the travel tools, their arguments, and their results as Markdown.
#
# The cities of `travel.json` have Chinese and English names; amounts are CNY, a sight's time is in hours.

text = Texts("travel")


class Name(TypedDict):
    zh: str
    en: str


class Sight(TypedDict):
    name: Name
    kind: str
    hours: int
    ticket: int


class City(TypedDict):
    name: Name
    also: list[str]
    region: str
    tags: list[str]
    seasons: list[str]
    daily_budget: int
    recommended_days: int
    sights: list[Sight]
    foods: list[Name]


_FACTS: Mapping[str, Any] = json.loads(Path(__file__).with_name("travel.json").read_text(encoding="utf-8"))
_ENGLISH: Mapping[str, str] = _FACTS["english"]
CITIES: Sequence[City] = _FACTS["cities"]


def _key(text: str) -> str:
    """What the spellings of a name have in common: "Xi’an" and "xian", "北京市" and "北京", "foods" and "food"."""
    return re.sub(r"[\s'’‘_.-]", "", text).casefold().removesuffix("市").removesuffix("s")


def _names(of: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Each Chinese name with its English one and the others that it goes by."""
    return {zh: [zh, _ENGLISH[zh], *also] for zh, also in of.items()}


_CITY_NAMES = {city["name"]["zh"]: [city["name"]["zh"], city["name"]["en"], *city["also"]] for city in CITIES}
_INTERESTS = _names(_FACTS["interests"])
_SEASONS = _names(_FACTS["seasons"])


def language_of(texts: Iterable[str]) -> Language:
    """Chinese where a text holds a Chinese character, or where there is no text."""
    joined = "".join(texts)
    return "zh" if not joined or re.search(r"[\u4e00-\u9fff]", joined) else "en"


def translated(word: str, language: Language) -> str:
    """A region, tag, season or kind of sight in the reader's language."""
    return word if language == "zh" else _ENGLISH[word]


def _canonical(name: str, names: Mapping[str, list[str]], what: str) -> str:
    for zh, others in names.items():
        if _key(name) in map(_key, others):
            return zh
    language = language_of([name])
    known = joined((others[language == "en"] for others in names.values()), language)
    raise ValueError(text("unknown", language, what=text(what, language), name=name, known=known))


def city_named(name: str) -> City:
    """Find a city."""
    zh = _canonical(name, _CITY_NAMES, "city")
    return next(city for city in CITIES if city["name"]["zh"] == zh)


def interest_named(name: str) -> str:
    """The interest that a name stands for, as the Chinese tag; names as in `city_named`."""
    return _canonical(name, _INTERESTS, "interest")


def season_named(name: str) -> str:
    """The season that a name stands for, in Chinese; names as in `city_named`."""
    return _canonical(name, _SEASONS, "season")


def _examples(names: Mapping[str, list[str]]) -> list[Any]:
    """Every name that may be found in running text: a single character would be found in other words."""
    return [name for others in names.values() for name in others if len(name) > 1]


def _city_aliases() -> dict[str, list[str]]:
    """By a city's name its own names in that language, and those of its sights."""
    found = {name: [name] for name in _examples(_CITY_NAMES)}
    for city in CITIES:
        for language in ("zh", "en"):
            found[city["name"][language]] += [sight["name"][language] for sight in city["sights"]]
    return found


def _keywords(*words: str) -> dict[str, Any]:
    return {"keywords": list(words)}


CityName = Annotated[
    str,
    Field(
        description="The city, by its Chinese or English name (城市名).",
        examples=_examples(_CITY_NAMES),
        json_schema_extra=_keywords("城市", "city"),
    ),
]
CityNames = Annotated[
    list[str],
    Field(
        min_length=1,
        description="The cities, by their Chinese or English names (城市名).",
        examples=_examples(_CITY_NAMES),
        json_schema_extra={**_keywords("城市", "cities"), "aliases": _city_aliases()},
    ),
]
_DAYS: dict[str, Any] = {**_keywords("天", "日", "玩", "day", "days"), "aliases": _FACTS["stays"]}
Days = Annotated[
    int, Field(ge=1, le=30, description="How many days the stay lasts, 1 to 30 (天数).", json_schema_extra=_DAYS)
]
SomeDays = Annotated[
    int | None,
    Field(
        ge=1,
        le=30,
        description="How many days the stay lasts (天数); a budget is then one for all of it, unless `per` is day.",
        json_schema_extra=_DAYS,
    ),
]
Per = Annotated[
    Literal["day", "stay"] | None,
    Field(
        description="What the budget is for (预算的范围); left out: the stay where its `days` are given, else a day.",
        json_schema_extra={
            "aliases": {
                "day": ["每天", "每日", "日均", "一天", "a day", "per day", "daily", "each day", "every day"],
                "stay": ["总共", "总预算", "一共", "in total", "altogether", "in all"],
            }
        },
    ),
]
Interests = Annotated[
    list[str] | None,
    Field(
        description="What the traveller likes, in Chinese or English (兴趣).",
        examples=_examples(_INTERESTS),
        json_schema_extra=_keywords("兴趣", "喜欢", "interests"),
    ),
]
Season = Annotated[
    str | None,
    Field(
        description="The season of the stay, in Chinese or English (季节).",
        examples=_examples(_SEASONS),
        json_schema_extra=_keywords("季节", "season"),
    ),
]
ReaderLanguage = Annotated[
    Language | None,
    Field(
        description="The language of the answer: that of the user (回答的语言).",
        json_schema_extra={"format": "language"},
    ),
]
BudgetMin = Annotated[
    int | None,
    Field(
        ge=0,
        description="The least to spend, CNY (最低预算).",
        json_schema_extra=_keywords(
            *("至少", "不低于", "高于", "以上", "元以上", "块以上", "at least", "more than", "above", "over")
        ),
    ),
]
BudgetMax = Annotated[
    int | None,
    Field(
        ge=0,
        description="The most to spend, CNY (最高预算).",
        json_schema_extra=_keywords(
            *("预算", "不超过", "最多", "以内", "以下", "元以内", "元以下", "块以内", "块以下", "元", "块钱", "块"),
            *("yuan", "CNY", "RMB", "budget", "at most", "up to", "less than", "under", "below", "within"),
        ),
    ),
]


Result = Mapping[str, Any]
SHOWN = 5
"""Cities described in a search's summary; further ones are only named."""
COSTS = ("tickets", "meals", "local_transport", "lodging", "getting_there")


def search_summary(matches: Sequence[Result], daily: int | None, language: Language) -> str:
    """The cities, and above them what a budget for the stay is a day."""
    if not matches:
        return text("no_city", language)
    lines = [] if daily is None else [text("daily", language, daily=daily)]
    lines.append(text("one_city" if len(matches) == 1 else "cities", language, n=len(matches)))
    for match in matches[:SHOWN]:
        named = {"city": match["city"], "why": joined(match["reasons"] or match["tags"], language)}
        named["sights"] = joined(match["sights"][:3], language)
        lines.append(text("match", language, daily=match["daily_budget"], days=match["recommended_days"], **named))
    if rest := [match["city"] for match in matches[SHOWN:]]:
        lines.append(text("more_cities", language, cities=joined(rest, language)))
    return "\n".join(lines)


def enough_days(number: int, language: Language) -> str:
    return text("enough_days", language, days=_days(number, language))


def sights_summary(city: str, sights: Sequence[Result], language: Language) -> str:
    lines = [text("sights", language, city=city)]
    for sight in sights:
        ticket = text("ticket" if sight["ticket"] else "no_ticket", language, ticket=sight["ticket"])
        lines.append(text("sight", language, **{**sight, "ticket": ticket}))
    return "\n".join(lines)


def info_summary(info: Result, language: Language) -> str:
    lists = {name: joined(info[name], language) for name in ("tags", "best_seasons", "foods")}
    return text("info", language, **{**info, **lists})


def budget_summary(budget: Result, language: Language) -> str:
    parts = " + ".join(f"{text(cost, language)} {budget[cost]}" for cost in COSTS)
    return text("budget", language, **{**budget, "days": _days(budget["days"], language)}, parts=parts)


def route_summary(city: str, route: Sequence[Result], left_out: Sequence[str], language: Language) -> str:
    """The days; one line for all the free ones, which come last: there may be thirty."""
    lines = [text("route", language, city=city, days=_days(len(route), language))]
    for day in (day for day in route if day["attractions"]):
        lines.append(text("day", language, **day, sights=joined(day["attractions"], language)))
    if free := [day for day in route if not day["attractions"]]:
        first, last = free[0]["day"], free[-1]["day"]
        when = str(first) if first == last else f"{first}–{last}"
        foods = joined(dict.fromkeys(day["food"] for day in free), language)
        lines.append(text("free_day" if first == last else "free_days", language, day=when, foods=foods))
    if left_out:
        lines.append(text("no_time", language, sights=joined(left_out, language)))
    return "\n".join(lines)


def _days(number: int, language: Language) -> str:
    return text("one_day" if number == 1 else "days", language, n=number)


# The travel agent's tools: cities, sights, foods, budgets and routes, for Chinese and English readers.

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
    sights = facts["sights"]  # by fame or longest first, whichever leaves the fewest out
    orders = (sights, sorted(sights, key=lambda sight: -sight["hours"]))
    per_day = max((_fill(order, days) for order in orders), key=lambda filled: sum(map(len, filled)))
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


def _fill(sights: Sequence[Sight], days: int) -> list[list[Sight]]:
    filled: list[list[Sight]] = [[] for _ in range(days)]
    for sight in sights:
        quietest = min(filled, key=_hours)
        if _hours(quietest) + sight["hours"] <= HOURS_A_DAY:
            quietest.append(sight)
    return filled


def _hours(sights: Sequence[Sight]) -> int:
    return sum(sight["hours"] for sight in sights)
