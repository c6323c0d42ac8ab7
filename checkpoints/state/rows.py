"""The rows of LangGraph's checkpoints and writes, whichever database stores them."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from langgraph.checkpoint.serde.base import SerializerProtocol

from ..ports import CheckpointRow, Connection, Place, Row, Stored, WriteRow
from .checksums import (
    CHECKPOINT_KEY,
    WRITE_COLUMNS,
    WRITE_KEY,
    check_alone,
    check_thread,
    has_own_value,
    logs_of,
    rebuilt_from,
    sealed_checkpoint,
)
from .serializer import decoding

DAMAGED: Stored = ("damaged", b"")
"""In place of a value that is not what was stored: a copy of it is not taken for a sound one."""

_CHECKPOINTS = f"""
    SELECT {", ".join(CHECKPOINT_KEY)}, checksum, CAST(metadata AS TEXT) AS metadata, {{content}}
    FROM checkpoints WHERE thread_id = ? ORDER BY checkpoint_id
"""
_WRITES = f"""
    SELECT {WRITE_COLUMNS}, task_path, value FROM writes WHERE thread_id = ? ORDER BY checkpoint_id, task_id, idx
"""


def checkpoint_rows(connection: Connection, thread_id: str) -> Iterator[CheckpointRow]:
    """The checkpoints of a thread, oldest first; of one that cannot be read the bytes as they are, where possible.

    Raises:
        Undecodable
    """
    statement = _CHECKPOINTS.format(content=connection.state.content)
    for row in connection.execute(statement, (thread_id,)).fetchall():
        inside, checkpoint_id = row["checkpoint_ns"], row["checkpoint_id"]
        sound = has_own_value(row, CHECKPOINT_KEY)
        state = connection.state.checkpoint((thread_id, inside, checkpoint_id)) if sound else DAMAGED
        yield CheckpointRow(inside, checkpoint_id, row["parent_checkpoint_id"], state, row["metadata"])


def write_rows(connection: Connection, thread_id: str) -> Iterator[WriteRow]:
    """What was written upon the checkpoints of a thread.

    Raises:
        Undecodable
    """
    for row in connection.execute(_WRITES, (thread_id,)).fetchall():
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
    """A checkpoint that is there.

    Raises:
        Undecodable
    """
    check_alone(connection, place)
    found: dict[str, Any] = serde.loads_typed(connection.state.checkpoint(place))
    return found


_NEWEST = "SELECT checkpoint_ns, max(checkpoint_id) FROM checkpoints WHERE thread_id = ? GROUP BY checkpoint_ns"
_IDS = "SELECT checkpoint_ns, checkpoint_id FROM checkpoints WHERE thread_id = ?"
_METADATA = "SELECT thread_id, checkpoint_ns, checkpoint_id, CAST(metadata AS TEXT) FROM checkpoints"
_DROP = "DELETE FROM {} WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"
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
        newest = connection.execute(_NEWEST, (thread_id,)).fetchall()
        kept = {(ns, each) for ns, newest_id in newest for each in rebuilt_from(connection, (thread_id, ns, newest_id))}
    for ns, checkpoint_id in connection.execute(_IDS, (thread_id,)).fetchall():
        if (ns, checkpoint_id) not in kept:
            _drop(connection, (thread_id, ns, checkpoint_id))
    _begin_thread(connection, thread_id)


def delete_runs(connection: Connection, run_ids: Collection[str], check: Callable[[Connection, str], None]) -> None:
    """Delete the checkpoints that runs made, in every thread; `check` is called with each.

    Raises:
        ValueError: logs of a later checkpoint are rebuilt from one of them.
    """
    found = [tuple(place) for *place, noted in connection.execute(_METADATA).fetchall() if _run_of(noted) in run_ids]
    threads = sorted({thread_id for thread_id, _, _ in found})
    for thread_id in threads:
        check(connection, thread_id)
        with decoding(thread_id):
            check_thread(connection, thread_id)
    for place in found:
        _drop(connection, place)
    for thread_id in threads:
        if any(logs_of(row["metadata"]) for row in _without_parent(connection, thread_id)):
            raise ValueError(
                f"Later checkpoints of thread {thread_id!r} are rebuilt from those of the runs: delete or prune it."
            )
        _begin_thread(connection, thread_id)


def _run_of(metadata: str) -> str | None:
    try:
        run: str | None = json.loads(metadata).get("run_id")
    except (ValueError, AttributeError):
        return None
    return run


def _drop(connection: Connection, place: tuple[str, ...]) -> None:
    for table in ("writes", "checkpoints"):
        connection.execute(_DROP.format(table), place)


def _without_parent(connection: Connection, thread_id: str) -> list[Row]:
    return connection.execute(_WITHOUT_PARENT.format(content=connection.state.content), (thread_id,)).fetchall()


def _begin_thread(connection: Connection, thread_id: str) -> None:
    """Make checkpoints whose parents were deleted the first of their graphs."""
    for row in _without_parent(connection, thread_id):
        key = (thread_id, row["checkpoint_ns"], row["checkpoint_id"])
        sealed = sealed_checkpoint(connection, (*key, None), row["metadata"], row["kind"], row["ending"])
        connection.execute(_BEGIN, (*sealed, *key))
    connection.state.drop_unused(thread_id)
