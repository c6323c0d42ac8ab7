"""The facts of the travel tools, their arguments, and their results as Markdown.

The cities of `travel.json` have Chinese and English names; amounts are CNY, a sight's time is in hours.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

from pydantic import Field

Language = Literal["zh", "en"]


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


def _canonical(name: str, names: Mapping[str, list[str]], what: Name) -> str:
    for zh, others in names.items():
        if _key(name) in map(_key, others):
            return zh
    if language_of([name]) == "zh":
        raise ValueError(f"没有{what['zh']}「{name}」的资料；可选：{'、'.join(names)}。")
    known = ", ".join(others[1] for others in names.values())
    raise ValueError(f"There is no {what['en']} {name!r} here; the known ones are: {known}.")


def city_named(name: str) -> City:
    """Find a city.

    Raises:
        ValueError: it is none of the known ones, which the message names in the language of `name`.
    """
    zh = _canonical(name, _CITY_NAMES, {"zh": "城市", "en": "city"})
    return next(city for city in CITIES if city["name"]["zh"] == zh)


def interest_named(name: str) -> str:
    """The interest that a name stands for, as the Chinese tag; names as in `city_named`."""
    return _canonical(name, _INTERESTS, {"zh": "兴趣", "en": "interest"})


def season_named(name: str) -> str:
    """The season that a name stands for, in Chinese; names as in `city_named`."""
    return _canonical(name, _SEASONS, {"zh": "季节", "en": "season"})


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


def search_summary(matches: Sequence[Result], daily: int | None, language: Language) -> str:
    """The cities, and above them what a budget for the stay is a day."""
    zh = language == "zh"
    if not matches:
        return "没有合适的城市，可以放宽条件再找。" if zh else "No city fits; try asking for less."
    lines = [f"推荐 {len(matches)} 个城市，合适的在前：" if zh else f"{len(matches)} cities, the best match first:"]
    if len(matches) == 1:
        lines = ["推荐 1 个城市：" if zh else "One city fits:"]
    lines += [_match_line(match, language) for match in matches[:SHOWN]]
    if daily is not None:
        lines.insert(0, f"每天约 {daily} 元。" if zh else f"That is about {daily} CNY a day.")
    if rest := [match["city"] for match in matches[SHOWN:]]:
        lines.append(f"- 另有：{'、'.join(rest)}" if zh else f"- Also: {', '.join(rest)}")
    return "\n".join(lines)


def enough_days(days: int, language: Language) -> str:
    return f"{days} 天足够" if language == "zh" else f"{_days(days)} are enough"


def _match_line(match: Result, language: Language) -> str:
    why, sights = match["reasons"] or match["tags"], match["sights"][:3]
    daily, days = match["daily_budget"], match["recommended_days"]
    if language == "zh":
        cost = f"日均约 {daily} 元，建议 {days} 天"
        return f"- **{match['city']}**（{'、'.join(why)}）：{cost}；景点有{'、'.join(sights)}"
    return f"- **{match['city']}** ({', '.join(why)}): about {daily} CNY a day, {days} days; see {', '.join(sights)}"


def sights_summary(city: str, sights: Sequence[Result], language: Language) -> str:
    if language == "zh":
        lines = [f"- {s['name']}（{s['type']}）：约 {s['hours']} 小时，{_ticket(s, language)}" for s in sights]
        return "\n".join([f"**{city}的景点**", *lines])
    lines = [f"- {s['name']} ({s['type']}): about {s['hours']} hours, {_ticket(s, language)}" for s in sights]
    return "\n".join([f"**Sights of {city}**", *lines])


def _ticket(sight: Result, language: Language) -> str:
    if language == "zh":
        return f"门票 {sight['ticket']} 元" if sight["ticket"] else "免费"
    return f"ticket {sight['ticket']} CNY" if sight["ticket"] else "free"


def info_summary(info: Result, language: Language) -> str:
    city, region, daily, days = (info[key] for key in ("city", "region", "daily_budget", "recommended_days"))
    if language == "zh":
        tags, seasons, foods = ("、".join(info[key]) for key in ("tags", "best_seasons", "foods"))
        about = f"**{city}**（{region}）：{tags}。最佳季节：{seasons}；建议 {days} 天，日均约 {daily} 元。"
        return f"{about}\n\n特色美食：{foods}。"
    tags, seasons, foods = (", ".join(info[key]) for key in ("tags", "best_seasons", "foods"))
    about = f"**{city}** ({region}): {tags}. Best in {seasons}; {days} days, about {daily} CNY a day."
    return f"{about}\n\nWhat to eat: {foods}."


def budget_summary(budget: Result, language: Language) -> str:
    city, days, total = budget["city"], budget["days"], budget["total"]
    labels = {
        "tickets": ("门票", "tickets"),
        "meals": ("餐饮", "meals"),
        "local_transport": ("市内交通", "local transport"),
        "lodging": ("住宿", "lodging"),
        "getting_there": ("往返交通", "getting there"),
    }
    if language == "zh":
        parts = " + ".join(f"{zh} {budget[key]}" for key, (zh, _) in labels.items())
        return f"**{city} {days} 天预算：约 {total} 元**\n\n{parts}"
    parts = " + ".join(f"{en} {budget[key]}" for key, (_, en) in labels.items())
    return f"**{city}, {_days(days)}: about {total} CNY**\n\n{parts}"


def route_summary(city: str, route: Sequence[Result], left_out: Sequence[str], language: Language) -> str:
    zh = language == "zh"
    lines = [f"**{city} {len(route)} 天路线**" if zh else f"**{city}, a route for {_days(len(route))}**"]
    lines += [_day_line(day, language) for day in route if day["attractions"]]
    if free := [day for day in route if not day["attractions"]]:
        lines.append(_free_line(free, language))
    if left_out:
        missing = ("、" if zh else ", ").join(left_out)
        lines.append(f"- 时间不够，未安排：{missing}" if zh else f"- No time for: {missing}")
    return "\n".join(lines)


def _day_line(day: Result, language: Language) -> str:
    if language == "zh":
        return f"- 第 {day['day']} 天：{'、'.join(day['attractions'])}（约 {day['hours']} 小时）；品尝{day['food']}"
    return f"- Day {day['day']}: {', '.join(day['attractions'])} (about {day['hours']} hours); try {day['food']}"


def _free_line(days: Sequence[Result], language: Language) -> str:
    """One line for all the free days, which come last: there may be thirty."""
    first, last = days[0]["day"], days[-1]["day"]
    when = f"{first}" if first == last else f"{first}–{last}"
    foods = list(dict.fromkeys(day["food"] for day in days))
    if language == "zh":
        return f"- 第 {when} 天：自由活动；品尝{'、'.join(foods)}"
    return f"- Day{'' if first == last else 's'} {when}: free; try {', '.join(foods)}"


def _days(number: int) -> str:
    return "1 day" if number == 1 else f"{number} days"
