"""Records of what storage keeps, their validators, and the codec for their rows and JSON forms."""

import json
import logging
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from functools import cache
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    NamedTuple,
    NotRequired,
    Protocol,
    Self,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)
from zlib import crc32

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict  # pydantic takes no other with Python 3.11

from .approval import PermissionRule
from .decision import check_storable
from .errors import DamagedRow, DatabaseDamaged, InvalidAnswer, StorageError
from .events import TYPES, Event, from_dict
from .json import Public
from .message import read_attachment
from .task import ENDED, LAST, Language, MessageOrigin, TaskStatus

SUFFIX = ".cassette.yaml"


# Validators of records: of all fields in one call, for rows with which nothing is wrong, and of each field.

Json = dict[str, Any]

_typed_dict: Any = TypedDict  # with fields that are known at run time only

IDS: Final = ("task_id", "trace_id", "step_id", "iteration", "timestamp")
"""What every stored event has beside its type."""
STORED_AS_JSON: Final = "stored as JSON text"
"""Marks the fields whose columns hold JSON."""
FIXED: Final = "written once"
"""Marks the fields that a change of the row does not write: the statements of changes name all others."""
LOCAL: Final = "of this database"
"""Marks the fields that an exported document leaves out, and an import begins empty."""
OF_A_WAIT: Final = "of a wait"
"""Marks the fields that end with a task's wait, and that forks and imports begin empty."""
OR_EMPTY: Final = BeforeValidator(lambda given: given or [])
"""Reads an empty list where there is none."""


def valid_values(kind: type, columns: Mapping[str, Any], texts: Collection[str]) -> Json | None:
    """The values of a row of a dataclass, of which `texts` are JSON; None where something is wrong with one."""
    values = {**columns}
    try:
        for name in texts:
            text = values[name]
            if text is not None:
                if type(text) is not str:
                    return None
                values[name] = _decoded(text)
        found: Json = _shape(kind).validate_python(values)
    except (ValueError, TypeError, RecursionError):
        return None
    return found


def is_valid_event(form: Json) -> bool:
    """Whether nothing is wrong with an event in the form of its `json`."""
    try:
        data = form["data"]
        if type(data) is not dict or not data.keys().isdisjoint(form):
            return False
        kind: type = TYPES[form["type"]]
        values = _shape(kind, IDS).validate_python(data | form)
    except (ValidationError, TypeError, LookupError):
        return False
    return bool(0 <= values["timestamp"] < LAST)


_decoded = json.JSONDecoder().decode  # json.loads builds and checks more than it needs for a text


@cache
def _shape(kind: type, needed: Collection[str] | None = None) -> TypeAdapter[Json]:
    """The validator of a dict with the fields of a dataclass; with `needed`, others that have a default may lack."""
    hints = get_type_hints(kind, include_extras=True)
    types: dict[str, Any] = {}
    for each in fields(kind):
        has_default = each.default is not MISSING or each.default_factory is not MISSING
        may_lack = needed is not None and has_default and each.name not in needed
        types[column_of(each.name)] = NotRequired[hints[each.name]] if may_lack else hints[each.name]
    shape = _typed_dict(kind.__name__, types)
    shape.__pydantic_config__ = ConfigDict(strict=True)
    return TypeAdapter(shape)


class Row(Protocol):
    """Values by name."""

    def __getitem__(self, name: str, /) -> Any: ...


class Column(NamedTuple):
    """What a field may hold, and whether its column holds it as JSON text."""

    adapter: TypeAdapter[Any]
    stored_as_json: bool


@cache
def column_of(name: str) -> str:
    """The column of a record's field: what Segue calls a session is a thread in LangGraph's tables, and in its own."""
    return "thread_id" if name == "session_id" else name


@cache
def columns_of(kind: type) -> Mapping[str, Column]:
    hints, config = get_type_hints(kind, include_extras=True), ConfigDict(strict=True)
    return {
        column_of(field.name): Column(
            TypeAdapter(hints[field.name], config=config), STORED_AS_JSON in get_args(hints[field.name])
        )
        for field in fields(kind)
    }


