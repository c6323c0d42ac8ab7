"""A tool's arguments, read from a text by their JSON schema."""

import re
from collections.abc import Sequence
from typing import Any

from .offline_cards import Card, Parameter
from .offline_numbers import share_numbers
from .offline_reading import (
    PUNCTUATION,
    Found,
    arithmetic,
    known_values,
    masked,
    numbers,
    occurrences,
    quotations,
    unwanted,
)

Reading = dict[str, list[Any]]
"""By parameter: the values that a text names, each of them enough for one call."""

_LEADING = re.compile(r"[\s:：=是为]*(?:(?:is|are|named|called|about|the|a|an|for|of|to)\s+)*", re.IGNORECASE)
_TRAILING = re.compile(r"(?:[\s的吗呢吧啊呀]|\bplease|\bthanks)+$", re.IGNORECASE)


def read_arguments(card: Card, text: str, *, loose: bool = True) -> Reading:
    """What a text says of a tool's arguments; `loose` lets a lone number stand for the only number that is required."""
    found = _listed(card, text)
    rest = masked(text, [*(hit for hits in found.values() for hit in hits), *quotations(text)])
    numeric = [parameter for parameter in card.parameters if parameter.kind == "number" and not parameter.closed]
    found |= share_numbers(numeric, rest, loose=loose)
    for parameter in card.parameters:
        if parameter.kind == "arithmetic" and (expression := arithmetic(text)):
            found[parameter.name] = [Found(0, 0, expression)]
        if parameter.kind == "boolean" and (switched := _switched(parameter, rest)) is not None:
            found[parameter.name] = [Found(0, 0, switched)]
    found |= _free_texts(card, text, found)
    lists = {parameter.name for parameter in card.parameters if parameter.many}
    distinct = {name: list(dict.fromkeys(hit.value for hit in hits)) for name, hits in found.items() if hits}
    return {name: [values] if name in lists else values for name, values in distinct.items()}


def listed_places(card: Card, text: str) -> list[Found]:
    """Where values stand that the tool's schema lists or describes."""
    return [hit for hits in _listed(card, text).values() for hit in hits]


def value_places(card: Card, text: str) -> list[Found]:
    """Everything in a text that may be an argument: listed values, quotations, numbers, the parameters' keywords."""
    values = listed_places(card, text) + quotations(text)
    rest = masked(text, values)
    words = (word for parameter in card.parameters for word in parameter.keywords)
    return values + list(numbers(rest)) + [hit for word in words for hit in occurrences(rest, word)]


def _listed(card: Card, text: str) -> dict[str, list[Found]]:
    """Values that the schema lists or describes by a pattern; parameters that share them get one each, in order."""
    sharing: dict[tuple[Any, ...], list[Parameter]] = {}
    for parameter in card.parameters:
        listed = parameter.closed or (parameter.values and parameter.kind == "text")
        if parameter.kind != "language" and (parameter.pattern or listed):
            sharing.setdefault((parameter.pattern, parameter.values, parameter.many), []).append(parameter)
    found: dict[str, list[Found]] = {}
    for alike in sharing.values():
        hits = _matches(alike[0], text)
        found |= {alike[0].name: hits} if len(alike) == 1 else _one_each(alike, hits, text)
    return found


def _matches(parameter: Parameter, text: str) -> list[Found]:
    if not parameter.pattern:
        meant = dict(parameter.aliases) or {value: value for value in parameter.values}
        return [Found(hit.start, hit.end, meant[hit.value]) for hit in known_values(text, meant)]
    body = parameter.pattern.removeprefix("^").removesuffix("$")
    try:
        wanted = re.compile(rf"(?<![A-Za-z0-9])(?:{body})(?![A-Za-z0-9])")
    except re.error:
        return []
    return [Found(hit.start(), hit.end(), hit[0]) for hit in wanted.finditer(text) if hit[0]]


def _one_each(alike: Sequence[Parameter], hits: Sequence[Found], text: str) -> dict[str, list[Found]]:
    left, given = list(hits), dict[str, list[Found]]()
    for parameter in alike:
        ends = [place.end for word in parameter.keywords for place in occurrences(text, word)]
        if beside := [hit for hit in left if any(0 <= hit.start - end <= 1 for end in ends)]:
            given[parameter.name] = beside[:1]
            left.remove(beside[0])
    for parameter in alike:
        if parameter.name not in given and left:
            given[parameter.name] = [left.pop(0)]
    return given


def _switched(parameter: Parameter, text: str) -> bool | None:
    words = parameter.keywords or tuple(word for word in parameter.name.split("_") if len(word) > 2)
    if any(occurrences(text, word) for word in words):
        return True
    return False if unwanted(text, words) else None


def _free_texts(card: Card, text: str, found: dict[str, list[Found]]) -> dict[str, list[Found]]:
    """Quotations, in order, for required texts; else what follows a keyword of the parameter."""
    taken = [hit for hits in found.values() for hit in hits]
    quoted = [quote for quote in quotations(text) if not any(_lies_in(hit, quote) for hit in taken)]
    given: dict[str, list[Found]] = {}
    for parameter in card.parameters:
        if not parameter.is_free or found.get(parameter.name):
            continue
        after = [] if parameter.values else _after_keyword(card, parameter, text)
        if quoted and (parameter.required or after):
            given[parameter.name] = [quoted.pop(0)]
        elif after:
            given[parameter.name] = after
    return given


def _lies_in(hit: Found, quote: Found) -> bool:
    return quote.start <= hit.start < hit.end <= quote.end


def _after_keyword(card: Card, parameter: Parameter, text: str) -> list[Found]:
    """The text from a keyword of the parameter up to the sentence's end or the tool's next keyword."""
    for word in parameter.keywords:
        for place in occurrences(text, word):
            rest = PUNCTUATION.split(text[place.end :], maxsplit=1)[0]
            rest = rest[_LEADING.match(rest).end() :]  # type: ignore[union-attr]
            ends = [hit.start for keyword in card.keywords for hit in occurrences(rest, keyword) if hit.start > 0]
            if value := _TRAILING.sub("", rest[: min(ends, default=None)]).strip():
                return [Found(place.end, place.end + len(rest), value)]
    return []
