"""Export of a thread to a JSON document, and import from one."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.messages import BaseMessage, messages_from_dict
from langgraph.checkpoint.base import empty_checkpoint

from segue.core.actor import actor
from segue.core.calls import SOURCES
from segue.core.conversation import bot_session
from segue.core.errors import (
    DamagedCheckpoint,
    DatabaseUnavailable,
    InvalidExport,
    TaskError,
    ThreadBusy,
    UnreadableState,
)
from segue.core.records import Call, Json, RequestKey, StoredEvent, Task, from_row, to_row
from segue.core.task_status import ENDED, OPEN, TaskStatus

from ..ports import CheckpointRow, Connection, Stored, WriteRow
from ..state.checksums import check_thread
from ..state.rows import checkpoint_rows, put_rows, write_rows
from ..state.serializer import SERDE, Undecodable, decoding
from ..tables.ledger import canonical
from ..tables.request_keys import add_key
from ..tables.rows import ORDERED, insert_row, refuse_damaged, stored_rows
from .export_format import (
    FORMAT,
    VERSION,
    Document,
    StatePart,
    blob_form,
    form_of,
    has_question,
    read_document,
    without_approvals,
)
from .fork import Renaming, refuse_taken, unfinished_task, with_asker
from .snapshots import RESUME, find, refuse_unknown

IMPORTED = "segue_import"
"""Marks the metadata of the checkpoint that an imported thread begins from."""

_S = TaskStatus
_CHECKPOINT_FORM = 4
"""The version of LangGraph's checkpoints that an import is written in."""
_FIRST_VERSION = "00000001"
"""A channel's version."""
_EVENTS = """
    SELECT event_log.* FROM event_log JOIN tasks USING (task_id) WHERE tasks.thread_id = ? ORDER BY tasks.position, seq
"""
_NEWEST = "SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ''"

# A rating counts once for the user: where the task is rated here already, its copy is not.
_UNRATE = "UPDATE tasks SET rating = NULL WHERE thread_id = ? AND copy_of IN (SELECT task_id FROM tasks)"


@dataclass(frozen=True)
class Import:
    """What a document becomes in the database: the rows of its tables, its checkpoints and writes, all with new ids."""

    rows: Sequence[tuple[str, Json]]
    checkpoints: Sequence[CheckpointRow]
    writes: Sequence[WriteRow]
    newest: str | None
    """The id of the newest task."""


def read_import(portable: Any) -> Import:
    """What is stored of a document, completed with `messages` and `messages_full`.

    A task that had not ended is paused, or waits if a question interrupted it or which version of its agent continues
    it is open; without its state it is cancelled.
    What the document says that a person answered or approved is dropped: it is asked again.

    Raises:
        InvalidExport
    """
    document = read_document(portable)
    renaming = Renaming(task.task_id for task in document.tasks)
    rows = [*_task_rows(document, renaming, time.time()), *_log_rows(document, renaming)]
    writes = [*_write_rows(document.state, renaming)] if document.state else []
    newest = renaming.new[document.tasks[-1].task_id] if document.tasks else None
    return Import(rows, [*_checkpoint_rows(document, renaming)], writes, newest)


def store_import(
    connection: Connection, read: Import, thread_id: str, user_id: str | None, key: RequestKey | None
) -> None:
    """Store a document as a new thread; `user_id` takes the place of the users that it names.

    Raises:
        InvalidExport, ThreadExists, ThreadBusy, KeyUsed.
    """
    add_key(connection, key, thread_id)
    refuse_taken(connection, thread_id)
    try:
        for table, row in read.rows:
            own = _own(row, thread_id, user_id) if table == "tasks" else {}
            insert_row(connection, table, {**row, **own, "thread_id": thread_id})
        put_rows(connection, thread_id, read.checkpoints, read.writes)
        connection.execute(_UNRATE, (thread_id,))
    except connection.duplicate as error:
        raise InvalidExport(f"two of its rows contradict each other ({error})") from error


def _own(task: Json, thread_id: str, user_id: str | None) -> Json:
    """What a task has here in place of what its document says."""
    bot = bot_session(thread_id) if task["bot_session"] else None
    return {"bot_session": bot, "user_id": task["user_id"] if user_id is None else user_id}


