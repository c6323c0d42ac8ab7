"""Secrets in a recorded session: the values of named fields are replaced wherever they occur."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from ...core.errors import ConfigurationError
from .cassette import Cassette

SHORTEST = 4
"""Characters of a value that can be told from other text."""


def redacted(cassette: Cassette, names: Sequence[str]) -> Cassette:
    """The cassette with REDACTED_NAME_1 and so on in the place of every value of these fields.

    Raises:
        ConfigurationError: no field has the name, or a value of it is not a text of four characters or more.
    """
    form = cassette.model_dump(mode="json")
    places: dict[str, str] = {}
    for name in names:
        values = list(dict.fromkeys(_values(form, name)))
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
    return Cassette.model_validate(_replaced(form, dict(sorted(places.items(), key=lambda item: -len(item[0])))))


def _values(given: Any, name: str) -> Iterator[Any]:
    """The values of fields of that name, also in texts that are JSON."""
    if isinstance(given, str) and given.lstrip()[:1] in ("{", "["):
        try:
            yield from _values(json.loads(given), name)
        except (ValueError, RecursionError):
            return
    elif isinstance(given, list):
        for item in given:
            yield from _values(item, name)
    elif isinstance(given, dict):
        for key, value in given.items():
            yield from _scalars(value) if key == name else _values(value, name)


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


def _replaced(given: Any, places: dict[str, str]) -> Any:
    if isinstance(given, str):
        for value, stand_in in places.items():
            given = given.replace(value, stand_in)
        return given
    if isinstance(given, list):
        return [_replaced(item, places) for item in given]
    return {key: _replaced(item, places) for key, item in given.items()} if isinstance(given, dict) else given
