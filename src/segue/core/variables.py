"""Variables of the environment in an agents file: `${NAME}`, `${NAME:-default}`, and `$${` for `${` itself."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, quote_plus

_REFERENCE = re.compile(r"\$\$\{|\$\{(?:([A-Za-z_][A-Za-z0-9_]*)(?::-([^{}]*))?\})?")
_MAY_BE_SECRET = re.compile(
    r"key|secret|token(?!s)|password|credential|auth|cookie|header|\benv\b|url|\bargs\b|command|body", re.IGNORECASE
)
"""What the place of a value that is never shown contains; other fields, such as prompts, are shown as they are."""
_SHORTEST = 6
"""Characters of a value that is looked for in texts; a shorter one occurs in many."""
_names: dict[str, str] = {}
"""The variable that each value comes from."""


class Unset(Exception):
    """A variable is not set and has no default; without a name, what follows `${` is none."""

    def __init__(self, name: str, place: str) -> None:
        super().__init__(name, place)
        self.name = name
        self.place = place


def resolve(value: Any, environ: Mapping[str, str], place: str = "") -> Any:
    """A value of a TOML file with the variables of its strings replaced; `place` is its path in the file."""
    if isinstance(value, dict):
        return {key: resolve(each, environ, f"{place}.{key}".lstrip(".")) for key, each in value.items()}
    if isinstance(value, list):
        return [resolve(each, environ, f"{place}[{number}]") for number, each in enumerate(value, start=1)]
    if not isinstance(value, str) or "${" not in value:
        return value
    may_be_secret = _MAY_BE_SECRET.search(place) is not None

    def replaced(found: re.Match[str]) -> str:
        name, default = found.groups()
        if name is None and found[0] == "$${":
            return "${"
        if name is None:
            raise Unset("", place)
        text = environ.get(name, "" if default is not None else None)
        if text is None:
            raise Unset(name, place)
        if may_be_secret and len(text) >= _SHORTEST:
            for form in (text, quote(text), quote(text, safe=""), quote_plus(text)):
                _names[form] = name
        return text or default or ""

    return _REFERENCE.sub(replaced, value)


def masked(text: str) -> str:
    """The text as it may be shown or logged: with `${NAME}` in place of a value that came from a variable."""
    for value in sorted(_names, key=len, reverse=True) if _names else ():
        text = text.replace(value, f"${{{_names[value]}}}")
    return text


def is_variable(text: str) -> bool:
    """Whether the text is the whole value of a variable."""
    return text in _names
