"""A tool's arguments, read from a text by their JSON schema."""

import re
from collections.abc import Sequence
from typing import Any

from .card import Card, Parameter
from .text import CJK, Found, arithmetic, known_values, masked, numbers, occurrences, places, quotations

_MONEY = r"(?:元|块钱?|yuan|cny|rmb|usd|eur|dollars?|euros?|[¥$€£%])"
_MOST = (
    r"(?:不超过|最多|至多|低于|少于|小于|\b(?:under|below|(?:no more|less) than|at most|up to|within))\s*[¥$€£]?\s*$"
)
_LEAST = r"(?:至少|最少|不低于|不少于|超过|高于|大于|\b(?:over|above|(?<!no )more than|at least|from))\s*[¥$€£]?\s*$"
_MOST_AFTER = rf"\s*{_MONEY}?\s*(?:以内|以下|之内|封顶|or less|or below|at most)"
_LEAST_AFTER = rf"\s*{_MONEY}?\s*(?:以上|起|or more|or above|at least)"
_BEFORE = re.compile(
    r"(?:[\s:：=#¥$€£]|是|为|大?约|控制在|在|有"
    r"|\b(?:is|are|of|about|around|to|the|a|set|at|for|between|from|number|no\.?)\b)*",
    re.IGNORECASE,
)
_AFTER = re.compile(rf"[\s-]*(?:个|多)?{_MONEY}?[\s-]*", re.IGNORECASE)
_UNIT = re.compile(
    rf"[\s-]*(?:{_MONEY}|[天日人晚次月年位个周%]|(?!(?:and|or|for|in|on|at|to|with|please|then|now)\b)[A-Za-z{CJK}])",
    re.IGNORECASE,
)
_LIMIT = re.compile(rf"\s*{_MONEY}?\s*(?:以内|以下|之内|封顶|以上|起|的|到|至|[-~]|to\b|or\b|and\b|$|\W)")
_SENTENCE_END = re.compile(r"[，。；！？、,;!?\n]|\.(?!\d)")
_LEADING = re.compile(r"[\s:：=是为]*(?:(?:is|are|named|called|about|the|a|an|for|of|to)\s+)*", re.IGNORECASE)
_TRAILING = re.compile(r"(?:[\s的吗呢吧啊呀]|\bplease|\bthanks)+$", re.IGNORECASE)

Reading = dict[str, list[Found]]
"""By parameter the values that a text gives it, with their places."""


def read_arguments(card: Card, text: str) -> Reading:
    """What a text says of a tool's arguments."""
    found = _listed(card, text)
    taken = places(hit for hits in found.values() for hit in hits)
    rest = masked(text, taken | places(quotations(text)))
    numeric = [p for p in card.parameters if p.kind == "number" and p.values is None and not p.pattern]
    found |= _shared(numeric, rest)
    for parameter in card.parameters:
        if parameter.kind == "arithmetic" and (expression := arithmetic(text)):
            found[parameter.name] = [expression]
        if parameter.kind == "boolean" and (switched := _switched(parameter, rest)):
            found[parameter.name] = switched
    found |= _free_texts(card, text, taken)
    return {name: hits for name, hits in found.items() if hits}


def values_of(parameter: Parameter, hits: Sequence[Found]) -> list[Any]:
    """The distinct values, each enough for one call; all of them together where the parameter is a list."""
    distinct = list(dict.fromkeys(hit.value for hit in hits))
    return [distinct] if parameter.many else distinct


def _listed(card: Card, text: str) -> Reading:
    """Values that the schema lists or describes by a pattern; parameters that share them get one each, in order."""
    found: Reading = {}
    for parameter in card.parameters:
        if parameter.kind == "language" or (parameter.values is None and not parameter.pattern):
            continue
        hits = _matches(parameter, text)
        alike = [
            other
            for other in card.parameters
            if (other.pattern, other.values) == (parameter.pattern, parameter.values) and not other.many
        ]
        if len(alike) > 1 and not parameter.many:
            hits = _one_each(alike, hits, text).get(parameter.name, [])
        found[parameter.name] = hits
    return found


def _matches(parameter: Parameter, text: str) -> list[Found]:
    if not parameter.pattern:
        meant = parameter.values or {}
        return [Found(hit.start, hit.end, meant[hit.value]) for hit in known_values(text, meant)]
    body = parameter.pattern.removeprefix("^").removesuffix("$")
    try:
        hits = re.finditer(rf"(?<![A-Za-z0-9])(?:{body})(?![A-Za-z0-9])", text)
    except re.error:
        return []
    return [Found(hit.start(), hit.end(), hit[0]) for hit in hits if hit[0]]


