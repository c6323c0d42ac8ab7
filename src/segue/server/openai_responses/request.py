"""The request of a response, and the task that it begins, continues or forks.

Source: OpenAI's API reference, "Responses" and "Conversations".
"""

import re
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from ...core.calls import CLIENT_CALLS, TEXTUAL
from ...core.context import Ids
from ...core.errors import InvalidAnswer
from ...core.message import AnswerFormat, ReplyOptions
from ...core.records import Json, RequestKey, Task
from ...core.task import ENDED, LONGEST_NAME, NAME, OPEN, TaskStatus
from ...prompts.protocols import answer_of
from ..background import is_in_background
from ..continuation import Answers, Attempts, Conversation, Found, asks, end_stopped, fork_after, is_awaited, rejoin
from ..errors import Problem, not_found
from ..middleware import Items, RequestBody, refuse_many_fields
from ..requests import (
    ChatMessage,
    ContentPart,
    Effort,
    FileData,
    FunctionSpec,
    Ignored,
    ImagePart,
    JsonSchema,
    OfAgent,
    ReplyFields,
    Segment,
    Tokens,
    Verbosity,
    approval_id,
    finish,
    last_segment,
    own_segment,
    refuse_files,
    response_id,
    resume_with_results,
    segment_of,
    submit_results,
    task_of_results,
    with_contents,
)
from ..service import Begun, Service
from ..tenants import Tenant

Metadata = Annotated[
    dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]],
    Field(max_length=16),
    BeforeValidator(refuse_many_fields),
]
ResponseId = Annotated[str, Field(max_length=200)]


def _no_items(value: object) -> object:
    if value:
        raise ValueError("a conversation is created empty: send its first message with its first response")
    return value


class Part(BaseModel):
    """A part of an item."""

    type: Literal[
        "input_text", "input_image", "input_file", "output_text", "text", "refusal", "reasoning_text", "summary_text"
    ]
    text: str = ""
    image_url: str | None = None
    file_data: str | None = None
    file_url: str | None = None
    file_id: str | None = Field(default=None, max_length=100)
    filename: str = "file"

    @property
    def chat_part(self) -> ContentPart:
        """The part as chat completions have it."""
        if self.file_id:
            return ContentPart(type="file", file=FileData(file_id=self.file_id))
        if self.type == "input_image":
            return ContentPart(type="image_url", image_url=ImagePart(url=self.image_url or ""))
        if self.type == "input_file":
            return ContentPart(
                type="file", file=FileData(file_data=self.file_data or self.file_url or "", filename=self.filename)
            )
        return ContentPart(type="text", text=self.text)


ItemType = Literal[
    "message",
    "mcp_approval_response",
    "mcp_approval_request",
    "mcp_call",
    "mcp_list_tools",
    "reasoning",
    "function_call",
    "function_call_output",
    "item_reference",
]


class InputItem(BaseModel):
    """A message, a person's decision, a result, or an item of an earlier response, which is known by its id."""

    type: ItemType = "message"
    id: str | None = None
    role: Literal["user", "assistant", "system", "developer"] = "user"
    content: str | Items[Part] | None = None
    approval_request_id: str | None = Field(default=None, description="null in a call that nobody had to approve")
    approve: bool = False
    reason: str | None = None
    call_id: str = ""
    output: str | Items[Part] | None = Field(default=None, description="of a function_call_output: the result")

    @property
    def message(self) -> ChatMessage:
        """The message, or the result as a tool's message."""
        if self.type == "function_call_output":
            return ChatMessage(role="tool", content=_content(self.output), tool_call_id=self.call_id)
        return ChatMessage(role=self.role, content=_content(self.content))


def _content(given: str | list[Part] | None) -> str | list[ContentPart]:
    return given if isinstance(given, str) else [part.chat_part for part in given or ()]


class ConversationName(BaseModel):
    """A conversation, which is a session."""

    id: str = Field(pattern=NAME, max_length=LONGEST_NAME)


class PlainText(BaseModel):
    """An answer in plain text."""

    type: Literal["text"]


class AnyObject(BaseModel):
    """An answer that is a JSON object."""

    type: Literal["json_object"]


class SchemaFormat(JsonSchema):
    """An answer that is a JSON object of a schema."""

    type: Literal["json_schema"]


class TextConfig(BaseModel):
    """The form of the answer."""

    format: Annotated[PlainText | AnyObject | SchemaFormat, Field(discriminator="type")] | None = None
    verbosity: Verbosity | None = None


