"""The rows of checkpoints and writes: their values, ids and checksums.

A row's checksum covers its key and the end of its value, which is the value's own checksum: two values that were
exchanged are noticed as well as a changed key.
"""

import contextlib
import json
import sqlite3
import struct
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import closing
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple, Self, cast
from uuid import UUID

import ormsgpack
from langgraph.checkpoint.base import Checkpoint, CheckpointMetadata, CheckpointTuple, DeltaChannelHistory
from langgraph.checkpoint.base import id as langgraph_ids
from langgraph.checkpoint.serde._msgpack import SAFE_MSGPACK_TYPES
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Interrupt, Overwrite

from segue.core.errors import ConfigurationError, DamagedCheckpoint

from .dictionary import DICTIONARY
from .ports import CheckpointRow, Connection, Decoded, Place, Row, Stored, WriteRow

# What the values of rows hold, compressed, decoded and checked.


class Undecodable(Exception):
    """Stored bytes are not what was written; the message names the symptom."""


DEFLATED = "+deflate"
"""Ends the type of a value that is stored compressed: without a header, with the dictionary, its checksum behind it."""
_END = struct.Struct("<II")
"""CRC-32 and size of what was compressed, as gzip ends."""
_LEVEL = 4
_WINDOW = 13
_MEMORY = 5
"""zlib's default window and memory take longer to allocate than most values take to compress."""


def deflated(data: bytes) -> bytes:
    """The data in zlib's format."""
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW, _MEMORY)
    return compressor.compress(data) + compressor.flush()


def compressed(kind: str, data: bytes) -> tuple[str, bytes]:
    """The type and bytes of a value as they are stored; what is compressed already, or nothing, stays as it is."""
    if kind == "null" or kind.endswith(DEFLATED):
        return kind, data
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, -_WINDOW, _MEMORY, zlib.Z_DEFAULT_STRATEGY, DICTIONARY)
    return kind + DEFLATED, compressor.compress(data) + compressor.flush() + _end(data)


def _end(data: bytes) -> bytes:
    return _END.pack(zlib.crc32(data), len(data) & 0xFFFFFFFF)


