"""OpenAI's chat completions, models and files: requests, replies and routes."""

import hashlib
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, Literal, Self

from fastapi import Header, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ..core.calls import CLIENT_CALLS
from ..core.errors import TaskError
from ..core.events import Event, ToolCall
from ..core.message import UPLOAD_SECONDS, AnswerFormat, ReplyOptions, Upload
from ..core.records import Json, RequestKey, Task
from ..core.task import ACTIVE, ANYBODY, ENDED, LONGEST_NAME, NAME, TaskStatus
from ..prompts.catalogue import Language, task_text
from ..prompts.protocols import answer_of, asks_to_continue, question_text, reply_notice, stop_notice
from ..runtime.reply import BREAK, Added, CallOpened, Kind, Part, ReplyStream, TextDropped
from . import background
from .api.files import BINARY, FILE, FormDep, file_response
from .background import is_in_background
from .continuation import (
    Answers,
    Attempts,
    Conversation,
    Found,
    Messages,
    asks,
    end_stopped,
    fork_after,
    in_turn,
    is_awaited,
    plain,
    rejoin,
    unused_session,
    without_thoughts,
)
from .dependencies import (
    CONFLICT,
    MODEL_DOWN,
    KeyDep,
    Responses,
    Retries,
    ServiceDep,
    TenantDep,
    Unset,
    UserName,
    routes,
)
from .errors import ErrorBody, JsonResponse, Problem, encoded, not_found, readable
from .middleware import Items, Texts
from .requests import (
    ChatMessage,
    Effort,
    File,
    FunctionSpec,
    Ignored,
    JsonSchema,
    OfAgent,
    ReplyFields,
    Tokens,
    Verbosity,
    file_id_of,
    finish,
    refuse_files,
    resume_with_results,
    submit_results,
    task_of_results,
    tool_call_id,
    upload_id_of,
    waiting_calls,
    with_contents,
)
from .service import Begun, Service
from .stream import EventStream, events_of, task_headers, while_connected, with_error_frames
from .tenants import Tenant
from .views import outcome

# A task as a chat completion: the chunks of a stream, or the whole.

RESTARTED = "\n\n---\n\n"
"""Stands between a text that was streamed and the one that takes its place, which a client cannot take back."""


class Usage(BaseModel):
    """The tokens of the whole task, as far as the endpoint counted them."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class FunctionView(BaseModel):
    """What is called, with the arguments as JSON."""

    name: str
    arguments: str


class CallView(BaseModel):
    """A call of one of the client's functions."""

    id: str
    type: Literal["function"]
    function: FunctionView


class AnswerMessage(BaseModel):
    """The answer."""

    role: Literal["assistant"]
    content: str | None
    refusal: str | None
    annotations: list[Any]
    reasoning_content: str | None = None
    tool_calls: list[CallView] | None = None


class Choice(BaseModel):
    """The one answer of a completion."""

    index: Literal[0]
    message: AnswerMessage
    logprobs: None
    finish_reason: Literal["stop", "tool_calls", "length"]


class TaskOfCompletion(BaseModel):
    """The task that answers: its status, and what it asks while it waits for a person."""

    task_id: str
    session_id: str
    status: str
    question: dict[str, Any] | None = None
    background: bool = Field(default=False, description="whether it was taken for a request of the chat client itself")


class CompletionView(BaseModel):
    """A chat completion."""

    id: str = Field(examples=["chatcmpl-2f1c9a52-6f1e-4f3e-9a55-0d2a4f5b6c7d"])
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[Choice]
    usage: Usage
    segue: TaskOfCompletion


