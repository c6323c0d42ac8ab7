"""Export of a thread to a JSON document, its format, and import from one."""

import base64
import binascii
import json
import time
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, TypeVar

from langchain_core.messages import BaseMessage, messages_from_dict
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.types import Interrupt, Send
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from segue.core.actor import actor
from segue.core.calls import PAUSE, SOURCES, PendingCall, is_pending_call, unapproved_state
from segue.core.conversation import bot_session
from segue.core.errors import (
    DamagedCheckpoint,
    DatabaseUnavailable,
    InvalidExport,
    TaskError,
    ThreadBusy,
    UnreadableState,
)
from segue.core.events import QuestionAnswered
from segue.core.records import (
    LOCAL,
    OF_A_WAIT,
    Call,
    Json,
    RequestKey,
    StoredEvent,
    Task,
    column_of,
    empty_values,
    from_row,
    names_of,
    read,
    record_of,
    to_row,
)
from segue.core.task import ENDED, OPEN, TaskStatus

from .fork import UUID, Renaming, is_id, refuse_taken, unfinished_task, with_asker
from .ledger import canonical
from .ports import CheckpointRow, Connection, Stored, WriteRow
from .rows import SERDE, Undecodable, check_thread, checkpoint_rows, decoding, is_plausible, put_rows, write_rows
from .schema import OF_SESSIONS, ORDERED, RECOVERED, insert_row, refuse_damaged, stored_rows
from .snapshots import RESUME, find, refuse_unknown
from .tasks import add_key

# The form of an exported thread: what its document must hold to be imported.

FORMAT = "segue.thread"
VERSION = 3
# `json` and `pickle` would let a document choose what is called when it is read.
_KINDS = ("msgpack", "null", "bytes", "bytearray")

Id = Annotated[str, Field(pattern=f"^{UUID}$")]
JsonObject = dict[str, Any]
R = TypeVar("R", Task, StoredEvent, Call)


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)


class Blob(_Part):
    """Bytes of the saver's, in base64, with their type and checksum."""

    type: str
    data: str
    crc32: int

    def value(self) -> Stored:
        """The type and the bytes."""
        data = base64.b64decode(self.data, validate=True)
        if zlib.crc32(data) != self.crc32:
            raise Undecodable("its bytes have changed since they were stored")
        return self.type, data


def blob_form(kind: str, data: bytes) -> JsonObject:
    """Bytes as a document holds them."""
    return {"type": kind, "data": base64.b64encode(data).decode(), "crc32": zlib.crc32(data)}


class CheckpointPart(_Part):
    """A row of checkpoints."""

    inside: str
    checkpoint_id: Id
    parent_id: Id | None
    state: Blob
    metadata: JsonObject


class WritePart(_Part):
    """A row of writes; its task is LangGraph's."""

    inside: str
    checkpoint_id: Id
    task_id: str
    task_path: str
    idx: Annotated[int, Field(ge=-100, lt=2**31)]
    channel: str
    value: Blob


class StatePart(_Part):
    """The checkpoints of a thread whose newest task had not ended."""

    checkpoints: list[CheckpointPart]
    writes: list[WritePart]


class ThreadPart(_Part):
    """Where the document comes from."""

    thread_id: str
    checkpoint_id: str | None


class _Form(_Part):
    """A document as it is written; `messages` are in OpenAI's format, for people and other programs."""

    thread: ThreadPart
    messages: list[Any]
    messages_full: list[JsonObject]
    tasks: list[JsonObject]
    events: list[JsonObject]
    calls: list[JsonObject]
    state: StatePart | None = None


@dataclass(frozen=True)
class Document:
    """An exported thread; its records belong to no thread of this database yet."""

    thread: ThreadPart
    messages_full: list[JsonObject]
    tasks: list[Task]
    events: list[StoredEvent]
    calls: list[Call]
    state: StatePart | None


def form_of(record: Task | StoredEvent | Call) -> JsonObject:
    """A record as a document holds it."""
    kind: type = type(record)
    exported = names_of(kind, without=LOCAL)
    return {column_of(name): value for name, value in vars(record).items() if column_of(name) in exported}


