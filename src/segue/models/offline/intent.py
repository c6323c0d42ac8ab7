"""Which tools a message asks for, with which arguments, and what of it was not used."""

import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .arguments import Reading, read_arguments, values_of
from .card import Card, Parameter, words_of
from .text import arithmetic, leftover, masked, occurrences, places, quotations, unused

MOST_CALLS = 10
"""Calls of one tool at most, where a text names several values for one argument."""
_REMEMBERED_TURNS = 4
_TENTATIVE = re.compile(
    r"\b(?:if|unless|whether|how (?:do|does|can|to)|what (?:if|happens)|should i|why)\b"
    r"|如果|要是|除非|要不要|该不该|怎么|如何|为什么|会怎样",
    re.IGNORECASE,
)
_NO_REPLY = re.compile(
    r"\W*(?:(?:no|nope|cancel|never ?mind|forget it|stop|don't|do not|thanks?|thank you|ok|okay|hi|hello)\b"
    r"|算了|不|别|取消|没有|没事|谢|好的|你好)|.*(?:[?？\n]|[吗呢]\W*$)",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True)
class Call:
    """A tool with the arguments it is to be called with."""

    card: Card
    arguments: Mapping[str, Any]

    def matches(self, name: str, arguments: Mapping[str, Any]) -> bool:
        """Whether a recorded call is this one; the record may hold defaults besides."""
        return name == self.card.name and all(arguments.get(key) == value for key, value in self.arguments.items())


@dataclass(frozen=True)
class Ask:
    """A tool that fits, and the required arguments that are missing."""

    card: Card
    missing: tuple[Parameter, ...]


@dataclass(frozen=True)
class Intent:
    """What a message asks for.

    `held` are tools that change something and were named by a question, a condition or an ambiguous message; `unused`
    are the parts of the message that nothing was made of.
    """

    calls: tuple[Call, ...] = ()
    asks: tuple[Ask, ...] = ()
    held: tuple[Card, ...] = ()
    unused: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.calls or self.asks or self.held)

    def __add__(self, other: "Intent") -> "Intent":
        calls = [*self.calls, *(call for call in other.calls if call not in self.calls)]
        return Intent(tuple(calls), self.asks + other.asks, self.held + other.held, self.unused + other.unused)


@dataclass(frozen=True)
class Turn:
    """An earlier message of the user, and what its calls gave."""

    text: str
    results: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Fit:
    """A tool that a text names: where, and what the text says of its arguments."""

    card: Card
    named: frozenset[int]
    reading: Reading

    @property
    def used(self) -> frozenset[int]:
        return self.named | places(hit for hits in self.reading.values() for hit in hits)


def interpret(cards: Sequence[Card], text: str, turns: Sequence[Turn]) -> Intent:
    """What the message asks for; a line that names a tool speaks for that tool, and one that names none for the last.

    A message that only names values goes on with what an earlier one asked for.
    """
    if explicit := _written_out(cards, text):
        return Intent(calls=explicit)
    own = Intent()
    passages = _passages(cards, text)
    for place, passage in enumerate(passages):
        own += _of_passage(cards, passage, passages[:place], turns)
    return own if own.calls or not turns else _follow_up(cards, text, turns, own)


def _written_out(cards: Sequence[Card], text: str) -> tuple[Call, ...]:
    """Calls in the form `name({"argument": value})`, in their order."""
    named = {card.name: card for card in cards}
    calls: list[Call] = []
    for hit in re.finditer(r"\b(\w+)\((?=\{)", text):
        try:
            arguments, end = json.JSONDecoder().raw_decode(text, hit.end())
        except ValueError:
            continue
        if hit[1] in named and text[end : end + 1] == ")":
            calls.append(Call(named[hit[1]], arguments))
    return tuple(calls)


def _passages(cards: Sequence[Card], text: str) -> list[str]:
    """The text, divided before each line that names a tool; quotations stay whole."""
    spoken, found, start = masked(text, places(quotations(text))), list[str](), 0
    for line in spoken.split("\n"):
        whole = text[start : start + len(line)]
        start += len(line) + 1
        if found and not any(_named(card, line) for card in cards):
            found[-1] += f"\n{whole}"
        else:
            found.append(whole)
    return found


