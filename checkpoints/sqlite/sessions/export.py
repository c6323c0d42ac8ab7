"""Export of a thread to a JSON document, and import from one."""

import base64
import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from langchain_core.messages import BaseMessage, messages_from_dict
from langgraph.checkpoint.base import empty_checkpoint

from segue.core.errors import DamagedCheckpoint, InvalidExport, UnreadableState
from segue.core.records import Call, Json, StoredEvent, Task, from_row, to_row
from segue.core.task_status import ENDED, OPEN, TaskStatus

from ..database import Database
from ..integrity import refuse_damaged
from ..ledger import canonical
from ..row_keys import check_thread, seal_thread
from ..saver import FencedSqliteSaver
from ..schema import SCHEMA_VERSION
from ..serializer import CheckedSerializer, decoding, decompressed, without_key
from .approvals import RESUME, has_question, without_approvals
from .export_format import FORMAT, VERSION, Document, StatePart, form_of, read_document
from .fork import refuse_taken, unfinished_task
from .new_ids import Renaming
from .snapshots import find, has_checkpoints, refuse_unknown

_S = TaskStatus
_SERDE = CheckedSerializer(allowed_msgpack_modules=[])
_CHECKPOINT_FORM = 4
"""The version of LangGraph's checkpoints that an import is written in."""
_FIRST_VERSION = f"{1:032}.{0:016}"
"""A channel's version, in the form that LangGraph's SQLite saver counts in."""

_TASKS = "SELECT * FROM tasks WHERE thread_id = ? ORDER BY position"
_EVENTS = """
    SELECT event_log.* FROM event_log JOIN tasks USING (task_id) WHERE tasks.thread_id = ? ORDER BY tasks.position, seq
"""
_CALLS = "SELECT * FROM calls WHERE thread_id = ? ORDER BY position"
_NEWEST = "SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ''"
_CHECKPOINTS = """
    SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, CAST(metadata AS TEXT) AS metadata
    FROM checkpoints WHERE thread_id = ? ORDER BY checkpoint_id
"""
_WRITES = "SELECT * FROM writes WHERE thread_id = ? ORDER BY checkpoint_id, task_id, idx"

# A rating counts once for the user: where the task is rated here already, its copy is not.
_UNRATE = "UPDATE tasks SET rating = NULL WHERE thread_id = ? AND copy_of IN (SELECT task_id FROM tasks)"


async def export(database: Database, thread_id: str, clock: Callable[[], float] = time.time) -> Json:
    """A thread as a document; the caller adds its messages as they are at thread.checkpoint_id, if there is one.

    {format, version, exported_at, thread: {thread_id, checkpoint_id}, tasks, events, calls, state}: `state` holds the
    checkpoints if the newest task has not ended, else it is None.

    Raises:
        UnknownThread
        DamagedSession: something of it cannot be read.
    """
    return await database.read(partial(_export, thread_id, clock()))


async def import_(
    database: Database,
    portable: Any,
    thread_id: str,
    user_id: str | None = None,
    clock: Callable[[], float] = time.time,
) -> str | None:
    """Store a document, completed with `messages` and `messages_full`, as a new thread; returns its newest task's id.

    A task that had not ended is paused, or waits if a question interrupted it; without its state it is cancelled.
    What the document says that a person answered or approved is dropped: it is asked again. `user_id` takes the place
    of the users that the document names.

    Raises:
        InvalidExport, ThreadExists, ThreadBusy: nothing was stored.
    """
    document = read_document(portable)
    renaming = Renaming(task.task_id for task in document.tasks)
    rows = [*_task_rows(document, renaming, clock()), *_log_rows(document, renaming)]
    rows += _state_rows(document, document.state, renaming) if document.state else _message_rows(document, renaming)

    await FencedSqliteSaver(database).setup()  # a new database has none of LangGraph's tables yet

    def store(connection: sqlite3.Connection) -> None:
        refuse_taken(connection, thread_id, clock())
        try:
            for table, row in rows:
                own = {"user_id": user_id} if table == "tasks" and user_id is not None else {}
                _insert(connection, table, {**row, **own, "thread_id": thread_id})
            seal_thread(connection, thread_id)
            connection.execute(_UNRATE, (thread_id,))
        except sqlite3.IntegrityError as error:
            raise InvalidExport(f"two of its rows contradict each other ({error})") from error

    await database.write(store)
    return renaming.new[document.tasks[-1].task_id] if document.tasks else None