def read_document(portable: Any) -> Document:
    """The document, checked."""
    if not isinstance(portable, Mapping) or portable.get("format") != FORMAT:
        raise InvalidExport("it is no exported session")
    version = portable.get("version")
    if isinstance(version, bool) or version != VERSION:
        raise InvalidExport(f"its version is {version!r} and this Segue reads version {VERSION}")
    try:
        form = _Form.model_validate(dict(portable))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InvalidExport(f"its {place} is wrong ({first['msg'].lower()})") from error
    document = Document(
        form.thread,
        form.messages_full,
        _records(Task, "tasks", form.tasks),
        _records(StoredEvent, "events", form.events),
        _records(Call, "calls", form.calls),
        form.state,
    )
    _check_tasks(document)
    _check_events(document)
    if document.state:
        _check_state(document.state)
    return document


def _records(kind: type[R], name: str, forms: list[JsonObject]) -> list[R]:
    records: list[R] = []
    own = {"thread_id": "imported", **empty_values(kind, LOCAL)}
    for place, form in enumerate(forms):
        values, faults = read(kind, defaultdict(lambda: None, {**form, **own}), stored=False)
        for column, fault in faults.items():
            raise InvalidExport(f"its {name}.{place}.{column} is wrong ({fault})")
        records.append(record_of(kind, values))
    return records


def _check_tasks(document: Document) -> None:
    for place, task in enumerate(document.tasks):
        if not is_id(task.task_id):
            raise InvalidExport(f"its tasks.{place}.task_id is wrong (should be an id that Segue gave)")
    known = {task.task_id for task in document.tasks}
    if len(known) < len(document.tasks):
        raise InvalidExport("two of its tasks have one id")
    named = {event.task_id for event in document.events} | {call.task_id for call in document.calls}
    if named - known:
        raise InvalidExport("it holds events or calls of a task that it does not hold")


def _check_events(document: Document) -> None:
    last: dict[str, int] = {}
    for stored in document.events:
        if stored.seq != last.get(stored.task_id, 0) + 1:
            raise InvalidExport(f"the events of task {stored.task_id} are not numbered from 1 without a gap")
        last[stored.task_id] = stored.seq
        if stored.event["task_id"] != stored.task_id:
            raise InvalidExport(f"event {stored.seq} of task {stored.task_id} names another task")


def _check_state(state: StatePart) -> None:
    known = {(part.inside, part.checkpoint_id) for part in state.checkpoints}
    if len(known) < len(state.checkpoints):
        raise InvalidExport("two of its checkpoints have one id")
    for checkpoint in state.checkpoints:
        stored = _decode_blob(checkpoint.state)
        is_own = isinstance(stored, dict) and stored.get("id") == checkpoint.checkpoint_id
        if not is_own or not is_plausible(checkpoint.checkpoint_id):
            raise InvalidExport(f"its checkpoint {checkpoint.checkpoint_id} is malformed")
        if checkpoint.parent_id and (checkpoint.inside, checkpoint.parent_id) not in known:
            raise InvalidExport(f"the parent of its checkpoint {checkpoint.checkpoint_id} is missing")
    for write in state.writes:
        _decode_blob(write.value)


def _decode_blob(blob: Blob) -> Any:
    """What the bytes hold, so that none are stored that cannot be read."""
    if blob.type not in _KINDS:
        raise InvalidExport(f"it holds state of the type '{blob.type}', which is not read from documents")
    try:
        return SERDE.loads_typed(blob.value())
    except (Undecodable, binascii.Error) as error:
        raise InvalidExport(f"its state is damaged ({error})") from error


_INTERRUPT = "__interrupt__"


def without_approvals(blob: Blob) -> tuple[str, bytes]:
    """The type and bytes of a stored value, without what says of calls in it that nobody has to be asked."""
    value = SERDE.loads_typed(blob.value())
    return SERDE.plain_typed(value) if _strip(value) else blob.value()


def _strip(value: Any) -> bool:
    """Take the approvals of calls and the findings about their sources out, in place; whether there were any."""
    found, waiting = False, [value]
    while waiting:
        part = waiting.pop()
        match part:
            case Send():
                waiting.append(part.arg)
            case dict() if is_pending_call(part) and "state" in part:
                try:
                    PendingCall.of(part)
                except (KeyError, TypeError, ValueError) as error:
                    raise InvalidExport(f"a call in its state cannot be read ({type(error).__name__})") from error
                before = {**part}
                part["state"] = unapproved_state(part["state"])
                part.pop("assessment", None)
                found |= part != before
            case dict():
                waiting += part.values()
            case list() | tuple() | set():
                waiting += part
    return found