def _named(card: Card, spoken: str) -> frozenset[int]:
    """Where a text names a tool: by a keyword, or by the words of its name where it has no keywords."""
    if card.keywords:
        hits = places(hit for word in (*card.keywords, card.name) for hit in occurrences(spoken, word))
        return hits | _sum(card, spoken)
    there, own = words_of(spoken), words_of(f"{card.name} {card.title}")
    described = there & words_of(card.description)
    is_close = bool(there & own) and card.read_only and len((there & own) | described) > 1
    if not own or not (own <= there or is_close):
        return _sum(card, spoken)
    return places(hit for word in (there & own) | described for hit in _stems(spoken, word))


def _stems(text: str, stem: str) -> list[Any]:
    return [hit for word in set(re.findall(rf"{re.escape(stem)}[a-z]*", text, re.I)) for hit in occurrences(text, word)]


def _sum(card: Card, text: str) -> frozenset[int]:
    found = any(parameter.kind == "arithmetic" for parameter in card.parameters) and arithmetic(text)
    return places([found]) if found else frozenset()


def _of_passage(cards: Sequence[Card], text: str, before: Sequence[str], turns: Sequence[Turn]) -> Intent:
    spoken = masked(text, places(quotations(text)))
    fits = [_Fit(card, named, read_arguments(card, text)) for card in cards if (named := _named(card, spoken))]
    fits = [_with_known(fit, text, before, turns) for fit in fits if not _is_declined(fit.card, spoken)]
    able = [fit for fit in fits if not _missing(fit)]
    able = [fit for fit in able if not any(_says_more(other, fit, text) for other in able)]
    covered = frozenset[int]().union(*(fit.used for fit in able))
    lacking = [fit for fit in fits if _missing(fit) and not (able and fit.named <= covered)]
    lacking = [fit for fit in lacking if not any(fit.named < other.named for other in lacking)]
    lacking = [fit for fit in lacking if not any(p.kind == "arithmetic" for p in _missing(fit)) or not able]
    held = tuple(fit.card for fit in able if not fit.card.read_only and _is_doubtful(fit, text))
    calls = tuple(call for fit in able if fit.card not in held for call in _calls(fit))
    used = covered.union(*(fit.used for fit in lacking), *(_parameter_words(fit, text) for fit in (*able, *lacking)))
    return Intent(calls, tuple(Ask(fit.card, _missing(fit)) for fit in lacking), held, tuple(leftover(text, used)))


def _is_declined(card: Card, spoken: str) -> bool:
    """Whether a keyword of the tool stands in the text only to say that it is not asked for."""
    return any(
        occurrences(spoken, word, negated=True) and not occurrences(spoken, word)
        for word in card.keywords or words_of(card.name)
    )


def _with_known(fit: _Fit, text: str, before: Sequence[str], turns: Sequence[Turn]) -> _Fit:
    """The fit with what the message leaves out: from its earlier lines and, for a tool that only reads, from earlier
    messages; a lone part of the message that nothing else uses is a text that is missing.
    """
    known = dict(fit.reading)
    rest = unused(text, fit.used | _parameter_words(fit, text))
    for parameter in _missing(fit):
        earlier = [*before, *(turn.text for turn in turns[-_REMEMBERED_TURNS:] if fit.card.read_only)]
        readings = (read_arguments(fit.card, said).get(parameter.name, []) for said in reversed(earlier))
        hits = next((hits for hits in readings if hits), [])
        word = text[rest[0].start : rest[0].end] if len(rest) == 1 and fit.card.read_only and parameter.is_free else ""
        if word and (not hits or word[0].isupper()):
            known[parameter.name], rest = [replace(rest[0], value=word)], []
        elif hits:
            known[parameter.name] = [replace(hit, start=0, end=0) for hit in hits]
    return replace(fit, reading=known)


def _missing(fit: _Fit) -> tuple[Parameter, ...]:
    return tuple(parameter for parameter in fit.card.required if parameter.name not in fit.reading)


