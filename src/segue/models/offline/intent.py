"""The tools that a message asks for, their arguments, and the parts of the message that were not used."""

import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .arguments import (
    ORDINAL,
    Card,
    Found,
    Parameter,
    Reading,
    arithmetic,
    known_values,
    masked,
    occurrences,
    ordinal,
    places,
    quotations,
    read_arguments,
    readings,
    unused,
)

MOST_CALLS = 10
"""Calls of one tool at most, where a text names several values for one argument."""
MOST_IMPLIED = 2
"""Tools at most that a message calls which gives values alone."""
_REMEMBERED_TURNS = 4
_TENTATIVE = re.compile(
    r"\b(?:if|unless|whether|how (?:do|does|can|to)|what (?:if|happens)|should i|why)\b"
    r"|如果|要是|除非|要不要|该不该|怎么|如何|为什么|会怎样",
    re.IGNORECASE,
)
_NO_VALUE = re.compile(
    r"\W*(?:(?:no|cancel|never ?mind|stop|don't|thanks?|ok|okay|hi|hello)\b|算了|不|别|取消|没|谢|好的|你好)"
    r"|.*(?:[?？\n]|[吗呢]\W*$)",
    re.IGNORECASE | re.DOTALL,
)
"""A message that is no answer to a question for a text."""
_LIST_NUMBER = re.compile(r"(?m)^[ \t]*\d{1,2}[.)、．]\s*(?=[^\d\s])")


@dataclass(frozen=True)
class Call:
    """A tool with the arguments it is to be called with."""

    card: Card
    arguments: Mapping[str, Any]

    def matches(self, name: str, arguments: Mapping[str, Any]) -> bool:
        """Whether a recorded call is this one; the record may hold defaults besides."""
        return name == self.card.name and all(arguments.get(key) == value for key, value in self.arguments.items())


@dataclass(frozen=True)
class Fit:
    """A tool that a text names: where, and what is known of its arguments."""

    card: Card
    text: str
    named: frozenset[int]
    reading: Reading

    @property
    def used(self) -> frozenset[int]:
        """The places in the text that refer to the tool: its name, values, and words that label one or its default."""
        labels = (p.words if p.name in self.reading or p.required else p.keywords for p in self.card.parameters)
        words = itertools.chain.from_iterable(labels)
        values = (hit for hits in self.reading.values() for hit in hits)
        return self.named | places([*values, *occurrences(self.text, words)])

    @property
    def missing(self) -> tuple[Parameter, ...]:
        return tuple(parameter for parameter in self.card.required if parameter.name not in self.reading)

    @property
    def found(self) -> frozenset[int]:
        """The places of the values that the text itself gives."""
        return places(hit for hits in self.reading.values() for hit in hits)

    @property
    def values(self) -> dict[str, list[Any]]:
        """By parameter the distinct values, for one call each; all of them together where the parameter is a list."""
        given = [(p, [*dict.fromkeys(hit.value for hit in self.reading.get(p.name, ()))]) for p in self.card.parameters]
        return {p.name: [values] if p.many else values for p, values in given if values}

    @property
    def is_vague(self) -> bool:
        """Whether words that are not understood may change what it is called with."""
        takes_known_words = any(p.values and not p.closed for p in self.card.parameters)
        return not self.missing and (self.card.is_exact or (takes_known_words and not self.reading))

    @property
    def is_held(self) -> bool:
        """Whether it changes something, and it is not sure that it is to run, or with which of several values."""
        several = sum(len(values) > 1 for values in self.values.values()) > 1
        return not self.card.read_only and (several or bool(_TENTATIVE.search(self.text)))

    @property
    def calls(self) -> list[Call]:
        """A call for each combination of the values."""
        every = itertools.islice(itertools.product(*self.values.values()), MOST_CALLS)
        return [Call(self.card, dict(zip(self.values, one, strict=True))) for one in every]