@cache
def names_of(kind: type, mark: str = "", without: str = "") -> tuple[str, ...]:
    """The columns of a record in their order: all, those with a mark, or those without one."""
    marks = {name: get_args(hint) for name, hint in get_type_hints(kind, include_extras=True).items()}
    names = [each.name for each in fields(kind) if without not in marks[each.name]]
    return tuple(column_of(name) for name in names if not mark or mark in marks[name])


def empty_values(kind: type, mark: str = "") -> Json:
    """An empty value for each column of a record, or for those with a mark: its default, else that of its type."""
    hints, names, values = _hints(kind), names_of(kind, mark), Json()
    for each in fields(kind):
        of_type = get_origin(hints[each.name]) or hints[each.name]
        value = of_type() if of_type in (str, int, float, list, dict) else None
        if each.default_factory is not MISSING:
            value = each.default_factory()
        elif each.default is not MISSING:
            value = each.default
        if column_of(each.name) in names:
            values[column_of(each.name)] = value
    return values


@cache
def texts_of(kind: type) -> tuple[str, ...]:
    return tuple(name for name, column in columns_of(kind).items() if column.stored_as_json)


def read_each(columns: Mapping[str, Column], row: Row, stored: bool) -> tuple[Json, dict[str, str]]:
    values: Json = {}
    faults: dict[str, str] = {}
    for name, column in columns.items():
        try:
            value = row[name]
            if stored and column.stored_as_json and value is not None:
                value = json.loads(_TEXT.validate_python(value, strict=True))
            values[name] = column.adapter.validate_python(value)
        except ValidationError as error:
            faults[name] = str(error.errors()[0]["msg"]).removeprefix("Input ").removeprefix("Value error, ")
        except (ValueError, TypeError, RecursionError):
            faults[name] = "is not valid JSON"
    return values, faults


_TEXT: TypeAdapter[str] = TypeAdapter(str)


