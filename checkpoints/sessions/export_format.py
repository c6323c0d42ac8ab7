"""The form of an exported thread: what its document must hold to be imported."""

import base64
import binascii
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeVar

from langgraph.types import Interrupt, Send
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from segue.core.errors import InvalidExport
from segue.core.question import PAUSE
from segue.core.records import Call, StoredEvent, Task, read

from ..ports import Stored
from ..state.checkpoint_ids import is_plausible
from ..state.serializer import SERDE, Undecodable
from .fork import UUID, is_id

FORMAT = "segue.thread"
VERSION = 3
# `json` and `pickle` would let a document choose what is called when it is read.
_KINDS = ("msgpack", "null", "bytes", "bytearray")

_LOCAL: Final[Mapping[str, Any]] = {
    "thread_id": "imported",
    "requested": None,
    "copy_of": None,
    "agents_file": None,
    "fence": 0,
    "asked_by": [],
    "decisions": None,
}
"""The columns that a document leaves out, with what they hold until a thread is imported."""

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
        """The type and the bytes.

        Raises:
            Undecodable: they are not what was exported.
        """
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
    return {name: value for name, value in vars(record).items() if name not in _LOCAL}


def read_document(portable: Any) -> Document:
    """The document, checked.

    Raises:
        InvalidExport: saying what is wrong with it.
    """
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
    for place, form in enumerate(forms):
        values, faults = read(kind, defaultdict(lambda: None, {**form, **_LOCAL}), stored=False)
        for column, fault in faults.items():
            raise InvalidExport(f"its {name}.{place}.{column} is wrong ({fault})")
        records.append(kind(**values))
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
        stored = _loaded(checkpoint.state)
        is_own = isinstance(stored, dict) and stored.get("id") == checkpoint.checkpoint_id
        if not is_own or not is_plausible(checkpoint.checkpoint_id):
            raise InvalidExport(f"its checkpoint {checkpoint.checkpoint_id} is malformed")
        if checkpoint.parent_id and (checkpoint.inside, checkpoint.parent_id) not in known:
            raise InvalidExport(f"the parent of its checkpoint {checkpoint.checkpoint_id} is missing")
    for write in state.writes:
        _loaded(write.value)


def _loaded(blob: Blob) -> Any:
    """What the bytes hold, so that none are stored that cannot be read."""
    if blob.type not in _KINDS:
        raise InvalidExport(f"it holds state of the type '{blob.type}', which is not read from documents")
    try:
        return SERDE.loads_typed(blob.value())
    except (Undecodable, binascii.Error) as error:
        raise InvalidExport(f"its state is damaged ({error})") from error


_INTERRUPT = "__interrupt__"
_APPROVED = "approved"
"""The mark at a call that a person approved, as the nodes write it."""
_FINDING = "finding"
"""What was found of the sources of a call."""


def without_approvals(blob: Blob) -> tuple[str, bytes]:
    """The type and bytes of a stored value, without the marks of approved calls in it, and of those cleared."""
    value = SERDE.loads_typed(blob.value())
    return SERDE.plain_typed(value) if _strip(value) else blob.value()


def _strip(value: Any) -> bool:
    """Remove the marks, in place; whether there were any."""
    found, waiting = False, [value]
    while waiting:
        part = waiting.pop()
        match part:
            case Send():
                waiting.append(part.arg)
            case dict():
                found |= "name" in part and any([part.pop(mark, None) is not None for mark in (_APPROVED, _FINDING)])
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
