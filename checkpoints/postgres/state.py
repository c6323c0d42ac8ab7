"""The state of threads in LangGraph's PostgreSQL tables: checkpoints, and the values of their channels by version."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from ..ports import CheckpointRow, Decoded, Place, Stored, WriteRow
from ..state.compression import Undecodable, compressed, decompressed
from ..state.decoded import DecodedOnce
from ..state.serializer import CheckedSerializer, key_checksum, named
from .statements import RawConnection, Statements

_SERDE = CheckedSerializer(allowed_msgpack_modules=[])
# What the other tables call `writes` is LangGraph's table, whose values have another name here.
WRITES = """
    CREATE VIEW writes AS
    SELECT thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, blob AS value, checksum
    FROM checkpoint_writes
"""
# A checksum of each row's key; how many of the writes that led to a checkpoint are kept, and
# how many values of it are stored by themselves.
COLUMNS = """
    ALTER TABLE checkpoints
        ADD COLUMN kept_writes INTEGER, ADD COLUMN stored_values INTEGER, ADD COLUMN checksum BIGINT;
    ALTER TABLE checkpoint_writes ADD COLUMN checksum BIGINT
"""
_AT = "thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"
_CHECKPOINT = f"SELECT stored_values, checkpoint FROM checkpoints WHERE {_AT}"
_VALUES = """
    SELECT blobs.channel, blobs.type, blobs.blob
    FROM checkpoints
    CROSS JOIN jsonb_each_text(checkpoint -> 'channel_versions') AS versions
    JOIN checkpoint_blobs AS blobs ON blobs.thread_id = checkpoints.thread_id
        AND blobs.checkpoint_ns = checkpoints.checkpoint_ns
        AND blobs.channel = versions.key AND blobs.version = versions.value
    WHERE checkpoints.thread_id = ? AND checkpoints.checkpoint_ns = ? AND checkpoints.checkpoint_id = ?
"""
_PUT_WRITE = """
    INSERT INTO writes
        (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value, checksum)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_DROP_STEP = f"DELETE FROM writes WHERE {_AT} AND task_id = ?"
_DROP_INSIDE = "DELETE FROM {} WHERE thread_id = ? AND starts_with(checkpoint_ns, ?)"
_DROP_UNUSED = """
    DELETE FROM checkpoint_blobs WHERE thread_id = :thread AND (checkpoint_ns, channel, version) NOT IN (
        SELECT checkpoint_ns, versions.key, versions.value
        FROM checkpoints CROSS JOIN jsonb_each_text(checkpoint -> 'channel_versions') AS versions
        WHERE thread_id = :thread
    )
"""


class PostgresState:
    """The state of threads on a connection."""

    tables: ClassVar[tuple[str, ...]] = ("checkpoints", "writes", "checkpoint_blobs")

    def __init__(self, connection: RawConnection) -> None:
        self._connection = connection

    @contextmanager
    def view(self) -> Iterator[None]:
        with self._connection.raw.transaction():
            self._connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            yield

    def reader(
        self, serde: SerializerProtocol, thread_id: str | None, decoded: Decoded | None = None
    ) -> BaseCheckpointSaver[str]:
        return PostgresSaver(self._connection.raw, serde=serde if decoded is None else DecodedOnce(serde, decoded))

    def whole(self, thread_id: str, value: Stored) -> Stored:
        with named():
            return decompressed(value[0], bytes(value[1]))

    def checkpoint(self, place: Place) -> Stored:
        self.check_values(place)
        checkpoint = self._connection.execute(_CHECKPOINT, place).fetchone()["checkpoint"]
        values = dict(checkpoint["channel_values"])
        for channel, kind, data in self._connection.execute(_VALUES, place):
            value = _SERDE.loads_typed((kind, data))
            # A log that was stored whole at another checkpoint has the same version there; its own is marked.
            if channel in values or not isinstance(value, _DeltaSnapshot):
                values[channel] = value
        return _SERDE.plain_typed({**checkpoint, "channel_values": values})

    def check_values(self, place: Place) -> None:
        row = self._connection.execute(_CHECKPOINT, place).fetchone()
        if row is None:
            return
        found = len(self._connection.execute(_VALUES.replace("blobs.blob", "NULL"), place).fetchall())
        if found < (row["stored_values"] or 0):
            raise Undecodable("the value of a channel of it is missing")

    def put_checkpoint(self, thread_id: str, row: CheckpointRow) -> None:
        with named():
            checkpoint: Any = _SERDE.loads_typed(row.state)
        place = {"thread_id": thread_id, "checkpoint_ns": row.inside, "checkpoint_id": row.parent_id}
        statements = Statements()
        statements.put({"configurable": place}, checkpoint, json.loads(row.metadata), checkpoint["channel_versions"])
        statements.store(self._connection)

    def put_write(self, thread_id: str, row: WriteRow) -> None:
        if row.value is None:
            return
        place = (thread_id, row.inside, row.checkpoint_id, row.task_id)
        kind, data = compressed(*row.value)
        checksum = key_checksum(*place, row.idx, row.channel)
        self._connection.execute(_PUT_WRITE, (*place, row.task_path, row.idx, row.channel, kind, data, checksum))

    def drop_inside(self, thread_id: str, node: str) -> None:
        for table in self.tables:
            self._connection.execute(_DROP_INSIDE.format(table), (thread_id, f"{node}:"))

    def drop_step(self, thread_id: str, inside: str, checkpoint_id: str, step: str | bytes | None) -> None:
        self._connection.execute(_DROP_STEP, (thread_id, inside, checkpoint_id, step))

    def drop_unused(self, thread_id: str) -> None:
        self._connection.execute(_DROP_UNUSED, {"thread": thread_id})
