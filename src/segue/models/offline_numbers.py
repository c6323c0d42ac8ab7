"""Which number of a text belongs to which numeric parameter of a tool."""

import re
from collections.abc import Sequence

from .offline_cards import Parameter
from .offline_reading import CJK, Found, Number, numbers, occurrences

_MONEY = r"(?:元|块钱?|yuan|cny|rmb|usd|eur|dollars?|euros?|[¥$€£%])"
_MOST = re.compile(
    r"(?:不超过|最多|至多|低于|少于|小于|\b(?:under|below|(?:no more|less|cheaper) than|at most|up to|within))"
    r"\s*[¥$€£]?\s*$",
    re.IGNORECASE,
)
_LEAST = re.compile(
    r"(?:至少|最少|不低于|不少于|超过|高于|大于|\b(?:over|above|(?<!no )more than|no less than|at least))"
    r"\s*[¥$€£]?\s*$",
    re.IGNORECASE,
)
_MOST_AFTER = re.compile(rf"\s*{_MONEY}?\s*(?:以内|以下|之内|封顶|or less|or below|at most)", re.IGNORECASE)
_LEAST_AFTER = re.compile(rf"\s*{_MONEY}?\s*(?:以上|起|or more|or above|at least)", re.IGNORECASE)
_BETWEEN_BEFORE = re.compile(
    r"(?:[\s:：=¥$€£]|是|为|大?约|大概|控制在|定在|在|有|\b(?:is|are|of|about|around|to|the|a|set|at|for|between|from)\b)*",
    re.IGNORECASE,
)
_BETWEEN_AFTER = re.compile(rf"[\s-]*(?:个|多)?{_MONEY}?[\s-]*", re.IGNORECASE)
_OTHER_UNIT = re.compile(
    r"[\s-]*(?P<unit>[天日人晚次月年位个]|小时|分钟"
    r"|(?:day|night|people|person|adult|hour|minute|week|month|year)s?(?![a-z]))",
    re.IGNORECASE,
)
_NOUN = re.compile(rf"\s*(?!{_MONEY})(?!(?:and|or|a|per|for|in|with)\b)[A-Za-z{CJK}]", re.IGNORECASE)
_AFTER_LIMIT = re.compile(r"以内|以下|之内|封顶|以上|起|的")


def share_numbers(numeric: Sequence[Parameter], text: str, *, loose: bool) -> dict[str, list[Found]]:
    """Give each parameter the number that its keywords, units or bounds point at, the surest first.

    `loose` lets a lone number stand for the only number that is required.
    """
    there = numbers(text)
    has_most = any(parameter.bound == "max" for parameter in numeric)
    sure = [
        (cost, order, number.start)
        for order, parameter in enumerate(numeric)
        for number in there
        if (cost := _cost(parameter, number, text, has_most=has_most)) is not None
    ]
    given: dict[str, list[Found]] = {}
    at = {number.start: number for number in there}
    for _, order, start in sorted(sure):
        name, number = numeric[order].name, at[start]
        if name not in given and [number] not in given.values():
            given[name] = [number]
    needed = [parameter for parameter in numeric if parameter.required]
    if loose and not given and len(there) == len(needed) == 1 and _is_bare(needed[0], there[0], text):
        given[needed[0].name] = [there[0]]
    return given


def _cost(parameter: Parameter, number: Number, text: str, *, has_most: bool) -> int | None:
    """How doubtful it is that the number is this parameter's, 0 the surest; None if it is not."""
    side = _side(number, text)
    if parameter.bound and not _may_bound(parameter, side, has_most=has_most):
        return None
    later = 1 if number.place == "high" and not parameter.bound else 0
    for doubt, words in ((0, parameter.keywords), (4, parameter.words)):
        distances = [near for word in words if (near := _beside(word, parameter, number, text)) is not None]
        if distances:
            return min(distances) + doubt + later
    if (unit := text[number.last : number.last + 1].strip()) and f"{unit}数" in parameter.label:
        return 7 + later
    return 8 if parameter.bound and side == parameter.bound and _stands_alone(number, text) else None


def _may_bound(parameter: Parameter, side: str, *, has_most: bool) -> bool:
    """A number without a direction is taken for an upper bound where there is one."""
    return side == parameter.bound if side else parameter.bound == "max" or not has_most


def _side(number: Number, text: str) -> str:
    before, after = text[max(0, number.first - 30) : number.first], text[number.last : number.last + 20]
    if number.place:
        return "min" if number.place == "low" else "max"
    if _MOST.search(before) or _MOST_AFTER.match(after):
        return "max"
    return "min" if _LEAST.search(before) or _LEAST_AFTER.match(after) else ""


def _beside(word: str, parameter: Parameter, number: Number, text: str) -> int | None:
    """0 if the word follows the number, 1 if it precedes it with nothing but filling between."""
    for place in occurrences(text, word):
        if place.start >= number.last and _BETWEEN_AFTER.fullmatch(text[number.last : place.start]):
            return 0
        joined = place.end <= number.first and _joins(text[place.end : number.first])
        if joined and not _other_unit(parameter, number, text):
            return 1
    return None


def _joins(between: str) -> bool:
    for limit in (_MOST, _LEAST):
        between = limit.sub("", between)
    return bool(_BETWEEN_BEFORE.fullmatch(between))


def _other_unit(parameter: Parameter, number: Number, text: str) -> bool:
    unit = _OTHER_UNIT.match(text, number.last)
    own = (*parameter.keywords, *parameter.words)
    return unit is not None and not any(occurrences(word, unit["unit"]) for word in own)


def _is_bare(parameter: Parameter, number: Number, text: str) -> bool:
    """Whether nothing says that the number is an amount, a bound or a count of something else."""
    before, after = text[: number.first], text[number.last :]
    money = re.match(rf"\s*{_MONEY}", after, re.IGNORECASE) or before.endswith(tuple("¥$€£"))
    return not money and not _side(number, text) and not _other_unit(parameter, number, text)


def _stands_alone(number: Number, text: str) -> bool:
    after = text[number.last :]
    return bool(_AFTER_LIMIT.match(after.lstrip())) or not _NOUN.match(after)
