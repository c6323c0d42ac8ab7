"""Secrets in a recorded session: the values of named fields are replaced wherever a text repeats them."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from ...core.errors import ConfigurationError
from .cassette import Cassette, Turn

SHORTEST = 4
"""Characters of a value that can be told from other text."""
_GIVEN = ("arguments", "command_args", "params")
"""What a reply in JSON calls the arguments of its calls."""
_TEXTS = (
    *("message", "notes", "request", "reasoning", "text", "arguments", "outcome", "asked", "reason", "content"),
    *("answer", "error", "failure", "partial"),
)
"""The fields of a cassette, and of messages in OpenAI's format, that hold words of people, models and tools."""


def redacted(cassette: Cassette, names: Sequence[str]) -> Cassette:
    """The cassette with REDACTED_NAME_1 and so on in the place of every value of these fields.

    Raises:
        ConfigurationError: no field has the name, or a value of it is not a text of four characters or more.
    """
    written = [said for turn in cassette.turns for said in _said(turn)]
    places: dict[str, str] = {}
    for name in names:
        values = list(dict.fromkeys(value for said in written for value in _values(said, name)))
        if not values:
            raise ConfigurationError("There is nothing to redact: no argument or result is called {name}.", name=name)
        for number, value in enumerate(values, 1):
            if not isinstance(value, str) or len(value) < SHORTEST:
                raise ConfigurationError(
                    "{name} cannot be redacted: only texts of {least} characters or more can, and one of its values "
                    "is {value}.",
                    name=name,
                    least=SHORTEST,
                    value=json.dumps(value),
                )
            stand_in = f"REDACTED_{name.upper()}_{number}"
            places |= dict.fromkeys(_spellings(value), stand_in)
    places = dict(sorted(places.items(), key=lambda item: -len(item[0])))
    form = cassette.model_dump(mode="json")
    return Cassette.model_validate(form | {part: _in_texts(form[part], places) for part in ("turns", "messages")})


def _said(turn: Turn) -> Iterator[Any]:
    """The arguments and outcomes of a turn's calls, also of calls that were not made, and the answers of people."""
    for call in turn.tool_calls:
        yield call.arguments
        yield from (call.outcome or {}).values()
    for reply in (call.reply for call in turn.model_calls):
        yield from (called.arguments for called in reply.tool_calls)
        yield from (given for name in _GIVEN for given in _fields(reply.text, name))
    for answer in turn.answers:
        yield from (given for name in ("arguments", "answer") for given in _fields(answer.value, name))


def _values(given: Any, name: str) -> Iterator[Any]:
    return (value for field in _fields(given, name) for value in _scalars(field))


def _fields(given: Any, name: str) -> Iterator[Any]:
    """The fields of that name, also in texts that are JSON."""
    if isinstance(given, str) and given.lstrip()[:1] in ("{", "["):
        try:
            yield from _fields(json.loads(given), name)
        except (ValueError, RecursionError):
            return
    elif isinstance(given, list):
        for item in given:
            yield from _fields(item, name)
    elif isinstance(given, dict):
        for key, value in given.items():
            yield from (value,) if key == name else _fields(value, name)


def _scalars(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _scalars(item)
    elif value is not None and value != "":
        yield value


def _spellings(value: str) -> set[str]:
    """The value as it is, and as JSON text writes it, also within another JSON text."""
    found = {value}
    for _ in range(2):
        found |= {json.dumps(text, ensure_ascii=ascii_only)[1:-1] for text in found for ascii_only in (True, False)}
    return found


def _in_texts(given: Any, places: dict[str, str]) -> Any:
    """A part of a cassette with the values replaced in its texts, and its names, ids and states as they are."""
    if isinstance(given, list):
        return [_in_texts(item, places) for item in given]
    if not isinstance(given, dict):
        return given
    return {key: (_replaced if key in _TEXTS else _in_texts)(value, places) for key, value in given.items()}


def _replaced(given: Any, places: dict[str, str]) -> Any:
    if isinstance(given, str):
        for value, stand_in in places.items():
            given = given.replace(value, stand_in)
        return given
    if isinstance(given, list):
        return [_replaced(item, places) for item in given]
    return {key: _replaced(item, places) for key, item in given.items()} if isinstance(given, dict) else given