def has_question(state: StatePart) -> bool:
    """Whether the state is interrupted by a question to a person, in an innermost graph."""
    places = _waiting_checkpoints(state.checkpoints)
    asked = (
        SERDE.loads_typed(write.value.value())
        for write in state.writes
        if write.channel == _INTERRUPT and (write.inside, write.checkpoint_id) in places
    )
    return any(_is_question(each) for interrupts in asked for each in _several(interrupts))


def _waiting_checkpoints(checkpoints: Iterable[CheckpointPart]) -> set[tuple[str, str]]:
    """The newest checkpoint of each graph that is under way and waits for no graph inside it."""
    newest = {part.inside: part for part in sorted(checkpoints, key=lambda part: part.checkpoint_id)}
    places = {(part.inside, part.checkpoint_id): _outside(part) for part in newest.values()}
    under_way = {place: outside for place, outside in places.items() if outside <= places.keys()}
    return under_way.keys() - set().union(*under_way.values())


def _outside(part: CheckpointPart) -> set[tuple[str, str]]:
    parents = part.metadata.get("parents")
    return set(parents.items()) if isinstance(parents, dict) else set()


def _several(interrupts: Any) -> Iterable[Any]:
    return interrupts if isinstance(interrupts, list | tuple) else (interrupts,)


def _is_question(interrupt: Any) -> bool:
    return (
        isinstance(interrupt, Interrupt) and isinstance(interrupt.value, Mapping) and interrupt.value != {"kind": PAUSE}
    )


# Export of a thread to a JSON document, and import from one.

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
    """Store a document as a new thread; `user_id` takes the place of the users that it names."""
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
    return {"bot_session": bot, "called_by": None, "user_id": task["user_id"] if user_id is None else user_id}


def export(connection: Connection, thread_id: str) -> Json:
    """A thread as a document; the caller adds its messages as they are at thread.checkpoint_id, if there is one.

    {format, version, exported_at, thread: {thread_id, checkpoint_id}, tasks, events, calls, state}: `state` holds the
    checkpoints if the newest task has not ended, else it is None.
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

    What a document says of the sources of a result is not believed, nor that a person here gave an answer.
    """
    if isinstance(record, StoredEvent) and record.event["type"] == QuestionAnswered.type:
        record = replace(record, source=None)
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
        row |= {"answer": None, **empty_values(Task, OF_A_WAIT), "asked_by": with_asker(row, actor())}
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


_OF_HERE = ("leases", "lease_queue", "notifications", "spend", "spend_calls", "webhooks")
TABLES = tuple(table for table in OF_SESSIONS if table not in _OF_HERE)
"""Those whose rows belong to a thread, and mean the same in another database."""
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
            (row.inside, row.checkpoint_id, row.parent_id, _decode(row.state), json.loads(row.metadata))
            for row in self.checkpoints
        ]
        writes = [
            (row.inside, row.checkpoint_id, row.task_id, row.idx, row.task_path, row.channel, _decode(row.value))
            for row in self.writes
        ]
        return rows, sorted(checkpoints, key=lambda row: row[:2]), sorted(writes, key=lambda row: row[:4])


def _decode(value: tuple[str, bytes]) -> Any:
    return SERDE.loads_typed(value)


def threads_of(connection: Connection) -> list[str]:
    """The threads of a database, those that were used last at the end."""
    return [row["thread_id"] for row in connection.execute(_THREADS).fetchall()]


def read_thread(connection: Connection, thread_id: str) -> WholeThread:
    """A thread that nobody runs."""
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
    """Store a thread, with all its ids; False where it is there already, just as it is."""
    for table in (*RECOVERED, "checkpoints", "writes"):
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
            "Session '{session_id}' reads differently in the target database: it was not copied.",
            session_id=whole.thread_id,
        )
    return True


def _taken(thread_id: str) -> TaskError:
    return TaskError(
        "The target database already has another session '{session_id}': delete one of the two, or export "
        "it and import it under another name.",
        session_id=thread_id,
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
