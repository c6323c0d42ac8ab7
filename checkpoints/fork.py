"""Forks: a new thread with the state of an old one at a snapshot, and its tool calls."""

import json
import math
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from segue.core.actor import PYTHON
from segue.core.context import Ids
from segue.core.conversation import bot_session
from segue.core.errors import TaskError, ThreadBusy, ThreadExists
from segue.core.events import Paused, StateChanged, Steered
from segue.core.records import OF_A_WAIT, Json, RequestKey, Task, empty_values
from segue.core.task import FORK_MARK, OPEN, TaskStatus

from .events import insert_event
from .ports import CheckpointRow, Connection, WriteRow
from .rows import Undecodable, check_thread, checkpoint_rows, decoding, named, put_rows, rewritten, write_rows
from .schema import RECOVERED, insert_row, refuse_damaged, stored_rows
from .search import index_task
from .snapshots import RESUME, Checkpoint, find, following, task_of
from .tasks import add_key

UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
# What follows the first digits of a whole id, or of its beginning where it names a tool's result,
# `<task>.<scope>.<index>`: a hyphen or a dot is found several times sooner than digits.
_PLACES = re.compile(
    r"-(?<=[0-9a-f]{8}-)[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    r"|\.(?<=[0-9a-f]{8}\.)(?=[^\s.]{1,64}\.\d)"
)
_DIGITS = 8


def is_id(text: str) -> bool:
    """Whether a text is an id as Segue gives them to tasks."""
    return re.fullmatch(UUID, text) is not None


def with_asker(task: Mapping[str, Any], who: str) -> str:
    """Those who asked for a task, and who asks for this copy of it, in the form of its column."""
    return json.dumps([*dict.fromkeys([*json.loads(task["asked_by"]), who])])


class Renaming:
    """A new id for each of some tasks.

    State, messages, ledger and events name a task by its id in many places, in texts among others.
    """

    def __init__(self, task_ids: Iterable[str]) -> None:
        mint = Ids().task
        self.new: dict[str, str] = {}
        for old in task_ids:
            if not is_id(old):
                raise TaskError(
                    "The task {old} has an id that Segue did not give it: its session cannot be copied.", old=old
                )
            self.new[old] = mint()
        self._texts = {**self.new, **{old[:8]: new[:8] for old, new in self.new.items()}}

    def of(self, value: Any) -> Any:
        """The value of a column with the new ids in it; numbers and None stay."""
        return self._replaced(value) if isinstance(value, str) else value

    def row(self, columns: Mapping[str, Any]) -> Json:
        """A row with the new ids in it."""
        return {name: self.of(value) for name, value in columns.items()}

    def typed(self, kind: str, data: bytes) -> tuple[str, bytes]:
        """The type and bytes of a value with the new ids in it; one that cannot be read stays as it is."""
        with suppress(Undecodable), named():
            return (kind, rewritten(data, self.of, of_key=self.of)) if kind == "msgpack" else (kind, data)
        return kind, data

    def checkpoint(self, row: CheckpointRow) -> CheckpointRow:
        """A checkpoint with the new ids in its state and metadata."""
        state, metadata = self.typed(*row.state), self.of(row.metadata)
        return CheckpointRow(row.inside, row.checkpoint_id, row.parent_id, state, metadata)

    def write(self, row: WriteRow) -> WriteRow:
        """A write with the new ids in its value."""
        value = self.typed(*row.value)
        return WriteRow(row.inside, row.checkpoint_id, row.task_id, row.task_path, row.idx, row.channel, value)

    def _replaced(self, value: str) -> str:
        """The value with each id that has a new one replaced by that."""
        parts: list[str] = []
        passed = end = 0
        for place in _PLACES.finditer(value):
            begin = place.start() - _DIGITS
            until = place.end() if place.end() - place.start() > 1 else place.start()  # without the dot
            if begin < passed:  # its digits end another one
                continue
            passed = until
            if (replacement := self._texts.get(value[begin:until])) is not None:
                parts += [value[end:begin], replacement]
                end = until
        parts.append(value[end:])
        return "".join(parts)


