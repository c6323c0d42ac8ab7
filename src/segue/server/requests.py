"""What requests of several protocols have in common: messages, files, tools, options and conversations."""

import binascii
import json
import re
from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from hashlib import sha256
from typing import Annotated, Any, ClassVar, Literal, Self
from uuid import UUID

from fastapi.exceptions import RequestValidationError
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    ValidationError,
    model_validator,
)

from ..app import App
from ..core.calls import CLIENT_CALLS, TEXTUAL
from ..core.conversation import MODE, ConversationConfig
from ..core.errors import InvalidMessage, KeyUsed
from ..core.events import ASKING, ApprovalRequested, Event, NotesMoved, QuestionAsked, StateChanged, Steered
from ..core.message import AnswerFormat, ModelSettings, ReplyOptions, Upload, check_choice, check_schema
from ..core.records import Json, RequestKey, Task
from ..core.task import LONGEST_NAME, NAME, MessageOrigin, TaskStatus
from ..prompts.protocols import answer_of, client_result
from ..runtime.message_files import ImageUrl
from ..testing.rehearsal.simulate import start_conversation
from .errors import Problem, not_found
from .middleware import MOST_FIELDS, Items, RequestBody
from .service import Begun, Service
from .settings import UPLOAD
from .tenants import Tenant

# Tools that a client carries out: their calls and results.


async def asked_calls(service: Service, task_id: str) -> dict[str, Json]:
    """Every call that a task has asked its client for, by id."""
    events = await service.app.tasks.events(task_id)
    asked = (event.client_calls for event in events if isinstance(event, QuestionAsked))
    return {call["id"]: call for calls in asked for call in calls}


async def submit_results(
    service: Service,
    tenant: Tenant,
    task: Task,
    sent: Mapping[str, str],
    message: str,
    key: RequestKey | None,
    reply_options: ReplyOptions | None = None,
) -> Begun:
    """Continue a task by the results that its client sent, by the ids of their calls.

    A `message` of the user follows the results, and calls without one have none. The same results again
    are the same request, whatever its key.
    """
    task_id = task.task_id
    if sent:
        key = _named_by_results(key, tenant, task_id, sent, message)
        try:
            if known := await service.known(key):
                return known
        except KeyUsed:
            raise Problem(409, "ResultGiven") from None
    question = await service.app.question(task_id) if task.status == TaskStatus.WAITING else {}
    waiting = [call["id"] for call in question.get(CLIENT_CALLS, ())]
    results = {call_id: text for call_id, text in sent.items() if call_id in waiting}
    if not waiting or (sent and not results):
        raise Problem(409, "ResultGiven")
    language = task.reply_language
    if message:
        results |= {call_id: client_result(None, "", language) for call_id in waiting if call_id not in results}
    return await service.answer(tenant, task, question, {"results": results}, key, reply_options, message)


def _named_by_results(
    key: RequestKey | None, tenant: Tenant, task_id: str, sent: Mapping[str, str], message: str
) -> RequestKey:
    """The key of a request that brings results: they name it, beside the key that it has."""
    calls, content = json.dumps(sorted(sent)), json.dumps([sorted(sent.items()), message])
    named = tenant.stored(f"results:{task_id}/{sha256(calls.encode()).hexdigest()}")
    return RequestKey(named, sha256(content.encode()).hexdigest(), key.about if key else {}, key)


_CALL_PREFIX = "call_"
_CALL_BYTES = 10
"""Of a call's id, so that the whole id has the 40 characters that OpenAI's API allows."""


def tool_call_id(task_id: str, call_id: str) -> str:
    """The id of a call as clients know it, which names its task."""
    both = UUID(task_id).bytes + UUID(call_id).bytes[:_CALL_BYTES]
    return _CALL_PREFIX + urlsafe_b64encode(both).decode().rstrip("=")