def _parameter_words(fit: _Fit, text: str) -> frozenset[int]:
    """Where words stand that only say which argument a value is."""
    given = [parameter for parameter in fit.card.parameters if parameter.name in fit.reading]
    words = (word for parameter in given for word in parameter.words)
    units = re.finditer(r"\d+(?:\.\d+)?\s*(?:元|块钱?|yuan|cny|rmb)", text, re.IGNORECASE)
    unit_places = frozenset(place for hit in units for place in range(*hit.span()))
    return places(hit for word in words for hit in occurrences(text, word)) | (unit_places if given else frozenset())


def _says_more(other: _Fit, fit: _Fit, text: str) -> bool:
    """Whether all that speaks for a tool speaks for another one too, which needs or finds an argument there."""
    found = [any(hit.end for hits in each.reading.values() for hit in hits) for each in (other, fit)]
    stronger = (other.card.required and not fit.card.required) or found == [True, False]
    theirs = other.used | _parameter_words(other, text)
    return bool(fit.card.parameters and stronger and fit.used | _parameter_words(fit, text) < theirs)


def _is_doubtful(fit: _Fit, text: str) -> bool:
    """Whether it is not sure that, or with which of several values, the tool is to run."""
    several = [p for p in fit.card.parameters if len(values_of(p, fit.reading.get(p.name, []))) > 1]
    return bool(_TENTATIVE.search(text)) or len(several) > 1


def _calls(fit: _Fit) -> list[Call]:
    given = {p.name: values_of(p, fit.reading[p.name]) for p in fit.card.parameters if p.name in fit.reading}
    every = itertools.product(*given.values())
    return [Call(fit.card, dict(zip(given, values, strict=True))) for values in itertools.islice(every, MOST_CALLS)]


def _follow_up(cards: Sequence[Card], text: str, turns: Sequence[Turn], own: Intent) -> Intent:
    """The message as an answer to what was asked, or as new values for what was called."""
    recent = range(len(turns) - 1, max(-1, len(turns) - 1 - _REMEMBERED_TURNS), -1)
    earlier = ((place, interpret(cards, turns[place].text, turns[:place])) for place in recent)
    place, before = next(((place, intent) for place, intent in earlier if not intent.is_empty), (-1, Intent()))
    if before.asks and not own.asks:
        answered = _answered(before.asks, turns[place].text, text)
        if answered.calls or place == len(turns) - 1:
            return answered if answered.calls else own
    changed = [call for card in _cards(before.calls) for call in _changed(card, before.calls, text)]
    return Intent(tuple(changed)) if changed else own


def _cards(calls: Iterable[Call]) -> list[Card]:
    return list({call.card.name: call.card for call in calls}.values())


def _answered(asks: Sequence[Ask], asked: str, text: str) -> Intent:
    """The calls that were asked about, with what the message gives of the missing arguments."""
    answered = Intent()
    for ask in asks:
        known, given = read_arguments(ask.card, asked), read_arguments(ask.card, text)
        alone = ask.missing[0] if len(ask.missing) == 1 and ask.missing[0].is_free else None
        if alone and alone.name not in given and 0 < len(text.strip()) <= 60 and not _NO_REPLY.match(text):
            given = {alone.name: unused(text, ()) and [replace(unused(text, ())[0], value=text.strip())]}
        fit = _Fit(ask.card, frozenset(), known | given)
        if given and not _missing(fit):
            answered += Intent(tuple(_calls(fit)))
    return answered


def _changed(card: Card, calls: Sequence[Call], text: str) -> list[Call]:
    """A tool's earlier calls with the message's values in place of theirs, if it says nothing else."""
    fit = _Fit(card, frozenset(), read_arguments(card, text))
    if not card.read_only or not fit.reading or leftover(text, fit.used | _parameter_words(fit, text)):
        return []
    new = {p.name: values_of(p, fit.reading[p.name]) for p in card.parameters if p.name in fit.reading}
    every = [
        Call(card, {**call.arguments, **dict(zip(new, values, strict=True))})
        for call in calls
        if call.card == card
        for values in itertools.product(*new.values())
    ]
    return [call for place, call in enumerate(every) if call not in every[:place] and call not in calls][:MOST_CALLS]