@dataclass
class Completion:
    """What a client has been sent of a task's answer."""

    row: Task
    model: str
    before: Sequence[Event] = ()
    """The task's events that earlier completions had."""
    created: int = field(default_factory=lambda: int(time.time()))
    reasoning: str = ""
    resumed: bool = False
    """Whether the service, which stops, resumes the task when it starts again."""
    shown: str = ""
    """What the client has of the answer already, which is not sent again."""
    appended_to: str = ""
    """The message that the client shows the text at the end of, if it continues one."""
    note: Callable[[str], Awaitable[None]] | None = None
    """Notes what the client has been sent, before the end of that; None for an answer that no request continues."""
    sent: str = ""

    def __post_init__(self) -> None:
        self._left = self.shown
        self._reply = ReplyStream({spec["function"]["name"] for spec in self.row.client_tools})
        self._reply.recall(self.before)
        self._as_json = "answer_format" in self.row.reply_options
        """Whether the answer is JSON, which is sent once it is known to fit."""

    def deltas(self, event: Event) -> Iterator[Json]:
        """What an event adds to the answer, or to the thinking before it."""
        for part in self._reply.of(event):
            yield from self._delta(part)

    def _delta(self, part: Part) -> Iterator[Json]:
        match part:
            case Added(Kind.TEXT) | TextDropped() if self._as_json:
                pass
            case Added(Kind.TEXT, text):
                if new := self._unseen(text):
                    yield {"content": new}
            case Added(Kind.THOUGHT, text):
                yield self._thought(text)
            case CallOpened(ToolCall() as call):
                yield self._thought(f"\n{call.name} {readable(call.arguments)}\n")
            case TextDropped() if self._left and self._left != self.shown:
                self._left = self.shown
            case TextDropped(went_on):
                yield {"content": self._unseen(BREAK if went_on else RESTARTED)}

    def _unseen(self, text: str) -> str:
        """What of a text the client does not have; what it has is compared as long as it is the same."""
        if self._left.startswith(text):
            self._left = self._left[len(text) :]
            return ""
        if text.startswith(self._left):
            text = text[len(self._left) :]
        else:  # another answer
            text = self.shown[: len(self.shown) - len(self._left)] + text
        self._left = ""
        text = text if self.sent else self._apart(text)
        self.sent += text
        return text

    def _apart(self, text: str) -> str:
        """The first text of the answer, in a paragraph of its own below a notice."""
        notices = [*_stop_notices(self.row.reply_language), task_text("truncated", self.row.reply_language).strip()]
        return BREAK + text.lstrip("\n") if text and self.appended_to.rstrip().endswith(tuple(notices)) else text

    def _thought(self, text: str) -> Json:
        self.reasoning += text
        return {"reasoning_content": text}

    def rest(self, result: Json) -> str:
        """What of the text that the task ends with was not sent yet."""
        if self._as_json:
            return self._unseen(self.text(result))
        parts = self._reply.end(self.text(result))
        text = "".join(delta["content"] for part in parts for delta in self._delta(part))
        return text if text or self.sent else self._complete(result)

    def _complete(self, result: Json) -> str:
        """The sentence for a client that has all of the answer and asks for the rest."""
        if not self.shown or result["status"] != TaskStatus.DONE:
            return ""
        self.sent = (BREAK if self.appended_to else "") + stop_notice("done", self.row.reply_language)
        return self.sent

    def calls(self, result: Json) -> list[Json]:
        """The calls that the task waits for the client to carry out."""
        task_id = self.row.task_id
        return [
            {
                "id": tool_call_id(task_id, call["id"]),
                "type": "function",
                "function": {"name": call["name"], "arguments": readable(call["arguments"])},
            }
            for call in waiting_calls(result)
        ]

    def ending(self, result: Json) -> Iterator[Json]:
        """The last chunks: the calls of the client's functions, and the reason."""
        calls = self.calls(result)
        if calls:
            yield self.chunk({"tool_calls": [{"index": place, **call} for place, call in enumerate(calls)]})
        yield self.chunk({}, _finish_reason(calls, result), segue=self._task_of(result))

    def text(self, result: Json) -> str:
        """The answer; of a task that has none, what was written of it and what it waits for."""
        language, text = self.row.reply_language, self._reply.text
        match TaskStatus(result["status"]):
            case TaskStatus.DONE:
                return self._reply.own(str(result["answer"]))
            case TaskStatus.WAITING:
                if waiting_calls(result):
                    return text
                separator = BREAK if (text or self.appended_to) and not text.endswith(BREAK) else ""
                return text + separator + reply_notice(result["question"], language)
            case (
                TaskStatus.PENDING
                | TaskStatus.RUNNING
                | TaskStatus.PAUSING
                | TaskStatus.PAUSED
                | TaskStatus.ERROR
                | TaskStatus.CANCELLED
            ):
                answer = self._reply.own(str(result["answer"])) or ("" if self._as_json else text)
                notice = stop_notice(result["status"], language, resumed=self.resumed)
                return "\n\n".join(filter(None, (answer, notice)))

    def chunk(self, delta: Json, finish_reason: str | None = None, **more: object) -> Json:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return {**self._head("chat.completion.chunk"), "choices": [choice], **more}

    def usage_chunk(self, result: Json) -> Json:
        return {**self._head("chat.completion.chunk"), "choices": [], "usage": self._usage(result)}

    def whole(self, result: Json) -> Json:
        """The completion of a request that does not stream."""
        reasoning = {"reasoning_content": self.reasoning} if self.reasoning else {}
        text, refused = self.text(result).removeprefix(self.shown), bool(result.get("refused"))
        text = self._apart(text) or self._complete(result)
        content: Json = {"content": None if refused else text, "refusal": text if refused else None, "annotations": []}
        message: Json = {"role": "assistant", **content, **reasoning}
        if calls := self.calls(result):
            message |= {"content": text.strip() or None, "tool_calls": calls}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish_reason(calls, result)}
        about = {"usage": self._usage(result), "segue": self._task_of(result)}
        return {**self._head("chat.completion"), "choices": [choice], **about}

    def _usage(self, result: Json) -> Json:
        """The tokens of the task, so far where it has no result yet."""
        used = result.get("usage") or vars(self._reply.task.usage)
        prompt, completion = used["input"], used["output"]
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}

    def _task_of(self, result: Json) -> Json:
        return {**task_of(result), **({} if self.note else {"background": True})}

    def _head(self, kind: str) -> Json:
        return {"id": f"chatcmpl-{self.row.task_id}", "object": kind, "created": self.created, "model": self.model}