def _task_of(named: str) -> str:
    """The task that the id of a call names; empty where it names none."""
    try:
        both = urlsafe_b64decode(named.removeprefix(_CALL_PREFIX) + "=")
        return str(UUID(bytes=both[:-_CALL_BYTES]))
    except ValueError:
        return ""


def waiting_calls(result: Json) -> Sequence[Json]:
    """The calls that the client is to carry out, where the task of that result waits with some."""
    return (result.get("question") or {}).get(CLIENT_CALLS, ()) if result["status"] == TaskStatus.WAITING else ()


async def task_of_results(service: Service, tenant: Tenant, results: Mapping[str, str]) -> Task:
    """The task of the tenant's whose calls have these results."""
    first, *others = results
    try:
        task = await service.own_task(tenant, _task_of(first))
    except Problem:
        raise not_found("call", first) from None
    for other in others:
        if _task_of(other) != task.task_id:
            raise not_found("call", other)
    return task


async def finish(service: Service, tenant: Tenant, task: Task, results: Mapping[str, str]) -> Task:
    """Continue a task by results of its calls and wait until it stops: what is new is another message, with files."""
    row, _ = await resume_with_results(service, tenant, task, results, "", None, ReplyOptions())
    await service.until_stopped(row.task_id)
    return await service.app.task(row.task_id)


async def resume_with_results(
    service: Service,
    tenant: Tenant,
    task: Task,
    results: Mapping[str, str],
    message: str,
    key: RequestKey | None,
    reply_options: ReplyOptions,
) -> Begun:
    """Continue a task by results of its calls."""
    asked = {tool_call_id(task.task_id, call_id): call_id for call_id in await asked_calls(service, task.task_id)}
    for named in results:
        if named not in asked:
            raise not_found("call", named)
    language = task.reply_language
    sent = {asked[named]: client_result(text, "", language) for named, text in results.items()}
    return await submit_results(service, tenant, task, sent, message, key, reply_options)


# The configuration of a conversation between a user, a bot and an API, and the task that it starts or continues.


class Configuration(RequestBody, ConversationConfig):
    """A conversation's configuration; what of it the service allows, the app's `Restrictions` say."""

    @property
    def config(self) -> ConversationConfig:
        """The configuration as it was given."""
        return ConversationConfig(**self.model_dump(include={*ConversationConfig.model_fields}, exclude_unset=True))


class ConversationRequest(Configuration):
    """A conversation to start."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"workflow": "travel_change", "seed": 1},
                {"user_mode": "input_user", "bot_mode": "segue:react", "bot_agent": "travel", "api_mode": "tools"},
            ]
        }
    )

    session_id: str | None = Field(
        default=None, pattern=NAME, max_length=LONGEST_NAME, description="a new one without it"
    )
    user_id: str | None = Field(default=None, pattern=NAME, max_length=LONGEST_NAME)


def read_message(app: App, message: str, agent_id: str, model: str) -> ConversationConfig:
    """The configuration that a chat message is as JSON; other text is the goal of a user whom a model plays.

    That user talks with the agent in its own mode, and a model answers the agent's calls, so that nothing runs.
    """
    if not message.lstrip().startswith("{"):
        agent = app.agents.agent(agent_id)
        return ConversationConfig(
            user_mode="llm_profile",
            goal=message,
            bot_agent=agent.agent_id,
            bot_mode=f"segue:{agent.mode}",
            bot_model=model,
            api_mode="llm",
        )
    try:
        config = Configuration.model_validate_json(message).config
    except ValidationError as error:
        found = [{**each, "loc": ("body", "message", *each["loc"])} for each in error.errors()]
        raise RequestValidationError(found) from None
    about = {"bot_agent": config.bot_agent or agent_id, "bot_model": config.bot_model or model}
    return config.model_copy(update=about)


async def begin_conversation(
    service: Service,
    tenant: Tenant,
    config: ConversationConfig,
    thread_id: str,
    user: str,
    key: RequestKey | None,
    origin: MessageOrigin = "api",
) -> Begun:
    """Start a conversation as a task of a new session."""
    with service.starting_task(tenant, thread_id):
        user_id = tenant.stored(user)
        row, _ = await start_conversation(service.app, config, thread_id, user_id=user_id, key=key, origin=origin)
    return row, 0


async def answer_waiting(
    service: Service, tenant: Tenant, thread_id: str, message: str, key: RequestKey | None
) -> Begun | None:
    """Answer the session's conversation with a message, if it waits for a person; None if it does not.

    A message only says something: what is decided, such as an approval, is asked again.
    """
    latest = await service.app.tasks.newest(thread_id)
    if latest is None or latest.mode != MODE or latest.status != TaskStatus.WAITING:
        return None
    question = await service.app.question(latest.task_id)
    if question["kind"] not in TEXTUAL:
        return latest, await service.app.tasks.before_question(latest)
    return await service.answer(tenant, latest, question, answer_of(question, message), key)


# Messages of OpenAI's clients: their texts, images and files.

File = tuple[str, bytes] | ImageUrl
"""A name and a content, or the address of an image."""
_DATA = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w=.+-]+)*;base64,")
_NAMES = {
    "image/png": "image.png",
    "image/jpeg": "image.jpg",
    "image/gif": "image.gif",
    "image/webp": "image.webp",
    "application/pdf": "file.pdf",
}


class ImagePart(BaseModel):
    """An image as a data: URL, or at an https address, which the model's endpoint fetches."""

    url: str


