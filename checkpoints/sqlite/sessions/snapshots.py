"""The snapshots of a thread: its checkpoints, read without decoding the states that they hold."""

import json
import sqlite3
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from segue.core.errors import DamagedCheckpoint, TaskError, UnknownPlace, UnknownSnapshot, UnknownThread
from segue.core.records import Snapshot
from segue.core.timeline import SHORT, Place

from ..database import Database, fetched
from ..serializer import CheckedSerializer, Undecodable, decoding

_BRANCH = "branch:to:"
"""How LangGraph's channels begin that make a node run next."""
_SENT = "__pregel_tasks"
"""LangGraph's channel of nodes that are sent their own input."""
_UUID_EPOCH = 0x01B21DD213814000
"""100-nanosecond intervals from the epoch of UUIDs to that of Unix."""

_SERDE = CheckedSerializer(allowed_msgpack_modules=[])

_HAS = "SELECT count(*) FROM sqlite_master WHERE name IN ('checkpoints', 'writes')"
# The newest ids come from the index alone: metadata lies behind the state in a row.
_PAGE = """
    SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id, CAST(metadata AS TEXT) AS metadata
    FROM checkpoints JOIN (
        SELECT checkpoint_ns, checkpoint_id FROM checkpoints
        WHERE thread_id = :thread AND (:before IS NULL OR checkpoint_id < :before)
        ORDER BY checkpoint_id DESC LIMIT :limit
    ) USING (checkpoint_ns, checkpoint_id)
    WHERE thread_id = :thread ORDER BY checkpoint_id DESC
"""
_ONE = """
    SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id, CAST(metadata AS TEXT) AS metadata
    FROM checkpoints WHERE thread_id = :thread AND checkpoint_id = :checkpoint
"""
_FIND = """
    SELECT thread_id, checkpoint_ns, checkpoint_id FROM checkpoints
    WHERE substr(checkpoint_id, -length(:text)) = :text AND (:thread IS NULL OR thread_id = :thread)
    ORDER BY rowid
"""
_STATE = "SELECT type, checkpoint FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"
_WRITTEN = f"""
    SELECT channel, iif(channel = '{_SENT}', type, NULL) AS type, iif(channel = '{_SENT}', value, NULL) AS value
    FROM writes WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ? ORDER BY task_path, task_id, idx
"""
_TASK_OF = """
    SELECT json_extract(CAST(metadata AS TEXT), '$.segue_task') AS task_id FROM checkpoints
    WHERE thread_id = ? AND checkpoint_id <= ? AND json_valid(CAST(metadata AS TEXT)) AND task_id IS NOT NULL
    ORDER BY checkpoint_id DESC LIMIT 1
"""


@dataclass(frozen=True)
class Checkpoint:
    """A row of checkpoints; `inside` is LangGraph's namespace of its graph, empty for the outermost."""

    thread_id: str
    inside: str
    checkpoint_id: str
    parent_id: str | None
    metadata: Mapping[str, Any]

    @property
    def path(self) -> dict[str, str]:
        """The checkpoints that were current when this one was written: namespace to id, this one last."""
        return {**self.metadata.get("parents", {}), self.inside: self.checkpoint_id}

    @property
    def created_at(self) -> float:
        return seconds_of(self.checkpoint_id)


def seconds_of(checkpoint_id: str) -> float:
    """When a checkpoint was made, in Unix seconds: its id says so."""
    fields = uuid.UUID(checkpoint_id).int
    ticks = (fields >> 80) << 12 | (fields >> 64) & 0x0FFF
    return (ticks - _UUID_EPOCH) / 1e7


async def snapshots(database: Database, thread_id: str, limit: int = 50, before: str | None = None) -> list[Snapshot]:
    """A thread's snapshots, newest first; `before` is the checkpoint_id that the last page ended with.

    Raises:
        UnknownThread: the thread has none at all.
    """

    def read(connection: sqlite3.Connection) -> list[Snapshot]:
        values = {"thread": thread_id, "before": before, "limit": limit}
        rows = fetched(connection, _PAGE, values) if has_checkpoints(connection) else []
        if not rows:
            refuse_unknown(connection, thread_id)
        return [_described(connection, thread_id, row) for row in rows]

    return await database.read(read)


async def find_place(database: Database, text: str, thread_id: str | None = None) -> Place:
    """The snapshot whose id is `text` or ends with it; of a fork's copies the original.

    Raises:
        UnknownThread, UnknownSnapshot, UnknownPlace.
        TaskError: there are several.
    """

    def read(connection: sqlite3.Connection) -> list[sqlite3.Row]:
        if thread_id is not None:
            refuse_unknown(connection, thread_id)
        return fetched(connection, _FIND, {"text": text.lower(), "thread": thread_id})

    found = [Place(*row) for row in await database.read(read) if len(text) >= SHORT]
    if not found and thread_id is None:
        raise UnknownPlace(text)
    if not found:
        raise UnknownSnapshot(str(thread_id), text)
    if len({place.checkpoint_id for place in found}) > 1:
        raise TaskError("The ids of {n} snapshots end with '{text}': give more characters.", n=len(found), text=text)
    return found[0]