_S = TaskStatus
TITLE = 150
"""Characters of the first message in a fork's title."""
_NEWEST = "SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ?"
_LAST = "SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id = ?"
_LAST_UNTIL = f"{_LAST} AND checkpoint_id <= ?"
_LEAVES = """
    SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id = ? AND checkpoint_id <= ? GROUP BY checkpoint_ns
"""
_POSITION = "SELECT position FROM tasks WHERE thread_id = ? AND task_id = ?"
_LEASED = "SELECT 1 FROM leases WHERE thread_id = ? AND expires_at > ?"
_REOPEN = """
    UPDATE tasks
    SET status = :status, requested = :requested, notes = :notes, asked_by = :asked_by, result = NULL,
        error = NULL, copy_of = NULL, answer = NULL
    WHERE task_id = :task
    RETURNING *
"""
_TASK = "SELECT * FROM tasks WHERE task_id = ?"
_TOUCH = "UPDATE tasks SET updated_at = ? WHERE task_id = ?"
_NAME = f"""
    INSERT INTO titles (thread_id, title)
    SELECT :new, CASE WHEN title LIKE '{FORK_MARK}%' THEN title ELSE '{FORK_MARK}' || title END FROM (
        SELECT coalesce(
            (SELECT title FROM titles WHERE thread_id = :old),
            (SELECT substr(message, 1, {TITLE}) FROM tasks WHERE thread_id = :old ORDER BY position LIMIT 1)
        ) AS title
    ) AS original
    WHERE title IS NOT NULL
    ON CONFLICT (thread_id) DO UPDATE SET title = excluded.title
"""
_EVENTS = "SELECT event FROM events WHERE task_id = ? ORDER BY seq"


@dataclass(frozen=True)
class SnapshotScope:
    """What of a thread belongs to a snapshot of it.

    Where the snapshot is still the newest, that is everything. Else it is what had been stored when the snapshot was
    written, and without what was written upon it: the nodes that were next then are to run, their tools with them.
    """

    snapshot: Checkpoint
    whole: bool
    leaves: frozenset[str] = frozenset()
    """The checkpoints that nothing had been written upon."""

    @property
    def until(self) -> str | None:
        """The newest checkpoint that belongs to it; None where all do."""
        return None if self.whole else self.snapshot.checkpoint_id

    @property
    def at(self) -> float:
        """Unix seconds; what was stored until then belongs to it."""
        return math.inf if self.whole else self.snapshot.created_at

    def has(self, checkpoint_id: str) -> bool:
        return self.until is None or checkpoint_id <= self.until

    def has_written(self, checkpoint_id: str) -> bool:
        """Whether what was written upon a checkpoint belongs to it."""
        return self.has(checkpoint_id) and checkpoint_id not in self.leaves


def fork(
    connection: Connection,
    thread_id: str,
    checkpoint_id: str,
    new_thread_id: str,
    beside: Iterable[tuple[str, str]] = (),
    *,
    blocked: bool = False,
    key: RequestKey | None = None,
    by: str = PYTHON,
) -> str | None:
    """Copy a thread, as it was at a snapshot, and return the id of its newest task; None if it has no task.

    All of its tasks get new ids, in every row of theirs. A task that had not ended there is a new one that is paused,
    or waits, and can be resumed: tool calls that had ended are not made again, those that came later may be. What a
    person approved and had not run by then is asked about again. A task that had ended is a `copy_of` its original.
    `beside` names other threads and their copies: they are copied as they were at that moment. A `blocked` task is to
    be cancelled, and cannot be resumed until that is taken back. The actor `by` asks for the new task, too.
    """

    now = time.time()
    add_key(connection, key, new_thread_id)
    scope, newest = _fork(connection, thread_id, checkpoint_id, new_thread_id, now, blocked, by)
    connection.execute(_NAME, {"old": thread_id, "new": new_thread_id})
    for other, copy in beside:
        last = (_LAST, (other,)) if scope.until is None else (_LAST_UNTIL, (other, scope.until))
        if at := connection.execute(*last).fetchone()[0]:
            _fork(connection, other, at, copy, now)
    return newest