class FileData(BaseModel):
    """A file as a data: URL, or in base64; or one that was uploaded."""

    file_data: str = ""
    file_id: str = Field(default="", max_length=100)
    filename: str = "file"


class ContentPart(BaseModel):
    """A part of a message."""

    type: Literal["text", "image_url", "file"]
    text: str = ""
    image_url: ImagePart | None = None
    file: FileData | None = None

    @property
    def content(self) -> File | None:
        """The file that the part is."""
        if self.type == "image_url":
            return image_of(self.image_url.url if self.image_url else "", "")
        if self.type == "file":
            return file_of(self.file.file_data, self.file.filename) if self.file else file_of("", "")
        return None


def refuse_files(files: Sequence[File]) -> None:
    """Refuse files with an answer."""
    if files:
        raise InvalidMessage(
            "Files cannot be added to an unfinished task: wait for its answer, or cancel it, then send them again."
        )


def image_of(url: str, name: str) -> File:
    """The image at an https address, which the model's endpoint fetches, or that of a data: URL."""
    return ImageUrl(url) if url.startswith("https://") else file_of(url, name)


def file_of(data: str, name: str) -> tuple[str, bytes]:
    """The file of a data: URL or of base64; one without a name is called by its type."""
    if not data:
        raise InvalidMessage("The file has no content: send it as a data: URL, or upload it.")
    if re.match(r"(?!data:)[a-z][a-z0-9+.-]*:", data[:20], re.IGNORECASE):
        raise InvalidMessage("Segue does not fetch {url}: send the content as a data: URL.", url=data[:200])
    head = _DATA.match(data[:200])
    try:
        content = b64decode(data[head.end() :] if head else data, validate=True)
    except (ValueError, binascii.Error) as error:
        raise InvalidMessage(
            "A data: URL of a file is not valid base64: write data:MEDIA/TYPE;base64,CONTENT."
        ) from error
    media_type = (head[1] or "") if head else ""
    return name or _NAMES.get(media_type, "file"), content


class MadeCall(BaseModel):
    """A call that the client carried out; the session knows the rest of it."""

    id: str