def _stop_notices(language: Language) -> list[str]:
    """What an answer ends with that was cut off as the service stopped, or its task was paused."""
    return [stop_notice("paused", language, resumed=resumed) for resumed in (True, False)]


def _finish_reason(calls: Sequence[Json], result: Json) -> str:
    return "tool_calls" if calls else "length" if result.get("truncated") else "stop"


def chunks(
    service: Service, tenant: Tenant, completion: Completion, after: int, include_usage: bool
) -> AsyncGenerator[bytes, None]:
    """The frames of a stream: chunks, at the end one with the reason, and [DONE]; or an error."""
    frames = _chunks(service, tenant, completion, after, include_usage)
    return with_error_frames(frames, tenant, completion.row, lambda result: [_frame({"error": error_of(result)})])


async def _chunks(
    service: Service, tenant: Tenant, completion: Completion, after: int, include_usage: bool
) -> AsyncGenerator[bytes, None]:
    task_id = completion.row.task_id
    yield _frame(completion.chunk({"role": "assistant", "content": ""}))
    async with aclosing(events_of(service, task_id, after, so_far=True, takes_over=True)) as events:
        async for event in events:
            for delta in completion.deltas(event):
                yield _frame(completion.chunk(delta))
    result = await result_of(service, tenant, completion)
    if result["status"] == TaskStatus.ERROR:
        yield _frame({"error": error_of(result)})
        return
    rest = completion.rest(result)
    if completion.note:
        await completion.note(completion.sent)
    if result.get("refused"):
        yield _frame(completion.chunk({"refusal": completion.text(result)}))
    elif rest:
        yield _frame(completion.chunk({"content": rest}))
    for chunk in completion.ending(result):
        yield _frame(chunk)
    if include_usage:
        yield _frame(completion.usage_chunk(result))
    yield b"data: [DONE]\n\n"


async def result_of(service: Service, tenant: Tenant, completion: Completion) -> Json:
    """The task's result; the completion learns whether the service resumes it by itself, as `AutoResume` does."""
    result = await outcome(service.app, tenant, completion.row.task_id)
    if service.draining and service.settings.resume and result["status"] == TaskStatus.PAUSED:
        completion.resumed = (await service.app.task(result["task_id"])).resumes_itself
    return result


def error_of(result: Json) -> Json:
    """The error of a task that failed, in OpenAI's format."""
    return {"message": result.get("error") or "", "type": "server_error", "param": None, "code": "task_failed"}


def task_of(result: Json) -> Json:
    """The fields of a `TaskOfCompletion`."""
    return {name: result.get(name) for name in ("task_id", "session_id", "status", "question")}


def _frame(form: Json) -> bytes:
    return f"data: {encoded(form)}\n\n".encode("ascii")


# The request of a chat completion, and the task that it begins, continues or asks for again.
#
# Source: OpenAI's API reference, "Create chat completion".


class StreamOptions(BaseModel):
    """What a stream holds beside the answer."""

    include_usage: bool = False


class FunctionTool(BaseModel):
    """A function that the client carries out."""

    type: Literal["function"]
    function: FunctionSpec