def refuse_taken(connection: Connection, thread_id: str) -> None:
    """Make sure that a thread has no rows and no live lease."""
    for table in (*RECOVERED, "checkpoints", "writes"):
        if connection.execute(f"SELECT 1 FROM {table} WHERE thread_id = ? LIMIT 1", (thread_id,)).fetchone():
            raise ThreadExists(thread_id)
    if connection.execute(_LEASED, (thread_id, connection.now())).fetchone():
        raise ThreadBusy(thread_id)


def _fork(
    connection: Connection,
    thread_id: str,
    checkpoint_id: str,
    new_thread_id: str,
    now: float,
    blocked: bool = False,
    by: str = PYTHON,
) -> tuple[SnapshotScope, str | None]:
    """What was copied, and the id of the copy's newest task."""
    refuse_damaged(connection, thread_id)
    scope = _scope_of(connection, find(connection, thread_id, checkpoint_id))
    refuse_taken(connection, new_thread_id)
    tasks = _tasks(connection, scope)
    unfinished = unfinished_task(connection, find(connection, thread_id, scope.snapshot.path[""]), tasks)
    renaming = Renaming(row["task_id"] for row in tasks)
    for row in tasks:
        new = {
            "thread_id": new_thread_id,
            "copy_of": row["task_id"],
            "requested": None,
            "rating": None,
            **empty_values(Task, OF_A_WAIT),
            "called_by": None,
        }
        new["bot_session"] = row["bot_session"] and bot_session(new_thread_id)
        insert_row(connection, "tasks", renaming.row(row) | new)
    _copy_log(connection, scope, renaming, new_thread_id, unfinished["task_id"] if unfinished else None)
    with decoding(thread_id):
        check_thread(connection, thread_id)
        checkpoints, writes = _checkpoints(connection, scope), _writes(connection, scope)
        renamed = map(renaming.checkpoint, checkpoints), map(renaming.write, writes)
        put_rows(connection, new_thread_id, *renamed)
    if not tasks:
        return scope, None
    newest = renaming.new[tasks[-1]["task_id"]]
    connection.execute(_TOUCH, (now, newest))
    if unfinished:
        _reopen(connection, scope, unfinished, newest, new_thread_id, blocked, by)
    return scope, newest


def _scope_of(connection: Connection, snapshot: Checkpoint) -> SnapshotScope:
    thread_id = snapshot.thread_id
    newest = {inside: connection.execute(_NEWEST, (thread_id, inside)).fetchone()[0] for inside in snapshot.path}
    if newest == snapshot.path:
        return SnapshotScope(snapshot, whole=True)
    leaves = connection.execute(_LEAVES, (thread_id, snapshot.checkpoint_id)).fetchall()
    return SnapshotScope(snapshot, whole=False, leaves=frozenset(row[0] for row in leaves))


def _tasks(connection: Connection, scope: SnapshotScope) -> list[Json]:
    """The thread's tasks up to the snapshot's, oldest first."""
    thread_id, last = scope.snapshot.thread_id, math.inf
    if not scope.whole:
        row = connection.execute(_POSITION, (thread_id, task_of(connection, scope.snapshot))).fetchone()
        last = row["position"] if row else 0
    return [row for row in stored_rows(connection, "tasks", thread_id) if row["position"] <= last]


