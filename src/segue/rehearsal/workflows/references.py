"""References to slots and results: `{booking_ref}`, `{find_booking.fare}`, `{find_order.id|find_by_email.id}`."""

import re
from collections.abc import Mapping
from typing import Any

_REFERENCE = re.compile(r"\{([\w.|]+)\}")
MISSING = object()


def references(text: str) -> list[str]:
    """The references of a template."""
    return _REFERENCE.findall(text)


def look_up(reference: str, values: Mapping[str, Any]) -> Any:
    """The value of the first alternative that has one, or `MISSING`."""
    for alternative in reference.split("|"):
        value = _path(alternative.split("."), values)
        if value is not MISSING:
            return value
    return MISSING


def _path(path: list[str], value: Any) -> Any:
    for key in path:
        if isinstance(value, Mapping) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        else:
            return MISSING
    return value


def fill(template: Any, values: Mapping[str, Any]) -> Any:
    """A template with its references filled in; one that is a single reference keeps the value's type."""
    if not isinstance(template, str):
        return template
    if whole := _REFERENCE.fullmatch(template):
        value = look_up(whole[1], values)
        return template if value is MISSING else value
    return _REFERENCE.sub(lambda found: text_of(look_up(found[1], values), found[0]), template)


def text_of(value: Any, default: str = "") -> str:
    """A value as a person reads it: the items of lists and the values of objects in their order."""
    if value is MISSING or value is None:
        return default
    if isinstance(value, list):
        return "; ".join(text_of(item) for item in value)
    if isinstance(value, Mapping):
        return ", ".join(text_of(item) for item in value.values())
    return str(value)
