"""Recovery of a damaged thread: back to the newest checkpoints that can be read, its damaged records replaced."""

import json
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from segue.core.audit import RECOVERED, Act
from segue.core.calls import CallResult
from segue.core.context import Ids
from segue.core.errors import NothingReadable, UnknownThread
from segue.core.events import ErrorRaised, Recovered, StateChanged, to_dict
from segue.core.records import Json, Recovery, Session, Task, call_checksum, to_row
from segue.core.row_validators import listed_faults
from segue.core.task_status import OPEN, TaskStatus
from segue.prompts.catalogue import phrase, sentence
from segue.prompts.errors import render
from segue.prompts.language import Language

from ..ports import CheckpointRow, Connection, Database
from ..state.saver import FencedSaver
from ..tables.audit import record
from ..tables.event_log import complete_events, event_row, insert_event
from ..tables.leases import check_fence
from ..tables.rows import ReadRow, damaged_rows, rows_of
from ..tables.search import index_again
from .integrity import Damage, IntegrityCheck, Readable

_PLACE = "thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"
_DROP = (f"DELETE FROM checkpoints WHERE {_PLACE}", f"DELETE FROM writes WHERE {_PLACE}")
# What came from outside, a message or an update, has no path, and went into a checkpoint that is dropped.
_DROP_GIVEN = f"DELETE FROM writes WHERE {_PLACE} AND task_path = ''"
_DROP_STRAYS = """
    DELETE FROM writes WHERE thread_id = :thread AND (checkpoint_ns, checkpoint_id) NOT IN (
        SELECT checkpoint_ns, checkpoint_id FROM checkpoints WHERE thread_id = :thread
    )
"""
_KEPT = f"SELECT parent_checkpoint_id, CAST(metadata AS TEXT) FROM checkpoints WHERE {_PLACE}"
_LATEST = "SELECT task_id, status FROM tasks WHERE thread_id = ? ORDER BY position DESC LIMIT 1"
_ORPHAN = "UPDATE calls SET orphaned = 1 WHERE thread_id = ? AND task_id = ? AND started_at >= ?"
_AT = "SELECT * FROM tasks WHERE position = ?"
_PAUSE = "UPDATE tasks SET status = ?, updated_at = ? WHERE task_id = ?"


Found = Damage | NothingReadable | UnknownThread
"""What of a thread can be read, or why nothing can."""


async def recover(
    database: Database[Any],
    saver: FencedSaver,
    readable: Readable,
    thread_id: str,
    language: Language,
    copy_aside: Callable[[float], Awaitable[str]],
) -> Recovery:
    """Let a thread that `saver` holds go back to the newest state that can be read, and replace its damaged records.

    `copy_aside` is called first and returns the path of a copy; then everything is done in one transaction. Where
    nothing is damaged, nothing is dropped or copied. The thread's newest task can be resumed: calls that the state does
    not know of any more are found again in the ledger, by their name and arguments. Where there are checkpoints and
    none can be read, only the records are replaced.

    Raises:
        UnknownThread: it has no checkpoint, nor any damaged row.
        NothingReadable: it has no checkpoint that can be read, nor any damaged row; nothing was changed.
        StaleOwner: another owner took the thread; nothing was changed.
        DatabaseUnavailable: the file itself is damaged, or has no room for the copy beside it; nothing was changed.
    """
    damaged = await database.read(partial(damaged_rows, thread_id=thread_id))
    found: Found
    try:
        found = await IntegrityCheck(database, saver, readable, thread_id).damage()
    except (NothingReadable, UnknownThread) as error:
        if not damaged:
            raise
        found = error
    if isinstance(found, Damage) and not found.size and not damaged:
        return _recovery(found, language)
    copy = await copy_aside(time.time())
    fence, now, act = saver.fence(thread_id), time.time(), Act(RECOVERED)

    def work(connection: Connection) -> list[str]:
        check_fence(connection, thread_id, fence)
        repaired = replace_damaged(connection, thread_id, now, language)
        if isinstance(found, Damage) and found.size:
            _drop(connection, found, saver, thread_id, now)
        record(connection, act, thread_id, whole=True)
        return repaired

    return _recovery(found, language, copy, await database.write(work))


def _recovery(found: Found, language: Language, copy: str = "", repaired: Sequence[str] = ()) -> Recovery:
    match found:
        case Damage():
            place = found.outermost.checkpoint_id
            return Recovery(place, True, found.created_at, found.size, copy, [*repaired])
        case NothingReadable():
            return Recovery(None, readable=False, copy=copy, repaired=[*repaired, render(found, language)])
    return Recovery(None, copy=copy, repaired=[*repaired])


