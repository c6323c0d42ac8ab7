"""The state of threads in LangGraph's PostgreSQL tables: checkpoints, and the values of their channels by version."""

import copy
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Protocol, Self, cast

import psycopg
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, ChannelVersions, Checkpoint, CheckpointMetadata
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from ..ports import CheckpointRow, Connection, Decoded, Place, Stored, WriteRow
from ..state.checksums import check_row, drop_superseded_writes, sealed_checkpoint, value_checksum
from ..state.serializer import (
    SERDE,
    DecodedOnce,
    Undecodable,
    compressed,
    decompressed,
    named,
)

_MOST_INLINE = 256
"""Characters of a text that is stored in the checkpoint itself."""


class RawConnection(Connection, Protocol):
    """A connection with psycopg's own, for statements of others."""

    @property
    def raw(self) -> "psycopg.Connection[Any]": ...


class Statements(PostgresSaver):
    """The statements that LangGraph's saver names for one write."""

    UPSERT_CHECKPOINTS_SQL = """
        INSERT INTO checkpoints (
            thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, checkpoint, metadata,
            kept_writes, checksum, stored_values
        )
        VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)
        ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id) DO UPDATE SET
            parent_checkpoint_id = EXCLUDED.parent_checkpoint_id, checkpoint = EXCLUDED.checkpoint,
            metadata = EXCLUDED.metadata, kept_writes = EXCLUDED.kept_writes, checksum = EXCLUDED.checksum,
            stored_values = EXCLUDED.stored_values
    """
    INSERT_CHECKPOINT_WRITES_SQL = """
        INSERT INTO checkpoint_writes
            (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, blob, checksum)
        VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
        ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id, task_id, idx) DO NOTHING
    """
    UPSERT_CHECKPOINT_WRITES_SQL = """
        INSERT INTO checkpoint_writes
            (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, blob, checksum)
        VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
        ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id, task_id, idx) DO UPDATE SET
            channel = EXCLUDED.channel, type = EXCLUDED.type, blob = EXCLUDED.blob, checksum = EXCLUDED.checksum
    """

    UPSERT_CHECKPOINT_BLOBS_SQL = """
        INSERT INTO checkpoint_blobs (thread_id, checkpoint_ns, channel, version, type, blob, checksum)
        VALUES (%s, %s, %s, %s, %s, %s, %s)
        ON CONFLICT (thread_id, checkpoint_ns, channel, version) DO NOTHING
    """

    def __init__(self) -> None:
        super().__init__(cast(Any, None), serde=SERDE)
        self._collected: list[tuple[str, Sequence[Sequence[Any]]]] = []
        self._values = 0

    def for_write(self) -> Self:
        """A copy for one write: LangGraph's initialisation would take longer than to collect the statements."""
        other = copy.copy(self)
        other._collected = []
        return other

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """As LangGraph, with the texts by themselves that are long, or that JSON in PostgreSQL cannot hold."""
        values = checkpoint["channel_values"]
        versioned = (value for name, value in values.items() if name in checkpoint["channel_versions"])
        self._values = sum(not _is_inline(value) for value in versioned)
        texts = {name: text for name, text in values.items() if isinstance(text, str) and not _is_inline(text)}
        others = {name: value for name, value in values.items() if name not in texts}
        place = config["configurable"]
        new = {name: version for name, version in new_versions.items() if name in texts}
        if new:
            rows = self._dump_blobs(place["thread_id"], place["checkpoint_ns"], texts, new)
            self.executemany(self.UPSERT_CHECKPOINT_BLOBS_SQL, rows)
        return super().put(config, {**checkpoint, "channel_values": others}, metadata, new_versions)

    @contextmanager
    def _cursor(self, *, pipeline: bool = False) -> Iterator[Any]:
        """This, in place of a cursor."""
        yield self

    def execute(self, statement: str, values: Sequence[Any]) -> None:
        self._collected.append((statement, [values]))

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        self._collected.append((statement, [*rows]))

    def run(self, connection: Connection) -> None:
        """Execute what was collected; what nobody reads any more of the writes before a checkpoint is deleted."""
        for key, metadata in self.store(cast(RawConnection, connection)):
            thread_id, ns, _, parent = key
            drop_superseded_writes(connection, (thread_id, ns, parent), metadata)

    def store(self, connection: RawConnection) -> list[tuple[Sequence[Any], str]]:
        """Execute what was collected, each row with its checksum; returns the keys and metadata of checkpoints."""
        stored: list[tuple[Sequence[Any], str]] = []
        with connection.raw.cursor() as cursor:
            for statement, rows in self._collected:
                if "INTO checkpoints" in statement:
                    for *key, checkpoint, metadata in rows:
                        noted = json.dumps(metadata.obj)
                        sealed = sealed_checkpoint(connection, key, noted, key[2], None)
                        cursor.execute(statement.encode(), (*key, checkpoint, metadata, *sealed, self._values))
                        stored.append((key, noted))
                elif "INTO checkpoint_writes" in statement:
                    cursor.executemany(statement.encode(), map(_sealed_write, rows))
                else:
                    cursor.executemany(statement.encode(), map(_sealed_value, rows))
        return stored