def _export(thread_id: str, now: float, connection: sqlite3.Connection) -> Json:
    connection.execute("BEGIN")  # one view of all tables
    try:
        refuse_unknown(connection, thread_id)
        refuse_damaged(connection, thread_id)
        tasks = connection.execute(_TASKS, (thread_id,)).fetchall()
        newest = _newest(connection, thread_id)
        outermost = find(connection, thread_id, newest) if newest else None
        unfinished = unfinished_task(connection, outermost, tasks)
        return {
            "format": FORMAT,
            "version": VERSION,
            "exported_at": now,
            "thread": {"thread_id": thread_id, "checkpoint_id": newest},
            "tasks": [form_of(from_row(Task, row)) for row in tasks],
            "events": [form_of(from_row(StoredEvent, row)) for row in connection.execute(_EVENTS, (thread_id,))],
            "calls": [form_of(from_row(Call, row)) for row in connection.execute(_CALLS, (thread_id,))],
            "state": _state(connection, thread_id) if unfinished else None,
        }
    finally:
        connection.execute("COMMIT")


def _newest(connection: sqlite3.Connection, thread_id: str) -> str | None:
    if not has_checkpoints(connection):
        return None
    newest: str | None = connection.execute(_NEWEST, (thread_id,)).fetchone()[0]
    return newest


def _state(connection: sqlite3.Connection, thread_id: str) -> Json:
    if not has_checkpoints(connection):
        return {"checkpoints": [], "writes": []}
    try:
        with decoding(thread_id):
            check_thread(connection, thread_id)
            return _checkpoints(connection, thread_id)
    except DamagedCheckpoint as error:
        raise UnreadableState(thread_id, error.reason) from error


def _checkpoints(connection: sqlite3.Connection, thread_id: str) -> Json:
    checkpoints = connection.execute(_CHECKPOINTS, (thread_id,)).fetchall()
    writes = connection.execute(_WRITES, (thread_id,)).fetchall()
    return {
        "checkpoints": [
            {
                "inside": row["checkpoint_ns"],
                "checkpoint_id": row["checkpoint_id"],
                "parent_id": row["parent_checkpoint_id"],
                "state": _blob(row["type"], row["checkpoint"]),
                "metadata": json.loads(row["metadata"]),
            }
            for row in checkpoints
        ],
        "writes": [
            {
                "inside": row["checkpoint_ns"],
                **{name: row[name] for name in ("checkpoint_id", "task_id", "task_path", "idx", "channel")},
                "value": _blob(row["type"], row["value"]),
            }
            for row in writes
        ],
    }


def _blob(kind: str, data: bytes) -> Json:
    _SERDE.loads_typed((kind, data))  # what cannot be read is not imported either
    plain_kind, plain = decompressed(without_key(kind), data)
    return {"type": plain_kind, "data": base64.b64encode(plain).decode()}


def _insert(connection: sqlite3.Connection, table: str, row: Json) -> None:
    names = ", ".join(row)
    connection.execute(f"INSERT INTO {table} ({names}) VALUES ({', '.join(f':{name}' for name in row)})", row)


def _stored(record: Task | StoredEvent | Call, renaming: Renaming) -> Json:
    """The columns of a record, with the new ids in them; the ledger compares a call's arguments as text."""
    row = to_row(type(record), vars(record))
    if isinstance(record, Call):
        row["arguments"] = canonical(record.arguments)
    return {name: renaming.of(value) for name, value in row.items()}


