"""Which tools a message asks for, with which arguments, and what of it was not used."""

import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .arguments import Reading, read_arguments, values_of
from .card import Card, Parameter
from .text import Found, arithmetic, masked, occurrences, places, quotations, unused

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
_PREPOSITION = re.compile(r"(?:\b(?:in|for|of|about|to|at|from|on)(?: the)?|:)\s+$", re.IGNORECASE)
_LIST_NUMBER = re.compile(r"(?m)^[ \t]*\d{1,2}[.)、．]\s*(?=[^\d\s])")
_AMOUNT = re.compile(r"\d\s*(?:元|块钱?|yuan|cny|rmb)", re.IGNORECASE)


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
        calls = (*self.calls, *(call for call in other.calls if call not in self.calls))
        return Intent(calls, self.asks + other.asks, self.held + other.held, self.unused + other.unused)


@dataclass(frozen=True)
class Turn:
    """An earlier message of the user, and what its calls gave."""

    text: str
    results: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Fit:
    """A tool that a text names: where, and what the text says of its arguments."""

    card: Card
    text: str
    named: frozenset[int]
    reading: Reading

    @property
    def used(self) -> frozenset[int]:
        """Where the text speaks of the tool: by its name, values, and the words that say which argument a value is."""
        words = (word for p in self.card.parameters if p.name in self.reading for word in p.words)
        amounts = (Found(*hit.span(), "") for hit in _AMOUNT.finditer(self.text) if self.reading)
        values = (hit for hits in self.reading.values() for hit in hits)
        return self.named | places([*values, *occurrences(self.text, *words), *amounts])

    @property
    def missing(self) -> tuple[Parameter, ...]:
        return tuple(parameter for parameter in self.card.required if parameter.name not in self.reading)

    @property
    def values(self) -> dict[str, list[Any]]:
        """By parameter the values for one call each."""
        return {p.name: values_of(p, self.reading[p.name]) for p in self.card.parameters if p.name in self.reading}

    def calls(self, known: Mapping[str, Any] | None = None) -> list[Call]:
        """A call for each combination of the values, over the arguments that are known."""
        every = itertools.islice(itertools.product(*self.values.values()), MOST_CALLS)
        return [Call(self.card, {**(known or {}), **dict(zip(self.values, one, strict=True))}) for one in every]


def interpret(cards: Sequence[Card], text: str, turns: Sequence[Turn]) -> Intent:
    """What the message asks for; a line that names a tool begins a passage of its own.

    A message that only names values goes on with what an earlier one asked for.
    """
    if explicit := _written_out(cards, text):
        return Intent(calls=explicit)
    text = _LIST_NUMBER.sub("", text)
    own, passages, turns = Intent(), _passages(cards, text), turns[-_REMEMBERED_TURNS:]
    for place, passage in enumerate(passages):
        own += _of_passage(cards, passage, passages[:place], turns)
    return own if own.calls or not turns else _follow_up(cards, text, turns, own)


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
    """The text, divided before each line that names a tool; quotations stay whole."""
    found, start = list[str](), 0
    for spoken in masked(text, places(quotations(text))).split("\n"):
        line = text[start : start + len(spoken)]
        start += len(spoken) + 1
        if found and not any(_named(card, spoken) for card in cards):
            found[-1] += f"\n{line}"
        else:
            found.append(line)
    return found


def _named(card: Card, spoken: str) -> frozenset[int]:
    """Where a text names a tool: by a keyword, by all words of its name, or by arithmetic that it works out."""
    hits = occurrences(spoken, *card.keywords)
    if card.words and all(occurrences(spoken, word) for word in card.words):
        hits += occurrences(spoken, *card.words)
    if any(parameter.kind == "arithmetic" for parameter in card.parameters) and (found := arithmetic(spoken)):
        hits.append(found)
    return places(hits)


def _of_passage(cards: Sequence[Card], text: str, before: Sequence[str], turns: Sequence[Turn]) -> Intent:
    spoken = masked(text, places(quotations(text)))
    fits = [_Fit(card, text, named, read_arguments(card, text)) for card in cards if (named := _named(card, spoken))]
    fits = [_with_known(fit, before, turns) for fit in fits if not _is_declined(fit.card, spoken)]
    able = [fit for fit in fits if not fit.missing and not _is_part_of_another(fit, fits)]
    able = [fit for fit in able if not any(_says_more(other, fit) for other in able)]
    covered = frozenset[int]().union(*(fit.used for fit in able))
    lacking = [fit for fit in fits if fit.missing and not (able and fit.named <= covered)]
    lacking = [fit for fit in lacking if not any(fit.named < other.named for other in lacking)]
    if able:  # a word such as `calculate` is not a request for arithmetic where there is none
        lacking = [fit for fit in lacking if not any(p.kind == "arithmetic" for p in fit.missing)]
    held = tuple(fit.card for fit in able if not fit.card.read_only and _is_doubtful(fit))
    calls = tuple(call for fit in able if fit.card not in held for call in fit.calls())
    rest = unused(text, covered.union(*(fit.used for fit in lacking)))
    asks = tuple(Ask(fit.card, fit.missing) for fit in lacking)
    return Intent(calls, asks, held, tuple(part.value for part in rest))