def _sealed_write(row: Sequence[Any]) -> Sequence[Any]:
    *place, _, idx, channel, kind, value = row
    return (*row, value_checksum((*place, idx, channel), kind, value))


def _sealed_value(row: Sequence[Any]) -> Sequence[Any]:
    *key, version, kind, value = row
    return (*row, value_checksum((*key, str(version)), kind, value))


def _is_inline(value: Any) -> bool:
    """Whether a value is stored in the checkpoint itself."""
    if isinstance(value, str):
        return len(value) <= _MOST_INLINE and "\0" not in value and not any(map(_is_surrogate, value))
    return value is None or isinstance(value, int | float)


def _is_surrogate(character: str) -> bool:
    return "\ud800" <= character <= "\udfff"


# What the other tables call `writes` is LangGraph's table, whose values have another name here.
WRITES = """
    CREATE VIEW writes AS
    SELECT thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, blob AS value, checksum
    FROM checkpoint_writes
"""
# A checksum of each row; how many of the writes that led to a checkpoint are kept, and how many values of it are
# stored by themselves.
COLUMNS = """
    ALTER TABLE checkpoints
        ADD COLUMN kept_writes INTEGER, ADD COLUMN stored_values INTEGER, ADD COLUMN checksum BIGINT;
    ALTER TABLE checkpoint_writes ADD COLUMN checksum BIGINT;
    ALTER TABLE checkpoint_blobs ADD COLUMN checksum BIGINT
"""
_AT = "thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"
_CHECKPOINT = f"SELECT stored_values, checkpoint FROM checkpoints WHERE {_AT}"
_VALUE_KEY = ("thread_id", "checkpoint_ns", "channel", "version")
_VALUES = """
    SELECT {}
    FROM checkpoints
    CROSS JOIN jsonb_each_text(checkpoint -> 'channel_versions') AS versions
    JOIN checkpoint_blobs AS blobs ON blobs.thread_id = checkpoints.thread_id
        AND blobs.checkpoint_ns = checkpoints.checkpoint_ns
        AND blobs.channel = versions.key AND blobs.version = versions.value
    WHERE checkpoints.thread_id = ? AND checkpoints.checkpoint_ns = ? AND checkpoints.checkpoint_id = ?
"""
_CONTENTS = _VALUES.format("blobs.channel, blobs.type, blobs.blob")
_CHECKED = _VALUES.format(
    f"{', '.join(f'blobs.{name}' for name in _VALUE_KEY)}, blobs.type AS kind, blobs.checksum,"
    " substr(blobs.blob, length(blobs.blob) - 7) AS ending"
)
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
    content: ClassVar[str] = "checkpoints.checkpoint ->> 'id' AS kind, NULL AS ending"

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
        for channel, kind, data in self._connection.execute(_CONTENTS, place):
            value = SERDE.loads_typed((kind, data))
            # A log that was stored whole at another checkpoint has the same version there; its own is marked.
            if channel in values or not isinstance(value, _DeltaSnapshot):
                values[channel] = value
        return SERDE.plain_typed({**checkpoint, "channel_values": values})

    def check_values(self, place: Place) -> None:
        row = self._connection.execute(_CHECKPOINT, place).fetchone()
        if row is None:
            return
        values = self._connection.execute(_CHECKED, place).fetchall()
        for value in values:
            check_row(value, _VALUE_KEY)
        if len(values) < (row["stored_values"] or 0):
            raise Undecodable("the value of a channel of it is missing")

    def put_checkpoint(self, thread_id: str, row: CheckpointRow) -> None:
        with named():
            checkpoint: Any = SERDE.loads_typed(row.state)
        place = {"thread_id": thread_id, "checkpoint_ns": row.inside, "checkpoint_id": row.parent_id}
        statements = Statements()
        statements.put({"configurable": place}, checkpoint, json.loads(row.metadata), checkpoint["channel_versions"])
        statements.store(self._connection)

    def put_write(self, thread_id: str, row: WriteRow) -> None:
        place = (thread_id, row.inside, row.checkpoint_id, row.task_id)
        values = _sealed_write((*place, row.task_path, row.idx, row.channel, *compressed(*row.value)))
        self._connection.execute(_PUT_WRITE, values)

    def drop_inside(self, thread_id: str, node: str) -> None:
        for table in self.tables:
            self._connection.execute(_DROP_INSIDE.format(table), (thread_id, f"{node}:"))

    def drop_step(self, thread_id: str, inside: str, checkpoint_id: str, step: str | bytes | None) -> None:
        self._connection.execute(_DROP_STEP, (thread_id, inside, checkpoint_id, step))

    def drop_unused(self, thread_id: str) -> None:
        self._connection.execute(_DROP_UNUSED, {"thread": thread_id})
