"""Keys of the rows of checkpoints and writes: sealed with a checksum when written, checked when read."""

import json
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from typing import Any

from .serializer import Undecodable, check_key, with_key

CHECKPOINT_KEY = ("thread_id", "checkpoint_ns", "checkpoint_id", "parent_checkpoint_id")
WRITE_KEY = ("thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "idx", "channel")

Place = tuple[str, str, str]
"""A checkpoint: its thread, namespace and id."""

# What of the writes that led to a checkpoint is read once it is stored: logs are rebuilt from the writes to
# them, and the other channels tell which nodes ran. The checkpoint's metadata names its logs.
_KEPT = """(
    channel LIKE 'branch:to:%' OR channel = '__pregel_tasks' OR channel IN (
        SELECT key FROM json_each(iif(json_valid({metadata}), {metadata}, '{{}}'), '$.counters_since_delta_snapshot')
    )
)"""
_COUNT = f"""
    SELECT count(*) FROM writes
    WHERE thread_id = :thread AND checkpoint_ns = :ns AND checkpoint_id = :parent
        AND {_KEPT.format(metadata=":metadata")}
"""
# What came from outside stays: it is applied again where LangGraph goes back to the checkpoint.
_DROP_PASSED = f"""
    DELETE FROM writes
    WHERE thread_id = :thread AND checkpoint_ns = :ns AND checkpoint_id = :parent
        AND task_id <> '00000000-0000-0000-0000-000000000000' AND NOT {_KEPT.format(metadata=":metadata")}
"""
_CHECKPOINT = f"SELECT {', '.join(CHECKPOINT_KEY)}, type, metadata FROM checkpoints WHERE {{}}"
_AT = "thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"
_WRITTEN = f"SELECT {', '.join(WRITE_KEY)}, type FROM writes WHERE {_AT}"
# A newer one that is there was added since the thread was read.
_LATER = """
    SELECT checkpoint_id FROM writes
    WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id > ? AND NOT EXISTS (
        SELECT 1 FROM checkpoints
        WHERE (checkpoints.thread_id, checkpoints.checkpoint_ns, checkpoints.checkpoint_id)
            = (writes.thread_id, writes.checkpoint_ns, writes.checkpoint_id)
    ) LIMIT 1
"""
_SEAL_CHECKPOINTS = f"""
    UPDATE checkpoints SET type = sealed(type, (
        SELECT count(*) FROM writes
        WHERE (writes.thread_id, writes.checkpoint_ns, writes.checkpoint_id)
            = (checkpoints.thread_id, checkpoints.checkpoint_ns, checkpoints.parent_checkpoint_id)
            AND {_KEPT.format(metadata="CAST(checkpoints.metadata AS TEXT)")}
    ), {", ".join(CHECKPOINT_KEY)}) WHERE thread_id = :thread
"""
_SEAL_WRITES = f"UPDATE writes SET type = sealed(type, NULL, {', '.join(WRITE_KEY)}) WHERE thread_id = :thread"


def sealed_checkpoint(connection: sqlite3.Connection, row: Sequence[Any]) -> Sequence[Any]:
    """A row of checkpoints as LangGraph inserts it: the key, type, state and metadata.

    What nobody reads any more of the writes that led to it is deleted, but in a thread's own graph: a recovery that
    goes back to before them applies them again.
    """
    *key, kind, state, metadata = row
    thread_id, ns, _, parent = key
    values = {"thread": thread_id, "ns": ns, "parent": parent, "metadata": metadata.decode()}
    kept = connection.execute(_COUNT, values).fetchone()[0]
    if ns:
        connection.execute(_DROP_PASSED, values)
    return (*key, with_key(kind, key, kept), state, metadata)


def sealed_write(row: Sequence[Any]) -> Sequence[Any]:
    """A row of writes as LangGraph inserts it: its place, path, index, channel, type and value."""
    *place, path, idx, channel, kind, value = row
    return (*place, path, idx, channel, with_key(kind, [*place, idx, channel]), value)


def seal_thread(connection: sqlite3.Connection, thread_id: str) -> None:
    """Give every row of a copied thread the checksum of its key."""
    connection.create_function("sealed", -1, _sealed, deterministic=True)
    for statement in (_SEAL_CHECKPOINTS, _SEAL_WRITES):
        connection.execute(statement, {"thread": thread_id})


def _sealed(kind: str, writes: int | None, *key: Any) -> str:
    return with_key(kind, key, writes) if "+" in kind else kind


def check_newest(connection: sqlite3.Connection, place: Place) -> None:
    """Make sure that no newer checkpoint of the thread was lost: nothing was written upon one.

    Raises:
        Undecodable
    """
    if row := connection.execute(_LATER, place).fetchone():
        raise Undecodable(f"its newest checkpoint {row[0]} is missing")


def check_checkpoint(connection: sqlite3.Connection, place: Place) -> None:
    """Check the keys of a checkpoint and of what was written upon it, and that its parent is there.

    Raises:
        Undecodable
    """
    if row := _row(connection, place):
        _check_writes(connection, place)
        _parent(connection, row)


def check_chain(connection: sqlite3.Connection, place: Place, logs: Collection[str]) -> None:
    """As `check_checkpoint`, for each checkpoint from which logs are rebuilt: back to where each was stored whole.

    Raises:
        Undecodable
    """
    row = _row(connection, place)
    while row is not None and (parent := _parent(connection, row)) is not None and _counts(row, logs):
        row = parent


def check_thread(connection: sqlite3.Connection, thread_id: str) -> None:
    """Check the keys of all rows of a thread.

    Raises:
        Undecodable
    """
    for table, key in (("checkpoints", CHECKPOINT_KEY), ("writes", WRITE_KEY)):
        rows: Iterable[sqlite3.Row] = connection.execute(
            f"SELECT {', '.join(key)}, type FROM {table} WHERE thread_id = ?", (thread_id,)
        )
        for row in rows:
            check_key(row["type"], tuple(row)[:-1])


def _row(connection: sqlite3.Connection, place: Place) -> sqlite3.Row | None:
    row: sqlite3.Row | None = connection.execute(_CHECKPOINT.format(_AT), place).fetchone()
    return row


def _parent(connection: sqlite3.Connection, row: sqlite3.Row) -> sqlite3.Row | None:
    """The checkpoint before, whose writes led to this one."""
    thread_id, ns, _, parent_id = key = tuple(row)[:4]
    counted = check_key(row["type"], key)
    if parent_id is None:
        return None
    parent = _row(connection, (thread_id, ns, parent_id))
    if parent is None:
        raise Undecodable(f"it builds on checkpoint {parent_id}, which is missing")
    channels, logs = _check_writes(connection, (thread_id, ns, parent_id)), _logs(row)
    found = sum(channel != "__resume__" if counted.whole else _is_kept(channel, logs) for channel in channels)
    if found < counted.writes:
        raise Undecodable(f"a part of what was written upon checkpoint {parent_id} is missing")
    return parent


def _is_kept(channel: str, logs: Collection[str]) -> bool:
    return channel.startswith("branch:to:") or channel == "__pregel_tasks" or channel in logs


def _check_writes(connection: sqlite3.Connection, place: Place) -> list[str]:
    """The channels that were written to."""
    rows: Iterable[sqlite3.Row] = connection.execute(_WRITTEN, place)
    channels = []
    for row in rows:
        check_key(row["type"] or "", tuple(row)[:-1])
        channels.append(str(row["channel"]))
    return channels


def _counts(row: sqlite3.Row, logs: Collection[str]) -> bool:
    """Whether a log is still counted at a checkpoint: it was stored whole before."""
    return not _logs(row).isdisjoint(logs)


def _logs(row: sqlite3.Row) -> Set[str]:
    """The logs that are not stored whole in a checkpoint."""
    metadata = json.loads(row["metadata"] or "{}")
    counted = metadata.get("counters_since_delta_snapshot") if isinstance(metadata, Mapping) else None
    return counted.keys() if isinstance(counted, Mapping) else set()
