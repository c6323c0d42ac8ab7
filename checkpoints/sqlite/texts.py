"""Long texts of a thread's state: each is stored once, and serialized state refers to it."""

import zlib
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import ormsgpack
from langgraph.checkpoint.serde.base import SerializerProtocol

from ..ports import Connection, Decoded
from ..state.serializer import SERDE, TEXT, Undecodable, compressed, decompressed, named, rewritten, same

Texts = dict[bytes, bytes]
"""Texts in UTF-8 by their digests."""

_REFERS = "+texts"
"""Marks the type of state that refers to texts."""
_LEAST = 256
"""Bytes from which on a text is long."""
_DIGEST_BYTES = 16

_FIND = "SELECT text FROM texts WHERE thread_id = ? AND digest = ?"
_FIND_ANYWHERE = "SELECT text FROM texts WHERE digest = ? LIMIT 1"
_INSERT = "INSERT INTO texts (thread_id, digest, text) VALUES (?, ?, ?)"
_DELETE = "DELETE FROM texts WHERE thread_id = ? AND digest = ?"
_STATE = {"checkpoints": "checkpoint", "writes": "value"}
"""The tables of state, with the columns that hold it."""


class StateWriter(SerializerProtocol):
    """A serializer that takes long texts out of state; `put_texts` stores them in the same transaction."""

    def __init__(self) -> None:
        self.texts: Texts = {}

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        return compressed(*self._referring(*SERDE.plain_typed(obj)))

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        return SERDE.loads_typed(data)

    def _referring(self, kind: str, data: bytes) -> tuple[str, bytes]:
        if kind != "msgpack" or len(data) <= _LEAST:
            return kind, data
        texts: Texts = {}

        def refer(text: str) -> Any:
            plain = text.encode()
            if len(plain) < _LEAST:
                return text
            digest = blake2b(plain, digest_size=_DIGEST_BYTES).digest()
            texts[digest] = plain
            return ormsgpack.Ext(TEXT, digest)

        rest = rewritten(data, refer)
        self.texts |= texts
        return (kind + _REFERS, rest) if texts else (kind, data)

    def rewritten(self, kind: str, data: bytes) -> tuple[str, bytes]:
        """The type and bytes of a whole value as they are stored, with its long texts taken out."""
        return compressed(*self._referring(kind, data))


class StateReader(SerializerProtocol):
    """A serializer that puts the texts of a thread back into its state; without a thread, those of any."""

    def __init__(
        self,
        serde: SerializerProtocol,
        connection: Connection,
        thread_id: str | None,
        decoded: Decoded | None = None,
    ) -> None:
        self._serde = serde
        self._decoded = decoded
        self._connection = connection
        self._thread_id = thread_id
        self._known: dict[bytes, str] = {}

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        return self._serde.dumps_typed(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Decode what was stored.

        Raises:
            Undecodable
        """
        if self._decoded is None:
            return self._serde.loads_typed(self.whole(*data))
        value = self._decoded.get(data)
        if value is None:
            whole = self.whole(*data)
            value = self._serde.loads_typed(whole)
            self._decoded.keep(data, value, len(whole[1]))
        return value

    def whole(self, kind: str, data: bytes) -> tuple[str, bytes]:
        """The type and bytes of stored state, neither compressed nor referring to texts.

        Raises:
            Undecodable
        """
        with named():
            kind, plain = decompressed(kind, data)
            if not kind.endswith(_REFERS):
                return kind, plain
            return kind.removesuffix(_REFERS), rewritten(plain, same, text_of=self._text)

    def _text(self, digest: bytes) -> str:
        if digest not in self._known:
            place = (_FIND_ANYWHERE, (digest,)) if self._thread_id is None else (_FIND, (self._thread_id, digest))
            row = self._connection.execute(*place).fetchone()
            if row is None:
                raise Undecodable("a text of it is missing")
            try:
                text = zlib.decompress(row[0])
            except (zlib.error, TypeError) as error:
                raise Undecodable("a text of it has changed since it was stored") from error
            if blake2b(text, digest_size=_DIGEST_BYTES).digest() != digest:
                raise Undecodable("a text of it has changed since it was stored")
            self._known[digest] = text.decode()
        return self._known[digest]


def put_texts(connection: Connection, thread_id: str, texts: Mapping[bytes, bytes]) -> None:
    """Store the texts that the thread does not have yet."""
    for digest, text in texts.items():
        if connection.execute(_FIND, (thread_id, digest)).fetchone() is None:
            connection.execute(_INSERT, (thread_id, digest, zlib.compress(text)))


def drop_unused_texts(connection: Connection, thread_id: str) -> None:
    """Delete the texts that no state of the thread refers to any more; none where some of it cannot be read."""
    used: set[bytes] = set()
    for table, column in _STATE.items():
        for kind, data in connection.execute(
            f"SELECT type, {column} FROM {table} WHERE thread_id = ? AND type LIKE '%{_REFERS}%'", (thread_id,)
        ):
            try:
                with named():
                    used |= _references(decompressed(kind, data)[1])
            except Undecodable:
                return
    stored = [row[0] for row in connection.execute("SELECT digest FROM texts WHERE thread_id = ?", (thread_id,))]
    for digest in stored:
        if digest not in used:
            connection.execute(_DELETE, (thread_id, digest))


def _references(data: bytes) -> set[bytes]:
    """The digests of the texts that state refers to."""
    found: set[bytes] = set()

    def note(digest: bytes) -> str:
        found.add(digest)
        return ""

    rewritten(data, same, text_of=note)
    return found