def _one_each(alike: Sequence[Parameter], hits: Sequence[Found], text: str) -> Reading:
    left, given = list(hits), Reading()
    for parameter in alike:
        ends = [place.end for word in parameter.keywords for place in occurrences(text, word)]
        if beside := [hit for hit in left if any(0 <= hit.start - end <= 1 for end in ends)]:
            given[parameter.name] = beside[:1]
            left.remove(beside[0])
    for parameter in alike:
        if parameter.name not in given and left:
            given[parameter.name] = [left.pop(0)]
    return given


def _shared(numeric: Sequence[Parameter], text: str) -> Reading:
    """Give each parameter the number that its words, unit or bound point at, the surest first."""
    there = numbers(text)
    ranked = sorted(
        (cost, order, place)
        for order, parameter in enumerate(numeric)
        for place, number in enumerate(there)
        if (cost := _cost(parameter, number, text)) is not None
    )
    given: Reading = {}
    for _, order, place in ranked:
        if numeric[order].name not in given and [there[place]] not in given.values():
            given[numeric[order].name] = [there[place]]
    needed = [parameter for parameter in numeric if parameter.required]
    if not given and len(there) == len(needed) == 1 and not _UNIT.match(text, there[0].last):
        given[needed[0].name] = [there[0]]
    return given


def _cost(parameter: Parameter, number: Found, text: str) -> int | None:
    """How doubtful it is that the number is this parameter's, 0 the surest; None if it is not."""
    side = number.side or _side(number, text)
    if parameter.bound and parameter.bound != (side or "max"):
        return None
    for doubt, words in enumerate((parameter.keywords, parameter.words)):
        if any(_is_beside(word, number, text) for word in words):
            return doubt + (1 if number.side == "max" and not parameter.bound else 0)
    return 8 if parameter.bound and side and _LIMIT.match(text, number.last) else None


def _side(number: Found, text: str) -> str:
    before = text[max(0, number.first - 30) : number.first]
    for side, ahead, behind in (("max", _MOST, _MOST_AFTER), ("min", _LEAST, _LEAST_AFTER)):
        if re.search(ahead, before, re.IGNORECASE) or re.match(behind, text[number.last :], re.IGNORECASE):
            return side
    return ""


def _is_beside(word: str, number: Found, text: str) -> bool:
    """Whether a word follows the number, or precedes it with nothing but filling between and no other unit behind."""
    for place in occurrences(text, word):
        if place.start >= number.last and _AFTER.fullmatch(text[number.last : place.start]):
            return True
        ahead = place.end <= number.first and _BEFORE.fullmatch(text[place.end : number.first])
        if ahead and (_LIMIT.match(text, number.last) or not _UNIT.match(text, number.last)):
            return True
    return False


def _switched(parameter: Parameter, text: str) -> list[Found]:
    words = parameter.keywords or tuple(word for word in parameter.name.split("_") if len(word) > 2)
    on = [Found(hit.start, hit.end, True) for word in words for hit in occurrences(text, word)]
    off = [Found(hit.start, hit.end, False) for word in words for hit in occurrences(text, word, negated=True)]
    return (on or off)[:1]


def _free_texts(card: Card, text: str, taken: frozenset[int]) -> Reading:
    """Quotations, in order, for required texts; else what follows a keyword of the parameter."""
    quoted = [quote for quote in quotations(text) if not taken & places([quote])]
    given: Reading = {}
    for parameter in card.parameters:
        if not parameter.is_free or _named(parameter, text):
            continue
        after = [] if parameter.values else _after_keyword(card, parameter, text)
        if quoted and (parameter.required or after):
            given[parameter.name] = [quoted.pop(0)]
        elif after:
            given[parameter.name] = after
    return given


def _named(parameter: Parameter, text: str) -> bool:
    return bool(parameter.values and known_values(text, parameter.values))


def _after_keyword(card: Card, parameter: Parameter, text: str) -> list[Found]:
    """The text from a keyword of the parameter up to the sentence's end or the tool's next keyword."""
    for word in parameter.keywords:
        for place in occurrences(text, word):
            rest = _SENTENCE_END.split(text[place.end :], maxsplit=1)[0]
            start = place.end + _LEADING.match(rest).end()  # type: ignore[union-attr]
            rest = text[start : place.end + len(rest)]
            ends = [hit.start for keyword in card.keywords for hit in occurrences(rest, keyword) if hit.start > 0]
            if value := _TRAILING.sub("", rest[: min(ends, default=None)]).strip():
                return [Found(start, start + len(value), value)]
    return []