@dataclass(frozen=True)
class Intent:
    """What a message asks for.

    `asks` lack required arguments. `unclear` might mean something else: parts of the message are not understood.
    `held` are tools that change something and were named by a question, a condition or
    an ambiguous message. `unused` are the parts of the message that nothing was made of.
    """

    calls: tuple[Call, ...] = ()
    asks: tuple[Fit, ...] = ()
    unclear: tuple[Fit, ...] = ()
    held: tuple[Card, ...] = ()
    unused: tuple[str, ...] = ()
    fits: tuple[Fit, ...] = ()

    @classmethod
    def of(cls, fits: Sequence[Fit], unused: Sequence[str] = ()) -> "Intent":
        unclear = [fit for fit in fits if unused and fit.is_vague]
        calls = [c for fit in fits if fit not in unclear and not (fit.missing or fit.is_held) for c in fit.calls]
        return cls(
            calls=tuple(call for place, call in enumerate(calls) if call not in calls[:place]),
            asks=tuple(fit for fit in fits if fit.missing),
            unclear=tuple(unclear),
            held=tuple(fit.card for fit in fits if not fit.missing and fit.is_held and fit not in unclear),
            unused=tuple(unused),
            fits=tuple(fits),
        )

    @property
    def is_empty(self) -> bool:
        return not (self.calls or self.asks or self.unclear or self.held)


def interpret(cards: Sequence[Card], text: str, turns: Sequence[str], reply: str = "") -> Intent:
    """What the message asks for; `turns` are the earlier ones, `reply` is the latest answer.

    A line that names a tool begins a passage of its own. A message that only gives values continues what an earlier
    one asked for, or calls what takes all of them.
    """
    if calls := _written_out(cards, text):
        return Intent(calls)
    turns, fits, rest = turns[-_REMEMBERED_TURNS:], list[Fit](), list[str]()
    passages = _passages(cards, _LIST_NUMBER.sub("", text))
    for place, passage in enumerate(passages):
        found = _fits(cards, passage, passages[:place], turns, reply)
        fits += found
        rest += [part.value for part in unused(passage, frozenset[int]().union(*(fit.used for fit in found)))]
    own = Intent.of(fits, rest)
    if own.calls and not (rest and all(call.card.read_only for call in own.calls)):
        return own
    implied = None if own.held or (own.asks and not rest) else _implied(cards, text)
    follow_up = _follow_up(cards, text, turns) if turns and not own.calls else None
    return follow_up or implied or own


def _implied(cards: Sequence[Card], text: str) -> Intent | None:
    """Calls of the tools that take everything a message says, which names none; None where that is not clear."""
    taking = list[list[Fit]]()
    for card in (card for card in cards if card.read_only):
        fits = [Fit(card, text, frozenset(), reading) for reading in readings(card, text)]
        used = frozenset[int]().union(*(fit.used for fit in fits))
        if all(fit.reading and not fit.missing for fit in fits) and not unused(text, used):
            taking.append(fits)
    taking = [fits for fits in taking if not any(other[0].found > fits[0].found for other in taking)]
    return Intent.of([fit for fits in taking for fit in fits]) if 0 < len(taking) <= MOST_IMPLIED else None


def _written_out(cards: Sequence[Card], text: str) -> tuple[Call, ...]:
    """Calls in the form `name({"argument": value})`, in their order."""
    named, calls = {card.name: card for card in cards}, list[Call]()
    for hit in re.finditer(r"\b(\w+)\((?=\{)", text):
        try:
            arguments, end = json.JSONDecoder().raw_decode(text, hit.end())
        except ValueError:
            continue
        if hit[1] in named and text[end : end + 1] == ")":
            calls.append(Call(named[hit[1]], arguments))
    return tuple(calls)


def _passages(cards: Sequence[Card], text: str) -> list[str]:
    """The text, divided before each line that names a tool."""
    found = list[str]()
    for line in text.splitlines():
        if found and not any(_named(card, line) for card in cards):
            found[-1] += f"\n{line}"
        else:
            found.append(line)
    return found


def _named(card: Card, text: str) -> list[Found]:
    """Where a text names a tool: by a keyword, by all words of its name, or by arithmetic that it works out.

    One that only a negation names is declined; "the first city" is not a wish for cities.
    """
    if any(occurrences(text, [w], negated=True) and not occurrences(text, [w]) for w in (*card.keywords, *card.words)):
        return []
    hits = occurrences(text, card.keywords)
    if card.words and all(occurrences(text, [word]) for word in card.words):
        hits += occurrences(text, card.words)
    if any(parameter.kind == "arithmetic" for parameter in card.parameters) and (found := arithmetic(text)):
        hits.append(found)
    pointed = {hit.end() for hit in ORDINAL.finditer(text)}
    return [hit for hit in hits if hit.start not in pointed]