class ChatMessage(BaseModel):
    """A message of the conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | Items[ContentPart] | None = None
    tool_calls: Items[MadeCall] | None = Field(default=None, description="of an assistant's message")
    tool_call_id: str | None = Field(default=None, description="of a tool's message: the call that it is the result of")

    @property
    def text(self) -> str:
        if isinstance(self.content, list):
            return "\n".join(part.text for part in self.content if part.type == "text")
        return self.content or ""

    @property
    def has_files(self) -> bool:
        """Whether something goes along that is no text."""
        return isinstance(self.content, list) and any(part.type != "text" for part in self.content)

    @property
    def files(self) -> list[File]:
        """The files of the message."""
        parts = self.content if isinstance(self.content, list) else []
        return [file for part in parts if (file := part.content)]


_FILE_PREFIX = "file-"


def file_id_of(upload_id: str) -> str:
    """OpenAI's id of an upload."""
    return f"{_FILE_PREFIX}{upload_id}"


def upload_id_of(file_id: str) -> str:
    """The upload that OpenAI's id names."""
    return file_id.removeprefix(_FILE_PREFIX)


async def with_contents(service: Service, tenant: Tenant, messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """The messages with the contents of the files that they name by id."""
    named = Counter(file_id for message in messages for file_id in _named(message))
    uploads = {file_id: await _upload(service, tenant, file_id) for file_id in named}
    most = service.settings.upload_bytes
    if sum(uploads[file_id].attachment.size * times for file_id, times in named.items()) > most:
        raise InvalidMessage(
            "The files of the messages have more than {most} bytes: leave some out, or raise {setting}.",
            most=most,
            setting=UPLOAD,
        )
    files = {file_id: await _with_content(service, upload) for file_id, upload in uploads.items()}
    return [_filled(message, files) for message in messages]


def _named(message: ChatMessage) -> Iterator[str]:
    parts = message.content if isinstance(message.content, list) else ()
    return (part.file.file_id for part in parts if part.file and part.file.file_id)


async def _upload(service: Service, tenant: Tenant, file_id: str) -> Upload:
    upload = await service.app.files.uploaded(upload_id_of(file_id), tenant.prefix)
    if upload is None:
        raise InvalidMessage(
            "There is no file {file_id}: it was deleted, or is older than a day. Upload it again.", file_id=file_id
        )
    return upload


async def _with_content(service: Service, upload: Upload) -> FileData:
    content = await service.app.files.get(upload.attachment.digest)
    return FileData(file_data=b64encode(content).decode(), filename=upload.attachment.name)


def _filled(message: ChatMessage, files: Mapping[str, FileData]) -> ChatMessage:
    if not isinstance(message.content, list):
        return message
    parts = [
        part.model_copy(update={"file": files[part.file.file_id]}) if part.file and part.file.file_id else part
        for part in message.content
    ]
    return message.model_copy(update={"content": parts})


# What a request of OpenAI's clients asks of the reply: the fields that chat completions and responses share.

MOST_TOKENS = 10_000_000


def _refuse(value: object) -> object:
    if value not in (None, False, [], {}):
        raise ValueError("it is not supported here, since the agent decides it: leave it out")
    return value


OfAgent = Annotated[Any, AfterValidator(_refuse)]
"""What belongs to the agent."""
Ignored = Annotated[Any, Field(description="accepted, without effect")]
Tokens = Annotated[int | None, Field(ge=1, le=MOST_TOKENS)]
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
Verbosity = Literal["low", "medium", "high"]
SchemaForm = Annotated[dict[str, Any], AfterValidator(check_schema)]


class FunctionSpec(BaseModel):
    """What the model reads of a function."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = Field(default=None, description="a JSON schema of an object")
    strict: bool | None = Field(default=None, description="accepted: arguments are checked in any case")


class NamedFunction(BaseModel):
    """The name of one of the request's functions."""

    name: str


class FunctionChoice(BaseModel):
    """One of the request's functions: chat completions name it in `function`, responses in `name`."""

    type: Literal["function"] = "function"
    name: str = ""
    function: NamedFunction | None = None

    @property
    def named(self) -> str:
        return self.function.name if self.function else self.name


class AllowedTools(BaseModel):
    """The functions that may be called, or of which one has to be."""

    mode: Literal["auto", "required"] = "auto"
    tools: Items[FunctionChoice] = []


class ToolChoice(AllowedTools):
    """A function that has to be called, or `allowed_tools`."""

    type: Literal["function", "allowed_tools"]
    name: str = ""
    function: NamedFunction | None = None
    allowed_tools: AllowedTools | None = None

    @model_validator(mode="after")
    def _names_one(self) -> Self:
        if self.type == "function" and not (self.name or self.function):
            raise ValueError("it names no function")
        return self

    @property
    def allowed(self) -> AllowedTools:
        return self.allowed_tools or self


class JsonSchema(BaseModel):
    """A schema of the answer."""

    name: str = Field(min_length=1, max_length=64)
    description: str | None = None
    schema_: SchemaForm | None = Field(default=None, alias="schema")
    strict: bool | None = None

    @property
    def answer_format(self) -> AnswerFormat:
        given = {"json_schema": self.schema_} if self.schema_ else {}
        return AnswerFormat(name=self.name, strict=bool(self.strict), **given)


class ReplyFields(BaseModel):
    """The fields of both surfaces.

    What a newer client sends beside them is left out, and named in `ignored`: fields, and tools, choices of tools and
    items of other types.
    """

    _TYPES: ClassVar[Mapping[str, Collection[str]]] = {"tools": ("function",)}
    """The types of the objects in its lists; an object without a type is read as it is."""
    _ignored: list[str] = PrivateAttr(default_factory=list)

    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, ge=0, le=1)
    presence_penalty: float | None = Field(default=None, ge=-2, le=2)
    frequency_penalty: float | None = Field(default=None, ge=-2, le=2)
    tool_choice: Literal["auto", "none", "required"] | ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    top_logprobs: OfAgent = None
    service_tier: Ignored = None
    safety_identifier: Ignored = None
    prompt_cache_key: Ignored = None
    prompt_cache_retention: Ignored = None

    @model_validator(mode="wrap")
    @classmethod
    def _leave_out_unknown(cls, given: Any, read: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(given, dict) or len(given) > MOST_FIELDS:
            return read(given)
        known = {field.alias or name for name, field in cls.model_fields.items()}
        form = {name: value for name, value in given.items() if name in known}
        ignored = [name for name in given if name not in known]
        for name, types in cls._TYPES.items():
            if isinstance(form.get(name), list):
                form[name] = _of_types(form[name], types, name, ignored)
        choice = form.get("tool_choice")
        if isinstance(choice, dict):
            [form["tool_choice"]] = _of_types([choice], ("function", "allowed_tools"), "tool_choice", ignored) or [None]
        made = read(form)
        made._ignored = ignored
        return made

    @property
    def ignored(self) -> Sequence[str]:
        """What the request has that is left out: `field`, or `field.type` of an object in it."""
        return self._ignored

    def _functions(self) -> Sequence[FunctionSpec]:
        """The functions that the client carries out."""
        return ()

    def _answer_format(self) -> AnswerFormat | None:
        """The form of the answer, where it is not plain text."""
        return None

    def _settings(self) -> Mapping[str, Any]:
        """Settings of the model that are named differently on each surface."""
        return {}

    @property
    def output_fields(self) -> Collection[str]:
        """The names of the fields of the JSON that is asked for."""
        form = self._answer_format()
        properties = form.json_schema.get("properties") if form else None
        return [*properties] if isinstance(properties, dict) else []

    @property
    def client_tools(self) -> list[Json]:
        """The tools that the client carries out, as `App.start` takes them; none where none may be called."""
        functions: Iterable[FunctionSpec] = self._functions()
        if self.tool_choice == "none":
            return []
        if isinstance(self.tool_choice, ToolChoice) and self.tool_choice.type == "allowed_tools":
            allowed = [choice.named for choice in self.tool_choice.allowed.tools]
            known = {each.name: each for each in functions}
            check_choice(allowed, known)
            functions = [known[name] for name in allowed]
        parallel = {"parallel": self.parallel_tool_calls is not False}
        return [{**each.model_dump(include={"name", "description", "parameters"}), **parallel} for each in functions]

    def reply_options(self, instructions: Sequence[str]) -> ReplyOptions:
        """What is asked of the reply; `instructions` are the texts of the system messages."""
        shared = ("temperature", "top_p", "presence_penalty", "frequency_penalty")
        return ReplyOptions(
            instructions=[text for text in instructions if text.strip()],
            answer_format=self._answer_format(),
            tool_choice=self._choice(),
            settings=ModelSettings(**{name: getattr(self, name) for name in shared}, **self._settings()),
        )

    def _choice(self) -> str:
        choice = self.tool_choice
        if not isinstance(choice, ToolChoice):
            return "" if choice in (None, "auto") else choice
        if choice.type == "function":
            return choice.function.name if choice.function else choice.name
        return "required" if choice.allowed.mode == "required" else ""


def _of_types(given: Sequence[Any], types: Collection[str], name: str, ignored: list[str]) -> list[Any]:
    """The objects of these types; those of other types are named in `ignored`."""
    left = []
    for each in given:
        kind = each.get("type") if isinstance(each, dict) else None
        if isinstance(kind, str) and kind not in types:
            ignored.append(f"{name}.{kind}")
        else:
            left.append(each)
    return left


# The part of a task that is one response: from a message, or an answer of a person, to the next.

_ID = re.compile(r"resp_([^_]+)(?:_([1-9]\d{0,14}))?")
PAUSED = "paused"


@dataclass(frozen=True)
class Segment:
    """What a task did after its event number `start`, 0 for its beginning, as far as it is one response.

    It ends where a person is asked, and where a message steers the task: the answer, or the message, begins the next.
    """

    row: Task
    start: int
    about: Json
    """What the client said of its request."""
    log: Sequence[Event]
    """Every durable event of the task."""
    is_stored: bool = True
    """Whether its client can read it again."""
    temperature: float = 1.0
    """That of its agent, else OpenAI's default."""

    @property
    def task_id(self) -> str:
        return str(self.row.task_id)

    @property
    def id(self) -> str:
        return response_id(self.task_id, self.start)

    @cached_property
    def _ended(self) -> tuple[Sequence[Event], Event | None]:
        events: list[Event] = []
        late = late_messages(self.log)
        for event in self.log[self.start :]:
            if isinstance(event, Steered) and self.begins_next(event) and event.seq not in late:
                return events, event
            events.append(event)
            if isinstance(event, ASKING):
                return events, event
        return events, None

    def begins_next(self, event: Steered) -> bool:
        """Whether a message begins the next response: this one did not begin with it."""
        return event.seq > self.start + 1 and not event.with_results

    @property
    def events(self) -> Sequence[Event]:
        return self._ended[0]

    @property
    def end(self) -> Event | None:
        """The question or the message that it ended with; None where it ends with the task."""
        return self._ended[1]

    @property
    def is_last(self) -> bool:
        """Whether the task did not continue in a later response."""
        return self.end is None or (isinstance(self.end, ASKING) and not _continues(self.log, self.end.seq))

    @property
    def status(self) -> str:
        """OpenAI's status; a question ends a response, so that one that waits is completed."""
        if isinstance(self.end, Steered):
            return "incomplete"
        if not self.is_last:
            return "completed"
        match self.row.status:
            case TaskStatus.DONE if (self.row.result or {}).get("truncated"):
                return "incomplete"
            case TaskStatus.DONE | TaskStatus.WAITING:
                return "completed"
            case TaskStatus.ERROR:
                return "failed"
            case TaskStatus.CANCELLED:
                return "cancelled"
            case TaskStatus.PENDING:
                return "queued"
            case TaskStatus.PAUSED:
                return "queued" if self.row.resumes_itself else "incomplete"
            case TaskStatus.RUNNING | TaskStatus.PAUSING:
                return "in_progress"

    @property
    def incomplete_reason(self) -> str | None:
        if self.status != "incomplete":
            return None
        if self.end:
            return "steered"
        return "max_output_tokens" if self.row.status == TaskStatus.DONE else PAUSED

    @property
    def is_over(self) -> bool:
        return self.status not in ("queued", "in_progress")

    @property
    def answer(self) -> str:
        """What the task ended with."""
        return str((self.row.result or {}).get("answer") or "") if self.end is None else ""

    @property
    def client_tools(self) -> set[str]:
        """The names of the tools that the client carries out."""
        return {spec["function"]["name"] for spec in self.row.client_tools}

    @property
    def results_of(self) -> list[Json]:
        """The calls whose results the response begins with, as far as it has them: {"id", "name", "arguments"}."""
        before = self.log[self.start - 1] if self.start else None
        return before.client_calls if isinstance(before, QuestionAsked) else []

    @property
    def asked(self) -> list[Json]:
        """The calls whose approval the response before this one requested: {"id", "index", "name", "arguments"}."""
        before = self.log[self.start - 1] if self.start else None
        if not isinstance(before, ApprovalRequested):
            return []
        named = partial(approval_id, self.task_id, before.interrupt_id)
        return [{**call, "id": named(call["index"])} for call in before.calls]


def late_messages(log: Sequence[Event]) -> set[int]:
    """The numbers of the events of messages that came too late for the task: another begins with them."""
    known = next((event.count for event in log if isinstance(event, NotesMoved)), None)
    added = [event.seq for event in log if isinstance(event, Steered)]
    return set() if known is None else {*added[known:]}


def response_id(task_id: str, start: int) -> str:
    """The id of a response: the task's, and where in it the response begins."""
    return f"resp_{task_id}_{start}" if start else f"resp_{task_id}"


def approval_id(task_id: str, interrupt_id: str, index: int) -> str:
    """The id of the request for the approval of a call."""
    return f"mcpr_{task_id}_{interrupt_id}_{index}"


async def segment_of(service: Service, row: Task, start: int) -> Segment:
    """The response that begins after an event of a task."""
    log = await service.app.tasks.events(row.task_id)
    known = await service.app.tasks.continuation(row.task_id, start)
    agent = service.app.agents.get(row.agent_id)  # it may be gone by now
    temperature = 1.0 if agent is None or agent.temperature is None else agent.temperature
    about, is_stored = (known.about, known.is_stored) if known else ({}, True)
    return Segment(row, start, about, log, is_stored, temperature)


async def last_segment(service: Service, row: Task) -> Segment:
    """The newest response of a task."""
    segment = await segment_of(service, row, 0)
    while not segment.is_last:
        assert segment.end is not None
        start = segment.end.seq - isinstance(segment.end, Steered)
        segment = await segment_of(service, row, start)
    return segment


async def own_segment(service: Service, tenant: Tenant, named: str) -> Segment:
    """A response of the tenant's; a 404 for any other."""
    if not (parts := _ID.fullmatch(named)):
        raise not_found("response", named)
    task_id, start = parts[1], int(parts[2] or 0)
    try:
        row = await service.own_task(tenant, task_id)
    except Problem:
        raise not_found("response", named) from None
    segment = await segment_of(service, row, start)
    if not _begins(segment.log, start):
        raise not_found("response", named)
    return segment


def _begins(log: Sequence[Event], start: int) -> bool:
    """Whether a response begins after that event."""
    if start == 0:
        return True
    if start > len(log):
        return False
    if isinstance(log[start - 1], ASKING):
        return _continues(log, start)
    if start == len(log):
        return False
    first = log[start]
    if isinstance(first, Steered):
        return not first.with_results and first.seq not in late_messages(log)
    return isinstance(first, ASKING)


def _continues(log: Sequence[Event], seq: int) -> bool:
    """Whether the task continued after the question with that number."""
    after = log[seq] if seq < len(log) else None
    return isinstance(after, StateChanged) and after.new == TaskStatus.RUNNING