def export(connection: Connection, thread_id: str) -> Json:
    """A thread as a document; the caller adds its messages as they are at thread.checkpoint_id, if there is one.

    {format, version, exported_at, thread: {thread_id, checkpoint_id}, tasks, events, calls, state}: `state` holds the
    checkpoints if the newest task has not ended, else it is None.

    Raises:
        UnknownThread
        DamagedSession: something of it cannot be read.
    """
    with connection.state.view():
        refuse_unknown(connection, thread_id)
        refuse_damaged(connection, thread_id)
        tasks = stored_rows(connection, "tasks", thread_id)
        newest = connection.execute(_NEWEST, (thread_id,)).fetchone()[0]
        outermost = find(connection, thread_id, newest) if newest else None
        unfinished = unfinished_task(connection, outermost, tasks)
        events = connection.execute(_EVENTS, (thread_id,)).fetchall()
        return {
            "format": FORMAT,
            "version": VERSION,
            "exported_at": time.time(),
            "thread": {"thread_id": thread_id, "checkpoint_id": newest},
            "tasks": [form_of(from_row(Task, row)) for row in tasks],
            "events": [form_of(from_row(StoredEvent, row)) for row in events],
            "calls": [form_of(from_row(Call, row)) for row in stored_rows(connection, "calls", thread_id)],
            "state": _state(connection, thread_id) if unfinished else None,
        }


def _state(connection: Connection, thread_id: str) -> Json:
    try:
        with decoding(thread_id):
            check_thread(connection, thread_id)
            return {
                "checkpoints": [_checkpoint_form(row) for row in checkpoint_rows(connection, thread_id)],
                "writes": [_write_form(row) for row in write_rows(connection, thread_id)],
            }
    except DamagedCheckpoint as error:
        raise UnreadableState(thread_id, error.reason) from error


def _checkpoint_form(row: CheckpointRow) -> Json:
    return {
        "inside": row.inside,
        "checkpoint_id": row.checkpoint_id,
        "parent_id": row.parent_id,
        "state": _blob(row.state),
        "metadata": json.loads(row.metadata),
    }


def _write_form(row: WriteRow) -> Json:
    names = ("inside", "checkpoint_id", "task_id", "task_path", "idx", "channel")
    return {**{name: getattr(row, name) for name in names}, "value": _blob(row.value)}


def _blob(value: Stored) -> Json:
    SERDE.loads_typed(value)  # what cannot be read is not imported either
    return blob_form(*value)


def _stored(record: Task | StoredEvent | Call, renaming: Renaming) -> Json:
    """The columns of a record, with the new ids in them; the ledger compares a call's arguments as text.

    What a document says of the sources of a result is not believed.
    """
    if isinstance(record, Call) and record.outcome:
        outcome = {name: value for name, value in record.outcome.items() if name != SOURCES}
        record = replace(record, outcome=outcome)
    row = to_row(type(record), vars(record))
    if isinstance(record, Call):
        row["arguments"] = canonical(record.arguments)
    return {name: renaming.of(value) for name, value in row.items()}


def _task_rows(document: Document, renaming: Renaming, now: float) -> Iterator[tuple[str, Json]]:
    for task in document.tasks:
        row = _stored(task, renaming) | {"copy_of": task.task_id}
        row |= {**dict.fromkeys(("answer", "due", "awaited", "decisions")), "asked_by": with_asker(row, actor())}
        last = task is document.tasks[-1]
        if last and document.state and task.status not in ENDED:
            asks = task.asks_for_version or (has_question(document.state) and not task.continues_itself)
            status = _S.WAITING if asks else _S.PAUSED
            requested = "pause" if status is _S.PAUSED else None  # only a person resumes it
            row |= {"status": status.value, "requested": requested, "copy_of": None, "result": None, "error": None}
        elif task.status in OPEN:
            row |= {"status": _S.CANCELLED.value}
        yield "tasks", row | ({"updated_at": now} if last else {})


