"""The facts of the travel tools: the cities of `data/travel.json` by their Chinese and English names, and arguments.

The file names its source; amounts are CNY, a sight's time is in hours.
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


def said(word: str, language: Language) -> str:
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
        json_schema_extra=_keywords("城市", "cities"),
    ),
]
Days = Annotated[
    int,
    Field(
        ge=1,
        le=30,
        description="How many days the stay lasts, 1 to 30 (天数).",
        json_schema_extra=_keywords("天", "日", "day", "days"),
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
BudgetMin = Annotated[
    int | None,
    Field(
        ge=0,
        description="The least to spend a day, CNY (每天最低预算).",
        json_schema_extra=_keywords(
            *("至少", "不低于", "高于", "以上", "元以上", "块以上", "at least", "more than", "above", "over")
        ),
    ),
]
BudgetMax = Annotated[
    int | None,
    Field(
        ge=0,
        description="The most to spend a day, CNY (每天最高预算).",
        json_schema_extra=_keywords(
            *("预算", "不超过", "最多", "以内", "以下", "元以内", "元以下", "块以内", "块以下"),
            *("budget", "at most", "up to", "less than", "under", "below", "within"),
        ),
    ),
]