def _task_rows(document: Document, renaming: Renaming, now: float) -> Iterator[tuple[str, Json]]:
    for task in document.tasks:
        row = _stored(task, renaming) | {"copy_of": task.task_id, "answer": None}
        last = task is document.tasks[-1]
        if last and document.state and task.status not in ENDED:
            status = _S.WAITING if has_question(document.state) else _S.PAUSED
            wanted = "pause" if status is _S.PAUSED else None  # only a person resumes it
            row |= {"status": status.value, "wanted": wanted, "copy_of": None, "result": None, "error": None}
        elif task.status in OPEN:
            row |= {"status": _S.CANCELLED.value}
        yield "tasks", row | ({"updated_at": now} if last else {})


def _log_rows(document: Document, renaming: Renaming) -> Iterator[tuple[str, Json]]:
    yield from (("events", _stored(part, renaming)) for part in document.events)
    yield from (("calls", _stored(part, renaming)) for part in document.calls)


def _state_rows(document: Document, state: StatePart, renaming: Renaming) -> Iterator[tuple[str, Json]]:
    for checkpoint in state.checkpoints:
        metadata = checkpoint.metadata
        if checkpoint.checkpoint_id == document.thread.checkpoint_id:
            metadata = metadata | _origin(document)
        kind, data = renaming.typed(*without_approvals(checkpoint.state))
        yield (
            "checkpoints",
            {
                "checkpoint_ns": checkpoint.inside,
                "checkpoint_id": checkpoint.checkpoint_id,
                "parent_checkpoint_id": checkpoint.parent_id,
                "type": kind,
                "checkpoint": data,
                "metadata": renaming.of(json.dumps(metadata, ensure_ascii=False).encode()),
            },
        )
    for write in state.writes:
        if write.channel == RESUME:
            continue
        kind, data = renaming.typed(*without_approvals(write.value))
        yield (
            "writes",
            {
                "checkpoint_ns": write.inside,
                **write.model_dump(include={"checkpoint_id", "task_id", "task_path", "idx", "channel"}),
                "type": kind,
                "value": data,
            },
        )


def _message_rows(document: Document, renaming: Renaming) -> Iterator[tuple[str, Json]]:
    """One checkpoint that holds the messages, upon which the thread takes the next one."""
    if not document.messages_full:
        return
    checkpoint = {
        **empty_checkpoint(),
        "v": _CHECKPOINT_FORM,
        "channel_values": {"messages": _messages(document, renaming)},
        "channel_versions": {"messages": _FIRST_VERSION},
    }
    kind, data = _SERDE.dumps_typed(checkpoint)
    named = {"segue_task": renaming.new[document.tasks[-1].task_id]} if document.tasks else {}
    metadata = {"source": "update", "step": 0, "parents": {}, "segue_schema": SCHEMA_VERSION, **named}
    yield (
        "checkpoints",
        {
            "checkpoint_ns": "",
            "checkpoint_id": checkpoint["id"],
            "parent_checkpoint_id": None,
            "type": kind,
            "checkpoint": data,
            "metadata": json.dumps(metadata | _origin(document), ensure_ascii=False).encode(),
        },
    )


def _messages(document: Document, renaming: Renaming) -> list[BaseMessage]:
    """The messages, each with its place as its id: of two with one id the history would keep one."""
    try:
        messages = messages_from_dict(json.loads(renaming.of(json.dumps(document.messages_full))))
    except (ValueError, TypeError, LookupError) as error:
        raise InvalidExport(f"its messages_full cannot be read ({type(error).__name__})") from error
    return [message.model_copy(update={"id": f"m{place}"}) for place, message in enumerate(messages)]


def _origin(document: Document) -> Json:
    return {"segue_fork": document.thread.model_dump()}