def _drop(connection: Connection, damage: Damage, saver: FencedSaver, thread_id: str, now: float) -> None:
    for place in damage.checkpoints:
        for statement in _DROP:
            connection.execute(statement, (thread_id, *place))
    for step in damage.steps:
        connection.state.drop_step(thread_id, *step)
    for ns, checkpoint_id in damage.unreadable:
        # Nobody can go back to one of these; logs are read past it.
        parent, metadata = connection.execute(_KEPT, (thread_id, ns, checkpoint_id)).fetchone()
        empty = saver.serde.dumps_typed({"v": 4, "id": checkpoint_id, "channel_values": {}, "channel_versions": {}})
        connection.state.put_checkpoint(thread_id, CheckpointRow(ns, checkpoint_id, parent, empty, metadata))
    connection.execute(_DROP_STRAYS, {"thread": thread_id})
    outermost = damage.outermost
    if outermost.newer:
        connection.execute(_DROP_GIVEN, (thread_id, outermost.ns, outermost.checkpoint_id))
    task = connection.execute(_LATEST, (thread_id,)).fetchone()
    if task is None:
        return
    task_id, status = task
    complete_events(connection, thread_id, task_id)
    connection.execute(_ORPHAN, (thread_id, task_id, damage.unknown_since))
    recovered = Recovered(task_id=task_id, checkpoint_id=outermost.checkpoint_id, reason=damage.reason)
    insert_event(connection, thread_id, recovered)
    if status in OPEN and status != TaskStatus.PAUSED:
        connection.execute(_PAUSE, (TaskStatus.PAUSED, now, task_id))
        insert_event(connection, thread_id, StateChanged(task_id=task_id, old=status, new=TaskStatus.PAUSED.value))


_UNREADABLE = "This text was damaged and could not be read; the session was recovered."
_EMPTY: Json = {
    **dict.fromkeys(("agent_id", "mode", "model", "message"), ""),
    **dict.fromkeys(("error", "result", "requested", "answer", "rating", "copy_of", "agents_file", "agent_version")),
    **dict.fromkeys(("on_upgrade", "offered_version", "due", "awaited", "decisions")),
    "user_id": "default",
    "notes": [],
    "asked_by": [],
}
_NEEDED = frozenset({"task_id", "agent_id", "mode", "model", "status", "message"})
"""What a task cannot continue without."""
_KNOWN = frozenset({"scope", "idx", "name", "arguments", "state", "outcome", "finished_at", "checksum"})
"""What a call counts as made without, its outcome unknown."""

_DROP_EVENT = "DELETE FROM events WHERE task_id = ? AND seq = ?"
# In SQLite a number or an id may be none any more: as bytes both can be compared anyway.
_DROP_GARBLED = """
    DELETE FROM events WHERE CAST(task_id AS BLOB) IS CAST(? AS BLOB) AND CAST(seq AS BLOB) IS CAST(? AS BLOB)
"""
_NUMBERS = "SELECT task_id, seq, event FROM events WHERE thread_id = ? ORDER BY task_id, seq"
_TAKEN = "SELECT 1 FROM calls WHERE thread_id = ? AND task_id = ? AND scope = ? AND idx = ? AND position <> ?"
_PUT_EVENT = """
    INSERT INTO events (task_id, seq, thread_id, source, ordinal, event)
    VALUES (:task_id, :seq, :thread_id, :source, :ordinal, :event)
"""
_NAMELESS = """
    SELECT task_id FROM (
        SELECT task_id FROM events WHERE thread_id = :thread UNION SELECT task_id FROM calls WHERE thread_id = :thread
    ) AS named WHERE task_id NOT IN (SELECT task_id FROM tasks WHERE task_id IS NOT NULL)
"""
_PUT_SESSION = """
    UPDATE sessions SET agent_id = :agent_id, model = :model, metadata = :metadata, created_at = :created_at
    WHERE thread_id = :thread_id
"""


def replace_damaged(connection: Connection, thread_id: str, now: float, language: Language) -> list[str]:
    """Replace what is damaged, in the caller's transaction; returns what was done, a sentence each.

    An event that cannot be read keeps its number and says so. A task that lost what it needs ends with an error. A
    call is never made again: where its outcome is lost, it is unknown.
    """
    damaged = {
        table: [row for row in rows_of(connection, table, thread_id) if row.faults]
        for table in ("events", "tasks", "calls", "sessions")
    }
    return [
        *_replace_events(connection, thread_id, damaged["events"], now, language),
        *[_replace_task(connection, thread_id, row, now, language) for row in damaged["tasks"]],
        *[_replace_call(connection, thread_id, row, now, language) for row in damaged["calls"]],
        *[_replace_session(connection, thread_id, row, now, language) for row in damaged["sessions"]],
    ]


def _update(connection: Connection, table: str, row: ReadRow, new: Json) -> None:
    columns = ", ".join(f"{column} = :{column}" for column in new)
    values = {**new, "position": row.stored["position"]}
    connection.execute(f"UPDATE {table} SET {columns} WHERE position = :position", values)


