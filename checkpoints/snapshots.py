"""The snapshots of a thread: its checkpoints, read without decoding the states that they hold."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from segue.core.errors import DamagedCheckpoint, TaskError, UnknownPlace, UnknownSnapshot, UnknownThread
from segue.core.timeline import SHORT, Place, Snapshot

from .ports import ALL, Connection, Row
from .rows import NEXT, SENT, SERDE, Undecodable, decoded_checkpoint, decoding, nodes_triggered, seconds_of

RESUME = "__resume__"
"""LangGraph's channel of the answers to interrupts."""


# The newest ids come from the index alone: metadata lies behind the state in a row.
_PAGE = """
    SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id, CAST(metadata AS TEXT) AS metadata
    FROM checkpoints JOIN (
        SELECT checkpoint_ns, checkpoint_id FROM checkpoints
        WHERE thread_id = :thread AND checkpoint_id < :before
        ORDER BY checkpoint_id DESC LIMIT :limit
    ) AS page USING (checkpoint_ns, checkpoint_id)
    WHERE thread_id = :thread ORDER BY checkpoint_id DESC
"""
_WRITTEN_UPON_PAGE = """
    SELECT writes.checkpoint_ns, writes.checkpoint_id, channel, type, CASE WHEN channel = :sent THEN value END AS value
    FROM (
        SELECT checkpoint_ns, checkpoint_id FROM checkpoints
        WHERE thread_id = :thread AND checkpoint_id < :before
        ORDER BY checkpoint_id DESC LIMIT :limit
    ) AS page JOIN writes USING (checkpoint_ns, checkpoint_id)
    WHERE writes.thread_id = :thread
    ORDER BY writes.checkpoint_ns, writes.checkpoint_id, task_path, task_id, idx
"""
_ONE = """
    SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id, CAST(metadata AS TEXT) AS metadata
    FROM checkpoints WHERE thread_id = :thread AND checkpoint_id = :checkpoint
"""
# The namespace comes between the two in the primary key: without it every key of the thread is looked at.
_EXACT = f"{_ONE} AND checkpoint_ns = :inside"
_ENDING_WITH = """
    SELECT thread_id, checkpoint_ns, checkpoint_id FROM checkpoints
    WHERE substr(checkpoint_id, length(checkpoint_id) - length(:text) + 1) = :text
"""
_FIND_IN = f"{_ENDING_WITH} AND thread_id = :thread"
# Of the same snapshot in several threads the one that has it longest is the original.
_FIND = f"""
    {_ENDING_WITH}
    ORDER BY (SELECT min(position) FROM tasks WHERE tasks.thread_id = checkpoints.thread_id), thread_id
"""
_WRITTEN = """
    SELECT channel, type, CASE WHEN channel = ? THEN value END AS value FROM writes
    WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ? ORDER BY task_path, task_id, idx
"""
_NAMED = """
    SELECT CAST(metadata AS TEXT) AS metadata FROM checkpoints
    WHERE thread_id = ? AND checkpoint_id <= ? AND CAST(metadata AS TEXT) LIKE ? ORDER BY checkpoint_id DESC LIMIT 20
"""
_TASK = "segue_task"
_LATEST = "z"
"""Sorts after every checkpoint's id."""


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


@dataclass(frozen=True)
class Page:
    """The rows of a page of snapshots and what was written upon them, by namespace and id: a query for each is slow."""

    checkpoints: Mapping[tuple[str, str], Row] = field(default_factory=dict)
    writes: Mapping[tuple[str, str], Sequence[Row]] = field(default_factory=dict)

    @classmethod
    def around(cls, connection: Connection, rows: Sequence[Row], values: Mapping[str, Any]) -> "Page":
        """What was written upon the rows that a query of a page gave; what is no text is left to a query of its own."""
        writes: dict[tuple[str, str], list[Row]] = {_key(row): [] for row in rows}
        for row in connection.fetched(_WRITTEN_UPON_PAGE, {**values, "sent": SENT}):
            writes.setdefault(_key(row), []).append(row)
        readable = {key: found for key, found in writes.items() if all(map(_is_readable, found))}
        return cls({_key(row): row for row in rows}, readable)


_ALONE = Page()


def _key(row: Row) -> tuple[str, str]:
    return row["checkpoint_ns"], row["checkpoint_id"]


def _is_readable(row: Row) -> bool:
    return isinstance(row["channel"], str) and isinstance(row["type"], str | None)


def snapshots(connection: Connection, thread_id: str, limit: int, before: str | None) -> list[Snapshot]:
    """A thread's snapshots, newest first; `before` is the checkpoint_id that the last page ended with."""
    values = {"thread": thread_id, "before": before or _LATEST, "limit": limit if limit >= 0 else ALL}
    with connection.state.view():
        rows = connection.fetched(_PAGE, values)
        if not rows:
            refuse_unknown(connection, thread_id)
        page = Page.around(connection, rows, values) if len(rows) > 1 else _ALONE
        return [_described(connection, thread_id, row, page) for row in rows]


def snapshot(connection: Connection, place: Place) -> Snapshot:
    values = {"thread": place.session_id, "checkpoint": place.checkpoint_id, "inside": place.inside}
    rows = connection.fetched(_EXACT, values)
    if not rows:
        raise UnknownSnapshot(place.session_id, place.checkpoint_id)
    return _described(connection, place.session_id, rows[0], _ALONE)


