"""The rows of LangGraph's checkpoints and writes, whichever database stores them."""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.base import SerializerProtocol

from ..connection import Connection
from .decoded import DecodedValues

Place = tuple[str, str, str]
"""A checkpoint: its thread, namespace and id."""
Stored = tuple[str, bytes]
"""The type and the bytes of a stored value."""

_CHECKPOINTS = """
    SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id, CAST(metadata AS TEXT) AS metadata
    FROM checkpoints WHERE thread_id = ? ORDER BY checkpoint_id
"""
_WRITES = """
    SELECT checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value
    FROM writes WHERE thread_id = ? ORDER BY checkpoint_id, task_id, idx
"""


@dataclass(frozen=True)
class CheckpointRow:
    """A checkpoint of a thread, serialized with the values of its channels; `metadata` is JSON."""

    inside: str
    checkpoint_id: str
    parent_id: str | None
    state: Stored
    metadata: str


@dataclass(frozen=True)
class WriteRow:
    """What a node wrote to a channel; nothing at all where neither its type nor its bytes are known."""

    inside: str
    checkpoint_id: str
    task_id: str
    task_path: str
    idx: int
    channel: str
    value: Stored | None


class State(Protocol):
    """The state of threads on a connection: what LangGraph's savers store differently.

    Each has the tables `checkpoints` and `writes`, with keys, parents, types and metadata in columns of these names.
    """

    tables: ClassVar[tuple[str, ...]]
    """Those with rows of a thread."""

    def view(self) -> AbstractContextManager[None]:
        """Read from the database as it is at the first statement."""
        ...

    def reader(
        self, serde: SerializerProtocol, thread_id: str | None, decoded: DecodedValues | None = None
    ) -> BaseCheckpointSaver[str]:
        """LangGraph's synchronous saver over the connection; without a thread it reads those of all."""
        ...

    def whole(self, thread_id: str, value: Stored) -> Stored:
        """A stored value of a thread by itself, without the key's checksum and not compressed.

        Raises:
            Undecodable
        """
        ...

    def checkpoint(self, place: Place) -> Stored:
        """A checkpoint that is there, serialized, as `whole` values are.

        Raises:
            Undecodable
        """
        ...

    def check_values(self, place: Place) -> None:
        """Make sure that what is stored beside a checkpoint is there, as far as that is not noticed when it is read.

        Raises:
            Undecodable
        """
        ...

    def put_checkpoint(self, thread_id: str, row: CheckpointRow) -> None:
        """Store a checkpoint, or replace it; after the writes that led to it."""
        ...

    def put_write(self, thread_id: str, row: WriteRow) -> None:
        """Store a write that is not there yet."""
        ...

    def drop_inside(self, thread_id: str, node: str) -> None:
        """Delete the state of the graphs that ran inside a node."""
        ...

    def drop_step(self, thread_id: str, inside: str, checkpoint_id: str, step: str | bytes | None) -> None:
        """Delete what a step wrote upon a checkpoint; its name may be one that cannot be read."""
        ...

    def drop_unused(self, thread_id: str) -> None:
        """Delete what no checkpoint of the thread refers to any more."""
        ...


def checkpoint_rows(connection: Connection, thread_id: str) -> Iterator[CheckpointRow]:
    """The checkpoints of a thread, oldest first; of one that cannot be read the bytes as they are, where possible.

    Raises:
        Undecodable
    """
    for inside, checkpoint_id, parent_id, metadata in connection.execute(_CHECKPOINTS, (thread_id,)).fetchall():
        state = connection.state.checkpoint((thread_id, inside, checkpoint_id))
        yield CheckpointRow(inside, checkpoint_id, parent_id, state, metadata)


def write_rows(connection: Connection, thread_id: str) -> Iterator[WriteRow]:
    """What was written upon the checkpoints of a thread.

    Raises:
        Undecodable
    """
    for row in connection.execute(_WRITES, (thread_id,)).fetchall():
        inside, checkpoint_id, task_id, task_path, idx, channel, kind, data = row
        value = None if kind is None or data is None else connection.state.whole(thread_id, (kind, data))
        yield WriteRow(inside, checkpoint_id, task_id, task_path, idx, channel, value)


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
    """A checkpoint that is there.

    Raises:
        Undecodable
    """
    found: dict[str, Any] = serde.loads_typed(connection.state.checkpoint(place))
    return found