def _replace_events(
    connection: Connection, thread_id: str, rows: Iterable[ReadRow], now: float, language: Language
) -> list[str]:
    dropped = 0
    for row in rows:
        task_id, seq = row.stored["task_id"], row.stored["seq"]
        readable = isinstance(task_id, str) and isinstance(seq, int)
        dropped += connection.execute(_DROP_EVENT if readable else _DROP_GARBLED, (task_id, seq)).rowcount
    if not dropped:
        return []
    filled: dict[str, list[str]] = {}
    numbers: dict[str, int] = {}
    moment = now
    for task_id, seq, event in connection.execute(_NUMBERS, (thread_id,)).fetchall():
        at = json.loads(event)["timestamp"]
        for gap in range(numbers.get(task_id, 0) + 1, seq):
            form = to_dict(ErrorRaised(task_id=task_id, message=_UNREADABLE, timestamp=moment if gap > 1 else at))
            connection.execute(_PUT_EVENT, {**event_row(thread_id, None, 0, form), "seq": gap})
            filled.setdefault(task_id, []).append(str(gap))
        numbers[task_id], moment = seq, at
    said = [
        sentence("events_replaced", language, task=task, numbers=", ".join(numbered))
        for task, numbered in filled.items()
    ]
    left = dropped - sum(map(len, filled.values()))
    return [*said, sentence("events_dropped", language, n=left)] if left > 0 else said


def _replace_task(connection: Connection, thread_id: str, row: ReadRow, now: float, language: Language) -> str:
    task_id = row.task_id or _nameless(connection, thread_id)
    whole = {**_EMPTY, "task_id": task_id, "thread_id": thread_id, "created_at": now, "updated_at": now}
    new: Json = {column: whole.get(column) for column in row.faults}
    status = row.values.get("status")
    ended = bool(row.faults.keys() & _NEEDED) and (status is None or status in OPEN)
    if ended:
        error = f"The record of this task was damaged ({listed_faults(row.faults)}): send its message again."
        new |= {"status": TaskStatus.ERROR.value, "error": error}
    _update(connection, "tasks", row, to_row(Task, new))
    index_again(connection, connection.fetched(_AT, (row.stored["position"],))[0])
    if ended:
        old = status or TaskStatus.PENDING.value
        insert_event(connection, thread_id, StateChanged(task_id=task_id, old=old, new=TaskStatus.ERROR.value))
    what = "task_ended_damaged" if ended else "task_emptied"
    return sentence(what, language, task=task_id, fields=", ".join(row.faults))


def _nameless(connection: Connection, thread_id: str) -> str:
    """The id that events or calls of the session name, and no task has; else a new one."""
    row = connection.execute(_NAMELESS, {"thread": thread_id}).fetchone()
    return str(row["task_id"]) if row and isinstance(row["task_id"], str) else Ids().task()


def _replace_call(connection: Connection, thread_id: str, row: ReadRow, now: float, language: Language) -> str:
    lost = f"damaged#{row.stored['position']}"
    if "checksum" in row.faults:  # some column is not what it was: the place may be right, the arguments may be
        lost = f"{lost} {row.values['scope']}/{row.values['idx']}"
    name = row.values.get("name", "unknown")
    latest = connection.execute(_LATEST, (thread_id,)).fetchone()
    whole: dict[str, Any] = {
        "thread_id": thread_id,
        "task_id": latest["task_id"] if latest else Ids().task(),
        "scope": lost,
        "idx": 0,
        "name": name,
        "arguments": "{}",
        "fence": 0,
        "started_at": row.values.get("finished_at") or now,
        "orphaned": 0,
    }
    new: Json = {column: whole[column] for column in row.faults if column in whole}
    kept = None if "checksum" in row.faults else row.values.get("outcome")
    if row.faults.keys() & _KNOWN:
        outcome = CallResult.outcome_unknown(phrase("call_record_damaged", language, tool=name)).json()
        new |= {"state": "done", "outcome": json.dumps(kept or outcome)}
        new["finished_at"] = row.values.get("finished_at") or row.values.get("started_at") or now
    if row.faults.keys() & {"scope", "idx", "checksum"}:  # it is found again by its name and arguments
        new |= {"scope": lost, "idx": 0, "orphaned": 1}
    place = {**row.stored, **new}
    key = [place[column] for column in ("thread_id", "task_id", "scope", "idx")]
    if connection.execute(_TAKEN, (*key, row.stored["position"])).fetchone():
        new |= {"scope": lost, "orphaned": 1}  # it was made again while it could not be found
    _update(connection, "calls", row, {**new, "checksum": call_checksum({**row.stored, **new})})
    return sentence(
        "call_repaired",
        language,
        name=name,
        task=row.task_id or whole["task_id"],
        fields=", ".join(row.faults),
        unknown=sentence("call_unknown", language) if "outcome" in new and not kept else "",
        stuck=sentence("call_stuck", language) if row.faults.keys() & {"name", "arguments"} else "",
    )


def _replace_session(connection: Connection, thread_id: str, row: ReadRow, now: float, language: Language) -> str:
    whole = {**asdict(Session(thread_id, created_at=now)), **row.values}
    connection.execute(_PUT_SESSION, to_row(Session, whole))
    return sentence("session_emptied", language, fields=", ".join(row.faults))