def _log_rows(document: Document, renaming: Renaming) -> Iterator[tuple[str, Json]]:
    yield from (("events", _stored(part, renaming)) for part in document.events)
    yield from (("calls", _stored(part, renaming)) for part in document.calls)


def _checkpoint_rows(document: Document, renaming: Renaming) -> Iterator[CheckpointRow]:
    if document.state is None:
        yield from _message_row(document, renaming)
        return
    for part in document.state.checkpoints:
        metadata = part.metadata
        if part.checkpoint_id == document.thread.checkpoint_id:
            metadata = metadata | _origin(document)
        noted = json.dumps(metadata, ensure_ascii=False)
        state = without_approvals(part.state)
        yield renaming.checkpoint(CheckpointRow(part.inside, part.checkpoint_id, part.parent_id, state, noted))


def _write_rows(state: StatePart, renaming: Renaming) -> Iterator[WriteRow]:
    for part in state.writes:
        if part.channel != RESUME:
            value = without_approvals(part.value)
            place = (part.inside, part.checkpoint_id, part.task_id, part.task_path, part.idx, part.channel)
            yield renaming.write(WriteRow(*place, value))


def _message_row(document: Document, renaming: Renaming) -> Iterator[CheckpointRow]:
    """One checkpoint that holds the messages, upon which the thread takes the next one."""
    if not document.messages_full:
        return
    checkpoint = {
        **empty_checkpoint(),
        "v": _CHECKPOINT_FORM,
        "channel_values": {"messages": _messages(document, renaming)},
        "channel_versions": {"messages": _FIRST_VERSION},
    }
    named = {"segue_task": renaming.new[document.tasks[-1].task_id]} if document.tasks else {}
    metadata = {"source": "update", "step": 0, "parents": {}, **named}
    noted = json.dumps(metadata | _origin(document), ensure_ascii=False)
    yield CheckpointRow("", str(checkpoint["id"]), None, SERDE.plain_typed(checkpoint), noted)


def _messages(document: Document, renaming: Renaming) -> list[BaseMessage]:
    """The messages, each with its place as its id: of two with one id the history would keep one."""
    try:
        messages = messages_from_dict(json.loads(renaming.of(json.dumps(document.messages_full))))
    except (ValueError, TypeError, LookupError) as error:
        raise InvalidExport(f"its messages_full cannot be read ({type(error).__name__})") from error
    return [message.model_copy(update={"id": f"m{place}"}) for place, message in enumerate(messages)]


def _origin(document: Document) -> Json:
    return {"segue_fork": document.thread.model_dump(), IMPORTED: True}


TABLES = (
    *("tasks", "calls", "events", "sent_events", "permissions", "titles", "request_keys", "sessions", "branches"),
    "shares",
)
"""Those whose rows belong to a thread, and stay what they are."""
_THREADS = """
    SELECT thread_id FROM (
        SELECT thread_id, position FROM tasks UNION ALL SELECT thread_id, 0 FROM checkpoints WHERE checkpoint_ns = ''
    ) AS every GROUP BY thread_id ORDER BY max(position), thread_id
"""
_LEASE = "SELECT owner, fence, expires_at FROM leases WHERE thread_id = ?"
_PREFERENCES = "SELECT * FROM preferences WHERE user_id IN (SELECT user_id FROM tasks WHERE thread_id = ?) ORDER BY 1"
# Whoever takes the thread there gets a higher fence than anybody had who wrote to it here.
_FENCE = """
    INSERT INTO leases (thread_id, owner, fence, expires_at) VALUES (?, '', ?, 0)
    ON CONFLICT (thread_id) DO UPDATE
    SET fence = CASE WHEN leases.fence > excluded.fence THEN leases.fence ELSE excluded.fence END
"""
_PREFER = "INSERT INTO preferences (user_id, default_mode) VALUES (:user_id, :default_mode) ON CONFLICT DO NOTHING"