def listed_faults(faults: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {fault}" for name, fault in faults.items())


# Records of what storage keeps: tasks, calls, events and snapshots, and the codec for their rows and JSON forms.

logger = logging.getLogger(__name__)
R = TypeVar("R", bound="Record")
_hints = cache(get_type_hints)

BEST: Final = 5  # the highest rating; the lowest is 1
Name = Annotated[str, Field(min_length=1)]
Moment = Annotated[float, Field(ge=0, lt=LAST)]  # Unix seconds
Count = Annotated[int, Field(ge=0, lt=2**63)]
Status = Annotated[TaskStatus, Field(strict=False)]


def _answer(value: Json) -> Json:
    if value and not (isinstance(value.get("interrupt_id"), str) and "value" in value):
        raise ValueError("should be an answer")
    return value


def _attachments(forms: list[Json]) -> list[Json]:
    return [read_attachment(form).json() for form in forms]


Attachments = Annotated[Annotated[list[Json], OR_EMPTY, AfterValidator(_attachments)], STORED_AS_JSON]
"""The files of a message, in the form of `Attachment.json`."""


def _event(form: Json) -> Json:
    if is_valid_event(form):
        return form
    try:
        kind: type = TYPES[form["type"]]
        values = {**vars(from_dict(form)), **{field: form[field] for field in IDS}}
    except (TypeError, LookupError):
        raise ValueError("should be an event of a type that this Segue knows") from None
    faults = read(kind, values, stored=False)[1]
    if "timestamp" not in faults and not 0 <= values["timestamp"] < LAST:
        faults["timestamp"] = "should be Unix seconds"
    if faults:
        raise ValueError(f"should be an event, its {listed_faults(faults)}")
    return form


class Record(Public):
    """What the rows of a table are read into; `checkpoints/schema.py` has the table, and what follows from both.

    Its fields and their marks say how rows are read and written, what statements insert and change (`FIXED`), what a
    recovery fills in (`empty_values`), what an exported document leaves out (`LOCAL`), and what a fork or an import
    begins without (`OF_A_WAIT`).
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]

    row_name: ClassVar[str] = "task {task_id}"
    """Names a row in an error, by what of it can be read."""
    is_recoverable: ClassVar[bool] = True
    """Whether a recovery repairs a row of a known session."""


@dataclass(frozen=True, kw_only=True)
class NewTask(Record):
    """What a task begins with; its language is decided once, and None in a row of an earlier release.

    `agents_file` is the path of the file that its agents come from, None where they come from none; `agent_version` is
    the version of its agent, None where it is not known. `attachments` are the message's files, in the form of
    `Attachment.json`, `client_tools` the specifications of tools that its client carries out, and `reply_options` the
    form of `ReplyOptions.json`. `bot_session` is the session of a conversation's bot, if it is an agent. `called_by` is
    the task of which it is a call, of an agent that is a tool. `asked_by` are the actors who sent the message, added to
    it, or forked or imported the task.
    """

    task_id: Annotated[Name, FIXED]
    session_id: Annotated[Name, FIXED]
    agent_id: Annotated[str, FIXED]
    user_id: Annotated[str, FIXED]
    mode: Annotated[str, FIXED]
    model: str
    message: Annotated[str, FIXED]
    language: Annotated[Language | None, FIXED] = None
    agents_file: Annotated[str | None, LOCAL] = None
    agent_version: str | None = None
    attachments: Annotated[Attachments, FIXED] = field(default_factory=list)
    client_tools: Annotated[Annotated[list[Json], OR_EMPTY], STORED_AS_JSON, FIXED] = field(default_factory=list)
    reply_options: Annotated[Annotated[Json, BeforeValidator(lambda form: form or {})], STORED_AS_JSON] = field(
        default_factory=dict
    )
    origin: Annotated[MessageOrigin, BeforeValidator(lambda origin: "python" if origin is None else origin), FIXED] = (
        "python"
    )
    bot_session: Annotated[Name | None, FIXED] = None
    called_by: Annotated[Name | None, FIXED, LOCAL] = None
    asked_by: Annotated[Annotated[list[str], OR_EMPTY], STORED_AS_JSON, LOCAL] = field(default_factory=list)


OnUpgrade = Literal["continue", "pin", "ask"]


@dataclass(frozen=True, kw_only=True)
class Task(NewTask):
    """What one message set going, and how far it got.

    `requested` is what a person asked for, `stop` by leaving before the answer, `notes` the texts that steer it,
    `answer` what a person said to its question: {"interrupt_id", "value"}. `copy_of` is the ended task that this one
    repeats in a forked or imported thread. `on_upgrade` is what was chosen for it in place of its agent's own,
    `offered_version` the version of its agent that a person is asked about. One that waits for no person is `due` at a
    moment, or with the event `awaited`.
    `decisions` are what persons decided about the calls that wait, while others have to: {"interrupt_id", "given"}.
    """

    json_names: ClassVar[Mapping[str, str]] = {"model": "used_model"}

    status: Status
    error: str | None
    result: Annotated[Json | None, STORED_AS_JSON]
    created_at: Annotated[Moment, FIXED]
    updated_at: Moment
    requested: Annotated[Literal["pause", "stop", "cancel"] | None, LOCAL]
    notes: Annotated[list[str], STORED_AS_JSON]
    answer: Annotated[Annotated[Json, AfterValidator(_answer)] | None, STORED_AS_JSON]
    rating: Annotated[Literal[1, 2, 3, 4, 5] | None, FIXED]
    copy_of: Annotated[str | None, FIXED, LOCAL]
    on_upgrade: OnUpgrade | None
    offered_version: str | None
    due: Annotated[Moment | None, OF_A_WAIT]
    awaited: Annotated[str | None, OF_A_WAIT]
    decisions: Annotated[Json | None, STORED_AS_JSON, LOCAL, OF_A_WAIT]

    @property
    def reply_language(self) -> Language:
        """The language of what is said about the task."""
        return self.language or "en"

    @property
    def is_over(self) -> bool:
        """Whether it is finished for good: answered, failed with a result, or cancelled."""
        return self.status in ENDED or (self.status == TaskStatus.ERROR and self.result is not None)

    @property
    def asks_for_version(self) -> bool:
        """Whether it waits until a person decides which version of its agent continues it."""
        return self.status == TaskStatus.WAITING and self.offered_version is not None

    @property
    def continues_itself(self) -> bool:
        """Whether it waits for a moment or an event, and for no person."""
        return self.status == TaskStatus.WAITING and (self.due is not None or self.awaited is not None)

    @property
    def resumes_itself(self) -> bool:
        """Whether its process paused it, and no person: it continues once a process takes it up."""
        return self.status == TaskStatus.PAUSED and self.requested is None

    @property
    def ran_mode(self) -> str:
        """The mode that answered, once the task has a result; until then the one that was asked for."""
        return str((self.result or {}).get("mode") or self.mode)

    @property
    def used_model(self) -> str:
        """The model that answered, once the task has a result; until then the one that was asked for, if any."""
        return str((self.result or {}).get("model") or self.model)

    def json(self) -> Json:
        """The public form, in which `model` is the one that was used."""
        return {**_plain(self), "model": self.used_model}


@dataclass(frozen=True)
class StatusTally(Record):
    """How many tasks have a status; `oldest` is when the one that has had it for longest was last changed."""

    status: Status
    tasks: Count
    oldest: Moment


@dataclass(frozen=True, kw_only=True)
class Thread(Record):
    """A session: its turns; message, agent, mode, model and status are those of the last one.

    A fork begins with its original's title. One without a turn is done, with empty texts. The whole conversation is
    pinned or archived. Its fields can be read by key as well, as in the dicts that `App.threads` returned before.
    """

    session_id: Name
    turns: int
    title: Annotated[str, Field(description="as it was named, else the first message, shortened")]
    message: str
    agent_id: str
    mode: str
    model: str
    status: Status
    updated_at: Moment
    default_agent: Annotated[str, Field(description="the agent of messages that name none; empty: the service's")]
    default_model: Annotated[str, Field(description="the model of messages that name none; empty: the agent's")]
    root: Annotated[str, Field(description="the first session of the conversation that it is a branch of, else itself")]
    origin: Annotated[MessageOrigin, Field(description="what sent the first message; page and terminal are people")]
    pinned: bool
    archived: bool

    if not TYPE_CHECKING:

        def __getitem__(self, name: object) -> Any:
            """A field; anything else is refused as in any record."""
            return getattr(self, name) if name in [*self.__dataclass_fields__] else super().__getitem__(name)

    def json(self) -> Json:
        """The public form."""
        return _plain(self)


@dataclass(frozen=True)
class Session(Record):
    """What was chosen for a thread: agent and model, and for a conversation's first one what else."""

    row_name = "choice of agent and model"

    session_id: Name
    agent_id: str = ""
    model: str = ""
    metadata: Annotated[dict[str, str], STORED_AS_JSON] = field(default_factory=dict)
    is_pinned: Literal[0, 1] = 0
    is_archived: Literal[0, 1] = 0
    created_at: Moment = 0.0


@dataclass(frozen=True)
class SessionChanges:
    """What changes of a session, all at once; None leaves a thing as it is.

    The title and whether it is pinned or archived are those of its whole conversation.
    """

    agent_id: str | None = None
    model: str | None = None
    title: str | None = None
    pinned: bool | None = None
    archived: bool | None = None
    is_made: bool = False
    """Whether the title is a model's: one that there is stays."""

    @property
    def choices(self) -> dict[str, Any]:
        """What changes of the session's own choices."""
        given = {"agent_id": self.agent_id, "model": self.model}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def flags(self) -> dict[str, Any]:
        """What changes of the choices of its conversation's first session."""
        given = {"is_pinned": self.pinned, "is_archived": self.archived}
        return {name: int(value) for name, value in given.items() if value is not None}


_NAMED = "key/"
"""Begins the keys that clients name. What begins the service's own, and a tenant's name, has no slash."""


@dataclass(frozen=True)
class RequestKey:
    """The idempotency key of a request, with the digest of the request and what its client reads back of that.

    `also` is another name of the request, which its protocol gives it.
    """

    key: str
    digest: str
    about: Json = field(default_factory=dict)
    also: "RequestKey | None" = None

    @classmethod
    def named(cls, name: str, digest: str) -> Self:
        """A key that a client names, whatever its name apart from the keys that the service makes."""
        return cls(f"{_NAMED}{name}", digest)

    @property
    def is_stored(self) -> bool:
        """Whether its client can read again what it does."""
        return self.about.get("store") is not False

    @property
    def name(self) -> str:
        """The key as its client knows it."""
        return self.key.removeprefix(_NAMED)


_ID = re.compile(r"[^\x00-\x1f\x7f]{0,255}")


def is_short_id(given: object) -> bool:
    """Whether a client's id can be stored: a text of at most 255 characters without control characters."""
    return isinstance(given, str) and bool(_ID.fullmatch(given))


@dataclass(frozen=True, kw_only=True)
class KnownRequest(Record):
    """What a request did: it began a task, continued it after its event `seq`, or made a thread, with no task_id.
    `is_stored` says whether its client can read it again.
    """

    row_name = "idempotency key of task {task_id}"
    is_recoverable = False

    key: str
    task_id: str
    session_id: str
    seq: int
    digest: str
    about: Annotated[Json, STORED_AS_JSON]
    is_stored: bool


@dataclass(frozen=True)
class Webhook(Record):
    """A webhook to call whenever its task stops."""

    row_name = "webhook of task {task_id}"
    is_recoverable = False

    task_id: str
    webhook_id: str
    session_id: str
    config: Annotated[Json, STORED_AS_JSON]


@dataclass(frozen=True, kw_only=True)
class Share(Record):
    """A link that shows what a thread held at `created_at`, until `expires_at`; the id is the SHA-256 of its token."""

    row_name = "shared link"
    is_recoverable = False

    share_id: Name
    session_id: Name
    created_at: Moment
    expires_at: Moment


@dataclass(frozen=True, kw_only=True)
class WaitingTask(Public):
    """A task that waits for a person: what it asks, and the form of an answer."""

    task_id: str
    session_id: str
    agent_id: str
    user_id: str
    message: str
    since: float
    kind: Annotated[str, Field(description="approval, question, interrupt, utterance or spend")]
    question: str
    calls: list[Json]
    answer: Annotated[str, Field(description="the form of an answer")]
    choices: Annotated[list[str], Field(description="suggested answers to a question")] = field(default_factory=list)
    problem: Annotated[str, Field(description="why the question cannot be read or the last answer was refused")] = ""
    interrupt_id: Annotated[str, Field(description="the question's id")] = ""
    spend: Annotated[
        Json | None,
        Field(
            description="of the kind spend, what is used of a limit that is reached, in US dollars or tokens: "
            "{limit_name, unit, day, limit, used, needs, suggestion}"
        ),
    ] = None


def _permission_rule(text: str) -> str:
    try:
        rule = PermissionRule.parse(text)
    except (ValueError, RecursionError):
        raise ValueError("should be a rule") from None
    if not (isinstance(rule.only, dict) and isinstance(rule.flow, dict)):
        raise ValueError("should be a rule")
    return text


@dataclass(frozen=True, kw_only=True)
class Permission(Record):
    """A tool of an agent that runs without approval in a session, or in one task of it.

    `tool` is its name, or a rule: `refund {"order_id": 17}`, `refund flow {"order_id": ["tool read_mail"]}`.
    `task_id` is the task whose question was answered so.
    """

    row_name = "permission of task {task_id}"
    is_recoverable = False

    session_id: Name
    agent_id: str
    tool: Annotated[str, AfterValidator(_permission_rule)]
    scope: Literal["task", "session"]
    task_id: str
    granted_at: Moment
    version: str = ""
    """The digest of the tool that was permitted; not public."""

    def json(self) -> Json:
        """The public form."""
        return {name: value for name, value in asdict(self).items() if name != "version"}


@dataclass(frozen=True, kw_only=True)
class Call(Record):
    """A tool call in the ledger; one that is `orphaned` is not in the thread's state any more."""

    row_name = "call {name} of task {task_id}"

    session_id: Annotated[Name, FIXED]
    task_id: Annotated[Name, FIXED]
    scope: Name
    idx: Count
    name: Annotated[Name, FIXED]
    arguments: Annotated[Json, STORED_AS_JSON, FIXED]
    state: Literal["running", "done"]
    outcome: Annotated[Json | None, STORED_AS_JSON]
    fence: Annotated[Count, LOCAL]
    started_at: Annotated[Moment, FIXED]
    finished_at: Moment | None
    orphaned: Literal[0, 1]

    def json(self) -> Json:
        """The public form: {name, arguments, outcome, state, started_at, finished_at, scope, idx}."""
        return {name: getattr(self, name) for name in _SHOWN}


_SHOWN = ("name", "arguments", "outcome", "state", "started_at", "finished_at", "scope", "idx")


def call_checksum(row: Row) -> int:
    """The checksum of a call's row, over what it is and what came of it."""
    return crc32(json.dumps([row[name] for name in ("thread_id", "task_id", *_SHOWN)]).encode())


@dataclass(frozen=True, kw_only=True)
class StoredEvent(Record):
    """A durable event; `event` is in the form of its `json`, `source` names the step that made it."""

    row_name = "event {seq} of task {task_id}"

    task_id: Name
    seq: Count
    session_id: Name
    source: str | None
    ordinal: Count
    event: Annotated[Annotated[Json, AfterValidator(_event)], STORED_AS_JSON]

    def numbered(self) -> Event:
        """The event itself, with its number."""
        return from_dict({**self.event, "seq": self.seq})


@dataclass(frozen=True)
class Recovery(Public):
    """What a recovery did to a thread.

    `checkpoint_id` is where the thread is now; `readable` is False if none of its checkpoints can be read. `created_at`
    is the time of the oldest state that something went back to. `dropped` counts checkpoints and results of steps,
    `copy` is the path of the database as it was, `repaired` has a sentence for each replaced record.
    """

    checkpoint_id: str | None
    readable: bool = True
    created_at: float = 0.0
    dropped: int = 0
    copy: str = ""
    repaired: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class TaskTrace(Public):
    """Everything about a task, its events and calls in their order."""

    task: Task
    events: list[Event]
    calls: list[Call]
    called: "list[TaskTrace]" = field(default_factory=list)
    """Those of the tasks of agents that it called as tools."""

    def json(self) -> Json:
        """The public form."""
        calls = [call.json() for call in self.calls]
        form = {"task": self.task.json(), "events": [event.json() for event in self.events], "calls": calls}
        return {**form, "called": [trace.json() for trace in self.called]} if self.called else form


def read(kind: type, row: Row, *, stored: bool = True) -> tuple[Json, dict[str, str]]:
    """The values of a row's columns that can be read, and of the others what is wrong with them.

    `stored` rows hold JSON as text, those of a JSON document as values.
    """
    columns = columns_of(kind)
    faults: dict[str, str] = {}
    values = valid_values(kind, {name: row[name] for name in columns}, texts_of(kind) if stored else ())
    if values is None:
        values, faults = read_each(columns, row, stored)
    if kind is Call and values.get("state") == "done":
        faults |= {name: "is missing" for name in ("outcome", "finished_at") if row[name] is None}
    if kind is Call and stored and not faults and row["checksum"] != call_checksum(row):
        faults["checksum"] = "does not match the other columns"
    return values, faults


def from_row(kind: type[R], row: Row) -> R:
    """The record of a row."""
    values, faults = read(kind, row)
    if faults:
        raise damaged(kind, values, faults)
    return record_of(kind, values)


def record_of(kind: type[R], values: Json) -> R:
    """The record with these values of its columns."""
    if "session_id" in kind.__dataclass_fields__:
        values = {**values, "session_id": values["thread_id"]}
        del values["thread_id"]
    return kind(**values)


def readable(kind: type[R], rows: Iterable[Row]) -> list[R]:
    """Read rows of many owners: one that cannot be read is logged, and keeps nobody from the others."""
    found: list[R] = []
    for row in rows:
        try:
            found.append(from_row(kind, row))
        except StorageError as error:
            logger.error("A damaged row is skipped: %s", error)
    return found


def to_row(kind: type, values: Mapping[str, Any]) -> Json:
    """Some fields of a record as their columns hold them; names that are no field stay as they are."""
    as_text = texts_of(kind)
    return {
        column_of(name): json.dumps(value) if name in as_text and value is not None else value
        for name, value in values.items()
    }


def damaged(kind: type[Record], values: Mapping[str, Any], faults: Mapping[str, str]) -> StorageError:
    """The error for a row, by what of it can be read; without its session nothing can be recovered."""
    what, reason, thread_id = described(kind, values), listed_faults(faults), values.get("thread_id", "")
    if thread_id and kind.is_recoverable:
        return DamagedRow(thread_id, reason, what)
    return DatabaseDamaged(
        "The database contains a row that cannot be read ({what}, {reason}), so it is damaged: `segue "
        "doctor` says what to do.",
        what=what,
        reason=reason,
    )


def described(kind: type[Record], values: Mapping[str, Any]) -> str:
    """Which row it is, by what of it can be read."""
    return kind.row_name.format_map(defaultdict(lambda: "?", {"task_id": "", **values}))


def _plain(record: Task | Thread) -> Json:
    return {field.name: getattr(record, field.name) for field in fields(record)} | {"status": str(record.status)}


# The result of a task: a dict whose fields are attributes, too.


class Result(Json):
    """The result of a message.

    A dict: `result["answer"]` and `result.answer` are the same.
    """

    @property
    def answer(self) -> str:
        """The answer; empty while the task waits or is paused."""
        return str(self.get("answer") or "")

    @property
    def preamble(self) -> str:
        """What the answer begins with that the model said before calls, with a native protocol."""
        return str(self.get("preamble") or "")

    @property
    def success(self) -> bool:
        """Whether it ended with an answer."""
        return bool(self.get("success"))

    @property
    def status(self) -> str:
        """The task's status: done, error, waiting, paused or cancelled."""
        return str(self.get("status", ""))

    @property
    def mode(self) -> str:
        """The mode that answered."""
        return str(self.get("mode", ""))

    @property
    def task_id(self) -> str:
        """The task of the message."""
        return str(self.get("task_id", ""))

    @property
    def session_id(self) -> str:
        """The conversation that it belongs to."""
        return str(self.get("session_id", ""))

    @property
    def reasoning(self) -> Mapping[str, Any]:
        """{"text", "total_steps", "tools_used"}."""
        return self.get("reasoning") or {}

    @property
    def history(self) -> list[Json]:
        """The steps: {"step", "phase", "action", "result", "description"} each."""
        return list(self.get("history") or ())

    @property
    def plan(self) -> list[Json] | None:
        """The plan's steps, {"step", "step_id", "action", "params", "description", "phase", "status"} each."""
        return self.get("plan")

    @property
    def model(self) -> str:
        """The name of the model that answered; empty where none was called."""
        return str(self.get("model", ""))

    @property
    def usage(self) -> Mapping[str, Any]:
        """{"input", "output", "calls", "cost", "currency"}: tokens, calls, money; a cost of None is not known."""
        return self.get("usage") or {}

    @property
    def object(self) -> Any:
        """The object of the `response_model`, where one was asked for."""
        return self.get("object")

    @property
    def error(self) -> str | None:
        """Why it failed."""
        return self.get("error")

    @property
    def malformed(self) -> bool:
        """Whether the answer is plain text of a model that did not keep to the protocol, three replies in a row."""
        return bool(self.get("malformed"))

    @property
    def refused(self) -> bool:
        """Whether the answer says why there is none: the model refused, or the offline planner has no tool for it."""
        return bool(self.get("refused"))

    @property
    def unknown_outcomes(self) -> list[Json]:
        """The calls that may or may not have taken effect."""
        return list(self.get("unknown_outcomes") or ())


# What users prefer.


@dataclass(frozen=True)
class RatedAnswer(Public):
    """The mode that answered a message, whatever was requested, and the rating from 1 to 5, None without one."""

    query: str
    mode: str
    rating: int | None


@dataclass(frozen=True)
class UserPreferences(Public):
    """A user's default mode, empty if there is none, and their messages, the latest first."""

    default_mode: str
    mode_history: list[RatedAnswer]


# What a search finds.

Role = Literal["user", "assistant"]


@dataclass(frozen=True, kw_only=True)
class Hit(Record):
    """A task in whose message or answer something was found; of a conversation's bot, in the conversation's session."""

    task_id: str
    session_id: str
    title: str
    role: Role
    snippet: Annotated[str, Field(description="the text around the first word that was found")]
    created_at: float


# Events that are sent to tasks, by name, whether a task waits for them already or not.

MOST_BYTES = 256 * 1024
_NAME = re.compile(r"[\w.:-]{1,100}")


@dataclass(frozen=True, kw_only=True)
class SentEvent(Record):
    """An event that was sent to a task; `data` is {"data": …}, whatever its sender gave."""

    row_name = "event sent to task {task_id}"
    is_recoverable = False

    position: int
    task_id: Name
    session_id: Name
    name: Name
    data: Annotated[Json, STORED_AS_JSON]
    sent_at: Moment
    taken_at: Moment | None
    key: str | None


def spawned_data(sent: Iterable[SentEvent]) -> list[Mapping[str, Any]]:
    """The subtasks that events add, one without an id under its event's; an event that holds none is left out."""
    found = [(event.position, event.data.get("data")) for event in sent]
    return [{"id": f"sent-{n}", **data} for n, data in found if isinstance(data, Mapping)]


def check_event(name: object, data: Any = None) -> None:
    """Make sure that an event can be sent."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidAnswer("An event name must have 1 to 100 letters, digits, . : - or _.")
    try:
        check_storable(data)
        size = len(json.dumps(data, ensure_ascii=False).encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidAnswer("The data of the event cannot be stored: {error}.", error=error) from error
    if size > MOST_BYTES:
        raise InvalidAnswer("The data of the event has {size} bytes; the limit is {most}.", size=size, most=MOST_BYTES)


# Which sessions are listed.

Sender = Literal["people", "programs"]


@dataclass(frozen=True, kw_only=True)
class SessionFilter:
    """The sessions whose names begin with `prefix`, with `search` in the title or in the first message.

    `bots`: also those of conversations' bots. `archived`: only the archived ones, or only the others. `sender`: only
    those that people began, or that programs did.
    """

    prefix: str = ""
    search: str = ""
    bots: bool = False
    archived: bool | None = None
    sender: Sender | None = None


# Processes that run the tasks of others, and the tasks that they are to run.


@dataclass(frozen=True, kw_only=True)
class Worker(Public):
    """A process that runs the tasks of other processes: what it has, and how many it runs at once.

    `agents` are the versions of its agents, by their ids. `upgrades` are those whose tasks of other versions it takes
    where no worker has their version.
    """

    owner: str
    agents: Mapping[str, list[str]]
    modes: list[str]
    concurrency: int
    upgrades: list[str] = field(default_factory=list)
    running: int = 0
    started_at: float = 0.0
    seen_at: float = 0.0

    def has(self, agent_id: str, mode: str, version: str | None = None) -> bool:
        """Whether it can run a task of this agent and mode; with a version, whether its agent has it."""
        return agent_id in self.agents and mode in self.modes and version in (None, *self.agents[agent_id])

    def takes(self, task: "Task | Unowned") -> bool:
        """Whether it can run a task that no process runs: it has its version, or may continue it with another one."""
        upgrades = task.on_upgrade != "pin" if task.on_upgrade else task.agent_id in self.upgrades
        return self.has(task.agent_id, task.mode, None if upgrades else task.agent_version)


@dataclass(frozen=True, kw_only=True)
class Unowned:
    """A task to run; its `owner` is the last one that did not let it go, alive unless its lease `expired`.

    `orphaned`: no worker is there that has the agent as it was when the task began.
    """

    task_id: str
    session_id: str
    user_id: str = ""
    agent_id: str
    agent_version: str | None
    on_upgrade: OnUpgrade | None
    mode: str
    owner: str
    expired: bool
    orphaned: bool


@dataclass(frozen=True)
class Preference(Record):
    """What a user prefers."""

    row_name = "preferences of user {user_id}"
    is_recoverable = False

    user_id: Name
    default_mode: str