class ReasoningConfig(BaseModel):
    """How much the model thinks; the agent's thoughts are shown as they are."""

    effort: Effort | None = None
    summary: Ignored = None
    generate_summary: Ignored = None


class ResponseTool(FunctionSpec):
    """A function that the client carries out."""

    type: Literal["function"]


class AgentTools(BaseModel):
    """The tools of the agent itself, for clients that need to know them by a name before they approve calls."""

    type: Literal["mcp"]
    server_label: str = Field(description="the agent, as in `model`")


class ResponseRequest(RequestBody, ReplyFields):
    """What is asked of an agent: a message, a person's decisions on the calls that wait, or results of its tools."""

    model_config = ConfigDict(extra="ignore", json_schema_extra={"examples": [{"model": "travel", "input": "你好"}]})
    _TYPES: ClassVar[Mapping[str, Collection[str]]] = {"tools": ("function", "mcp"), "input": get_args(ItemType)}

    model: str = Field(min_length=1, max_length=130)
    input: str | Items[InputItem] = Field(min_length=1)
    instructions: str | None = None
    stream: bool | None = None
    background: bool | None = None
    previous_response_id: ResponseId | None = None
    conversation: Annotated[str, Field(pattern=NAME, max_length=LONGEST_NAME)] | ConversationName | None = None
    metadata: Metadata | None = None
    user: str | None = Field(default=None, pattern=NAME, max_length=LONGEST_NAME)
    store: bool | None = Field(default=None, description="false: the response cannot be read again")
    text: TextConfig | None = None
    reasoning: ReasoningConfig | None = None
    tools: Items[Annotated[ResponseTool | AgentTools, Field(discriminator="type")]] | None = None
    max_output_tokens: Tokens = None
    max_tool_calls: OfAgent = None
    prompt: OfAgent = None
    context_management: OfAgent = None
    moderation: OfAgent = None
    include: Items[str] | None = Field(
        default=None, description="accepted: what there is of these is part of a response in any case"
    )
    truncation: Literal["auto", "disabled"] | None = Field(
        default=None, description="the service truncates a long conversation in either case"
    )
    prompt_cache_key: Any = Field(default=None, description="keeps apart conversations that are sent without ids")
    prompt_cache_options: Ignored = None
    stream_options: Ignored = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.background and self.store is False:
            raise ValueError("a response in the background is read later: leave out store=false")
        agent = self.model.partition(":")[0]
        for tool in self.tools or ():
            if isinstance(tool, AgentTools) and tool.server_label != agent:
                raise ValueError(
                    f"tools: the server_label of a tool of the type mcp is the agent, {agent}; other servers belong "
                    "into the agents file"
                )
        return self

    def _functions(self) -> Sequence[FunctionSpec]:
        return [tool for tool in self.tools or () if isinstance(tool, ResponseTool)]

    def _answer_format(self) -> AnswerFormat | None:
        match self.text and self.text.format:
            case SchemaFormat() as form:
                return form.answer_format
            case AnyObject():
                return AnswerFormat()
        return None

    def _settings(self) -> Mapping[str, Any]:
        return {
            "max_tokens": self.max_output_tokens,
            "reasoning_effort": self.reasoning and self.reasoning.effort,
            "verbosity": self.text and self.text.verbosity,
        }

    @property
    def messages(self) -> list[ChatMessage]:
        """Its instructions and messages, as chat completions have them."""
        system = [ChatMessage(role="system", content=self.instructions)] if self.instructions else []
        items = [InputItem(content=self.input)] if isinstance(self.input, str) else self.input
        return [*system, *(item.message for item in items if item.type == "message")]

    @property
    def is_in_background(self) -> bool:
        """Whether a client asks for itself: nothing but messages, without a conversation, that need not be stored."""
        is_new = isinstance(self.input, str) or all(item.type == "message" for item in self.input)
        if not is_new or self.previous_response_id or self.conversation or self.store:
            return False
        return is_in_background(self.messages, has_tools=bool(self.tools), fields=self.output_fields)

    @property
    def session_id(self) -> str | None:
        """The conversation that it names."""
        return self.conversation.id if isinstance(self.conversation, ConversationName) else self.conversation


class ConversationRequest(RequestBody):
    """A new conversation; its first message begins its first response."""

    metadata: Metadata | None = None
    items: Annotated[list[Any] | None, AfterValidator(_no_items)] = None


