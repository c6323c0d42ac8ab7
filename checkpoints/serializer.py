"""What a checkpoint's rows hold, decoded and checked, and checksums of the keys they are stored under."""

import contextlib
import json
import sqlite3
import threading
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import Any

import ormsgpack
from langgraph.checkpoint.base import CheckpointTuple, DeltaChannelHistory
from langgraph.checkpoint.serde._msgpack import SAFE_MSGPACK_TYPES
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Interrupt, Overwrite

from segue.core.errors import ConfigurationError, DamagedCheckpoint

from .ports import Decoded, Stored


class Undecodable(Exception):
    """Stored bytes are not what was written; the message names the symptom."""


GZIP = "+gzip"
"""Ends the type of a value that is stored compressed."""
_GZIP_BITS = 31
_GZIP = 16
"""Added to the bits of a window, it asks zlib for gzip's format."""
_LEVEL = 4
_WINDOW = 13
_MEMORY = 5
"""zlib's default window and memory take longer to allocate than most values take to compress."""


def deflated(data: bytes, of: int = 0) -> bytes:
    """The data in zlib's format, or in another one `of` zlib's."""
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW + of, _MEMORY)
    return compressor.compress(data) + compressor.flush()


def compressed(kind: str, data: bytes) -> tuple[str, bytes]:
    """The type and bytes of a value as they are stored; what is compressed already, or nothing, stays as it is."""
    if kind == "null" or kind.endswith(GZIP):
        return kind, data
    return kind + GZIP, deflated(data, _GZIP)


def decompressed(kind: str, data: bytes) -> tuple[str, bytes]:
    """The type and bytes of a stored value as they were before they were compressed.

    Raises:
        Undecodable
    """
    if not kind.endswith(GZIP):
        return kind, data
    try:
        return kind.removesuffix(GZIP), zlib.decompress(data, _GZIP_BITS)
    except zlib.error as error:
        raise Undecodable("its bytes have changed since they were stored") from error


_UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, NotImplementedError, RecursionError, OverflowError)
# What reading whole rows may raise besides sqlite3's errors.
_MALFORMED = (json.JSONDecodeError, UnicodeError, TypeError, LookupError, AttributeError)
_GARBLED = ("Could not decode to UTF-8", "malformed JSON", "JSON cannot hold BLOB values", "unsupported file format")
_PARTS: Mapping[str, type] = {
    "id": str,
    "ts": str,
    "channel_values": dict,
    "channel_versions": dict,
    "versions_seen": dict,
}
_BESIDE: Mapping[str, type] = {"step": int, "parents": dict, "counters_since_delta_snapshot": dict}
"""What LangGraph reads of a checkpoint's metadata, which have no checksum."""


@dataclass(frozen=True)
class Encoded:
    """A value as it was when it was encoded, whatever becomes of it until it is stored."""

    kind: str
    data: bytes


