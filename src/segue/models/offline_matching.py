"""Which tools a message calls for, with which arguments: by keywords, schemas and the talk so far."""

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .offline_cards import Card, Parameter
from .offline_filling import Reading, listed_places, read_arguments, value_places
from .offline_naming import FILLING, covered, is_declined, keyword_places, name_of, read_by_lines, words_of
from .offline_reading import CJK, masked, occurrences, quotations

WEAKEST = 1.5
"""What a tool without a keyword in the text has to score by its words and values."""
MOST_CALLS = 10
"""Calls of one tool at most, where a text names several values for one argument."""
_REMEMBERED_TURNS = 4

_NO_REPLY = re.compile(
    r"\W*(?:(?:no|nope|cancel|never ?mind|forget it|stop|don't|do not|thanks?|thank you|ok|okay|hi|hello)\b"
    r"|算了|不|别|取消|没有|没事|谢|好的|你好)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Call:
    """A tool with the arguments it is to be called with."""

    card: Card
    arguments: dict[str, Any]

    def matches(self, name: str, arguments: Mapping[str, Any]) -> bool:
        """Whether a recorded call is this one; the record may hold defaults besides."""
        return name == self.card.name and all(arguments.get(key) == value for key, value in self.arguments.items())


@dataclass(frozen=True)
class Ask:
    """A tool that fits, what is known of its arguments, and what is missing."""

    card: Card
    known: Reading
    missing: tuple[Parameter, ...]


@dataclass(frozen=True)
class Intent:
    """What a message wants: calls that can be made, and tools that lack an argument."""

    calls: tuple[Call, ...] = ()
    asks: tuple[Ask, ...] = ()


@dataclass(frozen=True)
class Turn:
    """An earlier message of the user, the calls it led to, and what they gave."""

    text: str
    calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    results: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Fit:
    card: Card
    score: float
    places: frozenset[int] = field(default_factory=frozenset)


def intend(cards: Sequence[Card], text: str, turns: Sequence[Turn]) -> Intent:
    """What the message wants; one that says nothing of its own may go on with what the turn before wanted."""
    fits = _fitting(cards, text)
    named = [fit.card for fit in fits]
    own = _settle([(fit, _filled(fit.card, named, text, turns)) for fit in fits], text)
    if own.calls or not turns:
        return own
    before = _before(cards, turns)
    answered = _answered(before, text) if before.asks and not own.asks else Intent()
    if answered != Intent() or not _only_names_values(cards, text):
        return answered if answered != Intent() else own
    carried = _carried_over(before, text)
    return carried if carried.calls else own


def told_in(intent: Intent, language: str) -> Intent:
    """The calls with the reader's language for every argument that may be it."""
    return Intent(tuple(_call_in(call, language) for call in intent.calls), intent.asks)


def _call_in(call: Call, language: str) -> Call:
    tongues = (parameter for parameter in call.card.parameters if parameter.kind == "language")
    wanted = [parameter.name for parameter in tongues if language in (parameter.values or (language,))]
    return Call(call.card, call.arguments | dict.fromkeys(wanted, language)) if wanted else call


def _before(cards: Sequence[Card], turns: Sequence[Turn]) -> Intent:
    """What the latest of the last turns wanted that wanted something."""
    for place in range(len(turns) - 1, max(-1, len(turns) - 1 - _REMEMBERED_TURNS), -1):
        wanted = intend(cards, turns[place].text, turns[:place][-_REMEMBERED_TURNS:])
        if wanted != Intent():
            return wanted
    return Intent()


def _fitting(cards: Sequence[Card], text: str) -> list[_Fit]:
    """The tools whose keywords stand in the text; if there are none, those whose words come nearest."""
    spoken = masked(text, quotations(text))
    fits = [_Fit(card, 2.0, frozenset(places)) for card in cards if (places := keyword_places(card, spoken, text))]
    if fits:
        wanted = [fit for fit in fits if not is_declined(fit.card, spoken)]
        return wanted or [fit for fit in fits if fit.card.read_only]
    weak = [_Fit(card, score) for card in cards if (score := _weak_score(card, spoken, text)) >= WEAKEST]
    weak = [fit for fit in weak if not is_declined(fit.card, spoken)]
    best = max((fit.score for fit in weak), default=0.0)
    return [fit for fit in weak if fit.score == best]


def _weak_score(card: Card, spoken: str, text: str) -> float:
    """1 for a word of the name or title, 0.5 for one of the description, 1 for a value of a required argument."""
    there, named = words_of(spoken), words_of(name_of(card))
    score = len(there & named) + 0.5 * len(there & (words_of(card.description) - named))
    listed = {(hit.start, hit.end) for hit in listed_places(card, text)}
    return score + (1.0 if listed and card.required else 0.0) if score else 0.0


def _filled(card: Card, named: Sequence[Card], text: str, turns: Sequence[Turn]) -> Intent:
    """The tool's calls; what is required and not in the text is taken from the talk, the latest first."""
    found: list[Intent] = []
    for known in read_by_lines(card, named, text):
        for parameter in card.required:
            if parameter.name not in known and (values := _remembered(card, parameter, turns)):
                known[parameter.name] = values
        found.append(_of(card, known))
    calls = _distinct(call for intent in found for call in intent.calls)
    return Intent(tuple(calls[:MOST_CALLS]), tuple(ask for intent in found for ask in intent.asks))


def _of(card: Card, known: Reading) -> Intent:
    if missing := tuple(parameter for parameter in card.required if parameter.name not in known):
        return Intent(asks=(Ask(card, known, missing),))
    return Intent(calls=tuple(Call(card, arguments) for arguments in _combined(card, known)))


def _combined(card: Card, known: Reading) -> list[dict[str, Any]]:
    names = [parameter.name for parameter in card.parameters if parameter.name in known]
    every = itertools.product(*(known[name] for name in names))
    return [dict(zip(names, values, strict=True)) for values in itertools.islice(every, MOST_CALLS)]


def _remembered(card: Card, parameter: Parameter, turns: Sequence[Turn]) -> list[Any]:
    for turn in reversed(turns):
        used = [arguments[parameter.name] for _, arguments in turn.calls if parameter.name in arguments]
        distinct = [value for place, value in enumerate(used) if value not in used[:place]]
        if found := distinct or read_arguments(card, turn.text, loose=False).get(parameter.name):
            return found
    return []


def _settle(found: Sequence[tuple[_Fit, Intent]], text: str) -> Intent:
    """Keep the calls, and ask only for tools that the text names beyond what the calls cover."""
    evidence = {fit.card.name: _evidence(fit, text) for fit, _ in found}
    able = [(fit, intent) for fit, intent in found if intent.calls]
    kept = [(fit, intent) for fit, intent in able if not _says_less(fit.card, [f.card for f, _ in able], evidence)]
    covered = {place for fit, _ in kept for place in evidence[fit.card.name].places}
    lacking = [(f, i) for f, i in found if i.asks and not (kept and _is_explained(f, i, covered))]
    asks = [ask for fit, intent in lacking for ask in intent.asks if not _outdone(fit, ask, lacking)]
    return Intent(tuple(call for _, intent in kept for call in intent.calls), tuple(asks))


@dataclass(frozen=True)
class _Evidence:
    """What of a text speaks for a tool: places, and whether any of its arguments stands there."""

    places: frozenset[int]
    has_arguments: bool


def _evidence(fit: _Fit, text: str) -> _Evidence:
    read = read_arguments(fit.card, text)
    words = (word for parameter in fit.card.parameters if parameter.name in read for word in parameter.keywords)
    named = covered(hit for word in words for hit in occurrences(text, word))
    return _Evidence(frozenset(fit.places | named | covered(listed_places(fit.card, text))), bool(read))


def _is_explained(fit: _Fit, intent: Intent, covered: set[int]) -> bool:
    """Whether other calls cover the words that called for a tool; a sum that is not there was not asked for."""
    missing = (parameter for ask in intent.asks for parameter in ask.missing)
    return fit.places <= covered or any(parameter.kind == "arithmetic" for parameter in missing)


def _says_less(card: Card, able: Sequence[Card], evidence: Mapping[str, _Evidence]) -> bool:
    """Whether all that speaks for a tool speaks for another one too, which needs or finds an argument there."""
    own = evidence[card.name]
    for rival in able:
        other = evidence[rival.name]
        stronger = (rival.required and not card.required) or (other.has_arguments and not own.has_arguments)
        if card.parameters and stronger and own.places < other.places:
            return True
    return False


def _outdone(fit: _Fit, ask: Ask, lacking: Sequence[tuple[_Fit, Intent]]) -> bool:
    """Whether another tool fits better and would not need what this one asks for."""
    wanted = {parameter.name for parameter in ask.missing}
    return any(
        fit.places < other.places and not wanted <= {parameter.name for parameter in rival.missing}
        for other, intent in lacking
        for rival in intent.asks
    )


def _answered(before: Intent, text: str) -> Intent:
    """The tools that were asked about, with what the message gives of the missing arguments."""
    settled = Intent()
    for ask in before.asks:
        given = read_arguments(ask.card, text)
        if not given and [parameter.is_free for parameter in ask.missing] == [True] and _is_short_reply(text):
            given = {ask.missing[0].name: [[text.strip()] if ask.missing[0].many else text.strip()]}
        if any(parameter.name in given for parameter in ask.missing):
            intent = _of(ask.card, ask.known | given)
            settled = Intent(settled.calls + intent.calls, settled.asks + intent.asks)
    return settled


def _is_short_reply(text: str) -> bool:
    """Whether a message may be the text that was asked for: no question, refusal or courtesy."""
    return 0 < len(text.strip()) <= 60 and not re.search(r"[?？\n]|[吗呢]\W*$", text) and not _NO_REPLY.match(text)


def _only_names_values(cards: Sequence[Card], text: str) -> bool:
    """Whether a message says nothing but a value, as in «and tomorrow?»."""
    rest = masked(text, [hit for card in cards for hit in value_places(card, text)])
    return not re.search(rf"[A-Za-z]|[{CJK}]{{3,}}", FILLING.sub("", rest))


def _carried_over(before: Intent, text: str) -> Intent:
    """The calls of the turn before with the message's values in place of theirs."""
    changed: list[Call] = []
    for name in dict.fromkeys(call.card.name for call in before.calls):
        earlier = [call for call in before.calls if call.card.name == name]
        card, new = earlier[0].card, read_arguments(earlier[0].card, text)
        if new:
            known = {key: _distinct(call.arguments[key] for call in earlier) for key in earlier[0].arguments}
            changed += _of(card, known | new).calls
    return Intent(calls=tuple(call for call in changed if call not in before.calls))


def _distinct(values: Iterable[Any]) -> list[Any]:
    kept: list[Any] = []
    for value in values:
        if value not in kept:
            kept.append(value)
    return kept