class ResponseFormat(BaseModel):
    """The form of the answer."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None

    @model_validator(mode="after")
    def _has_schema(self) -> Self:
        if self.type == "json_schema" and self.json_schema is None:
            raise ValueError("it has no json_schema")
        return self


class CompletionRequest(ReplyFields):
    """A conversation whose last message is new.

    `model` is an agent, or an agent and a mode: `support` or `support:plan`.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"model": "travel", "messages": [{"role": "user", "content": "规划北京三日游"}]}]
        }
    )

    model: str = Field(min_length=1, max_length=130)
    messages: Items[ChatMessage] = Field(min_length=1)
    stream: bool = False
    stream_options: StreamOptions | None = None
    n: Literal[1] | None = None
    metadata: Texts | None = Field(default=None, description="`session_id` names the session")
    user: str | None = Field(default=None, description="the person who writes; it names no session")
    response_format: ResponseFormat | None = None
    modalities: Items[Literal["text"]] | None = None
    tools: Items[FunctionTool] | None = None
    max_tokens: Tokens = None
    max_completion_tokens: Tokens = None
    seed: int | None = Field(default=None, ge=-(2**63), lt=2**63)
    stop: str | Annotated[list[str], Field(max_length=4)] | None = None
    reasoning_effort: Effort | None = None
    verbosity: Verbosity | None = None
    store: Ignored = None
    functions: OfAgent = None
    function_call: OfAgent = None
    logprobs: OfAgent = None
    logit_bias: OfAgent = None
    audio: OfAgent = None
    web_search_options: OfAgent = None

    def _functions(self) -> Sequence[FunctionSpec]:
        return [tool.function for tool in self.tools or ()]

    def _answer_format(self) -> AnswerFormat | None:
        form = self.response_format
        if form is None or form.type == "text":
            return None
        return form.json_schema.answer_format if form.json_schema else AnswerFormat()

    def _settings(self) -> Mapping[str, Any]:
        return {
            "seed": self.seed,
            "stop": [self.stop] if isinstance(self.stop, str) else self.stop or None,
            "max_tokens": self.max_completion_tokens or self.max_tokens,
            "reasoning_effort": self.reasoning_effort,
            "verbosity": self.verbosity,
        }