def _is_declined(card: Card, spoken: str) -> bool:
    """Whether a word for the tool appears only in a negation."""
    words = (*card.keywords, *card.words)
    return any(occurrences(spoken, word, negated=True) and not occurrences(spoken, word) for word in words)


def _with_known(fit: _Fit, before: Sequence[str], turns: Sequence[Turn]) -> _Fit:
    """The fit with what the passage leaves out: from earlier ones and, for a tool that only reads, earlier messages.

    For such a tool a lone part of the passage that nothing else uses is a text that is missing.
    """
    known, rest = dict(fit.reading), unused(fit.text, fit.used)
    earlier = [*(turn.text for turn in turns if fit.card.read_only), *before]
    for parameter in fit.missing:
        readings = (read_arguments(fit.card, said).get(parameter.name) for said in reversed(earlier))
        hits = next(filter(None, readings), [])
        lone = rest if len(rest) == 1 and fit.card.read_only and parameter.is_free else []
        if lone and (lone[0].value[0].isupper() or (not hits and _is_object(lone[0], fit.text))):
            known[parameter.name], rest = lone, []
        elif hits:
            known[parameter.name] = [replace(hit, start=0, end=0) for hit in hits]
    return replace(fit, reading=known)


def _is_object(part: Found, text: str) -> bool:
    """Whether a preposition leads to a part of a text; in Chinese nothing has to."""
    return not part.value.isascii() or bool(_PREPOSITION.search(text[: part.start]))


def _says_more(other: _Fit, fit: _Fit) -> bool:
    """Whether all that speaks for a tool speaks for another one too, which needs or finds an argument there."""
    found = [any(hit.end for hits in each.reading.values() for hit in hits) for each in (other, fit)]
    stronger = (other.card.required and not fit.card.required) or found == [True, False]
    return bool(fit.card.parameters and stronger and fit.used < other.used)


def _is_part_of_another(fit: _Fit, fits: Sequence[_Fit]) -> bool:
    """Whether the words of a tool's name stand only in a longer one: `todo` in `add todo`."""
    return bool(fit.card.words) and any(fit.named < other.named for other in fits)


def _is_doubtful(fit: _Fit) -> bool:
    """Whether it is not sure that, or with which of several values, the tool is to run."""
    return bool(_TENTATIVE.search(fit.text)) or sum(len(values) > 1 for values in fit.values.values()) > 1


def _follow_up(cards: Sequence[Card], text: str, turns: Sequence[Turn], own: Intent) -> Intent:
    """The message as an answer to what was asked, or as new values for what was called."""
    earlier = ((n, interpret(cards, turns[n].text, turns[:n])) for n in reversed(range(len(turns))))
    place, before = next(((place, intent) for place, intent in earlier if not intent.is_empty), (-1, Intent()))
    found = Intent()
    if not own.asks:
        found = sum((_answered(ask, turns[place].text, text) for ask in before.asks), found)
    if not found.calls:
        found = Intent(tuple(call for card in _cards(before.calls) for call in _changed(card, before.calls, text)))
    return found if found.calls else own


def _cards(calls: Iterable[Call]) -> list[Card]:
    return list({call.card.name: call.card for call in calls}.values())


def _answered(ask: Ask, asked: str, text: str) -> Intent:
    """The calls that were asked about, with what the message gives of the missing arguments."""
    given = read_arguments(ask.card, text)
    lone = ask.missing[0] if len(ask.missing) == 1 and ask.missing[0].is_free else None
    if lone and lone.name not in given and 0 < len(text.strip()) <= 60 and not _NO_REPLY.match(text):
        given = {lone.name: [Found(0, len(text), text.strip())]}
    fit = _Fit(ask.card, text, frozenset(), read_arguments(ask.card, asked) | given)
    return Intent(tuple(fit.calls()) if given and not fit.missing else ())


def _changed(card: Card, calls: Sequence[Call], text: str) -> list[Call]:
    """The earlier calls of a tool that only reads, with the message's values in place of theirs, if it says nothing
    else.
    """
    fit = _Fit(card, text, frozenset(), read_arguments(card, text))
    if not card.read_only or not fit.reading or unused(text, fit.used):
        return []
    every = [new for call in calls if call.card == card for new in fit.calls(call.arguments)]
    return [call for place, call in enumerate(every) if call not in every[:place] and call not in calls]