def _fits(cards: Sequence[Card], text: str, before: Sequence[str], turns: Sequence[str], reply: str) -> list[Fit]:
    """The tools that a passage names, without those that give way to another."""
    spoken = masked(text, places(quotations(text)))
    hits = {card.name: _named(card, spoken) for card in cards}
    spans = {(hit.start, hit.end) for found in hits.values() for hit in found}
    named = {name: places(hit for hit in found if not _is_within(hit, spans)) for name, found in hits.items()}
    fits = [Fit(card, text, named[card.name], r) for card in cards if named[card.name] for r in readings(card, text)]
    fits = [_with_known(fit, before, turns, reply) for fit in fits]
    return [fit for fit in fits if not any(_yields_to(fit, other) for other in fits)]


def _is_within(hit: Found, spans: Iterable[tuple[int, int]]) -> bool:
    """Whether a word is part of a longer one: "how many units" is not "how many"."""
    return any(start <= hit.start and hit.end <= end and end - start > hit.end - hit.start for start, end in spans)


def _yields_to(fit: Fit, other: Fit) -> bool:
    """Whether the evidence for a tool fits another one too, and fits that one better."""
    if fit.card.words and fit.named < other.named:  # `todo` in `add todo`
        return True
    if fit.missing:
        covered = fit.named < other.named if other.missing else fit.named <= other.used
        return covered or (not other.missing and any(p.kind == "arithmetic" for p in fit.missing))
    stronger = len(other.card.required) > len(fit.card.required) == 0 or (
        other.found > fit.found and not (fit.found and fit.named == other.named)
    )
    return bool(not other.missing and stronger and fit.card.parameters and fit.used < other.used)


def _with_known(fit: Fit, before: Sequence[str], turns: Sequence[str], reply: str) -> Fit:
    """The fit with what the passage leaves out: from earlier ones and, for a tool that only reads, earlier messages.

    "The first city" is the first one of the latest answer.
    """
    known, pointed = dict(fit.reading), ordinal(fit.text) if fit.card.read_only else None
    for parameter in fit.missing:
        if pointed and parameter.values:
            listed = [*dict.fromkeys(hit.value for hit in known_values(reply, parameter.values))]
            known[parameter.name] = [replace(pointed[0], value=value) for value in listed[pointed[1] :][:1]]
            continue
        earlier = reversed([*(turns if fit.card.read_only else ()), *before])
        readings = (read_arguments(fit.card, text).get(parameter.name) for text in earlier)
        if hits := next(filter(None, readings), None):
            known[parameter.name] = [replace(hit, start=0, end=0) for hit in hits]
    return replace(fit, reading={name: hits for name, hits in known.items() if hits})


def _follow_up(cards: Sequence[Card], text: str, turns: Sequence[str]) -> Intent | None:
    """The latest request again, with the message's values added or in place of its own; None if it is none.

    A tool that changes something takes only what it lacked.
    """
    earlier = (interpret(cards, turns[place], turns[:place]) for place in reversed(range(len(turns))))
    before = next((intent for intent in earlier if not intent.is_empty), Intent())
    fits = [again for fit in before.fits if (again := _continued(fit, text))]
    found = Intent.of(fits)
    return replace(found, calls=tuple(c for c in found.calls if c not in before.calls)) if found.calls else None


def _continued(fit: Fit, text: str) -> Fit | None:
    given = read_arguments(fit.card, text)
    lone = fit.missing[0] if len(fit.missing) == 1 and fit.missing[0].is_free else None
    if lone and lone.name not in given and 0 < len(text.strip()) <= 60 and not _NO_VALUE.match(text):
        given = {lone.name: [Found(0, len(text), text.strip())]}
    elif unused(text, Fit(fit.card, text, frozenset(), given).used) or not (fit.card.read_only or fit.missing):
        return None
    found = replace(fit, reading=fit.reading | given, text=text)
    return found if given and not found.missing else None