class CompletionTasks:
    """Finds or starts the task of a request, by the conversation that the client sends."""

    def __init__(self, service: Service, tenant: Tenant, conversation: Conversation, options: Json) -> None:
        self._service = service
        self._app = service.app
        self._tenant = tenant
        self._conversation = conversation
        self._options = options
        self.answers = Answers(service, tenant, conversation)
        self.shown = ""
        """What the client has of the answer already, which goes on."""

    async def begin(self, retries: int, asked: RequestKey | None) -> Begun:
        """The task that answers the conversation's new message.

        The same request again joins its task while the client may not have its answer; otherwise the message is
        a new attempt, in a fork. A message after an earlier answer starts a fork there. A message to a task that waits
        for a person is the answer if the message before it is the question; otherwise the question is sent again.
        Results continue the task that made their calls. `asked` is the client's own key.
        """
        if known := await self._service.known(asked):
            return known
        conversation = self._conversation
        attempts = self._attempts(conversation, conversation.said)
        last = await attempts.last()
        key = RequestKey(attempts.key(attempts.number(last) + 1), self._digest_of_options())
        key = replace(asked, also=key) if asked else key
        if conversation.results:
            return await self._resume_with_results(conversation, key if last is None else asked)
        if last and last.digest == self._digest_of_options():
            named = last.task_id
            task = await self._app.task(named) if retries else await self._service.stopped(named)
            over = task.is_over
            if task.requested == "stop" and not retries:
                await end_stopped(self._service, task)
            elif not over or await is_awaited(self._service, task, task.task_id, retries, over=over):
                self.shown = self._shown(task, len(conversation.earlier) - 1) or ""
                with self._service.delivering(task.task_id):
                    return await rejoin(self._service, self._tenant, task), last.seq
        found = await self._before(conversation)
        if found is None and conversation.is_chat and not conversation.earlier:
            await self._leave(await self.answers.tasks_of_chat())
        if found is None:
            thread_id = await unused_session(self._service, self._tenant, conversation.session_id)
            readable = conversation.readable(self._accepted)
            return await self._start(readable.first_message, [*readable.files.values()], thread_id, key)
        return await self._after(found, conversation, key)

    async def _after(self, found: Found, conversation: Conversation, key: RequestKey) -> Begun:
        """Answer the message after the answer of a task: in its session, or in a fork where that has gone on."""
        before, after, place, is_only = found
        is_next = place == len(conversation.earlier) - 1
        if place >= len(conversation.earlier) - 1 and (shown := self._shown(before, place)) is not None:
            self.shown = shown
            await self._app.tasks.join(before, key, after)
            return await rejoin(self._service, self._tenant, before), after
        if conversation.is_continued and is_next:
            if before.status == TaskStatus.WAITING:
                return before, await self._app.tasks.ask_again(before, key, after)
            answer = str((before.result or {}).get("answer") or "")
            if before.status != TaskStatus.DONE or conversation.lacks_rest(answer):
                self.shown = without_thoughts(conversation.last_answer)
                return await rejoin(self._service, self._tenant, before), after
        latest, *_ = await self._app.tasks.list(session_id=before.session_id, limit=1)
        readable = conversation.readable(self._accepted)
        new = readable if is_next else readable.after(place)
        message, files = readable.message if is_next else new.first_message, new.new_files
        if latest.task_id != before.task_id:
            thread_id = await fork_after(self._service, self._tenant, before, key)
            left = await self._sharing(before) if self._conversation.name else [latest] if is_only else []
            await self._leave(left)
            return await self._start(message, files, thread_id, key)
        if before.status == TaskStatus.WAITING:
            refuse_files(files)
            is_lost = place >= len(conversation.earlier)
            known = conversation.after(place) if is_lost else conversation.until(place)
            return await self._answer(known, before, after, key)
        return await self._start(message, files, before.session_id, key, steer=True)

    def _shown(self, task: Task, place: int) -> str | None:
        """What the client has of an answer that was cut off at that place, where it asks for the rest; else None."""
        conversation = self._conversation
        is_lost = place >= len(conversation.earlier)
        if is_lost or (task.status == TaskStatus.ERROR and not task.is_over):
            may_go_on = not (conversation.is_continued or task.requested == "stop")
            new = conversation.after(place)
            if may_go_on and not new.new_files and asks_to_continue(new.message):
                return "" if is_lost else without_thoughts(conversation.last_answer)
        return conversation.text_before(_stop_notices(task.reply_language))

    @property
    def _accepted(self) -> Collection[str]:
        """The kinds of files that the agent's model reads beside text."""
        return self._app.agents.accepted(self._app.agents.agent(self._options["agent"]))

    async def _leave(self, left: Iterable[Task]) -> None:
        """Cancel what asks a person, or was stopped, in the place of which another message was written.

        A message that quotes what a task asks is about the conversation, and leaves the task.
        """
        message = plain(self._conversation.message)
        for task in left:
            await end_stopped(self._service, task)
            if task.status != TaskStatus.WAITING:
                continue
            question = await self._app.question(task.task_id)
            if question["kind"] not in ("approval", "question") or CLIENT_CALLS in question:
                continue
            if plain(question_text(question, task.reply_language)) not in message:
                with suppress(TaskError):  # it was answered meanwhile
                    await self._app.cancel(task.task_id)

    async def _sharing(self, before: Task) -> list[Task]:
        """The last tasks of the chat's sessions that hold a task: its own, and forks that have a copy of it."""
        sessions = [
            await self._app.tasks.list(session_id=task.session_id, limit=-1)
            for task in await self.answers.tasks_of_chat()
        ]
        sources = {task.task_id: task.copy_of for tasks in sessions for task in tasks}

        def original(task_id: str) -> str:
            while source := sources.get(task_id):
                task_id = source
            return task_id

        shared = original(before.task_id)
        return [tasks[0] for tasks in sessions if any(original(task.task_id) == shared for task in tasks)]

    async def _answer(self, conversation: Conversation, task: Task, after: int, key: RequestKey) -> Begun:
        """Answer the question of a task that the request before continued after its event `after`.

        A question that the conversation does not show, or that came since the one it shows, is sent instead.
        """
        message, question = conversation.message_without(task.message), await self._app.question(task.task_id)
        if CLIENT_CALLS in question:
            return await submit_results(self._service, self._tenant, task, {}, message, key, self._reply_options)
        if not conversation.shows(reply_notice(question, task.reply_language)):
            return task, await self._app.tasks.ask_again(task, key, after)
        if (before := await self._app.tasks.before_unseen_question(task, question, key, after)) is not None:
            return task, before
        if (answer := answer_of(question, message)) is None:
            return task, await self._app.tasks.ask_again(task, key, after)
        return await self._service.answer(self._tenant, task, question, answer, key, self._reply_options)

    @property
    def _reply_options(self) -> ReplyOptions:
        options: ReplyOptions = self._options["reply_options"]
        return options

    async def _resume_with_results(self, conversation: Conversation, key: RequestKey | None) -> Begun:
        """Continue the task whose calls the conversation has results of, and that may have stopped since."""
        task = await task_of_results(self._service, self._tenant, conversation.results)
        if files := conversation.new_files:
            task = await finish(self._service, self._tenant, task, conversation.results)
            if task.status not in ENDED:
                refuse_files(files)
            return await self._start(conversation.message, files, task.session_id, key)
        given = self._service, self._tenant, task, conversation.results, conversation.message
        row, after = await resume_with_results(*given, key, self._reply_options)
        if row.status not in ACTIVE:
            row = await rejoin(self._service, self._tenant, await self._app.task(row.task_id))
        return row, after

    def _digest_of_options(self) -> str:
        asked = [self._options["client_tools"], self._reply_options.json()]
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest() if any(asked) else ""

    def _attempts(self, conversation: Conversation, said: Messages) -> Attempts:
        """The requests with these messages."""
        return Attempts(self._service, self._tenant.stored(conversation.key(said)))

    async def _before(self, conversation: Conversation) -> Found | None:
        """The task that gave the last answer; of several attempts the one whose answer the client shows.

        A client that rewrites what was said before is recognised by the answers that it was sent, then by its chat.
        """
        place = len(conversation.earlier) - 1
        for unanswered in reversed(range(place + 1, len(conversation.said) - 1)):
            last = await self._attempts(conversation, conversation.said[: unanswered + 1]).last()
            task = await self._app.task(last.task_id) if last else None
            if last and task and (task.requested == "stop" or await self.answers.was_left(task, unanswered)):
                return Found(task, last.seq, unanswered)
        attempts, shown = self._attempts(conversation, conversation.asked_before), plain(conversation.last_answer)
        newest, matching, begun = None, [], None
        for attempt in await attempts.newest() if conversation.asked_before else ():
            task = await self._app.task(attempt.task_id)
            found = Found(task, attempt.seq, place)
            newest = newest or found
            if begun is None and await self.answers.has_begun(task, shown):
                begun = found
            if plain(str((task.result or {}).get("answer") or "")) == shown or await asks(
                self._service, task, conversation
            ):
                matching.append(found)
        for found in matching:
            latest = await self._app.tasks.newest(found.task.session_id)
            if latest and latest.task_id == found.task.task_id:
                return found
        if begun and not matching:
            return begun
        known = matching[0]._replace(is_only=len(matching) == 1) if matching else None
        if conversation.asked_before:
            known = known or await self.answers.find() or newest or await self.answers.newest()
        return await self.answers.unread(known) or known

    async def _start(
        self, message: str, files: Sequence[File], thread_id: str, key: RequestKey | None, steer: bool = False
    ) -> Begun:
        about = {"session_id": thread_id, "steer": steer, "files": files}
        return await self._service.start(self._tenant, message, self.answers.named(key), **about, **self._options)


