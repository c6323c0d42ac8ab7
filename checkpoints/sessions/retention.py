"""Removal of a thread's older snapshots: each graph's are merged into the oldest one of it that is kept."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from langgraph.checkpoint.serde.types import _DeltaSnapshot

from segue.core.errors import DamagedCheckpoint
from segue.core.timeline import Place

from ..ports import CheckpointRow, Connection, Database
from ..state.checksums import check_thread
from ..state.rows import decoded_checkpoint
from ..state.serializer import SERDE, decoding
from ..tables.leases import check_fence
from .snapshots import Checkpoint, find, following, ran

Values = Callable[[Place], Awaitable[Mapping[str, Any]]]
"""Gives the values of all channels at a snapshot; raises DamagedCheckpoint where its graph is not known."""

_COUNTED = "counters_since_delta_snapshot"
"""LangGraph's metadata of the logs that are not stored whole in a checkpoint."""
_ROWS = """
    SELECT checkpoint_ns, checkpoint_id, CAST(metadata AS TEXT) AS metadata FROM checkpoints
    WHERE thread_id = ? ORDER BY checkpoint_id
"""
_DELETE = "DELETE FROM {} WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id < ?"
_END = "z"
"""Sorts after every checkpoint's id."""


@dataclass
class Selection:
    """The oldest snapshot of each graph that is kept, by its namespace; `removed` have none."""

    oldest: dict[str, str] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)


async def prune(
    database: Database[Connection],
    thread_id: str,
    checkpoint_id: str,
    fence: int,
    values: Values,
    since: float,
    *,
    dry_run: bool = False,
) -> int:
    """Remove the snapshots before one of a thread that is leased under this fence; returns how many.

    `since` is when the last of them that is listed was made. A `dry_run` removes none.

    What is kept reads as before. Kept are also the newest snapshot, those inside it, and those that a kept one lies in;
    of a graph that is not known all are.

    Raises:
        UnknownSnapshot.
        StaleOwner, DatabaseUnavailable, DamagedCheckpoint: nothing was removed.
    """
    selection = await database.read(partial(_select, thread_id, checkpoint_id))
    merged = {}
    for inside, oldest in selection.oldest.items():
        try:
            merged[inside] = await values(Place(thread_id, inside, oldest))
        except DamagedCheckpoint:
            continue  # its graph is not known here

    def work(connection: Connection) -> int:
        check_fence(connection, thread_id, fence)
        connection.execute("SAVEPOINT pruning")
        for inside, found in merged.items():
            base = find(connection, thread_id, selection.oldest[inside])
            noted = {"segue_since": since} if base.checkpoint_id == checkpoint_id else {}
            _merge(connection, base, found, noted)
        bounds = {inside: selection.oldest[inside] for inside in merged} | dict.fromkeys(selection.removed, _END)
        removed = sum(_remove(connection, thread_id, inside, until) for inside, until in bounds.items())
        connection.state.drop_unused(thread_id)
        if dry_run:
            connection.execute("ROLLBACK TO pruning")
        connection.execute("RELEASE pruning")
        return removed

    return await database.write(work)


def _remove(connection: Connection, thread_id: str, inside: str, until: str) -> int:
    place = (thread_id, inside, until)
    connection.execute(_DELETE.format("writes"), place)
    return connection.execute(_DELETE.format("checkpoints"), place).rowcount


def _select(thread_id: str, checkpoint_id: str, connection: Connection) -> Selection:
    find(connection, thread_id, checkpoint_id)
    with decoding(thread_id):
        check_thread(connection, thread_id)
        rows = connection.execute(_ROWS, (thread_id,)).fetchall()
        outside = {row["checkpoint_id"]: json.loads(row["metadata"]).get("parents", {}) for row in rows}
    ids: dict[str, list[str]] = {}
    for row in rows:
        ids.setdefault(row["checkpoint_ns"], []).append(row["checkpoint_id"])
    kept = {row["checkpoint_id"] for row in rows if row["checkpoint_id"] >= checkpoint_id} | _current(ids, outside)
    kept |= {parent for each in kept for parent in outside[each].values()}
    selection = Selection()
    for inside, every in ids.items():
        oldest = next((each for each in every if each in kept), None)
        if oldest is None:
            selection.removed.add(inside)
        elif oldest != every[0]:
            selection.oldest[inside] = oldest
    return selection


def _current(ids: Mapping[str, list[str]], outside: Mapping[str, Mapping[str, str]]) -> set[str]:
    """The newest snapshot of the thread's own graph, and those of the graphs that are under way inside it."""
    newest = {inside: every[-1] for inside, every in ids.items()}
    return {
        each for each in newest.values() if all(newest.get(graph) == parent for graph, parent in outside[each].items())
    }


def _merge(connection: Connection, base: Checkpoint, values: Mapping[str, Any], noted: Mapping[str, Any]) -> None:
    """Make a snapshot the first of its graph: its logs are stored whole, and what its row said of the one before."""
    place = (base.thread_id, base.inside, base.checkpoint_id)
    metadata: dict[str, Any] = {**base.metadata, **noted}
    with decoding(base.thread_id):
        checkpoint = decoded_checkpoint(connection, SERDE, place)
    for log in metadata.pop(_COUNTED, {}):
        if log in values and log not in checkpoint["channel_values"]:
            checkpoint["channel_values"][log] = _DeltaSnapshot(values[log])
    metadata["segue_ran"], metadata["segue_next"] = ran(connection, base), following(connection, base)
    written, state = json.dumps(metadata, ensure_ascii=False), SERDE.plain_typed(checkpoint)
    connection.state.put_checkpoint(
        base.thread_id, CheckpointRow(base.inside, base.checkpoint_id, None, state, written)
    )
