"""A tool's arguments, read from a text by their JSON schema."""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from .card import Card, Parameter
from .text import CJK, Found, arithmetic, known_values, masked, numbers, occurrences, places, quotations

_SIDES = {
    "max": (
        r"(?:不超过|最多|低于|小于|\b(?:under|below|(?:no more|less) than|at most|up to|within))\W*$",
        r"\s*(?:元|块|yuan|CNY)?\s*(?:以内|以下|之内|or less|at most)",
    ),
    "min": (
        r"(?:至少|不低于|超过|高于|大于|\b(?:over|above|(?<!no )more than|at least))\W*$",
        r"\s*(?:元|块|yuan|CNY)?\s*(?:以上|起|or more|at least)",
    ),
}
"""What comes before and after a number that is the end of a range."""
_RANGE = re.compile(r"\s*(?:-|~|–|至|到|to|and)\s*", re.IGNORECASE)
_UNIT = re.compile(rf"[\s-]*[A-Za-z{CJK}]")
_JOINT = re.compile(r"\b(?:and|then)\b|(?<!\d),|,(?!\d)|[，;；、。\n]|和|然后|再|以及", re.IGNORECASE)
"""What stands between two clauses."""
_MOST_CLAUSES = 10
_NEAR = 12
"""Characters between a number and the word that says which argument it is."""

Reading = dict[str, list[Found]]
"""By parameter the values that a text gives it, with their places."""


def read_arguments(card: Card, text: str) -> Reading:
    """What a text says of a tool's arguments."""
    found = {p.name: _values(p, card, text) for p in card.parameters if p.kind != "language"}
    quoted = quotations(text)
    rest = masked(text, places(hit for hits in [*found.values(), quoted] for hit in hits))
    found |= _numbers([p for p in card.parameters if p.is_number and not p.pattern], rest)
    for parameter in card.parameters:
        if parameter.kind == "arithmetic" and (expression := arithmetic(text)):
            found[parameter.name] = [expression]
        elif parameter.kind == "boolean":
            found[parameter.name] = [replace(hit, value=True) for hit in occurrences(rest, parameter.switches)][:1]
        elif quoted and parameter.is_free and parameter.required and not found[parameter.name]:
            found[parameter.name] = [quoted.pop(0)]
    return {name: hits for name, hits in found.items() if hits}


def readings(card: Card, text: str) -> list[Reading]:
    """What a text says of a tool's arguments, for each of its clauses where each gives the same ones.

    "3 days in Beijing and 2 days in Chengdu" gives two readings, "Beijing and Chengdu for 3 days" one.
    """
    if len(joints := [*_JOINT.finditer(text)]) >= _MOST_CLAUSES:
        return [read_arguments(card, text)]
    ends = [0, *(at for joint in joints for at in joint.span()), len(text)]
    clauses = [range(start, end) for start, end in zip(ends[::2], ends[1::2], strict=True)]
    each = [read_arguments(card, masked(text, {*range(len(text))} - {*clause})) for clause in clauses]
    names = {frozenset(reading) for reading in each}
    if len(each) > 1 and len(names) == 1 and len(each[0]) > 1 and all(p.name in each[0] for p in card.required):
        return each
    return [read_arguments(card, text)]


def _values(parameter: Parameter, card: Card, text: str) -> list[Found]:
    """Values that the schema lists or describes; where parameters share them, the one behind a keyword of this one.

    A tool that only reads and whose parameters have no keywords takes them in the order of the text.
    """
    hits = _matches(parameter.pattern, text) if parameter.pattern else known_values(text, parameter.values)
    alike = [p for p in card.parameters if (p.pattern, p.values) == (parameter.pattern, parameter.values)]
    if len(alike) < 2:
        return hits
    if card.read_only and len(hits) == len(alike) and not any(p.keywords for p in alike):
        return [hits[alike.index(parameter)]]
    ends = {place.end for place in occurrences(text, parameter.keywords)}
    return [hit for hit in hits if not ends.isdisjoint((hit.start, hit.start - 1))][:1]


def _matches(pattern: str, text: str) -> list[Found]:
    body = pattern.removeprefix("^").removesuffix("$")
    try:
        hits = re.finditer(rf"(?<![A-Za-z0-9])(?:{body})(?![A-Za-z0-9])", text)
    except re.error:  # a dialect that Python does not read
        return []
    return [Found(hit.start(), hit.end(), hit[0]) for hit in hits if hit[0]]


def _numbers(parameters: Sequence[Parameter], text: str) -> Reading:
    """Give each parameter the number that is nearest to one of its words, or its end of a range.

    A number that is left over, without a unit, is the required parameter's that is.
    """
    left, given = {number: _side(number, text) for number in numbers(text)}, Reading()
    for first, second in pairwise([*left]):
        if _RANGE.fullmatch(text[first.end : second.start]):
            left |= {first: "min", second: "max"}
    gaps = [(_gap(p, n, side, text), n.start, p.name, n) for p in parameters for n, side in left.items()]
    for gap, _, name, number in sorted(gaps, key=lambda each: each[:3]):
        if gap <= _NEAR and number in left and name not in given:
            given[name] = [number]
            del left[number]
    needed = [parameter.name for parameter in parameters if parameter.required and parameter.name not in given]
    if len(left) == len(needed) == 1 and not _UNIT.match(text, next(iter(left)).end):
        given[needed[0]] = [*left]
    return given


def _side(number: Found, text: str) -> str:
    """Which end of a range a number is."""
    before, after = text[max(0, number.start - 15) : number.start], text[number.end :]
    return next((s for s, (ahead, behind) in _SIDES.items() if re.search(ahead, before) or re.match(behind, after)), "")


def _gap(parameter: Parameter, number: Found, side: str, text: str) -> int:
    """The characters between a number and the nearest of the parameter's words; a word behind it is its unit."""
    if parameter.bound and parameter.bound != (side or "max"):
        return _NEAR + 1
    gaps = [_NEAR if parameter.bound and side else _NEAR + 1]
    for word in occurrences(text, parameter.words):
        if word.start >= number.end and re.fullmatch(r"[\s个-]*", text[number.end : word.start]):
            gaps.append(0)
        elif word.end <= number.start and not re.search(r"[,，。;；\d]", text[word.end : number.start]):
            gaps.append(number.start - word.end + 1)
    return min(gaps)
