"""Copies, pruning and deletion of threads of any graph, as LangGraph asks a saver for them."""

import json
from collections.abc import Callable, Collection

from ..ports import Connection
from .row_keys import check_thread, logs_of, needed, sealed_checkpoint
from .rows import checkpoint_rows, put_rows, write_rows
from .serializer import decoding

_NEWEST = "SELECT checkpoint_ns, max(checkpoint_id) FROM checkpoints WHERE thread_id = ? GROUP BY checkpoint_ns"
_IDS = "SELECT checkpoint_ns, checkpoint_id FROM checkpoints WHERE thread_id = ?"
_METADATA = "SELECT thread_id, checkpoint_ns, checkpoint_id, CAST(metadata AS TEXT) FROM checkpoints"
_DROP = "DELETE FROM {} WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"
# The parent of a checkpoint that was the first to be kept, or whose run stays.
_WITHOUT_PARENT = """
    SELECT checkpoint_ns, checkpoint_id, CAST(metadata AS TEXT) AS metadata
    FROM checkpoints AS later WHERE thread_id = ? AND parent_checkpoint_id IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM checkpoints AS parent
        WHERE (parent.thread_id, parent.checkpoint_ns, parent.checkpoint_id)
            = (later.thread_id, later.checkpoint_ns, later.parent_checkpoint_id)
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
        kept = {(ns, each) for ns, newest_id in newest for each in needed(connection, (thread_id, ns, newest_id))}
    for ns, checkpoint_id in connection.execute(_IDS, (thread_id,)).fetchall():
        if (ns, checkpoint_id) not in kept:
            _drop(connection, (thread_id, ns, checkpoint_id))
    _begin_anew(connection, thread_id)


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
        if any(logs_of(row["metadata"]) for row in connection.execute(_WITHOUT_PARENT, (thread_id,)).fetchall()):
            raise ValueError(
                f"Later checkpoints of thread {thread_id!r} are rebuilt from those of the runs: delete or prune it."
            )
        _begin_anew(connection, thread_id)


def _run_of(metadata: str) -> str | None:
    try:
        run: str | None = json.loads(metadata).get("run_id")
    except (ValueError, AttributeError):
        return None
    return run


def _drop(connection: Connection, place: tuple[str, ...]) -> None:
    for table in ("writes", "checkpoints"):
        connection.execute(_DROP.format(table), place)


def _begin_anew(connection: Connection, thread_id: str) -> None:
    """Make checkpoints whose parents were deleted the first of their graphs."""
    for row in connection.execute(_WITHOUT_PARENT, (thread_id,)).fetchall():
        key = (thread_id, row["checkpoint_ns"], row["checkpoint_id"])
        connection.execute(_BEGIN, (*sealed_checkpoint(connection, (*key, None), row["metadata"]), *key))
    connection.state.drop_unused(thread_id)