def decompressed(kind: str, data: bytes) -> tuple[str, bytes]:
    """The type and bytes of a stored value as they were before they were compressed."""
    if not kind.endswith(DEFLATED):
        return kind, data
    decompressor = zlib.decompressobj(-_WINDOW, DICTIONARY)
    try:
        plain = decompressor.decompress(data)
    except zlib.error as error:
        raise Undecodable("its bytes have changed since they were stored") from error
    if not decompressor.eof or decompressor.unused_data != _end(plain):
        raise Undecodable("its bytes have changed since they were stored")
    return kind.removesuffix(DEFLATED), plain


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
        self._restored = set[type]()
        self._build = self._unpack_ext_hook
        self._unpack_ext_hook = self._built

    def keep(self, types: Iterable[type], graphs: Iterable[str]) -> None:
        """From now on, know these types, and check what these graphs store."""
        self._checked |= {*graphs}
        names = self._names | {(each.__module__, each.__name__) for each in types}
        if names != self._names:
            self._names = names
            self._restored.clear()
            self._build = JsonPlusSerializer(allowed_msgpack_modules=names)._unpack_ext_hook

    def _built(self, code: int, data: bytes) -> Any:
        is_known = code > _LAST_WITH_TYPE or _type_in(data) in self._names
        return self._build(code, data) if is_known else ormsgpack.Ext(code, bytes(data))

    def checks(self, inside: str) -> bool:
        """Whether the values of the graph in this namespace are to be checked."""
        return inside.partition(":")[0] in self._checked

    def check(self, value: Any) -> None:
        """Refuse a value that could not be read again as what it is."""
        waiting = [value]
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
                self._check_restored(each)
                if is_dataclass(each):
                    waiting += (getattr(each, part.name) for part in fields(each))

    def _check_restored(self, value: Any) -> None:
        """Refuse a value whose type is another one once it is read again; each type is tried once."""
        kind = type(value)
        name = (kind.__module__, kind.__name__)
        if name in SAFE_MSGPACK_TYPES or kind in self._restored:
            return
        if type(self.loads_typed(self.plain_typed(value))) is kind:
            return self._restored.add(kind)
        about = f"{kind.__module__}.{kind.__qualname__}"
        if name in self._names:
            raise ConfigurationError(
                "The state of a mode has a value of the type {type}, which LangGraph does not restore as such: keep "
                "its parts in the state.",
                type=about,
            )
        raise ConfigurationError(
            "The state of a mode has a value of the type {type}, which another process could not restore: "
            "name the type in the annotation of the state.",
            type=about,
        )

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        return compressed(*self.plain_typed(obj))

    def plain_typed(self, obj: Any) -> tuple[str, bytes]:
        """As `dumps_typed`, not compressed."""
        if isinstance(obj, Encoded):
            return obj.kind, obj.data
        try:
            return super().dumps_typed(obj)
        except TypeError as error:
            raise ConfigurationError(
                "A graph has a value that cannot be stored ({reason}): keep it out of the state, of interrupts and of "
                "results, or store its parts.",
                reason=error,
            ) from error

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Decode what was stored; what is not compressed is decoded as it is."""
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
    """Name the error of bytes that cannot be decoded."""
    try:
        yield
    except _UNREADABLE as error:
        raise Undecodable(f"it cannot be decoded: {type(error).__name__}") from error


def is_garbled(error: sqlite3.Error) -> bool:
    """Whether the error means a malformed value in a file; SQLite has no error code for it, only a message."""
    return isinstance(error, sqlite3.OperationalError) and str(error).startswith(_GARBLED)


@contextlib.contextmanager
def decoding(thread_id: str) -> Iterator[None]:
    """Turn what is wrong with stored bytes into a sentence; trouble with the database stays what it is."""
    try:
        yield
    except UnicodeEncodeError:
        raise  # a name that no row has
    except Undecodable as error:
        raise DamagedCheckpoint(thread_id, str(error)) from error
    except _MALFORMED as error:
        raise DamagedCheckpoint(thread_id, f"it is malformed: {type(error).__name__}") from error
    except sqlite3.OperationalError as error:
        if not is_garbled(error):
            raise
        raise DamagedCheckpoint(thread_id, "it contains bytes that are not text") from error


def check_form(found: CheckpointTuple) -> None:
    """Make sure that what was decoded is a checkpoint, and the one that it is filed as."""
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


# Order of checkpoint ids, which are times, and of channels' versions: the greatest one is the newest.

_EPOCH = 0x01B21DD213814000
"""1970 in the time of an id, which counts 100 ns from 1582."""
_SECOND = 10_000_000
AHEAD = 86_400.0
"""Seconds that another machine's clock may be ahead."""
VERSION_DIGITS = 8
"""Of a channel's version at least: versions are compared as text."""


def follow(checkpoint_id: str) -> None:
    """Let the next ids of this process come after this one.

    The clock of another machine, or of this one before it was set back, may have been ahead.
    """
    ids: Any = langgraph_ids
    with contextlib.suppress(ValueError):  # another saver's id
        ids._last_v6_timestamp = max(ids._last_v6_timestamp or 0, _time_of(UUID(checkpoint_id)))


def is_plausible(checkpoint_id: str) -> bool:
    """Whether LangGraph may have made an id by now."""
    try:
        found = UUID(checkpoint_id)
    except ValueError:
        return False
    return found.version == 6 and _time_of(found) < _EPOCH + int((time.time() + AHEAD) * _SECOND)


def seconds_of(checkpoint_id: str) -> float:
    """When a checkpoint was made, in Unix seconds."""
    return (_time_of(UUID(checkpoint_id)) - _EPOCH) / _SECOND


def next_version(current: str | None, branch: str = "") -> str:
    """The version of a channel after another one, as text that sorts after it; `branch` keeps branches apart."""
    number, _, _ = str(current or "0").partition(".")
    digits = max(len(number), VERSION_DIGITS)
    return f"{int(number) + 1:0{digits}}{'.' if branch else ''}{branch}"