class CheckedSerializer(JsonPlusSerializer):
    """LangGraph's serializer, with compression that has a checksum: a changed byte would go unnoticed.

    What is stored names the types of its values. Only those that are known are built again; a value of any other type
    is refused when it is stored, and stays as it is stored where it is read.
    """

    def __init__(self) -> None:
        super().__init__(allowed_msgpack_modules=[])
        self._names = SAFE_MSGPACK_TYPES
        self._checked: frozenset[str] = frozenset()
        self._build = self._unpack_ext_hook
        self._unpack_ext_hook = self._built

    def keep(self, types: Iterable[type], graphs: Iterable[str]) -> None:
        """From now on, know these types, and check what these graphs store."""
        self._names |= {(each.__module__, each.__name__) for each in types}
        self._build = JsonPlusSerializer(allowed_msgpack_modules=self._names)._unpack_ext_hook
        self._checked |= {*graphs}

    def _built(self, code: int, data: bytes) -> Any:
        is_known = code > _LAST_WITH_TYPE or _type_in(data) in self._names
        return self._build(code, data) if is_known else ormsgpack.Ext(code, bytes(data))

    def check(self, value: Any, inside: str) -> None:
        """Refuse a value that could not be read again as what it is; `inside` is the namespace of its graph.

        Raises:
            ConfigurationError: it, or a value in it, is of a type that is not known.
        """
        waiting = [value] if inside.partition(":")[0] in self._checked else []
        while waiting:
            each = waiting.pop()
            kind = type(each)
            if isinstance(each, dict):
                waiting += each.values()
            elif isinstance(each, Overwrite):
                waiting.append(each.value)
            elif isinstance(each, list | set | frozenset | deque) or kind is tuple:
                waiting += each
            elif isinstance(each, Enum) or not isinstance(each, _PLAIN):
                if (kind.__module__, kind.__name__) not in self._names:
                    raise ConfigurationError(
                        "The state of a mode has a value of the type {type}, which another process could not restore: "
                        "name the type in the annotation of the state.",
                        type=f"{kind.__module__}.{kind.__qualname__}",
                    )
                if is_dataclass(each):
                    waiting += (getattr(each, part.name) for part in fields(each))

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        return compressed(*self.plain_typed(obj))

    def plain_typed(self, obj: Any) -> tuple[str, bytes]:
        """As `dumps_typed`, not compressed."""
        return (obj.kind, obj.data) if isinstance(obj, Encoded) else super().dumps_typed(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Decode what was stored; what is not compressed is decoded as it is.

        Raises:
            Undecodable
        """
        with named():
            kind, plain = decompressed(*data)
            if kind == "null" and plain:
                raise Undecodable("its bytes have changed since they were stored")
            return super().loads_typed((kind, plain))


_LAST_WITH_TYPE = 5
"""LangGraph's extension types up to this one begin with the module and the name of a type."""
_PLAIN = str | int | float | bytes | bytearray | None | BaseException | Interrupt


def _type_in(data: bytes) -> tuple[str, ...]:
    """The module and the name of the type that an extension begins with, two short texts of an array."""
    found, at = [], 1
    for _ in range(2):
        size, begin = (data[at] & 0x1F, at + 1) if data[at] < 0xD9 else (data[at + 1], at + 2)
        at = begin + size
        found.append(bytes(data[begin:at]).decode())
    return tuple(found)


SERDE = CheckedSerializer()


@contextlib.contextmanager
def named() -> Iterator[None]:
    """Name the error of bytes that cannot be decoded.

    Raises:
        Undecodable
    """
    try:
        yield
    except _UNREADABLE as error:
        raise Undecodable(f"it cannot be decoded: {type(error).__name__}") from error


def is_garbled(error: sqlite3.Error) -> bool:
    """Whether the error means a malformed value in a file; SQLite has no error code for it, only a message."""
    return isinstance(error, sqlite3.OperationalError) and str(error).startswith(_GARBLED)


@contextlib.contextmanager
def decoding(thread_id: str) -> Iterator[None]:
    """Turn what is wrong with stored bytes into a sentence; trouble with the database stays what it is.

    Raises:
        DamagedCheckpoint
    """
    try:
        yield
    except Undecodable as error:
        raise DamagedCheckpoint(thread_id, str(error)) from error
    except _MALFORMED as error:
        raise DamagedCheckpoint(thread_id, f"it is malformed: {type(error).__name__}") from error
    except sqlite3.OperationalError as error:
        if not is_garbled(error):
            raise
        raise DamagedCheckpoint(thread_id, "it contains bytes that are not text") from error


def check_form(found: CheckpointTuple) -> None:
    """Make sure that what was decoded is a checkpoint, and the one that it is filed as.

    Raises:
        Undecodable
    """
    checkpoint: Any = found.checkpoint
    if not isinstance(checkpoint, dict) or not isinstance(found.metadata, dict):
        raise Undecodable("it is no checkpoint")
    for name, kind in _PARTS.items():
        if not isinstance(checkpoint.get(name), kind):
            raise Undecodable(f"its {name} is missing")
    for name, kind in _BESIDE.items():
        if not isinstance(found.metadata.get(name, kind()), kind):
            raise Undecodable(f"its {name} is malformed")
    if checkpoint["id"] != found.config["configurable"]["checkpoint_id"]:
        raise Undecodable("it is filed under the id of another one")


Change = Callable[[str], Any]

TEXT = 100
"""The extension type of a digest that stands for a text; LangGraph's own are small numbers, and msgpack inside."""
DIGEST_BYTES = 16
_DIGEST = bytes([0xD8, TEXT])
"""How msgpack begins an extension of so many bytes and this type."""


def same(text: str) -> str:
    return text


def may_hold_long_text(data: bytes) -> bool:
    """Whether msgpack may hold a text of 256 bytes or more: such a text has one of two headers, with its length."""
    return _may_hold_text(data, b"\xda", 2, 1 << 8) or _may_hold_text(data, b"\xdb", 4, 1 << 16)


def _may_hold_text(data: bytes, header: bytes, width: int, least: int) -> bool:
    """Whether a text of at least so many bytes fits after one of the places that look like its header."""
    place = data.find(header)
    while place >= 0:
        begin = place + 1 + width
        if least <= int.from_bytes(data[place + 1 : begin]) <= len(data) - begin:
            return True
        place = data.find(header, place + 1)
    return False


def may_hold_digest(data: bytes) -> bool:
    """Whether msgpack may hold a digest in place of a text."""
    return _DIGEST in data


def rewritten(
    data: bytes,
    change: Change,
    of_key: Change = same,
    text_of: Callable[[bytes], str] | None = None,
    among: Callable[[bytes], bool] = lambda _: True,
) -> bytes:
    """The data with `change` of each text in it, `of_key` of each text that is a key, and `text_of` of each digest.

    What is not `among` those that may have such a text stays as it is.
    """
    if not among(data):
        return data

    def changed(value: Any) -> Any:
        kind = type(value)
        if kind is str:
            return change(value)
        if kind is dict:
            parts = {key: part if type(part) in _WITHOUT_TEXT else changed(part) for key, part in value.items()}
            return parts if of_key is same else {_key(key, of_key): part for key, part in parts.items()}
        if kind is list:
            return [part if type(part) in _WITHOUT_TEXT else changed(part) for part in value]
        if kind is _Extension:
            if value.code != TEXT:
                return ormsgpack.Ext(value.code, rewritten(value.content, change, of_key, text_of, among))
            return ormsgpack.Ext(TEXT, value.content) if text_of is None else text_of(value.content)
        return value

    decoded = ormsgpack.unpackb(data, ext_hook=_Extension, option=ormsgpack.OPT_NON_STR_KEYS)
    return ormsgpack.packb(changed(decoded), option=ormsgpack.OPT_NON_STR_KEYS)


_WITHOUT_TEXT = {int, float, bool, bytes, type(None)}


def _key(key: Any, of_key: Change) -> Any:
    return of_key(key) if isinstance(key, str) else key


@dataclass(frozen=True)
class _Extension:
    """A value of one of the types that msgpack lets a program add."""

    code: int
    content: bytes


MOST_BYTES = 32_000_000
"""Of stored values and of what they were decoded from; beyond it the oldest goes."""


class DecodedValues:
    """What stored values say, by what is stored: a session's log is rebuilt from the same ones several times a turn.

    They are shared, since nothing changes a message or a record in the state.
    """

    def __init__(self) -> None:
        self._known: dict[Stored, tuple[Any, int]] = {}
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, stored: Stored) -> Any:
        """The value, or None where it is not kept."""
        return self._known.get(stored, (None, 0))[0]

    def keep(self, stored: Stored, value: Any, size: int) -> None:
        """Keep a value; `size` is the number of bytes that it was decoded from."""
        size += len(stored[1])
        with self._lock:
            self._bytes += size - self._known.pop(stored, (None, 0))[1]
            self._known[stored] = (value, size)
            while self._bytes > MOST_BYTES:
                self._bytes -= self._known.pop(next(iter(self._known)))[1]


class DecodedOnce(SerializerProtocol):
    """A serializer that decodes equal values once."""

    def __init__(self, serde: SerializerProtocol, decoded: Decoded) -> None:
        self._serde = serde
        self._decoded = decoded

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        return self._serde.dumps_typed(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        stored = (data[0], bytes(data[1]))
        value = self._decoded.get(stored)
        if value is None:
            value = self._serde.loads_typed(stored)
            self._decoded.keep(stored, value, len(stored[1]))
        return value


def unshared(history: DeltaChannelHistory) -> DeltaChannelHistory:
    """A log's history with a list of its own, for a channel to begin with."""
    seed = history.get("seed")
    if not isinstance(seed, _DeltaSnapshot) or not isinstance(seed.value, list):
        return history
    return {**history, "seed": _DeltaSnapshot([*seed.value])}