class ConversationChange(RequestBody):
    """The metadata that a conversation has from here on."""

    metadata: Metadata


_ITEM = re.compile(r"(?:msg|rs|mcp|fc)_([^_]+)_(\d{1,15})_\d+")
_APPROVAL = re.compile(r"mcpr_([^_]+)_([^_]+)_(\d{1,9})")
_NEW = ("message", "mcp_approval_response", "function_call_output")
_MARGIN = 30.0
"""Seconds before its deletion in which a session that is not stored is continued no more."""


@dataclass(frozen=True)
class ResponseTasks:
    """Finds or starts the task of a request."""

    service: Service
    tenant: Tenant
    body: ResponseRequest
    options: Json
    """Those of `App.start`."""

    async def begin(self, asked: RequestKey | None, digest: str, retries: int, about: Json) -> Begun:
        """The task that answers the request, and the number of its event that the response begins after.

        `asked` is the client's own key. Without one, a request with this `digest` that was sent before is the same one
        if its client may not have the response; `retries` is how often the client says that it sent it before.
        """
        if asked:
            known = await self.service.known(asked)
            return known or await self._begin(replace(asked, about=about))
        attempts = Attempts(self.service, self.tenant.stored(f"response:{digest}:"))
        last = await attempts.last()
        count = attempts.number(last) + 1
        if last and last.task_id:
            task = await self.service.app.task(last.task_id)
            segment = await segment_of(self.service, task, last.seq)
            if await is_awaited(self.service, task, last.key, retries, over=segment.is_over or not segment.is_last):
                with self.service.delivering(last.key):
                    return await rejoin(self.service, self.tenant, task), last.seq
        while self.service.has_delivered(attempts.key(count)):  # another one that has only begun
            count += 1
        key = RequestKey(attempts.key(count), "", about)
        with self.service.delivering(key.key):
            return await self._begin(key)

    async def _begin(self, key: RequestKey) -> Begun:
        """Begin or continue a task.

        A response to an earlier one continues in a fork where its session continued meanwhile. What is sent to a task
        that waits is the answer, if the client has the question; what is sent to one that is unfinished steers it.
        """
        previous, items = await self._previous()
        if decisions := [item for item in items if item.type == "mcp_approval_response"]:
            if previous is None:
                raise not_found("approval_request", decisions[0].approval_request_id or "")
            if len(decisions) < len(items):
                raise InvalidAnswer("Send approvals on their own, with the id of the response that requested them.")
            return await self._decide(previous, decisions, key)
        if any(item.type == "function_call_output" for item in self._last_items):
            return await self._resume_with_results(previous, key)
        message = await self._message(items)
        if previous is None:
            if found := await self._continued(message):
                return await self._after(found, message, key)
            thread_id = await self._session()
            latest = await self._latest(thread_id)
            options = self._reply_options(message, await last_segment(self.service, latest) if latest else None)
            return await self._send(message, thread_id, latest, key, options)
        options = self._reply_options(message, previous)
        latest = await self._latest(previous.row.session_id)
        if latest and latest.task_id == previous.task_id and previous.is_last:
            return await self._send(message, previous.row.session_id, latest, key, options)
        if not previous.is_last or previous.row.status not in ENDED:
            raise Problem(409, "ResponseContinued", named=previous.id)
        task = await self.service.app.task(previous.task_id)
        return await self._send(message, await fork_after(self.service, self.tenant, task, key), None, key, options)

    async def note(self, output: Sequence[Json], task: Task, after: int) -> None:
        """Note the messages of a response, by which a client that names nothing continues it."""
        texts = [_text_of(item) for item in output if item["type"] == "message"]
        if not texts or self._names_session:
            return
        asked = [item for item in self._items if item.type == "message" and item.role == "user"]
        if asked or any(item.type == "function_call_output" for item in self._items):
            answers = Answers(self.service, self.tenant, self._sent)
            await answers.note(texts[-1], task, after, texts[:-1], is_stored=self.body.store is not False)

    async def _continued(self, said: Conversation) -> Found | None:
        """The task whose answer the client sends again, if its session has not gone on and is not deleted soon."""
        if self._names_session:
            return None
        answers = Answers(self.service, self.tenant, said)
        found = await answers.find()
        found = await answers.unread(found) or found
        latest = await self._latest(found.task.session_id) if found else None
        if found is None or latest is None or latest.task_id != found.task.task_id:
            return None
        known, settings = await self.service.app.tasks.continuation(latest.task_id, found.after), self.service.settings
        kept = settings.unstored_seconds if latest.is_over else settings.unstored_open_seconds
        is_expiring = time.time() - latest.updated_at > kept - _MARGIN
        return None if known and not known.is_stored and is_expiring else found

    async def _after(self, found: Found, said: Conversation, key: RequestKey) -> Begun:
        """Send what follows an answer that the client sends again; it names a question whose text it sends last."""
        task, is_named = found.task, await asks(self.service, found.task, said)
        if is_named:
            question, tasks = await self.service.app.question(task.task_id), self.service.app.tasks
            if (before := await tasks.before_unseen_question(task, question, key, found.after)) is not None:
                return task, before
        await end_stopped(self.service, task)
        options = self._reply_options(said, None)
        return await self._send(said.after(found.place), task.session_id, task, key, options, is_named=is_named)

    @property
    def _names_session(self) -> bool:
        return bool(self.body.previous_response_id or self.body.session_id)

    @property
    def _parties(self) -> Sequence[str]:
        """Who talks with whom, and about what as far as the client says so."""
        user, agent, mode = (str(self.options[name]) for name in ("user_id", "agent", "mode"))
        return ("responses", self.tenant.person, user, agent, mode, str(self.body.prompt_cache_key or ""))

    async def _previous(self) -> tuple[Segment | None, Sequence[InputItem]]:
        """The response that the request continues, and what it adds to that.

        A client that sends the items of earlier responses again names the last of them by that.
        """
        items = self._items
        known = [place for place, item in enumerate(items) if _response_of(item.id or "")]
        new = [item for item in items[known[-1] + 1 if known else 0 :] if item.type in _NEW]
        decided = _response_of(new[0].approval_request_id or "") if new else ""
        named = self.body.previous_response_id or decided or (_response_of(items[known[-1]].id or "") if known else "")
        if not named:
            return None, new
        try:
            segment = await own_segment(self.service, self.tenant, named)
            if not segment.is_stored and segment.row.status not in OPEN:
                raise not_found("unstored_response", named)
        except Problem:
            if self.body.previous_response_id or decided or self.body.store is not False:
                raise
            return None, [item for item in items if item.type in _NEW]  # what was not stored comes along
        if self.body.previous_response_id and not segment.is_stored:
            raise not_found("unstored_response", named)
        is_approval = bool(decided or (known and _APPROVAL.fullmatch(items[known[-1]].id or "")))
        return (await last_segment(self.service, segment.row) if is_approval else segment), new

    @property
    def _items(self) -> Sequence[InputItem]:
        given = self.body.input
        return [InputItem(content=given)] if isinstance(given, str) else given

    @property
    def _sent(self) -> Conversation:
        """All that the client sends, its files as they are named."""
        sent = [item.message for item in self._items if item.type in ("message", "function_call_output")]
        messages = [each.model_copy(update={"content": each.text}) for each in sent]
        return Conversation.of(messages, parties=self._parties, cache_key=self._cache_key)

    @property
    def _cache_key(self) -> str:
        return "" if self._names_session else str(self.body.prompt_cache_key or "")

    @property
    def _last_items(self) -> Sequence[InputItem]:
        """What the client adds: everything after the last item that an agent made."""
        items = self._items
        made = [
            place
            for place, item in enumerate(items)
            if item.type not in _NEW or (item.type == "message" and item.role == "assistant")
        ]
        return items[made[-1] + 1 if made else 0 :]

    async def _resume_with_results(self, previous: Segment | None, key: RequestKey) -> Begun:
        """Continue the task whose calls the request has results of."""
        said = Conversation.of([item.message for item in self._last_items])
        task = await task_of_results(self.service, self.tenant, said.results)
        elsewhere = previous and previous.task_id != task.task_id
        if elsewhere or (self.body.session_id and await self._session() != task.session_id):
            raise not_found("call", next(iter(said.results)))
        options = self._reply_options(said, None)
        if files := said.new_files:
            task = await finish(self.service, self.tenant, task, said.results)
            if task.status not in ENDED:
                refuse_files(files)
            return await self._send(said, task.session_id, None, key, options)
        return await resume_with_results(self.service, self.tenant, task, said.results, said.message, key, options)

    def _reply_options(self, said: Conversation | None, previous: Segment | None) -> ReplyOptions:
        """What is asked of the reply. System messages stay for later responses, `instructions` are of one response."""
        earlier = ReplyOptions.of(previous.row.reply_options).instructions if previous else []
        if previous and (own := previous.about.get("instructions")) and earlier[:1] == [own]:
            earlier = earlier[1:]
        own = [self.body.instructions] if self.body.instructions else []
        return self.body.reply_options([*own, *earlier, *(said.instructions if said else ())])

    async def _message(self, items: Sequence[InputItem]) -> Conversation:
        """What is new."""
        messages = [item.message for item in items if item.type == "message"]
        messages = await with_contents(self.service, self.tenant, messages)
        agents = self.service.app.agents
        return Conversation.of(messages, parties=self._parties, cache_key=self._cache_key).readable(
            agents.accepted(agents.agent(self.options["agent"]))
        )

    async def _session(self) -> str:
        """The stored name of the conversation; a new one where none is named."""
        if self.body.session_id is None:
            return self.tenant.stored(Ids().thread())
        return await self.service.own_session(self.tenant, self.body.session_id)

    async def _latest(self, thread_id: str) -> Task | None:
        return await self.service.app.tasks.newest(thread_id)

    async def _send(
        self,
        said: Conversation,
        thread_id: str,
        latest: Task | None,
        key: RequestKey,
        asked: ReplyOptions,
        *,
        is_named: bool = False,
    ) -> Begun:
        """Send a message to a session; to a task that waits it is the answer, whatever its instructions.

        A text decides only what the client names. Else what is asked is sent again.
        """
        files = [*said.files.values()]
        if latest and latest.status == TaskStatus.WAITING:
            refuse_files(files)
            question = await self.service.app.question(latest.task_id)
            if CLIENT_CALLS in question:
                return await submit_results(self.service, self.tenant, latest, {}, said.message, key, asked)
            is_named = is_named or self._names(latest, question) or await asks(self.service, latest, self._sent)
            if question["kind"] not in TEXTUAL and not is_named:
                return latest, await self.service.app.tasks.ask_again(latest, key)
            if (answer := answer_of(question, said.message)) is None:
                return latest, await self.service.app.tasks.ask_again(latest, key)
            return await self.service.answer(self.tenant, latest, question, answer, key, asked)
        options = {"session_id": thread_id, "steer": latest is not None, "files": files, **self.options}
        options |= {"reply_options": asked, "origin": "responses"}
        message = said.message if said.results else said.first_message
        named = Answers(self.service, self.tenant, said).named(key)
        return await self.service.start(self.tenant, message, named, **options)

    def _names(self, task: Task, question: Json) -> bool:
        """Whether the client names a question: by its response; calls by sending their approval requests back last."""
        if question["kind"] != "approval":
            return self.body.session_id is None
        sent = [item.id for item in self._items[: len(self._items) - len(self._last_items)]]
        asked = {approval_id(task.task_id, question["interrupt_id"], call["index"]) for call in question["calls"]}
        return bool(sent) and sent[-1] in asked and asked.issubset(sent)

    async def _decide(self, previous: Segment, decisions: Sequence[InputItem], key: RequestKey) -> Begun:
        """Give a task the verdicts on its calls."""
        verdicts: list[dict[str, Any]] = []
        asked = ""
        for decision in decisions:
            named = _APPROVAL.fullmatch(decision.approval_request_id or "")
            if named is None or named[1] != previous.task_id or asked not in ("", named[2]):
                raise InvalidAnswer(
                    "The decisions belong to different responses: send those of one response at a time."
                )
            asked, verdict = named[2], "approve" if decision.approve else "reject"
            verdicts.append({"index": int(named[3]), "verdict": verdict, "reason": decision.reason or ""})
        answer = {"verdicts": verdicts}
        about = {"answer": answer, "interrupt_id": asked, "reply_options": self._reply_options(None, previous)}
        return await self.service.resume(self.tenant, previous.row, key, **about)


def _text_of(item: Json) -> str:
    return "".join(part.get("text") or "" for part in item["content"])


def _response_of(named: str) -> str:
    """The response that the id of an item names; empty where it names none."""
    if approval := _APPROVAL.fullmatch(named):
        return response_id(approval[1], 0)
    item = _ITEM.fullmatch(named)
    return response_id(item[1], int(item[2])) if item else ""
