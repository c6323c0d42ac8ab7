"""Forks: a new thread with the state of an old one at a snapshot, and its tool calls."""

import json
import math
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from segue.core.errors import ThreadBusy, ThreadExists
from segue.core.events import Paused, StateChanged
from segue.core.task_status import OPEN, TaskStatus

from ..database import Database
from ..event_log import insert_event
from ..integrity import refuse_damaged
from ..row_keys import check_thread, seal_thread
from ..serializer import decoding
from .new_ids import Renaming, copy_rows
from .snapshots import Checkpoint, find, following, has_checkpoints, task_of

_S = TaskStatus
_END = "~"
"""Sorts after every checkpoint's id."""

_NEWEST = "SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ?"
_AT = "SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id = ? AND checkpoint_id <= ?"
_LEAVES = """
    SELECT json_group_array(newest) FROM (
        SELECT max(checkpoint_id) AS newest FROM checkpoints WHERE thread_id = ? AND checkpoint_id <= ?
        GROUP BY checkpoint_ns
    )
"""
_TASKS = "SELECT * FROM tasks WHERE thread_id = ? AND position <= ? ORDER BY position"
_POSITION = "SELECT position FROM tasks WHERE thread_id = ? AND task_id = ?"
_LEASED = "SELECT 1 FROM leases WHERE thread_id = ? AND expires_at > ?"

_OF_CHECKPOINTS = "thread_id = :thread AND checkpoint_id <= :until"
_OF_WRITES = (
    f"{_OF_CHECKPOINTS} AND channel <> '__resume__' AND checkpoint_id NOT IN (SELECT value FROM json_each(:leaves))"
)
_OF_TASKS = "thread_id = :thread AND position <= :last ORDER BY position"
_OF_CALLS = """
    thread_id = :thread AND task_id IN (SELECT value FROM json_each(:tasks))
    AND (task_id IS NOT :open OR started_at <= :at) ORDER BY position
"""
# An event of a node names the checkpoint that the node ran on; one of the runner names none and goes by its time.
_OF_EVENTS = """
    task_id IN (SELECT value FROM json_each(:tasks)) AND (
        task_id IS NOT :open
        OR source IS NULL AND json_extract(event, '$.timestamp') <= :at
        OR substr(source, 1, 36) <= :until AND substr(source, 1, 36) NOT IN (SELECT value FROM json_each(:leaves))
    ) ORDER BY task_id, seq
"""
_REOPEN = """
    UPDATE tasks
    SET status = :status, wanted = iif(:status = 'paused', 'pause', NULL), result = NULL, error = NULL, copy_of = NULL,
        answer = NULL, notes = iif(:whole, notes, (
            SELECT json_group_array(value) FROM json_each(notes) WHERE key < (
                SELECT count(*) FROM events WHERE task_id = :task AND json_extract(event, '$.type') = 'steered'
            )
        ))
    WHERE task_id = :task
"""
_TOUCH = "UPDATE tasks SET updated_at = ? WHERE task_id = ?"
_LAST_STATUS = """
    SELECT json_extract(event, '$.data.new') AS status FROM events
    WHERE task_id = ? AND json_extract(event, '$.type') = 'state_changed' ORDER BY seq DESC LIMIT 1
"""
_MARK = """
    UPDATE checkpoints
    SET metadata = CAST(json_set(CAST(metadata AS TEXT), '$.segue_fork', json(:origin)) AS BLOB)
    WHERE thread_id = :new AND checkpoint_ns = :inside AND checkpoint_id = :checkpoint
"""


@dataclass(frozen=True)
class Cut:
    """What of a thread belongs to a snapshot of it.

    Where the snapshot is still the newest, that is everything. Else it is what had been stored when the snapshot was
    written, and without what was written upon it: the nodes that were next then are to run, their tools with them.
    """

    snapshot: Checkpoint
    whole: bool
    leaves: str = "[]"
    """A JSON list of the checkpoints that nothing had been written upon."""

    @property
    def until(self) -> str:
        return _END if self.whole else self.snapshot.checkpoint_id

    @property
    def at(self) -> float:
        """Unix seconds; what was stored until then belongs to it."""
        return math.inf if self.whole else self.snapshot.created_at


async def fork(
    database: Database,
    thread_id: str,
    checkpoint_id: str,
    new_thread_id: str,
    beside: Iterable[tuple[str, str]] = (),
    clock: Callable[[], float] = time.time,
) -> str | None:
    """Copy a thread, as it was at a snapshot, and return the id of its newest task; None if it has no task.

    All of its tasks get new ids, in every row of theirs. A task that had not ended there is a new one that is paused,
    or waits, and can be resumed: tool calls that had ended are not made again, those that came later may be. What a
    person approved and had not run by then is asked about again. A task that had ended is a `copy_of` its original.
    `beside` names other threads and their copies: they are copied as they were at that moment.

    Raises:
        UnknownThread, UnknownSnapshot, ThreadExists.
        ThreadBusy: something is about to run on a thread of the new name.
        DamagedCheckpoint: the snapshot cannot be read.
        DamagedRow: a row of the thread cannot be read.
    """

    def work(connection: sqlite3.Connection) -> str | None:
        now = clock()
        cut, newest = _fork(connection, thread_id, checkpoint_id, new_thread_id, now)
        for other, copy in beside:
            if at := connection.execute(_AT, (other, cut.until)).fetchone()[0]:
                _fork(connection, other, at, copy, now)
        return newest

    return await database.write(work)


