"""Long texts of a thread's state: each is stored once, and serialized state refers to it."""

import re
import sqlite3
import struct
import zlib
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

from langgraph.checkpoint.serde.base import SerializerProtocol

from ..ports import Decoded
from ..state.compression import Undecodable, compressed, decompressed
from ..state.serializer import CheckedSerializer, named, without_key

Texts = dict[bytes, bytes]
"""Texts in UTF-8 by their digests."""

_REFERS = "+texts"
"""Marks the type of state that refers to texts."""
_TEXT = re.compile(rb"\xda(..)|\xdb(....)", re.DOTALL)
"""How msgpack begins a text of more than 255 bytes: with its length."""
_LEAST = 256
_DIGEST_BYTES = 16
_COUNT = struct.Struct("<I")

_FIND = "SELECT text FROM texts WHERE thread_id = ? AND digest = ?"
_FIND_ANYWHERE = "SELECT text FROM texts WHERE digest = ? LIMIT 1"
_INSERT = "INSERT INTO texts (thread_id, digest, text) VALUES (?, ?, ?)"
_DELETE = "DELETE FROM texts WHERE thread_id = ? AND digest = ?"
_STATE = {"checkpoints": "checkpoint", "writes": "value"}
"""The tables of state, with the columns that hold it."""


class StateWriter(SerializerProtocol):
    """A serializer that takes long texts out of state; `put_texts` stores them in the same transaction."""

    def __init__(self, serde: CheckedSerializer) -> None:
        self._serde = serde
        self.texts: Texts = {}

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        return compressed(*self._referring(*self._serde.plain_typed(obj)))

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        return self._serde.loads_typed(data)

    def _referring(self, kind: str, data: bytes) -> tuple[str, bytes]:
        rest, texts = _parted(data) if len(data) > _LEAST and kind.startswith("msgpack") else (data, {})
        self.texts |= texts
        name, plus, checksum = kind.partition("+")
        return (f"{name}{_REFERS}{plus}{checksum}", rest) if texts else (kind, data)

    def rewritten(self, kind: str, data: bytes) -> tuple[str, bytes]:
        """The type and bytes of stored state with its long texts taken out, unless it refers to texts already."""
        if _REFERS in kind:
            return kind, data
        return compressed(*self._referring(*decompressed(without_key(kind), data)))


class StateReader(SerializerProtocol):
    """A serializer that puts the texts of a thread back into its state; without a thread, those of any."""

    def __init__(
        self,
        serde: SerializerProtocol,
        connection: sqlite3.Connection,
        thread_id: str | None,
        decoded: Decoded | None = None,
    ) -> None:
        self._serde = serde
        self._decoded = decoded
        self._connection = connection
        self._thread_id = thread_id
        self._known: Texts = {}

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        return self._serde.dumps_typed(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Decode what was stored.

        Raises:
            Undecodable
        """
        if self._decoded is None:
            return self._serde.loads_typed(self.whole(*data))
        stored = (without_key(data[0]), data[1])
        value = self._decoded.get(stored)
        if value is None:
            whole = self.whole(*stored)
            value = self._serde.loads_typed(whole)
            self._decoded.keep(stored, value, len(whole[1]))
        return value

    def whole(self, kind: str, data: bytes) -> tuple[str, bytes]:
        """The type and bytes of stored state, neither compressed nor referring to texts, without the key's checksum.

        Raises:
            Undecodable
        """
        with named():
            kind, plain = decompressed(without_key(kind), data)
        if _REFERS not in kind:
            return kind, plain
        gaps, digests, rest = _references(plain)
        parts, at = [], 0
        for gap, digest in zip(gaps, digests, strict=True):
            parts += [rest[at : at + gap], self._text(digest)]
            at += gap
        return kind.replace(_REFERS, ""), b"".join([*parts, rest[at:]])

    def _text(self, digest: bytes) -> bytes:
        if digest not in self._known:
            place = (_FIND_ANYWHERE, (digest,)) if self._thread_id is None else (_FIND, (self._thread_id, digest))
            row = self._connection.execute(*place).fetchone()
            if row is None:
                raise Undecodable("a text of it is missing")
            try:
                self._known[digest] = zlib.decompress(row[0])
            except (zlib.error, TypeError) as error:
                raise Undecodable("a text of it has changed since it was stored") from error
        return self._known[digest]


def put_texts(connection: sqlite3.Connection, thread_id: str, texts: Mapping[bytes, bytes]) -> None:
    """Store the texts that the thread does not have yet."""
    for digest, text in texts.items():
        if connection.execute(_FIND, (thread_id, digest)).fetchone() is None:
            connection.execute(_INSERT, (thread_id, digest, zlib.compress(text)))


def drop_unused_texts(connection: sqlite3.Connection, thread_id: str) -> None:
    """Delete the texts that no state of the thread refers to any more; none where some of it cannot be read."""
    used: set[bytes] = set()
    for table, column in _STATE.items():
        for kind, data in connection.execute(
            f"SELECT type, {column} FROM {table} WHERE thread_id = ? AND type LIKE '%{_REFERS}%'", (thread_id,)
        ):
            try:
                with named():
                    used.update(_references(decompressed(without_key(kind), data)[1])[1])
            except Undecodable:
                return
    stored = [row[0] for row in connection.execute("SELECT digest FROM texts WHERE thread_id = ?", (thread_id,))]
    connection.executemany(_DELETE, [(thread_id, digest) for digest in stored if digest not in used])


def _parted(data: bytes) -> tuple[bytes, Texts]:
    """State that refers to its long texts, and the texts: their number, gaps and digests, then all but the texts.

    A gap is how many bytes are between a text and the one before.

    What only looks like a text is at worst stored like one: put back together, the bytes are the same.
    """
    texts: Texts = {}
    gaps: list[int] = []
    digests: list[bytes] = []
    rest = bytearray()
    at = end = 0
    while found := _TEXT.search(data, at):
        begin = found.end()
        until = begin + int.from_bytes(found[1] or found[2], "big")
        text = data[begin:until]
        if until > len(data) or len(text) < _LEAST or not _is_text(text):
            at = found.start() + 1
            continue
        rest += data[end:begin]
        digest = blake2b(text, digest_size=_DIGEST_BYTES).digest()
        gaps.append(begin - end)
        digests.append(digest)
        texts[digest] = text
        at = end = until
    head = _COUNT.pack(len(gaps)) + struct.pack(f"<{len(gaps)}I", *gaps)
    return head + b"".join(digests) + bytes(rest) + data[end:], texts


def _references(data: bytes) -> tuple[Sequence[int], list[bytes], bytes]:
    """The gaps before and the digests of the texts that state refers to, and all of it but the texts.

    Raises:
        Undecodable
    """
    try:
        (count,) = _COUNT.unpack_from(data)
        gaps = struct.unpack_from(f"<{count}I", data, _COUNT.size)
    except struct.error as error:
        raise Undecodable("its bytes have changed since they were stored") from error
    begin = _COUNT.size * (1 + count)
    until = begin + _DIGEST_BYTES * count
    return gaps, [data[at : at + _DIGEST_BYTES] for at in range(begin, until, _DIGEST_BYTES)], data[until:]


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
