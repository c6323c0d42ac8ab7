"""Texts in msgpack as LangGraph writes it: decoded, changed and encoded again."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ormsgpack

Change = Callable[[str], Any]

TEXT = 100
"""The extension type of a digest that stands for a text; LangGraph's own are small numbers, and msgpack inside."""


def same(text: str) -> str:
    return text


def rewritten(
    data: bytes, change: Change, of_key: Change = same, text_of: Callable[[bytes], str] | None = None
) -> bytes:
    """The data with `change` of each text in it, `of_key` of each text that is a key, and `text_of` of each digest."""

    def changed(value: Any) -> Any:
        if isinstance(value, str):
            return change(value)
        if isinstance(value, list):
            return [changed(part) for part in value]
        if isinstance(value, dict):
            return {of_key(key) if isinstance(key, str) else key: changed(part) for key, part in value.items()}
        if isinstance(value, _Extension):
            if value.code != TEXT:
                return ormsgpack.Ext(value.code, rewritten(value.content, change, of_key, text_of))
            return ormsgpack.Ext(TEXT, value.content) if text_of is None else text_of(value.content)
        return value

    decoded = ormsgpack.unpackb(data, ext_hook=_Extension, option=ormsgpack.OPT_NON_STR_KEYS)
    return ormsgpack.packb(changed(decoded), option=ormsgpack.OPT_NON_STR_KEYS)


@dataclass(frozen=True)
class _Extension:
    """A value of one of the types that msgpack lets a program add."""

    code: int
    content: bytes
