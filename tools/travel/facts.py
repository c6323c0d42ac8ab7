"""The facts of the travel tools, their arguments, and their results as Markdown.

The cities of `travel.json` have Chinese and English names; amounts are CNY, a sight's time is in hours.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

from pydantic import Field

from segue.prompts.catalogue import Texts
from segue.prompts.words import joined

Language = Literal["zh", "en"]
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
    """Find a city.

    Raises:
        ValueError: it is none of the known ones, which the message names in the language of `name`.
    """
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