def _time_of(found: UUID) -> int:
    """The time of an id of version 6: RFC 9562, section 5.6."""
    return (found.int >> 80) << 12 | (found.int >> 64 & 0xFFF)


# Checksums of the rows of checkpoints and writes: stored with a row, compared when it is read.

CHECKPOINT_KEY = ("thread_id", "checkpoint_ns", "checkpoint_id", "parent_checkpoint_id", "kept_writes")
WRITE_KEY = ("thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "idx", "channel")
WRITE_COLUMNS = f"{', '.join(WRITE_KEY)}, type AS kind, substr(value, length(value) - 7) AS ending, checksum"
"""What `check_row` reads of a write."""
RETAINED = 12
"""So many newest checkpoints of a thread's own graph keep all writes upon them: those of two turns."""
NEXT = "segue_next"
"""In a checkpoint's metadata the nodes that run next; older checkpoints have what was written to their channels."""
BRANCH = "branch:to:"
"""How LangGraph's channels begin that make a node run next."""
SENT = "__pregel_tasks"
"""LangGraph's channel of nodes that are sent their own input."""
_INPUT_TASK = "00000000-0000-0000-0000-000000000000"
"""LangGraph's task of what came from outside: it is applied again where LangGraph goes back to the checkpoint."""

_HALF = 0x7FFFFFFF

_AT = "thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"
_CHANNELS = f"SELECT channel FROM writes WHERE {_AT}"
_DROP = f"DELETE FROM writes WHERE {_AT} AND task_id <> ? AND channel <> '{SENT}' AND channel NOT IN ({{}})"
_BUT_BRANCHES = f" AND substr(channel, 1, {len(BRANCH)}) <> '{BRANCH}'"
_NEWEST = f"""
    WITH RECURSIVE newest(id, parent, place) AS (
        SELECT checkpoint_id, parent_checkpoint_id, 1 FROM checkpoints
        WHERE thread_id = :thread AND checkpoint_ns = :ns AND checkpoint_id = :parent
        UNION ALL
        SELECT checkpoint_id, parent_checkpoint_id, place + 1 FROM newest CROSS JOIN checkpoints
        WHERE thread_id = :thread AND checkpoint_ns = :ns AND checkpoint_id = newest.parent AND place < {RETAINED}
    )
    SELECT id FROM newest ORDER BY place
"""
_METADATA = f"SELECT CAST(metadata AS TEXT) FROM checkpoints WHERE {_AT}"
_CHECKPOINT_COLUMNS = ", ".join(f"checkpoints.{name}" for name in (*CHECKPOINT_KEY, "checksum"))
_METADATA_COLUMN = "CAST(checkpoints.metadata AS TEXT) AS metadata"
_CHECKPOINT = f"SELECT {_CHECKPOINT_COLUMNS}, {{content}}, {_METADATA_COLUMN} FROM checkpoints WHERE {_AT}"
_IS_THERE = f"SELECT 1 FROM checkpoints WHERE {_AT}"
_CHECKPOINTS = f"SELECT {_CHECKPOINT_COLUMNS}, {{content}} FROM checkpoints WHERE thread_id = ?"
_WRITES = f"SELECT {WRITE_COLUMNS} FROM writes WHERE thread_id = ?"
_WRITES_UPON = f"{_WRITES} AND checkpoint_ns = ? AND checkpoint_id IN ({{}})"
_PAGE = 64
"""Checkpoints of a chain that are read at once."""
_CHAIN = f"""
    WITH RECURSIVE chain({", ".join(CHECKPOINT_KEY)}, checksum, kind, ending, metadata, place) AS (
        SELECT {_CHECKPOINT_COLUMNS}, {{content}}, {_METADATA_COLUMN}, 1 FROM checkpoints
        WHERE thread_id = :thread AND checkpoint_ns = :ns AND checkpoint_id = :id
        UNION ALL
        SELECT {_CHECKPOINT_COLUMNS}, {{content}}, {_METADATA_COLUMN}, place + 1 FROM chain CROSS JOIN checkpoints
        WHERE checkpoints.thread_id = :thread AND checkpoints.checkpoint_ns = :ns
            AND checkpoints.checkpoint_id = chain.parent_checkpoint_id AND place < {_PAGE}
    )
    SELECT * FROM chain
"""
# A newer one that is there was added since the thread was read.
_LATER = """
    SELECT checkpoint_id FROM writes
    WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id > ? AND NOT EXISTS (
        SELECT 1 FROM checkpoints
        WHERE (checkpoints.thread_id, checkpoints.checkpoint_ns, checkpoints.checkpoint_id)
            = (writes.thread_id, writes.checkpoint_ns, writes.checkpoint_id)
    ) LIMIT 1
"""


_as_json = json.JSONEncoder().encode


def row_checksum(key: Sequence[Any], kind: str | None, ending: object) -> int:
    """The checksum of a row with this key, and a value of this kind that ends with these bytes.

    Its upper half is that of the key alone: a row that nobody needs the value of is only checked for being in place.
    """
    end = ending if isinstance(ending, bytes) else str(ending or "").encode()
    own = _key_checksum(*key)
    return (own & _HALF) << 32 | zlib.crc32(end, zlib.crc32(str(kind).encode(), own))


def value_checksum(key: Sequence[Any], kind: str, value: bytes | None) -> int:
    """The checksum of a row that holds a value as it is stored: compressed, its own checksum at the end."""
    return row_checksum(key, kind, (value or b"")[-8:])


@lru_cache(maxsize=2048, typed=True)
def _key_checksum(*key: Any) -> int:
    """Kept for the rows of a session that are read again every turn."""
    return zlib.crc32(_as_json(key).encode())


def has_own_value(row: Row, key: Sequence[str]) -> bool:
    """Whether a row holds what was stored under its key; one of another saver has no checksum."""
    stored = row["checksum"]
    return stored is None or stored == row_checksum([row[name] for name in key], row["kind"], row["ending"])


def check_key(row: Row, key: Sequence[str]) -> None:
    """Make sure that a row has the key that it was stored under."""
    stored = row["checksum"]
    if stored is not None and stored >> 32 != _key_checksum(*(row[name] for name in key)) & _HALF:
        raise Undecodable("its key has changed since it was stored")


def check_row(row: Row, key: Sequence[str]) -> None:
    """Make sure that a row holds what was stored under its key."""
    check_key(row, key)
    if not has_own_value(row, key):
        raise Undecodable("a value of it is not the one that was stored there")


def sealed_checkpoint(
    connection: Connection,
    key: Sequence[Any],
    metadata: str,
    kind: str,
    ending: object,
    kept: int | None = None,
) -> tuple[int, int]:
    """The columns `kept_writes` and `checksum` of a checkpoint, which is stored after the writes that led to it.

    `kept` of them are read once it is stored: it is looked up where it is not known.
    """
    if kept is None:
        kept = _kept_writes(connection, key, metadata)
    return kept, row_checksum((*key, kept), kind, ending)


def _kept_writes(connection: Connection, key: Sequence[Any], metadata: str) -> int:
    """How many of the writes that led to a checkpoint are read once it is stored."""
    thread_id, ns, _, parent = key
    if parent is None:
        return 0
    read = _Read.of(metadata)
    rows = connection.execute(_CHANNELS, (thread_id, ns, parent)).fetchall()
    return len([row for row in rows if read.has(row["channel"])])


def drop_superseded_writes(connection: Connection, key: Sequence[Any], metadata: str, kept: int | None) -> None:
    """Delete what nobody reads any more of the writes before a checkpoint, which has this CHECKPOINT_KEY.

    In a thread's own graph they are those that are RETAINED checkpoints back: a recovery that goes back less far
    applies them again. In a nested graph they are those upon the parent, unless the checkpoint has `kept` ones.
    """
    thread_id, ns, _, parent = key
    if not parent or (ns and kept is not None):
        return
    if ns:
        _drop_writes(connection, (thread_id, ns, parent), metadata)
        return
    newest = connection.execute(_NEWEST, {"thread": thread_id, "ns": ns, "parent": parent}).fetchall()
    if len(newest) == RETAINED:
        (after,), (passed,) = newest[-2:]
        noted = connection.execute(_METADATA, (thread_id, ns, after)).fetchone()[0]
        _drop_writes(connection, (thread_id, ns, passed), noted)


def _drop_writes(connection: Connection, place: Place, metadata: str) -> None:
    read = _Read.of(metadata)
    logs = sorted(read.logs) or [""]
    statement = _DROP.format(", ".join("?" * len(logs))) + (_BUT_BRANCHES if read.branches else "")
    connection.execute(statement, (*place, _INPUT_TASK, *logs))


def check_newest(connection: Connection, place: Place) -> None:
    """Make sure that no newer checkpoint of the thread was lost: nothing was written upon one."""
    if row := connection.execute(_LATER, place).fetchone():
        raise Undecodable(f"its newest checkpoint {row[0]} is missing")


def check_checkpoint(connection: Connection, place: Place) -> None:
    """Check a checkpoint and what was written upon it, and that its parent is there."""
    if row := _row(connection, place):
        check_row(row, CHECKPOINT_KEY)
        connection.state.check_values(place)
        for write in _writes_upon(connection, place, [place[2]]).get(place[2], ()):
            check_row(write, WRITE_KEY)
        _check_parent(connection, row)


def check_alone(connection: Connection, place: Place) -> None:
    """Check the row of a checkpoint."""
    if row := _row(connection, place):
        check_row(row, CHECKPOINT_KEY)


def check_chain(connection: Connection, place: Place, logs: Collection[str]) -> None:
    """As `check_checkpoint`, for each checkpoint from which logs are rebuilt: back to where each was stored whole."""
    if chain := _chain(connection, place, logs):
        connection.state.check_values((*place[:2], chain[-1].row["checkpoint_id"]))
        _check_parent(connection, chain[-1].row)


def rebuilt_from(connection: Connection, place: Place) -> list[str]:
    """A checkpoint and those before it that its logs are rebuilt from: back to where each was stored whole."""
    row = _row(connection, place)
    if row is None:
        return [place[2]]
    logs = logs_of(row["metadata"])
    chain = _chain(connection, place, logs)
    if not chain[-1].logs.isdisjoint(logs):
        _check_parent(connection, chain[-1].row)
    return [link.row["checkpoint_id"] for link in chain]


class _Link(NamedTuple):
    """A checkpoint of a chain, and the logs that are not stored whole in it."""

    row: Row
    logs: Set[str]


def _chain(connection: Connection, place: Place, logs: Collection[str]) -> list[_Link]:
    """A checkpoint and those before it that are there, to the first with all logs; what led to each is checked."""
    chain: list[_Link] = []
    begin: str | None = place[2]
    while begin is not None:
        page = _page(connection, (*place[:2], begin), logs)
        _check_links(connection, place, [*chain[-1:], *page])
        chain += page
        more = len(page) == _PAGE and not page[-1].logs.isdisjoint(logs)
        begin = page[-1].row["parent_checkpoint_id"] if more else None
    return chain


def _page(connection: Connection, place: Place, logs: Collection[str]) -> list[_Link]:
    """A part of a chain, in which each row leads to the next; SQLite reads only one beyond its end."""
    page: list[_Link] = []
    statement = _CHAIN.format(content=connection.state.content)
    with closing(connection.execute(statement, dict(zip(("thread", "ns", "id"), place, strict=True)))) as rows:
        for row in rows:
            page.append(_Link(row, logs_of(row["metadata"])))
            if page[-1].logs.isdisjoint(logs):
                break
    return page


def _check_links(connection: Connection, place: Place, chain: Sequence[_Link]) -> None:
    """Check each checkpoint but the last one, with what was written upon the one before it."""
    parents = [link.row["checkpoint_id"] for link in chain[1:]]
    written = _writes_upon(connection, place, parents)
    for link, parent_id in zip(chain, parents, strict=False):
        _check_link(link, written.get(parent_id, ()))


def check_thread(connection: Connection, thread_id: str) -> None:
    """Check the keys of all rows of a thread."""
    for row in connection.execute(_CHECKPOINTS.format(content=connection.state.content), (thread_id,)):
        check_key(row, CHECKPOINT_KEY)
    for row in connection.execute(_WRITES, (thread_id,)):
        check_key(row, WRITE_KEY)


class _Read(NamedTuple):
    """The channels whose writes are read once the checkpoint after them is stored.

    Logs are rebuilt from the writes to them, and the others tell which nodes ran, unless the checkpoint does.
    """

    logs: Set[str]
    branches: bool

    @classmethod
    def of(cls, metadata: str) -> Self:
        """By the metadata of the checkpoint; no logs where those are malformed."""
        try:
            form = json.loads(metadata or "{}")
        except ValueError:
            form = {}
        return cls.after(form if isinstance(form, Mapping) else {})

    @classmethod
    def after(cls, metadata: Mapping[str, Any]) -> Self:
        """As `of`, of metadata that are not stored yet."""
        counted = metadata.get("counters_since_delta_snapshot")
        return cls(counted.keys() if isinstance(counted, Mapping) else set(), NEXT not in metadata)

    def has(self, channel: str) -> bool:
        """Whether the writes to a channel are read."""
        return channel in self.logs or channel == SENT or (self.branches and channel.startswith(BRANCH))


def logs_of(metadata: str) -> Set[str]:
    """The logs that are not stored whole in a checkpoint, by its metadata; none where those are malformed."""
    return _Read.of(metadata).logs


def writes_read_after(writes: Sequence[tuple[str, Any]], metadata: Mapping[str, Any]) -> Sequence[tuple[str, Any]]:
    """What is read of writes once the checkpoint after them is stored, which has these metadata."""
    read = _Read.after(metadata)
    return [each for each in writes if read.has(each[0])]


def writes_kept_after(
    writes: Sequence[tuple[str, Any]], task_id: str, place: Place, metadata: Mapping[str, Any]
) -> Sequence[tuple[str, Any]]:
    """What a task wrote upon a checkpoint, without what `drop_superseded_writes` deletes with the one after it."""
    return writes_read_after(writes, metadata) if place[1] and task_id != _INPUT_TASK else writes


def naming_next(metadata: CheckpointMetadata, checkpoint: Checkpoint) -> CheckpointMetadata:
    """The metadata of a checkpoint with the nodes that run next, if it ends a step."""
    updated = checkpoint.get("updated_channels")
    if metadata.get("source") != "loop" or updated is None:
        return metadata
    sent = [each.node for each in checkpoint["channel_values"].get(SENT, ())]
    return cast(CheckpointMetadata, {**metadata, NEXT: [*sent, *nodes_triggered(updated)]})


def nodes_triggered(channels: Iterable[str]) -> list[str]:
    """The nodes that run next because of what was written to these channels."""
    return [name.removeprefix(BRANCH) for name in dict.fromkeys(channels) if name.startswith(BRANCH)]


def _row(connection: Connection, place: Place) -> Row | None:
    return next(iter(connection.fetched(_CHECKPOINT.format(content=connection.state.content), place)), None)


def _check_parent(connection: Connection, row: Row) -> None:
    """Check a checkpoint with what was written upon the one before it, which must be there."""
    place, parent_id = (row["thread_id"], row["checkpoint_ns"]), row["parent_checkpoint_id"]
    check_row(row, CHECKPOINT_KEY)
    if parent_id is None:
        return
    if not connection.execute(_IS_THERE, (*place, parent_id)).fetchone():
        raise Undecodable(f"it builds on checkpoint {parent_id}, which is missing")
    written = _writes_upon(connection, (*place, parent_id), [parent_id])
    _check_link(_Link(row, logs_of(row["metadata"])), written.get(parent_id, ()))


def _check_link(link: _Link, writes: Sequence[Row]) -> None:
    """Check a checkpoint, and that all is there that it needs of what was written upon the one before."""
    check_row(link.row, CHECKPOINT_KEY)
    for write in writes:
        (check_row if write["channel"] in link.logs else check_key)(write, WRITE_KEY)
    read = _Read.of(link.row["metadata"])
    kept = [write for write in writes if read.has(write["channel"])]
    if len(kept) < (link.row["kept_writes"] or 0):
        raise Undecodable(f"a part of what was written upon checkpoint {link.row['parent_checkpoint_id']} is missing")


def _writes_upon(connection: Connection, place: Place, ids: Sequence[str]) -> dict[str, list[Row]]:
    """What was written upon checkpoints of a thread, by their ids."""
    found: dict[str, list[Row]] = {}
    if ids:
        statement = _WRITES_UPON.format(", ".join("?" * len(ids)))
        for row in connection.execute(statement, (*place[:2], *ids)):
            found.setdefault(row["checkpoint_id"], []).append(row)
    return found


# The rows of LangGraph's checkpoints and writes, whichever database stores them.

DAMAGED: Stored = ("damaged", b"")
"""In place of a value that is not what was stored: a copy of it is not taken for a sound one."""

_ALL_CHECKPOINTS = f"""
    SELECT {", ".join(CHECKPOINT_KEY)}, checksum, CAST(metadata AS TEXT) AS metadata, {{content}}
    FROM checkpoints WHERE thread_id = ? ORDER BY checkpoint_id
"""
_ALL_WRITES = f"""
    SELECT {WRITE_COLUMNS}, task_path, value FROM writes WHERE thread_id = ? ORDER BY checkpoint_id, task_id, idx
"""


def checkpoint_rows(connection: Connection, thread_id: str) -> Iterator[CheckpointRow]:
    """The checkpoints of a thread, oldest first; of one that cannot be read the bytes as they are, where possible."""
    statement = _ALL_CHECKPOINTS.format(content=connection.state.content)
    for row in connection.execute(statement, (thread_id,)).fetchall():
        inside, checkpoint_id = row["checkpoint_ns"], row["checkpoint_id"]
        sound = has_own_value(row, CHECKPOINT_KEY)
        state = connection.state.checkpoint((thread_id, inside, checkpoint_id)) if sound else DAMAGED
        yield CheckpointRow(inside, checkpoint_id, row["parent_checkpoint_id"], state, row["metadata"])


def write_rows(connection: Connection, thread_id: str) -> Iterator[WriteRow]:
    """What was written upon the checkpoints of a thread."""
    for row in connection.execute(_ALL_WRITES, (thread_id,)).fetchall():
        kind, data = row["kind"], row["value"]
        sound = has_own_value(row, WRITE_KEY) and kind is not None and data is not None
        value = connection.state.whole(thread_id, (kind, data)) if sound else DAMAGED
        place, step = (row["checkpoint_ns"], row["checkpoint_id"]), (row["task_id"], row["task_path"])
        yield WriteRow(*place, *step, row["idx"], row["channel"], value)


def put_rows(
    connection: Connection, thread_id: str, checkpoints: Iterable[CheckpointRow], writes: Iterable[WriteRow]
) -> None:
    """Store the state of a thread that has none."""
    for write in writes:
        connection.state.put_write(thread_id, write)
    for checkpoint in checkpoints:
        connection.state.put_checkpoint(thread_id, checkpoint)


def delete_rows(connection: Connection, thread_id: str) -> int:
    """Delete the state of a thread; returns how many rows it had."""
    statements = (f"DELETE FROM {table} WHERE thread_id = ?" for table in connection.state.tables)
    return sum(connection.execute(statement, (thread_id,)).rowcount for statement in statements)


def decoded_checkpoint(connection: Connection, serde: SerializerProtocol, place: Place) -> dict[str, Any]:
    check_alone(connection, place)
    found: dict[str, Any] = serde.loads_typed(connection.state.checkpoint(place))
    return found


_NEWEST_IDS = "SELECT checkpoint_ns, max(checkpoint_id) FROM checkpoints WHERE thread_id = ? GROUP BY checkpoint_ns"
_IDS = "SELECT checkpoint_ns, checkpoint_id FROM checkpoints WHERE thread_id = ?"
_ALL_METADATA = "SELECT thread_id, checkpoint_ns, checkpoint_id, CAST(metadata AS TEXT) FROM checkpoints"
_METADATA_OF_THREAD = f"{_ALL_METADATA} WHERE thread_id = ?"
_DELETE = "DELETE FROM {} WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"
# The parent of a checkpoint that was the first to be kept, or whose run stays.
_WITHOUT_PARENT = """
    SELECT checkpoint_ns, checkpoint_id, CAST(metadata AS TEXT) AS metadata, {content}
    FROM checkpoints WHERE thread_id = ? AND parent_checkpoint_id IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM checkpoints AS parent
        WHERE (parent.thread_id, parent.checkpoint_ns, parent.checkpoint_id)
            = (checkpoints.thread_id, checkpoints.checkpoint_ns, checkpoints.parent_checkpoint_id)
    )
"""
_BEGIN = """
    UPDATE checkpoints SET parent_checkpoint_id = NULL, kept_writes = ?, checksum = ?
    WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?
"""


def copy_thread(connection: Connection, source: str, target: str) -> None:
    """Copy the state of a thread to one that has none."""
    with decoding(source):
        check_thread(connection, source)
        put_rows(connection, target, checkpoint_rows(connection, source), write_rows(connection, source))


def keep_newest(connection: Connection, thread_id: str) -> None:
    """Delete all checkpoints but the newest of each graph, and those that its logs are rebuilt from."""
    with decoding(thread_id):
        check_thread(connection, thread_id)
        newest = connection.execute(_NEWEST_IDS, (thread_id,)).fetchall()
        kept = {(ns, each) for ns, newest_id in newest for each in rebuilt_from(connection, (thread_id, ns, newest_id))}
    for ns, checkpoint_id in connection.execute(_IDS, (thread_id,)).fetchall():
        if (ns, checkpoint_id) not in kept:
            _delete_checkpoint(connection, (thread_id, ns, checkpoint_id))
    _begin_thread(connection, thread_id)


def delete_runs(
    connection: Connection, run_ids: Collection[str], check: Callable[[Connection, str], None], thread_id: str = ""
) -> None:
    """Delete the checkpoints that runs made, in one thread or in every one; `check` is called with each."""
    noted = connection.execute(_METADATA_OF_THREAD, (thread_id,)) if thread_id else connection.execute(_ALL_METADATA)
    found = [tuple(place) for *place, metadata in noted.fetchall() if _run_of(metadata) in run_ids]
    threads = sorted({owner for owner, _, _ in found})
    for owner in threads:
        check(connection, owner)
        with decoding(owner):
            check_thread(connection, owner)
    for place in found:
        _delete_checkpoint(connection, place)
    for owner in threads:
        if any(logs_of(row["metadata"]) for row in _without_parent(connection, owner)):
            raise ValueError(
                f"Later checkpoints of thread {owner!r} are rebuilt from those of the runs: delete or prune it."
            )
        _begin_thread(connection, owner)


def _run_of(metadata: str) -> str | None:
    try:
        run: str | None = json.loads(metadata).get("run_id")
    except (ValueError, AttributeError):
        return None
    return run


def _delete_checkpoint(connection: Connection, place: tuple[str, ...]) -> None:
    for table in ("writes", "checkpoints"):
        connection.execute(_DELETE.format(table), place)


def _without_parent(connection: Connection, thread_id: str) -> list[Row]:
    return connection.execute(_WITHOUT_PARENT.format(content=connection.state.content), (thread_id,)).fetchall()


def _begin_thread(connection: Connection, thread_id: str) -> None:
    """Make checkpoints whose parents were deleted the first of their graphs."""
    for row in _without_parent(connection, thread_id):
        key = (thread_id, row["checkpoint_ns"], row["checkpoint_id"])
        sealed = sealed_checkpoint(connection, (*key, None), row["metadata"], row["kind"], row["ending"])
        connection.execute(_BEGIN, (*sealed, *key))
    connection.state.drop_unused(thread_id)