def has_checkpoints(connection: sqlite3.Connection) -> bool:
    """Whether LangGraph's tables are there; its saver creates them when it first needs them."""
    return bool(connection.execute(_HAS).fetchone()[0] == 2)


def refuse_unknown(connection: sqlite3.Connection, thread_id: str) -> None:
    """Make sure that there is a thread of that name.

    Raises:
        UnknownThread
    """
    for table in ("tasks", *(("checkpoints",) if has_checkpoints(connection) else ())):
        if connection.execute(f"SELECT 1 FROM {table} WHERE thread_id = ? LIMIT 1", (thread_id,)).fetchone():
            return
    raise UnknownThread(thread_id)


def find(connection: sqlite3.Connection, thread_id: str, checkpoint_id: str) -> Checkpoint:
    """One snapshot.

    Raises:
        UnknownThread, UnknownSnapshot.
    """
    refuse_unknown(connection, thread_id)
    values = {"thread": thread_id, "checkpoint": checkpoint_id}
    rows = fetched(connection, _ONE, values) if has_checkpoints(connection) else []
    if not rows:
        raise UnknownSnapshot(thread_id, checkpoint_id)
    return _checkpoint(thread_id, rows[0])


def _checkpoint(thread_id: str, row: sqlite3.Row) -> Checkpoint:
    with decoding(thread_id):
        metadata = json.loads(row["metadata"] or "{}")
        if not isinstance(metadata, dict) or not isinstance(metadata.get("parents", {}), dict):
            raise Undecodable("its metadata is malformed")
        return Checkpoint(thread_id, row["checkpoint_ns"], row["checkpoint_id"], row["parent_checkpoint_id"], metadata)


def _described(connection: sqlite3.Connection, thread_id: str, row: sqlite3.Row) -> Snapshot:
    try:
        with decoding(thread_id):
            return _details(connection, _checkpoint(thread_id, row))
    except (DamagedCheckpoint, UnknownSnapshot, ValueError) as error:
        why = error.reason if isinstance(error, DamagedCheckpoint) else str(error)
        return Snapshot(checkpoint_id=str(row["checkpoint_id"]), created_at=0.0, damaged=why)


def _details(connection: sqlite3.Connection, found: Checkpoint) -> Snapshot:
    return Snapshot(
        checkpoint_id=found.checkpoint_id,
        created_at=found.created_at,
        source=found.metadata.get("source"),
        step=found.metadata.get("step"),
        inside="/".join(part.partition(":")[0] for part in found.inside.split("|")),
        task_id=task_of(connection, found),
        nodes=ran(connection, found),
        next=following(connection, found),
        forked_from=found.metadata.get("segue_fork"),
        since=found.metadata.get("segue_since"),
    )


def task_of(connection: sqlite3.Connection, found: Checkpoint) -> str | None:
    """The task whose work led to a snapshot; None where it was made outside of any."""
    if named := found.metadata.get("segue_task"):
        return str(named)
    row = connection.execute(_TASK_OF, (found.thread_id, found.checkpoint_id)).fetchone()
    return None if row is None else str(row["task_id"])


def following(connection: sqlite3.Connection, found: Checkpoint) -> list[str]:
    """The nodes that would run next, one entry for each time; none where the graph has ended."""
    if (kept := found.metadata.get("segue_next")) is not None:
        return list(kept)
    match found.metadata.get("source"):
        case "input":
            return ["__start__"]
        case "loop":
            return _called(connection, found)
    return _triggered(connection, found)


def _called(connection: sqlite3.Connection, found: Checkpoint) -> list[str]:
    """The nodes that the writes of a snapshot trigger."""
    place = (found.thread_id, found.inside, found.parent_id)
    rows = connection.execute(_WRITTEN, place).fetchall()
    with decoding(found.thread_id):
        sent = [_SERDE.loads_typed((row["type"], row["value"])).node for row in rows if row["channel"] == _SENT]
        return sent + _branches(row["channel"] for row in rows)


def _triggered(connection: sqlite3.Connection, found: Checkpoint) -> list[str]:
    """The nodes that the state itself triggers: an update from outside leaves no writes that show them."""
    place = (found.thread_id, found.inside, found.checkpoint_id)
    row = connection.execute(_STATE, place).fetchone()
    with decoding(found.thread_id):
        channels = _SERDE.loads_typed((row["type"], row["checkpoint"]))["channel_values"]
        return [send.node for send in channels.get(_SENT, ())] + _branches(channels)


def _branches(channels: Iterable[str]) -> list[str]:
    return [name.removeprefix(_BRANCH) for name in dict.fromkeys(channels) if name.startswith(_BRANCH)]


def ran(connection: sqlite3.Connection, found: Checkpoint) -> list[str]:
    """The nodes whose work led to a snapshot; of one whose predecessor was pruned they were noted then."""
    if (kept := found.metadata.get("segue_ran")) is not None:
        return list(kept)
    if found.metadata.get("source") != "loop" or found.parent_id is None:
        return []
    return following(connection, find(connection, found.thread_id, found.parent_id))