# Routes of OpenAI's API: agents as models, chat completions and files.

router = routes("openai")

_STREAM = {
    "description": "The completion; with `stream` server-sent events, one chunk each, and `[DONE]`.",
    "content": {"text/event-stream": {}},
}
_TEMPORARY = ("temporary:", "local:", "channel:")
"""Begin ids that Open WebUI gives to several chats."""
SessionName = Annotated[str | Unset, Header(max_length=LONGEST_NAME, pattern=NAME, description="Names the session.")]


class ModelEntry(BaseModel):
    """An agent, or an agent in a mode."""

    id: str = Field(examples=["travel:plan"])
    object: Literal["model"]
    created: int
    owned_by: str


class ModelList(BaseModel):
    """What `model` may be."""

    object: Literal["list"]
    data: list[ModelEntry]


class ItemList(BaseModel):
    """A page of items."""

    object: Literal["list"]
    data: list[dict[str, Any]]
    first_id: str | None
    last_id: str | None
    has_more: bool


class Deleted(BaseModel):
    """What was deleted."""

    id: str
    object: Literal["response", "conversation.deleted", "file"]
    deleted: Literal[True]


def item_list(items: list[Json]) -> Json:
    """The fields of an `ItemList`."""
    first, last = (items[0]["id"], items[-1]["id"]) if items else (None, None)
    return {"object": "list", "data": items, "first_id": first, "last_id": last, "has_more": False}


@router.get("/v1/models", response_model=ModelList)
async def agent_models(service: ServiceDep, _: TenantDep) -> JsonResponse:
    """The agents; `SEGUE_MODELS=all` lists each also with every mode. `travel:plan` works in either case."""
    names = [*service.agents]
    if service.settings.models == "all":
        names = [name for agent in names for name in (agent, *(f"{agent}:{mode}" for mode in service.app.modes))]
    return JsonResponse({"object": "list", "data": [_entry(name) for name in names]})


@router.get("/v1/models/{model}", response_model=ModelEntry)
async def agent_model(
    model: Annotated[str, Path(max_length=130, examples=["travel:plan"])], service: ServiceDep, _: TenantDep
) -> JsonResponse:
    """An agent, or an agent in a mode."""
    agent_and_mode(service, model)
    return JsonResponse(_entry(model))


def _entry(name: str) -> Json:
    return {"id": name, "object": "model", "created": 0, "owned_by": "segue"}


_FAILED: Responses = {
    500: {"model": ErrorBody, "description": "The task ended with an error: the same request again begins another."}
}