def refuse_taken(connection: sqlite3.Connection, thread_id: str, now: float) -> None:
    """Make sure that a thread has no rows and no live lease.

    Raises:
        ThreadExists, ThreadBusy.
    """
    tables = ("tasks", "events", "calls", *(("checkpoints", "writes") if has_checkpoints(connection) else ()))
    for table in tables:
        if connection.execute(f"SELECT 1 FROM {table} WHERE thread_id = ? LIMIT 1", (thread_id,)).fetchone():
            raise ThreadExists(thread_id)
    if connection.execute(_LEASED, (thread_id, now)).fetchone():
        raise ThreadBusy(thread_id)


def _fork(
    connection: sqlite3.Connection, thread_id: str, checkpoint_id: str, new_thread_id: str, now: float
) -> tuple[Cut, str | None]:
    """What was copied, and the id of the copy's newest task."""
    refuse_damaged(connection, thread_id)
    cut = _cut(connection, find(connection, thread_id, checkpoint_id))
    refuse_taken(connection, new_thread_id, now)
    with decoding(thread_id):
        check_thread(connection, thread_id)
    tasks = _tasks(connection, cut)
    unfinished = unfinished_task(connection, find(connection, thread_id, cut.snapshot.path[""]), tasks)
    renaming = Renaming(row["task_id"] for row in tasks)
    values = {
        "thread": thread_id,
        "new": new_thread_id,
        "until": cut.until,
        "leaves": cut.leaves,
        "at": cut.at,
        "tasks": json.dumps([*renaming.new]),
        "last": tasks[-1]["position"] if tasks else 0,
        "open": unfinished["task_id"] if unfinished else None,
    }
    with renaming.within(connection):
        _copy(connection, values)
    _mark(connection, cut.snapshot, new_thread_id)
    if not tasks:
        return cut, None
    newest = renaming.new[tasks[-1]["task_id"]]
    connection.execute(_TOUCH, (now, newest))
    if unfinished:
        _reopen(connection, cut, unfinished, newest, new_thread_id)
    return cut, newest


def _cut(connection: sqlite3.Connection, snapshot: Checkpoint) -> Cut:
    thread_id = snapshot.thread_id
    newest = {inside: connection.execute(_NEWEST, (thread_id, inside)).fetchone()[0] for inside in snapshot.path}
    if newest == snapshot.path:
        return Cut(snapshot, whole=True)
    leaves = connection.execute(_LEAVES, (thread_id, snapshot.checkpoint_id)).fetchone()[0]
    return Cut(snapshot, whole=False, leaves=leaves)


def _tasks(connection: sqlite3.Connection, cut: Cut) -> list[sqlite3.Row]:
    """The thread's tasks up to the snapshot's, oldest first."""
    thread_id, last = cut.snapshot.thread_id, math.inf
    if not cut.whole:
        row = connection.execute(_POSITION, (thread_id, task_of(connection, cut.snapshot))).fetchone()
        last = row["position"] if row else 0
    return connection.execute(_TASKS, (thread_id, last)).fetchall()


def unfinished_task(
    connection: sqlite3.Connection, outermost: Checkpoint | None, tasks: Sequence[sqlite3.Row]
) -> sqlite3.Row | None:
    """The newest of a thread's tasks, if it had not ended when the chat graph's snapshot was made."""
    if not tasks:
        return None
    last = tasks[-1]
    if outermost and last["task_id"] == task_of(connection, outermost) and following(connection, outermost):
        return last
    return last if last["status"] in OPEN else None


def _copy(connection: sqlite3.Connection, values: dict[str, Any]) -> None:
    thread = {"thread_id": ":new"}
    copy_rows(
        connection, "tasks", _OF_TASKS, values, thread | {"copy_of": "task_id", "wanted": "NULL", "rating": "NULL"}
    )
    copy_rows(connection, "calls", _OF_CALLS, values, thread | {"fence": "0"})
    numbered = {"seq": "row_number() OVER (PARTITION BY task_id ORDER BY seq)"}
    copy_rows(connection, "events", _OF_EVENTS, values, thread | numbered)
    for table, data, where in (("checkpoints", "checkpoint", _OF_CHECKPOINTS), ("writes", "value", _OF_WRITES)):
        renamed = {"type": f"renamed_type(type, {data})", data: f"renamed_data(type, {data})"}
        copy_rows(connection, table, where, values, thread | renamed)
    if has_checkpoints(connection):
        seal_thread(connection, values["new"])


def _mark(connection: sqlite3.Connection, snapshot: Checkpoint, new_thread_id: str) -> None:
    """Note at the snapshot's copy where it came from."""
    origin = json.dumps({"thread_id": snapshot.thread_id, "checkpoint_id": snapshot.checkpoint_id})
    place = {"new": new_thread_id, "inside": snapshot.inside, "checkpoint": snapshot.checkpoint_id}
    connection.execute(_MARK, {**place, "origin": origin})


def _reopen(connection: sqlite3.Connection, cut: Cut, row: sqlite3.Row, task_id: str, new_thread_id: str) -> None:
    """Set the newest task to its status at the snapshot, and end its event log with that."""
    waits = cut.whole and row["status"] == _S.WAITING
    status = (_S.WAITING if waits else _S.PAUSED).value
    connection.execute(_REOPEN, {"task": task_id, "status": status, "whole": cut.whole})
    last = connection.execute(_LAST_STATUS, (task_id,)).fetchone()
    old = last["status"] if last else _S.PENDING.value
    if old != status:
        insert_event(connection, new_thread_id, StateChanged(task_id=task_id, old=old, new=status))
    if not waits:
        reason = f"forked from session '{cut.snapshot.thread_id}'"
        insert_event(connection, new_thread_id, Paused(task_id=task_id, reason=reason))
