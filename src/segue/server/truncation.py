"""JSON that fits into so many bytes: texts are cut, lists and objects keep what comes first."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
_READABLE = json.JSONEncoder(separators=(",", ":"), allow_nan=False, ensure_ascii=False)
MARK = "…"
DEEPEST = 20
"""Levels of a value that are shown; what lies deeper is left out."""
SMALL = 120
"""Bytes of a field, with its name, that is kept whole before longer ones share the rest."""


def encoded(value: Any, encoder: json.JSONEncoder = _ENCODER) -> str:
    """The value as JSON in ASCII, on one line; what JSON has no form for becomes null or text."""
    try:
        return encoder.encode(value)
    except (TypeError, ValueError, RecursionError):
        return encoder.encode(_plain(value, DEEPEST))


def readable(value: Any) -> str:
    """The same, with characters as they are."""
    return encoded(value, _READABLE)


def parts(value: Any, levels: int = 2) -> Iterator[bytes]:
    """The value as JSON in UTF-8, in parts: the fields and items of its upper levels one by one.

    A text that is stored but not valid Unicode is written in ASCII.
    """
    if levels and isinstance(value, Mapping):
        yield b"{"
        for place, (name, item) in enumerate(value.items()):
            yield b"," * bool(place) + encoded(str(name)).encode() + b":"
            yield from parts(item, levels - 1)
        yield b"}"
    elif levels and isinstance(value, list | tuple):
        yield b"["
        for place, item in enumerate(value):
            yield b"," * bool(place)
            yield from parts(item, levels - 1)
        yield b"]"
    else:
        try:
            yield readable(value).encode()
        except UnicodeEncodeError:
            yield encoded(value).encode()


def _plain(value: Any, levels: int) -> Any:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if abs(value) < 10**300 else None
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if levels == 0:
        return MARK
    if isinstance(value, Mapping):
        return {str(key): _plain(item, levels - 1) for key, item in value.items()}
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, bytes | bytearray):
        return [_plain(item, levels - 1) for item in value]
    return str(value)


def size(value: Any) -> int:
    """Bytes of the value's JSON."""
    return len(encoded(value))


def split(text: str, room: int) -> Iterator[str]:
    """The text in pieces whose JSON takes at most `room` bytes each; `room` is at least 14, for one character."""
    while size(text) > room:
        first = _prefix(text, room)
        yield first
        text = text[len(first) :]
    yield text


def truncate(value: Any, room: int, levels: int = DEEPEST) -> Any:
    """The value, or as much of it as takes at most `room` bytes; None where not even a beginning does."""
    if size(value) <= room:
        return value
    if levels == 0 or room < size(MARK):
        return None
    if isinstance(value, str):
        return _prefix(value, room - size(MARK) + 2) + MARK
    if isinstance(value, Mapping):
        return _first_fields(value, room, levels)
    if isinstance(value, list | tuple):
        return _first_items(value, room, levels)
    return None


def _prefix(text: str, room: int) -> str:
    """The longest beginning of the text whose JSON takes at most `room` bytes."""
    low, high = 0, min(len(text), max(room, 0))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if size(text[:middle]) <= room else (low, middle - 1)
    return text[:low]


def _first_fields(value: Mapping[Any, Any], room: int, levels: int) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    room -= 2
    for key, item in value.items():
        room -= size(str(key)) + 2
        if room < size(MARK):
            break
        kept[str(key)] = truncate(item, room, levels - 1)
        room -= size(kept[str(key)])
    return kept


def _first_items(value: Sequence[Any], room: int, levels: int) -> list[Any]:
    kept: list[Any] = []
    room -= 2
    for item in value:
        if room < size(MARK) + 1:
            break
        kept.append(truncate(item, room - 1, levels - 1))
        room -= size(kept[-1]) + 1
    return kept


def fit(fields: Mapping[str, Any], room: int, first: str = "") -> dict[str, Any]:
    """The fields as an object of at most `room` bytes.

    Where they are longer, short ones stay, then `first` gets what it needs, the others share the rest evenly, and
    "truncated" says that something is missing.
    """
    if size(fields) <= room:
        return dict(fields)
    sizes = {name: size({name: value}) for name, value in fields.items()}
    order = sorted(fields, key=lambda name: (sizes[name] > SMALL, name != first, sizes[name]))
    shown: dict[str, Any] = {}
    room -= size({"truncated": True}) + 1
    for place, name in enumerate(order):
        overhead = size(name) + 2
        whole = name == first or sizes[name] <= SMALL
        share = (room if whole else room // (len(order) - place)) - overhead
        if share < size(MARK):
            continue
        shown[name] = truncate(fields[name], share)
        room -= size(shown[name]) + overhead
    return {**{name: shown[name] for name in fields if name in shown}, "truncated": True}
