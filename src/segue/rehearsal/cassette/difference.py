"""Differences between a replay and its recording, with a readable comparison."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from ...core.records import Json
from ...models.request_text import indented
from ...prompts.catalogue import sentence
from .cassette import Cassette, ModelCall

Kind = Literal["request", "model_call", "tool_call", "left_out", "question", "outcome", "messages"]
CONTEXT = 2
"""Lines that are shown around a difference."""
_AROUND = 120
_LONGEST = 2 * _AROUND


@dataclass(frozen=True)
class Difference:
    """The first difference: in which turn, of what kind, and both sides as text. `call` counts from 1."""

    turn: int
    kind: Kind
    then: str
    now: str
    call: int = 0
    did: str = ""
    """What the agent did then, where a request differs."""

    def headline(self, language: str = "en") -> str:
        return sentence(f"replay_{self.kind}", language, turn=self.turn, call=self.call)

    def describe(self, language: str = "en") -> str:
        """The headline and the comparison."""
        if self.kind == "request" and not self.then:
            shown = [sentence("replay_no_text", language)]
        else:
            shown = [*compared(self.then, self.now)]
        did = [sentence("replay_did", language, did=self.did)] if self.did else []
        return "\n".join([self.headline(language), *did, "", *shown])


def compared(then: str, now: str) -> Iterator[str]:
    """The lines that differ, as in a unified diff; of very long lines only what surrounds the difference."""
    old, new = then.split("\n"), now.split("\n")
    yield "--- recorded"
    yield "+++ now"
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for group in matcher.get_grouped_opcodes(CONTEXT):
        yield f"@@ -{group[0][1] + 1},{group[-1][2] - group[0][1]} +{group[0][3] + 1},{group[-1][4] - group[0][3]} @@"
        for tag, first, last, start, end in group:
            if tag == "equal":
                yield from (f" {_begun(line)}" for line in old[first:last])
            else:
                yield from _changed(old[first:last], new[start:end])


def _changed(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    places = [_first_difference(a, b) for a, b in zip(old, new, strict=False)]
    beyond = max(len(old), len(new)) - len(places)
    places += [0] * beyond
    yield from (f"-{_excerpt(line, place)}" for line, place in zip(old, places, strict=False))
    yield from (f"+{_excerpt(line, place)}" for line, place in zip(new, places, strict=False))


def _first_difference(one: str, other: str) -> int:
    pairs = zip(one, other, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _excerpt(line: str, place: int) -> str:
    """The line, or what of a long one is near a place."""
    if len(line) <= _LONGEST:
        return line
    first = max(place - _AROUND, 0)
    return f"{'…' if first else ''}{line[first : place + _AROUND]}{'…' if place + _AROUND < len(line) else ''}"


def _begun(line: str) -> str:
    return _excerpt(line, 0)


def replied(call: ModelCall) -> str:
    """What the model replied, in short: its refusal, its calls, or its text."""
    made = [f"{called.name}({called.arguments})" for called in call.reply.tool_calls]
    return _begun(" ".join((call.reply.error or "; ".join(made) or call.reply.text).split()))


def difference_of_messages(cassette: Cassette, now: Sequence[Json]) -> Difference | None:
    """The difference between the histories, if there is one."""
    then, made = _numbered(cassette.messages), _numbered(now)
    if then == made:
        return None
    return Difference(_turn_of_message(cassette, then, made), "messages", indented(then), indented(made))


def _numbered(messages: Sequence[Json]) -> list[Json]:
    """The messages with numbers as the ids of calls: those of a fork's copied turns are of the original's tasks."""
    numbers: dict[str, str] = {}

    def numbered(message: Json) -> Json:
        made = dict(message)
        if calls := message.get("tool_calls"):
            made["tool_calls"] = [{**call, "id": number(call["id"])} for call in calls]
        if "tool_call_id" in message:
            made["tool_call_id"] = number(message["tool_call_id"])
        return made

    def number(call_id: str) -> str:
        return numbers.setdefault(call_id, str(len(numbers) + 1))

    return [numbered(message) for message in messages]


def _turn_of_message(cassette: Cassette, then: Sequence[Json], now: Sequence[Json]) -> int:
    """The turn of the first message that differs."""
    pairs = zip(then, now, strict=False)
    first = next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(then), len(now)))
    begun = 0
    for message in then[: first + 1]:
        if begun < len(cassette.turns) and message.get("content") == cassette.turns[begun].message:
            begun += 1
    return max(begun, 1)
