"""What a checkpoint's rows hold, decoded and checked, and checksums of the keys they are stored under."""

import contextlib
import json
import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from segue.core.errors import DamagedCheckpoint

from .compression import Undecodable, compressed, decompressed

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
    """LangGraph's serializer, with compression that has a checksum: a changed byte would go unnoticed."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        return compressed(*self.plain_typed(obj))

    def plain_typed(self, obj: Any) -> tuple[str, bytes]:
        """As `dumps_typed`, not compressed."""
        return super().dumps_typed(obj)

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


def check_key(stored: int | None, *key: Any) -> None:
    """Make sure that a row has the key that it was stored under; a row of another saver has no checksum.

    Raises:
        Undecodable
    """
    if stored is not None and stored != key_checksum(*key):
        raise Undecodable("its key has changed since it was stored")


@lru_cache(maxsize=2048, typed=True)
def key_checksum(*key: Any) -> int:
    """The checksum of a row's key; kept for the rows of a session that are read again every turn."""
    return zlib.crc32(json.dumps(key).encode())


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
