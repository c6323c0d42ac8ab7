"""The rows of LangGraph's checkpoints and writes, whichever database stores them."""

from collections.abc import Iterable, Iterator
from typing import Any

from langgraph.checkpoint.serde.base import SerializerProtocol

from ..ports import CheckpointRow, Connection, Place, WriteRow

_CHECKPOINTS = """
    SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id, CAST(metadata AS TEXT) AS metadata
    FROM checkpoints WHERE thread_id = ? ORDER BY checkpoint_id
"""
_WRITES = """
    SELECT checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value
    FROM writes WHERE thread_id = ? ORDER BY checkpoint_id, task_id, idx
"""


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
