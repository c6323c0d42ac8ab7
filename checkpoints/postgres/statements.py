"""LangGraph's statements of a write, carried out in a transaction of ours."""

import copy
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, Self, cast

import psycopg
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata
from langgraph.checkpoint.postgres import PostgresSaver

from ..ports import Connection
from ..state.row_keys import drop_passed, sealed_checkpoint
from ..state.serializer import CheckedSerializer, key_checksum

_SERDE = CheckedSerializer(allowed_msgpack_modules=[])
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

    def __init__(self) -> None:
        super().__init__(cast(Any, None), serde=_SERDE)
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
            drop_passed(connection, (thread_id, ns, parent), metadata)

    def store(self, connection: RawConnection) -> list[tuple[Sequence[Any], str]]:
        """Execute what was collected, the keys of the rows sealed; returns the keys and metadata of checkpoints."""
        stored: list[tuple[Sequence[Any], str]] = []
        with connection.raw.cursor() as cursor:
            for statement, rows in self._collected:
                if "INTO checkpoints" in statement:
                    for *key, checkpoint, metadata in rows:
                        noted = json.dumps(metadata.obj)
                        sealed = sealed_checkpoint(connection, key, noted)
                        cursor.execute(statement.encode(), (*key, checkpoint, metadata, *sealed, self._values))
                        stored.append((key, noted))
                elif "INTO checkpoint_writes" in statement:
                    cursor.executemany(statement.encode(), [_sealed_write(row) for row in rows])
                else:
                    cursor.executemany(statement.encode(), rows)
        return stored


def _sealed_write(row: Sequence[Any]) -> Sequence[Any]:
    *place, _, idx, channel, _, _ = row
    return (*row, key_checksum(*place, idx, channel))


def _is_inline(value: Any) -> bool:
    """Whether a value is stored in the checkpoint itself."""
    if isinstance(value, str):
        return len(value) <= _MOST_INLINE and "\0" not in value and not any(map(_is_surrogate, value))
    return value is None or isinstance(value, int | float)


def _is_surrogate(character: str) -> bool:
    return "\ud800" <= character <= "\udfff"