def unfinished_task(connection: Connection, outermost: Checkpoint | None, tasks: Sequence[Json]) -> Json | None:
    """The newest of a thread's tasks, if it had not ended when the chat graph's snapshot was made."""
    if not tasks:
        return None
    last = tasks[-1]
    if outermost and last["task_id"] == task_of(connection, outermost) and following(connection, outermost):
        return last
    return last if last["status"] in OPEN else None


def _copy_log(
    connection: Connection, scope: SnapshotScope, renaming: Renaming, new_thread_id: str, unfinished: str | None
) -> None:
    """Copy the calls and events that belong to the snapshot, of the tasks that get new ids."""
    thread_id = scope.snapshot.thread_id
    for row in stored_rows(connection, "calls", thread_id):
        if row["task_id"] in renaming.new and (row["task_id"] != unfinished or row["started_at"] <= scope.at):
            insert_row(connection, "calls", renaming.row(row) | {"thread_id": new_thread_id, "fence": 0})
    numbers = dict.fromkeys(renaming.new, 0)
    for row in stored_rows(connection, "events", thread_id):
        task_id = row["task_id"]
        if task_id in numbers and (task_id != unfinished or _has_event(scope, row)):
            numbers[task_id] += 1
            insert_row(connection, "events", renaming.row(row) | {"thread_id": new_thread_id, "seq": numbers[task_id]})


def _has_event(scope: SnapshotScope, row: Mapping[str, Any]) -> bool:
    """An event of a node names the checkpoint that it ran on; one of the runner names none and goes by its time."""
    if row["source"] is None:
        return bool(json.loads(row["event"])["timestamp"] <= scope.at)
    return scope.has_written(row["source"][:36])


def _checkpoints(connection: Connection, scope: SnapshotScope) -> Iterator[CheckpointRow]:
    """Those that belong to the snapshot; its own notes where it came from."""
    snapshot = scope.snapshot
    for row in checkpoint_rows(connection, snapshot.thread_id):
        if (row.inside, row.checkpoint_id) == (snapshot.inside, snapshot.checkpoint_id):
            origin = {"thread_id": snapshot.thread_id, "checkpoint_id": snapshot.checkpoint_id}
            noted = json.dumps({**snapshot.metadata, "segue_fork": origin}, ensure_ascii=False)
            yield replace(row, metadata=noted)
        elif scope.has(row.checkpoint_id):
            yield row


def _writes(connection: Connection, scope: SnapshotScope) -> Iterator[WriteRow]:
    return (
        row
        for row in write_rows(connection, scope.snapshot.thread_id)
        if scope.has_written(row.checkpoint_id) and row.channel != RESUME
    )


def _reopen(
    connection: Connection, scope: SnapshotScope, row: Json, task_id: str, new_thread_id: str, blocked: bool, by: str
) -> None:
    """Set the newest task to its status at the snapshot, and end its event log with that."""
    waits = scope.whole and row["status"] == _S.WAITING and row["due"] is None and row["awaited"] is None
    status = (_S.WAITING if waits else _S.PAUSED).value
    requested = "cancel" if blocked else None if waits else "pause"
    events = [json.loads(each["event"]) for each in connection.execute(_EVENTS, (task_id,)).fetchall()]
    added = [event["data"]["message"] for event in events if event["type"] == Steered.type]
    notes = row["notes"] if scope.whole else json.dumps(added)
    (copied,) = connection.fetched(_TASK, (task_id,))
    about = {"task": task_id, "status": status, "requested": requested, "notes": notes}
    about["asked_by"] = with_asker(row, by)
    index_task(connection, connection.execute(_REOPEN, about).fetchone(), copied)
    changes = (event["data"]["new"] for event in reversed(events) if event["type"] == StateChanged.type)
    old = next(changes, _S.PENDING.value)
    if old != status:
        insert_event(connection, new_thread_id, StateChanged(task_id=task_id, old=old, new=status))
    if not waits:
        reason = f"forked from session '{scope.snapshot.thread_id}'"
        insert_event(connection, new_thread_id, Paused(task_id=task_id, reason=reason, forked=True))
