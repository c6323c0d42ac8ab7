"""The form of an exported thread: what its document must hold to be imported."""

import base64
import binascii
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from segue.core.errors import InvalidExport
from segue.core.events import from_dict
from segue.core.task_status import TaskStatus

from ..serializer import CheckedSerializer, Undecodable

FORMAT = "segue.thread"
VERSION = 1
_SERDE = CheckedSerializer(allowed_msgpack_modules=[])
# `json` and `pickle` would let a document choose what is called when it is read.
_KINDS = ("msgpack", "null", "bytes", "bytearray")

Id = Annotated[str, Field(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]
Count = Annotated[int, Field(ge=0, lt=2**31)]
JsonObject = dict[str, Any]


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)


class TaskPart(_Part):
    """A row of tasks."""

    task_id: Id
    agent_id: str
    user_id: str
    mode: str
    model: str
    status: TaskStatus
    message: str
    language: Literal["zh", "en"] | None = None
    error: str | None
    result: JsonObject | None
    notes: list[str]
    answer: JsonObject | None
    rating: Annotated[int, Field(ge=1, le=5)] | None
    created_at: float
    updated_at: float


class EventPart(_Part):
    """A row of events; `event` is in the form of `segue.core.events.to_dict`."""

    task_id: Id
    seq: Count
    source: str | None
    ordinal: Count
    event: JsonObject


class CallPart(_Part):
    """A row of calls."""

    task_id: Id
    scope: str
    idx: Count
    name: str
    arguments: JsonObject
    state: Literal["running", "done"]
    outcome: JsonObject | None
    started_at: float
    finished_at: float | None
    orphaned: Count


class Blob(_Part):
    """Bytes of the saver's, in base64, with their type."""

    type: str
    data: str

    def stored(self) -> bytes:
        return base64.b64decode(self.data, validate=True)


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


class Document(_Part):
    """An exported thread; `messages` are in OpenAI's format, for people and other programs, and not read back."""

    thread: ThreadPart
    messages: list[Any]
    messages_full: list[JsonObject]
    tasks: list[TaskPart]
    events: list[EventPart]
    calls: list[CallPart]
    state: StatePart | None = None


def read_document(portable: Any) -> Document:
    """The document, checked.

    Raises:
        InvalidExport: saying what is wrong with it.
    """
    if not isinstance(portable, Mapping) or portable.get("format") != FORMAT:
        raise InvalidExport("it is no exported session")
    version = portable.get("version")
    if isinstance(version, bool) or not isinstance(version, int) or not 1 <= version <= VERSION:
        raise InvalidExport(f"its version is {version!r} and this Segue reads version {VERSION}")
    try:
        document = Document.model_validate(dict(portable))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InvalidExport(f"its {place} is wrong ({first['msg'].lower()})") from error
    _check_tasks(document)
    _check_events(document)
    if document.state:
        _check_state(document.state)
    return document


def _check_tasks(document: Document) -> None:
    known = {task.task_id for task in document.tasks}
    if len(known) < len(document.tasks):
        raise InvalidExport("two of its tasks have one id")
    named = {event.task_id for event in document.events} | {call.task_id for call in document.calls}
    if named - known:
        raise InvalidExport("it holds events or calls of a task that it does not hold")


def _check_events(document: Document) -> None:
    last: dict[str, int] = {}
    for part in document.events:
        if part.seq != last.get(part.task_id, 0) + 1:
            raise InvalidExport(f"the events of task {part.task_id} are not numbered from 1 without a gap")
        last[part.task_id] = part.seq
        try:
            event = from_dict(part.event)
        except (KeyError, TypeError) as error:
            raise InvalidExport(
                f"event {part.seq} of task {part.task_id} is of a type that this Segue does not know"
            ) from error
        if event.task_id != part.task_id:
            raise InvalidExport(f"event {part.seq} of task {part.task_id} names another task")


def _check_state(state: StatePart) -> None:
    known = {(part.inside, part.checkpoint_id) for part in state.checkpoints}
    if len(known) < len(state.checkpoints):
        raise InvalidExport("two of its checkpoints have one id")
    for checkpoint in state.checkpoints:
        stored = _loaded(checkpoint.state)
        if not isinstance(stored, dict) or stored.get("id") != checkpoint.checkpoint_id:
            raise InvalidExport(f"its checkpoint {checkpoint.checkpoint_id} is malformed")
        if checkpoint.parent_id and (checkpoint.inside, checkpoint.parent_id) not in known:
            raise InvalidExport(f"the parent of its checkpoint {checkpoint.checkpoint_id} is missing")
    for write in state.writes:
        _loaded(write.value)


def _loaded(blob: Blob) -> Any:
    """What the bytes hold, so that none are stored that cannot be read."""
    if blob.type.partition("+")[0] not in _KINDS:
        raise InvalidExport(f"it holds state of the type '{blob.type}', which is not read from documents")
    try:
        return _SERDE.loads_typed((blob.type, blob.stored()))
    except (Undecodable, binascii.Error) as error:
        raise InvalidExport(f"its state is damaged ({error})") from error
