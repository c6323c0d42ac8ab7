"""Conversion of a tool's result to JSON that a checkpoint can hold."""

import dataclasses
import math
from base64 import b64encode
from collections import UserString
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence, Set, ValuesView
from datetime import date, time
from enum import Enum
from typing import Any

from langchain_core.messages import BaseMessage
from pydantic import BaseModel

DEPTH = 100
"""Levels of nesting that are kept: a checkpoint takes about 1000, and puts the value into others."""
VALUES = 5_000_000
"""Values that a result may be made of: a few lists that hold one another can stand for any number."""
WORD = 2**63
"""Integers beyond 64 bits become text: a checkpoint takes no larger ones."""


class NoResult(TypeError):
    """What the tool returned is no value; the message says what to return instead."""


def json_value(value: Any) -> Any:
    """The value as text, numbers, lists and dicts; what JSON cannot say becomes its text.

    Raises:
        NoResult: it is a generator, or has no end.
        Exception: whatever the value's own methods raise.
    """
    return _Conversion().of(value)


class _Conversion:
    """One walk through a value: `_open` are the objects that the walk is inside of."""

    def __init__(self) -> None:
        self._left = VALUES
        self._open: set[int] = set()

    def of(self, value: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            raise NoResult(f"the result has more than {VALUES:,} values: return less of it")
        if value is None or value is True or value is False:
            return value
        if isinstance(value, _SCALARS) and not isinstance(value, Enum):
            return _scalar(value)
        if id(value) in self._open:
            return "[circular]"
        if len(self._open) >= DEPTH:
            return f"[nested deeper than {DEPTH} levels]"
        self._open.add(id(value))
        try:
            return self._compound(value if type(value) in _PLAIN else _opened(value))
        finally:
            self._open.discard(id(value))

    def _compound(self, opened: Any) -> Any:
        if isinstance(opened, Mapping):
            return self._dict(opened)
        if isinstance(opened, Sequence) and not isinstance(opened, _TEXTS):
            return [self.of(inner) for inner in opened]
        return self.of(opened)

    def _dict(self, value: Mapping[Any, Any]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, inner in value.items():
            name = _key(key)
            while name in result:  # 1 and "1"
                name += f" ({type(key).__name__})"
            result[name] = self.of(inner)
        return result


_SCALARS = (str, int, float)
_PLAIN = {dict, list, tuple}


def _scalar(value: str | int | float) -> str | int | float:
    if isinstance(value, str):
        return _text(value)
    if type(value) is int and -WORD <= value < WORD:
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else _NOT_FINITE.get(float(value), "NaN")
    return int(value) if -WORD <= value < WORD else _digits(value)


_NOT_FINITE = {math.inf: "Infinity", -math.inf: "-Infinity"}


def _digits(value: int) -> str:
    try:
        return str(int(value))
    except ValueError:  # Python refuses to write more than some thousand decimal digits
        return hex(value)


def _text(value: str) -> str:
    """A plain string that can be encoded: a lone half of a surrogate pair becomes U+FFFD."""
    plain = str.__str__(value)
    if plain.isascii():
        return plain
    try:
        plain.encode()
    except UnicodeEncodeError:
        return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return plain


def _key(key: Any) -> str:
    if isinstance(key, Enum):
        return _key(key.value)
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    return str(_scalar(key)) if isinstance(key, _SCALARS) else _text(str(key))


def _opened(value: Any) -> Any:
    """A mapping, a sequence or a simpler value that says what the object says."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    for kinds, opened in _FORMS:
        if isinstance(value, kinds):
            return opened(value)
    listed = getattr(value, "tolist", None)  # NumPy's arrays and numbers
    return listed() if callable(listed) and not isinstance(value, type) else str(value)


def _bytes(value: bytes | bytearray | memoryview) -> Any:
    raw = bytes(value)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return {"bytes": len(raw), "base64": b64encode(raw).decode()}


def _refuse(value: Any) -> Any:
    raise NoResult(f"the tool returned a {type(value).__name__}, which is no value: return a list")


_BYTES = (bytes, bytearray, memoryview)
_TEXTS = (str, UserString, *_BYTES)
_FORMS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (Enum, lambda value: value.value),
    (BaseMessage, lambda value: value.content),
    (BaseModel, lambda value: value.model_dump()),
    (_BYTES, _bytes),
    (UserString, str),
    (Set, lambda value: sorted(value, key=repr)),
    (ValuesView, list),
    ((Mapping, Sequence), lambda value: value),
    ((date, time), lambda value: value.isoformat()),
    ((Iterator, Coroutine), _refuse),
)
