"""The request of a chat completion, and the task that it begins, continues or asks for again.

Source: OpenAI's API reference, "Create chat completion".
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ...core.question import CLIENT_CALLS
from ...core.records import Json, RequestKey, Task
from ...core.reply_options import AnswerFormat, ReplyOptions
from ...core.task_status import ACTIVE, ENDED, TaskStatus
from ...prompts.protocols import answer_of, reply_notice
from ..request_body import Items, Texts
from ..service import Begun, Service
from ..tenants import Tenant
from .client_tools import finish, resume_with_results, submit_results, task_of_results
from .continuation import Attempts, Conversation, Said, fork_after, is_awaited, rejoin, unused_session
from .messages import ChatMessage, File, refuse_files
from .reply_options import Effort, FunctionSpec, Ignored, JsonSchema, OfAgent, ReplyFields, Tokens, Verbosity


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
    user: str | None = Field(default=None, description="names the session where nothing else does")
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

    def __init__(self, service: Service, tenant: Tenant, options: Json) -> None:
        self._service = service
        self._app = service.app
        self._tenant = tenant
        self._options = options

    async def begin(self, conversation: Conversation, retries: int, asked: RequestKey | None) -> Begun:
        """The task that answers the conversation's new message.

        The same request again joins its task while the client may not have its answer; otherwise the message is
        a new attempt, in a fork. A message after an earlier answer starts a fork there. A message to a task that waits
        for a person is the answer if the message before it is the question; otherwise the question is sent again.
        Results continue the task that made their calls. `asked` is the client's own key.

        Raises:
            Those of `App.start` and `App.resume`.
        """
        if known := await self._service.known(asked):
            return known
        attempts = self._attempts(conversation, conversation.said)
        last = await attempts.last()
        key = RequestKey(attempts.key(attempts.number(last) + 1), self._digest_of_options())
        key = replace(asked, also=key) if asked else key
        if conversation.results:
            return await self._resume_with_results(conversation, key if last is None else asked)
        if last and last.digest == self._digest_of_options():
            task = await self._app.tasks.get(last.task_id)
            over = task.is_over
            if not over or await is_awaited(self._service, task, task.task_id, retries, over=over):
                with self._service.delivering(task.task_id):
                    return await rejoin(self._service, self._tenant, task), 0
        begun = await self._before(conversation)
        if begun is None:
            thread_id = await unused_session(self._service, self._tenant, conversation.session_id)
            return await self._start(conversation.first_message, [*conversation.files.values()], thread_id, key)
        before, after = begun
        latest, *_ = await self._app.tasks.list(session_id=before.thread_id, limit=1)
        message, files = conversation.message, conversation.new_files
        if latest.task_id != before.task_id:
            return await self._start(message, files, await fork_after(self._service, self._tenant, before), key)
        if before.status == TaskStatus.WAITING:
            refuse_files(files)
            return await self._answer(conversation, before, after, key)
        return await self._start(message, files, before.thread_id, key, steer=True)

    async def _answer(self, conversation: Conversation, task: Task, after: int, key: RequestKey) -> Begun:
        """Answer the question of a task that the request before continued after its event `after`.

        A question that the conversation does not show, or that came since the one it shows, is sent instead.
        """
        message, question = conversation.message, await self._app.question(task.task_id)
        if CLIENT_CALLS in question:
            return await submit_results(self._service, self._tenant, task, {}, message, key, self._reply_options)
        if not conversation.shows(reply_notice(question, task.reply_language)):
            return task, await self._app.tasks.ask_again(task, key, after)
        if (before := await self._app.tasks.before_unseen_question(task, question, key, after)) is not None:
            return task, before
        answer = answer_of(question, message)
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
            return await self._start(conversation.message, files, task.thread_id, key)
        given = self._service, self._tenant, task, conversation.results, conversation.message
        row, after = await resume_with_results(*given, key, self._reply_options)
        if row.status not in ACTIVE:
            row = await rejoin(self._service, self._tenant, await self._app.tasks.get(row.task_id))
        return row, after

    def _digest_of_options(self) -> str:
        asked = [self._options["client_tools"], self._reply_options.json()]
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest() if any(asked) else ""

    def _attempts(self, conversation: Conversation, said: Said) -> Attempts:
        """The requests with these messages."""
        return Attempts(self._service, self._tenant.stored(conversation.key(said)))

    async def _before(self, conversation: Conversation) -> Begun | None:
        """The task that gave the last answer; of several attempts the one whose answer the client shows."""
        if not conversation.asked_before:
            return None
        attempts, shown = self._attempts(conversation, conversation.asked_before), conversation.last_answer.strip()
        newest = None
        for attempt in await attempts.newest():
            task = await self._app.tasks.get(attempt.task_id)
            newest = newest or (task, attempt.seq)
            if ((task.result or {}).get("answer") or "").strip() == shown or await self._asks(task, conversation):
                return task, attempt.seq
        return newest

    async def _asks(self, task: Task, conversation: Conversation) -> bool:
        """Whether a task waits with the question that a conversation ends with."""
        if task.status != TaskStatus.WAITING:
            return False
        return conversation.shows(reply_notice(await self._app.question(task.task_id), task.reply_language))

    async def _start(
        self, message: str, files: Sequence[File], thread_id: str, key: RequestKey | None, steer: bool = False
    ) -> Begun:
        about = {"session_id": thread_id, "steer": steer, "files": files, "origin": "chat_completions"}
        return await self._service.start(self._tenant, message, key, **about, **self._options)
