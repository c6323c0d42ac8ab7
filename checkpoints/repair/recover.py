"""Recovery of a damaged thread: back to the newest checkpoints that can be read, its damaged records replaced."""

import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from segue.core.errors import NothingReadable, UnknownThread
from segue.core.events import Recovered, StateChanged
from segue.core.records import Recovery
from segue.core.task_status import OPEN, TaskStatus
from segue.prompts.errors import render
from segue.prompts.language import Language

from ..ports import CheckpointRow, Connection, Database
from ..state.saver import FencedSaver
from ..tables.event_log import complete_events, insert_event
from ..tables.integrity import damaged_rows
from ..tables.leases import check_fence
from .rows import replace_damaged
from .survey import Damage, Readable, Survey

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
        found = await Survey(database, saver, readable, thread_id).damage()
    except (NothingReadable, UnknownThread) as error:
        if not damaged:
            raise
        found = error
    if isinstance(found, Damage) and not found.size and not damaged:
        return _recovery(found, language)
    copy = await copy_aside(time.time())
    fence, now = saver.fence(thread_id), time.time()

    def work(connection: Connection) -> list[str]:
        check_fence(connection, thread_id, fence)
        repaired = replace_damaged(connection, thread_id, now, language)
        if isinstance(found, Damage) and found.size:
            _drop(connection, found, saver, thread_id, now)
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