@router.post(
    "/v1/chat/completions",
    response_model=CompletionView,
    responses={200: _STREAM, **CONFLICT, **_FAILED, **MODEL_DOWN},
)
async def chat_completions(
    body: CompletionRequest,
    service: ServiceDep,
    tenant: TenantDep,
    request: Request,
    key: KeyDep,
    x_session_id: SessionName = None,
    x_openwebui_chat_id: SessionName = None,
    x_openwebui_user_id: UserName = None,
    x_stainless_retry_count: Retries = 0,
) -> Response:
    """Answer a conversation's last message, or continue with results of its tools.

    A client that disconnects stops its task at the next boundary, unless the service is set to continue.

    What a client asks for itself, such as a title, is answered without tools, and its session is deleted.

    The session is named by a header or `metadata.session_id`, else by how the conversation begins. Earlier
    messages of the same user, agent and mode are recognised: only the last one is new. Another one in its place is
    answered in a fork.
    """
    service.refuse_while_draining()
    service.metrics.note_ignored("chat_completions", body.ignored)
    agent, mode = agent_and_mode(service, body.model)
    chat_id = x_openwebui_chat_id or ""
    name = x_session_id or chat_id or (body.metadata or {}).get("session_id") or ""
    user = x_openwebui_user_id or body.user or ANYBODY
    parties = (tenant.person, user, agent, mode)
    options: Json = {"agent": agent, "mode": mode, "user_id": tenant.stored(user), "origin": "chat_completions"}
    is_own = service.settings.background and is_in_background(
        body.messages, has_tools=bool(body.tools), fields=body.output_fields
    )
    service.open_stream(tenant)
    note, shown, appended_to = None, "", ""
    try:
        if is_own:
            row, after = await background.begin(service, tenant, body.messages, body, options, key), 0
        else:
            messages = await with_contents(service, tenant, body.messages)
            is_chat = name == chat_id and not chat_id.startswith(_TEMPORARY)
            conversation = Conversation.of(messages, name, parties, is_chat=is_chat)
            options["reply_options"] = body.reply_options(conversation.instructions)
            tasks = CompletionTasks(service, tenant, conversation, {**options, "client_tools": body.client_tools})
            row, after = await in_turn(partial(tasks.begin, x_stainless_retry_count, key))
            note, shown = partial(tasks.answers.note, task=row, after=after), tasks.shown
            appended_to = conversation.last_answer if conversation.is_continued else ""
        before = await service.app.tasks.events(row.task_id, limit=after) if after else []
        completion = Completion(row, body.model, before, shown=shown, appended_to=appended_to, note=note)
        stops = "" if is_own else service.stops("chat_completions", row.task_id)
        if body.stream:
            usage = body.stream_options is not None and body.stream_options.include_usage
            frames = chunks(service, tenant, completion, after, usage)
            if is_own and key is None:
                frames = background.ending(service, row, frames)
            return EventStream(service, tenant, frames, task_headers(tenant, row), stops)
    except BaseException:
        service.close_stream(tenant)
        raise
    try:
        return await while_connected(service, request, stops, _whole(service, tenant, completion, after))
    finally:
        if is_own and key is None:
            await background.end(service, row)
        service.close_stream(tenant)


_SHOULD_RETRY: Mapping[bool, Mapping[str, str]] = {True: {"x-should-retry": "false"}, False: {}}
"""What the `openai` package reads before it sends a request again, by whether the task is over."""


async def _whole(service: Service, tenant: Tenant, completion: Completion, after: int) -> Response:
    task_id = completion.row.task_id
    async with aclosing(events_of(service, task_id, after, takes_over=True)) as events:
        async for event in events:
            for _ in completion.deltas(event):
                pass
    result = await result_of(service, tenant, completion)
    headers = task_headers(tenant, completion.row)
    if result["status"] == TaskStatus.ERROR:
        is_over = (await service.app.task(task_id)).is_over
        return JsonResponse({"error": error_of(result)}, 500 if is_over else 502, {**headers, **_SHOULD_RETRY[is_over]})
    whole = completion.whole(result)
    if completion.note:
        await completion.note(whole["choices"][0]["message"]["content"] or "")
    return JsonResponse(whole, 200, headers)


def agent_and_mode(service: Service, model: str) -> tuple[str, str]:
    """The agent and the mode that a model's name stands for."""
    agent, _, mode = model.partition(":")
    if agent not in service.agents or (mode and mode not in service.app.modes):
        raise Problem(404, "model_not_found", name="model", missing=model)
    return agent, mode


files_router = routes("openai")


Purpose = Literal["user_data", "vision", "assistants"]