@dataclass(frozen=True)
class WholeThread:
    """A thread with everything that is stored of it, and what its users prefer."""

    thread_id: str
    fence: int
    rows: Mapping[str, Sequence[Json]]
    preferences: Sequence[Json]
    checkpoints: Sequence[CheckpointRow]
    writes: Sequence[WriteRow]

    def content(self) -> Any:
        """What of it is the same in every database."""
        rows = {table: [{**row, "position": None} for row in rows] for table, rows in self.rows.items()}
        for table in rows.keys() - ORDERED:
            rows[table].sort(key=str)
        checkpoints = [
            (row.inside, row.checkpoint_id, row.parent_id, _loaded(row.state), json.loads(row.metadata))
            for row in self.checkpoints
        ]
        writes = [
            (row.inside, row.checkpoint_id, row.task_id, row.idx, row.task_path, row.channel, _loaded(row.value))
            for row in self.writes
        ]
        return rows, sorted(checkpoints, key=lambda row: row[:2]), sorted(writes, key=lambda row: row[:4])


def _loaded(value: tuple[str, bytes]) -> Any:
    return SERDE.loads_typed(value)


def threads_of(connection: Connection) -> list[str]:
    """The threads of a database, those that were used last at the end."""
    return [row["thread_id"] for row in connection.execute(_THREADS).fetchall()]


def read_thread(connection: Connection, thread_id: str) -> WholeThread:
    """A thread that nobody runs.

    Raises:
        UnknownThread.
        ThreadBusy: a task of it runs.
        DamagedSession: something of it cannot be read.
    """
    with connection.state.view():
        refuse_unknown(connection, thread_id)
        lease = connection.execute(_LEASE, (thread_id,)).fetchone()
        if lease is not None and lease["owner"] and lease["expires_at"] > connection.now():
            raise ThreadBusy(thread_id)
        refuse_damaged(connection, thread_id)
        with decoding(thread_id):
            check_thread(connection, thread_id)
            whole = _read(connection, thread_id, 0 if lease is None else lease["fence"])
            whole.content()
            return whole


def store_thread(connection: Connection, whole: WholeThread) -> bool:
    """Store a thread, with all its ids; False where it is there already, just as it is.

    Raises:
        TaskError: there is another one of its name, or one that has gone on.
        DatabaseUnavailable: the database would not hold what was read.
    """
    for table in ("tasks", "events", "calls", "sessions", "checkpoints", "writes"):
        if connection.execute(f"SELECT 1 FROM {table} WHERE thread_id = ? LIMIT 1", (whole.thread_id,)).fetchone():
            if not _is_same(connection, whole):
                raise _taken(whole.thread_id)
            return False
    try:
        for table, rows in whole.rows.items():
            for row in rows:
                insert_row(connection, table, row)
    except connection.duplicate as error:
        raise _taken(whole.thread_id) from error
    for row in whole.preferences:
        connection.execute(_PREFER, row)
    connection.execute(_FENCE, (whole.thread_id, whole.fence))
    put_rows(connection, whole.thread_id, whole.checkpoints, whole.writes)
    if not _is_same(connection, whole):
        raise DatabaseUnavailable(
            "Session '{thread_id}' reads differently in the target database: it was not copied.",
            thread_id=whole.thread_id,
        )
    return True


def _taken(thread_id: str) -> TaskError:
    return TaskError(
        "The target database already has another session '{thread_id}': delete one of the two, or export "
        "it and import it under another name.",
        thread_id=thread_id,
    )


def _is_same(connection: Connection, whole: WholeThread) -> bool:
    try:
        return bool(_read(connection, whole.thread_id, whole.fence).content() == whole.content())
    except Undecodable:
        return False


def _lasting(rows: Sequence[Json], table: str) -> Iterator[Json]:
    """The rows, without links that have expired: those are deleted whenever a link is made."""
    return (row for row in rows if table != "shares" or row["expires_at"] > time.time())


def _read(connection: Connection, thread_id: str, fence: int) -> WholeThread:
    return WholeThread(
        thread_id,
        fence,
        {table: [*_lasting(stored_rows(connection, table, thread_id), table)] for table in TABLES},
        [dict(row) for row in connection.fetched(_PREFERENCES, (thread_id,))],
        [*checkpoint_rows(connection, thread_id)],
        [*write_rows(connection, thread_id)],
    )
