"""A tool's arguments, read from a text by their JSON schema."""

import re
from collections.abc import Sequence
from typing import Any

from .card import Card, Parameter
from .text import CJK, Found, arithmetic, known_values, masked, numbers, occurrences, places, quotations

_MONEY = r"(?:元|块钱?|yuan|cny|rmb|usd|eur|dollars?|euros?|[¥$€£%])"
_SIDES = {
    "max": (
        r"(?:不超过|最多|至多|低于|小于|\b(?:under|below|(?:no more|less) than|at most|up to|within))\s*[¥$€£]?\s*$",
        rf"\s*{_MONEY}?\s*(?:以内|以下|之内|封顶|or less|or below|at most)",
    ),
    "min": (
        r"(?:至少|最少|不低于|不少于|超过|高于|大于|\b(?:over|above|(?<!no )more than|at least|from))\s*[¥$€£]?\s*$",
        rf"\s*{_MONEY}?\s*(?:以上|起|or more|or above|at least)",
    ),
}
"""What comes before and after a number that is the end of a range."""
_BEFORE = re.compile(
    r"(?:[\s:：=#¥$€£]|是|为|大?约|控制在|在|有"
    r"|\b(?:is|are|of|about|around|to|the|a|set|at|for|between|from|number|no\.?)\b)*",
    re.IGNORECASE,
)
_AFTER = re.compile(rf"[\s-]*(?:个|多)?{_MONEY}?[\s-]*", re.IGNORECASE)
_LIMIT = rf"\s*{_MONEY}?\s*(?:以内|以下|之内|封顶|以上|起|的|到|至|[-~]|(?:to|or|and)\b|$|\W)"
_UNIT = re.compile(
    rf"(?!{_LIMIT})[\s-]*(?:{_MONEY}|(?!(?:for|in|on|at|with|please|then|now)\b)[A-Za-z{CJK}])", re.IGNORECASE
)

Reading = dict[str, list[Found]]
"""By parameter the values that a text gives it, with their places."""


def read_arguments(card: Card, text: str) -> Reading:
    """What a text says of a tool's arguments."""
    found = {p.name: _matches(p, card, text) for p in card.parameters if p.kind != "language"}
    taken = places(hit for hits in found.values() for hit in hits)
    quoted = [quote for quote in quotations(text) if not taken & places([quote])]
    rest = masked(text, taken | places(quotations(text)))
    found |= _shared([p for p in card.parameters if p.kind == "number" and not (p.values or p.pattern)], rest)
    for parameter in card.parameters:
        if parameter.kind == "arithmetic" and (expression := arithmetic(text)):
            found[parameter.name] = [expression]
        elif parameter.kind == "boolean":
            found[parameter.name] = _switched(parameter, rest)
        elif quoted and parameter.is_free and parameter.required and not found[parameter.name]:
            found[parameter.name] = [quoted.pop(0)]
    return {name: hits for name, hits in found.items() if hits}


def values_of(parameter: Parameter, hits: Sequence[Found]) -> list[Any]:
    """The distinct values, each enough for one call; all of them together where the parameter is a list."""
    distinct = list(dict.fromkeys(hit.value for hit in hits))
    return [distinct] if parameter.many and distinct else distinct


def _matches(parameter: Parameter, card: Card, text: str) -> list[Found]:
    """Values that the schema lists or describes; where parameters share them, the one behind a keyword of this one.

    A tool that only reads and whose parameters have no keywords takes them in the order of the text.
    """
    if parameter.pattern:
        body = parameter.pattern.removeprefix("^").removesuffix("$")
        try:
            pattern = re.compile(rf"(?<![A-Za-z0-9])(?:{body})(?![A-Za-z0-9])")
        except re.error:
            return []
        hits = [Found(hit.start(), hit.end(), hit[0]) for hit in pattern.finditer(text) if hit[0]]
    else:
        hits = [Found(h.start, h.end, parameter.values[h.value]) for h in known_values(text, parameter.values)]
    alike = [p for p in card.parameters if (p.pattern, p.values) == (parameter.pattern, parameter.values)]
    if len(alike) < 2:
        return hits
    if card.read_only and len(hits) == len(alike) and not any(p.keywords for p in alike):
        return [hits[alike.index(parameter)]]
    ends = {place.end for place in occurrences(text, *parameter.keywords)}
    return [hit for hit in hits if not ends.isdisjoint((hit.start, hit.start - 1))][:1]


def _shared(numeric: Sequence[Parameter], text: str) -> Reading:
    """Give each parameter the number that its words, unit or bound point at, the surest first."""
    there = numbers(text)
    costs = {
        (order, place): _cost(p, number, text) for order, p in enumerate(numeric) for place, number in enumerate(there)
    }
    given: Reading = {}
    for order, place in sorted((pair for pair in costs if costs[pair] < _NEVER), key=lambda pair: (costs[pair], pair)):
        if numeric[order].name not in given and [there[place]] not in given.values():
            given[numeric[order].name] = [there[place]]
    needed = [parameter for parameter in numeric if parameter.required and parameter.name not in given]
    left = [number for number in there if [number] not in given.values()]
    if len(left) == len(needed) == 1 and not _UNIT.match(text, left[0].last):
        given[needed[0].name] = left
    return given


_NEVER = 9


def _cost(parameter: Parameter, number: Found, text: str) -> int:
    """How doubtful it is that the number is this parameter's, 0 the surest."""
    before, after = text[max(0, number.first - 30) : number.first], text[number.last :]
    sides = (
        s for s, (ahead, behind) in _SIDES.items() if re.search(ahead, before, re.I) or re.match(behind, after, re.I)
    )
    side = number.side or next(sides, "")
    if parameter.bound and parameter.bound != (side or "max"):
        return _NEVER
    for doubt, words in enumerate((parameter.keywords, parameter.words)):
        if _is_beside(words, number, text):
            return doubt + (number.side == "max" and not parameter.bound)
    return 8 if parameter.bound and side and re.match(_LIMIT, after) else _NEVER


def _is_beside(words: Sequence[str], number: Found, text: str) -> bool:
    """Whether a word follows the number, or precedes it with nothing but filling between and no other unit behind."""
    for place in occurrences(text, *words):
        if place.start >= number.last and _AFTER.fullmatch(text[number.last : place.start]):
            return True
        ahead = place.end <= number.first and _BEFORE.fullmatch(text[place.end : number.first])
        if ahead and not _UNIT.match(text, number.last):
            return True
    return False


def _switched(parameter: Parameter, text: str) -> list[Found]:
    words = parameter.keywords or tuple(word for word in parameter.name.split("_") if len(word) > 2)
    on = [Found(hit.start, hit.end, True) for hit in occurrences(text, *words)]
    off = [Found(hit.start, hit.end, False) for hit in occurrences(text, *words, negated=True)]
    return (on or off)[:1]
