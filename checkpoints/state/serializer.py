"""Checksums of what a checkpoint's rows hold and of the keys they are stored under."""

import contextlib
import json
import sqlite3
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from segue.core.errors import DamagedCheckpoint

from .compression import Undecodable, compressed, decompressed

_MARK = "+crc32:"
_KEY = "+key:"
_CHECKSUM_LENGTH = 8
_WRITES = "+writes:"
"""Before the number of all writes that led to a checkpoint, as older versions counted them."""
_KEPT = "+kept:"
"""Before the number of those that are read once the checkpoint is stored."""
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


class CheckedSerializer(JsonPlusSerializer):
    """LangGraph's serializer, with compression, and a checksum beside the type: a changed byte would go unnoticed."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        return compressed(*self.plain_typed(obj))

    def plain_typed(self, obj: Any) -> tuple[str, bytes]:
        """As `dumps_typed`, not compressed."""
        kind, data = super().dumps_typed(obj)
        return f"{kind}{_MARK}{zlib.crc32(data):08x}", data

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Decode what was stored; what was stored without a checksum is decoded as it is.

        Raises:
            Undecodable
        """
        with named():
            full_kind, plain = decompressed(without_key(data[0]), data[1])
            kind, mark, checksum = full_kind.partition(_MARK)
            if mark and f"{zlib.crc32(plain):08x}" != checksum:
                raise Undecodable("its bytes have changed since they were stored")
            return super().loads_typed((kind, plain))


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


def checksummed(kind: str, data: bytes) -> str | None:
    """The type with the checksum of these bytes in place of the one that it has; None if it has none."""
    name, mark, _ = without_key(kind).partition(_MARK)
    return f"{name}{mark}{zlib.crc32(data):08x}" if mark else None


def with_key(kind: str, key: Sequence[Any], kept: int | None = None) -> str:
    """The type of a stored value with a checksum of its row's key; `kept` is how many writes led to a checkpoint."""
    counted = "" if kept is None else f"{_KEPT}{kept}"
    return f"{without_key(kind)}{_KEY}{_key_checksum(counted, *key)}{counted}"


def without_key(kind: str) -> str:
    return kind.partition(_KEY)[0]


@dataclass(frozen=True)
class Counted:
    """How many writes led to a checkpoint; `whole` where those are counted, too, that are dropped in time."""

    writes: int = 0
    whole: bool = False


def check_key(kind: str, key: Sequence[Any]) -> Counted:
    """Make sure that a row has the key that it was stored under; returns how many writes led to it, 0 if unknown.

    Rows of older versions have no checksum of their key.

    Raises:
        Undecodable
    """
    _, mark, stored = kind.partition(_KEY)
    checksum, counted = stored[:_CHECKSUM_LENGTH], stored[_CHECKSUM_LENGTH:]
    if mark and _key_checksum(counted, *key) != checksum:
        raise Undecodable("its key has changed since it was stored")
    count = counted.rpartition(":")[2]
    return Counted(int(count), counted.startswith(_WRITES)) if count else Counted()


@lru_cache(maxsize=2048, typed=True)
def _key_checksum(counted: str, *key: Any) -> str:
    """Kept for the rows of a session that are read again every turn."""
    return f"{zlib.crc32((json.dumps(key) + counted).encode()):08x}"


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
        raise DamagedCheckpoint(thread_id, "it holds bytes that are no text") from error


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