def find_place(connection: Connection, text: str, thread_id: str | None) -> Place:
    """The snapshot whose id is `text` or ends with it; of a fork's copies the original."""
    if thread_id is not None:
        refuse_unknown(connection, thread_id)
    statement = _FIND if thread_id is None else _FIND_IN
    rows = connection.fetched(statement, {"text": text.lower(), "thread": thread_id or ""})
    found = [Place(*row) for row in rows if len(text) >= SHORT]
    if not found and thread_id is None:
        raise UnknownPlace(text)
    if not found:
        raise UnknownSnapshot(str(thread_id), text)
    if len({place.checkpoint_id for place in found}) > 1:
        raise TaskError("The ids of {n} snapshots end with '{text}': give more characters.", n=len(found), text=text)
    return found[0]


def refuse_unknown(connection: Connection, thread_id: str) -> None:
    """Make sure that there is a thread of that name."""
    for table in ("tasks", "checkpoints"):
        if connection.execute(f"SELECT 1 FROM {table} WHERE thread_id = ? LIMIT 1", (thread_id,)).fetchone():
            return
    raise UnknownThread(thread_id)


def find(connection: Connection, thread_id: str, checkpoint_id: str) -> Checkpoint:
    """One snapshot."""
    refuse_unknown(connection, thread_id)
    values = {"thread": thread_id, "checkpoint": checkpoint_id}
    rows = connection.fetched(_ONE, values)
    if not rows:
        raise UnknownSnapshot(thread_id, checkpoint_id)
    return _checkpoint(thread_id, rows[0])


def _checkpoint(thread_id: str, row: Row) -> Checkpoint:
    with decoding(thread_id):
        metadata = json.loads(row["metadata"] or "{}")
        if not isinstance(metadata, dict) or not isinstance(metadata.get("parents", {}), dict):
            raise Undecodable("its metadata is malformed")
        return Checkpoint(thread_id, row["checkpoint_ns"], row["checkpoint_id"], row["parent_checkpoint_id"], metadata)


def _described(connection: Connection, thread_id: str, row: Row, page: Page) -> Snapshot:
    try:
        with decoding(thread_id):
            return _details(connection, _checkpoint(thread_id, row), page)
    except (DamagedCheckpoint, UnknownSnapshot, ValueError) as error:
        why = error.reason if isinstance(error, DamagedCheckpoint) else str(error)
        return Snapshot(checkpoint_id=str(row["checkpoint_id"]), created_at=0.0, damaged=why)


def _details(connection: Connection, found: Checkpoint, page: Page) -> Snapshot:
    origin = found.metadata.get("segue_fork")
    return Snapshot(
        checkpoint_id=found.checkpoint_id,
        created_at=found.created_at,
        source=found.metadata.get("source"),
        step=found.metadata.get("step"),
        inside="/".join(part.partition(":")[0] for part in found.inside.split("|")),
        task_id=task_of(connection, found),
        nodes=nodes_run(connection, found, page),
        next=following(connection, found, page),
        forked_from=origin and {"session_id": origin["thread_id"], "checkpoint_id": origin["checkpoint_id"]},
        since=found.metadata.get("segue_since"),
    )


def task_of(connection: Connection, found: Checkpoint) -> str | None:
    """The task whose work led to a snapshot; None where it was made outside of any."""
    if named := found.metadata.get(_TASK):
        return str(named)
    before = (found.thread_id, found.checkpoint_id, f'%"{_TASK}"%')
    for row in connection.fetched(_NAMED, before):
        with suppress(ValueError):
            if named := json.loads(row["metadata"]).get(_TASK):
                return str(named)
    return None


def following(connection: Connection, found: Checkpoint, page: Page = _ALONE) -> list[str]:
    """The nodes that would run next, one entry for each time; none where the graph has ended."""
    if (kept := found.metadata.get(NEXT)) is not None:
        return list(kept)
    match found.metadata.get("source"):
        case "input":
            return ["__start__"]
        case "loop":
            return _called(connection, found, page)
    # An update from outside leaves no writes that show the nodes: the state itself triggers them.
    with decoding(found.thread_id):
        place = (found.thread_id, found.inside, found.checkpoint_id)
        channels = decoded_checkpoint(connection, SERDE, place)["channel_values"]
        return [send.node for send in channels.get(SENT, ())] + nodes_triggered(channels)


def _called(connection: Connection, found: Checkpoint, page: Page) -> list[str]:
    """The nodes that the writes of a snapshot trigger."""
    rows = page.writes.get((found.inside, found.parent_id or ""))
    if rows is None:
        place = (SENT, found.thread_id, found.inside, found.parent_id)
        rows = connection.execute(_WRITTEN, place).fetchall()
    with decoding(found.thread_id):
        values = (
            connection.state.whole(found.thread_id, (row["type"], row["value"]))
            for row in rows
            if row["channel"] == SENT
        )
        sent = [SERDE.loads_typed(value).node for value in values]
        return sent + nodes_triggered(row["channel"] for row in rows)


def nodes_run(connection: Connection, found: Checkpoint, page: Page = _ALONE) -> list[str]:
    """The nodes whose work led to a snapshot; of one whose predecessor was pruned they were noted then."""
    if (kept := found.metadata.get("segue_ran")) is not None:
        return list(kept)
    if found.metadata.get("source") != "loop" or found.parent_id is None:
        return []
    return following(connection, _parent_of(connection, found, found.parent_id, page), page)


def _parent_of(connection: Connection, found: Checkpoint, parent_id: str, page: Page) -> Checkpoint:
    row = page.checkpoints.get((found.inside, parent_id))
    if row is None:
        values = {"thread": found.thread_id, "checkpoint": parent_id, "inside": found.inside}
        row = next(iter(connection.fetched(_EXACT, values)), None)
    return find(connection, found.thread_id, parent_id) if row is None else _checkpoint(found.thread_id, row)