class FileTerms(BaseModel):
    """What a file is for, and how long it is kept: the fields beside the file."""

    model_config = ConfigDict(extra="forbid")

    purpose: Purpose = "user_data"
    anchor: Literal["created_at"] = Field(default="created_at", alias="expires_after[anchor]")
    seconds: int = Field(
        default=int(UPLOAD_SECONDS), alias="expires_after[seconds]", ge=1, le=int(UPLOAD_SECONDS), strict=False
    )


class FileView(BaseModel):
    """A file that was uploaded."""

    id: str = Field(examples=["file-2f1c9a52-6f1e-4f3e-9a55-0d2a4f5b6c7d"])
    object: Literal["file"]
    bytes: int
    created_at: int
    expires_at: int
    filename: str
    purpose: Purpose
    status: Literal["processed"]


class FileList(BaseModel):
    """A page of the files."""

    object: Literal["list"]
    data: list[FileView]
    first_id: str | None
    last_id: str | None
    has_more: bool


_FORM = FileTerms.model_json_schema()
_FILE_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/octet-stream": {"schema": BINARY},
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "properties": {"file": BINARY, **_FORM["properties"]},
                    "required": ["file"],
                }
            },
        },
    }
}
FileId = Annotated[str, Path(max_length=100, examples=["file-2f1c9a52-6f1e-4f3e-9a55-0d2a4f5b6c7d"])]


@files_router.post("/v1/files", response_model=FileView, openapi_extra=_FILE_BODY)
async def create_file(form: FormDep, service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """Store a file for messages of the next day, or of a shorter time that `expires_after` says."""
    name, content, fields = form
    terms = _terms(fields)
    about = {"purpose": terms.purpose, "seconds": terms.seconds}
    stored = await service.app.files.upload(name, content, tenant.prefix, about)
    return JsonResponse(_file_view(await _own_upload(service, tenant, file_id_of(stored["upload_id"]))))


def _terms(fields: Mapping[str, str]) -> FileTerms:
    try:
        return FileTerms.model_validate(fields)
    except ValidationError as error:
        found = [{**each, "loc": ("body", *each["loc"])} for each in error.errors()]
        raise RequestValidationError(found) from None


@files_router.get("/v1/files", response_model=FileList)
async def openai_files(
    service: ServiceDep,
    tenant: TenantDep,
    purpose: Annotated[str | Unset, Query(max_length=64, description="Only files of this purpose.")] = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 10_000,
    after: Annotated[str | Unset, Query(max_length=100, description="The last file of the page before.")] = None,
    order: Literal["asc", "desc"] = "desc",
) -> JsonResponse:
    """The files that were uploaded and have not expired."""
    files = [_file_view(upload) for upload in await service.app.files.uploads(tenant.prefix)]
    if order == "desc":
        files.reverse()
    ids = [file["id"] for file in files]
    if after is not None and after not in ids:
        raise not_found("file", after)
    rest = files[ids.index(after) + 1 if after is not None else 0 :]
    found = [file for file in rest if purpose in (None, file["purpose"])]
    return JsonResponse({**item_list(found[:limit]), "has_more": len(found) > limit})


@files_router.get("/v1/files/{file_id}", response_model=FileView)
async def openai_file(file_id: FileId, service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """A file that was uploaded and has not expired."""
    return JsonResponse(_file_view(await _own_upload(service, tenant, file_id)))


@files_router.get("/v1/files/{file_id}/content", response_class=Response, responses={200: FILE})
async def openai_file_content(file_id: FileId, service: ServiceDep, tenant: TenantDep) -> Response:
    """The content of a file."""
    file = (await _own_upload(service, tenant, file_id)).attachment
    return file_response(file, await service.app.files.get(file.digest))


@files_router.delete("/v1/files/{file_id}", response_model=Deleted)
async def delete_openai_file(file_id: FileId, service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """Delete a file; messages that took it along keep it."""
    if not await service.app.files.discard(upload_id_of(file_id), tenant.prefix):
        raise not_found("file", file_id)
    return JsonResponse({"id": file_id, "object": "file", "deleted": True})


async def _own_upload(service: Service, tenant: Tenant, file_id: str) -> Upload:
    upload = await service.app.files.uploaded(upload_id_of(file_id), tenant.prefix)
    if upload is None:
        raise not_found("file", file_id)
    return upload


def _file_view(upload: Upload) -> Json:
    file = upload.attachment
    return {
        "id": file_id_of(upload.upload_id),
        "object": "file",
        "bytes": file.size,
        "created_at": int(upload.created_at),
        "expires_at": int(upload.expires_at),
        "filename": file.name,
        "purpose": upload.purpose,
        "status": "processed",
    }
