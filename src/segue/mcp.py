"""An MCP server whose tools are the app's agents; their prompts are prompts, and sessions are resources.

A call sends a message as a task, which a client that leaves does not stop; one that cancels the call does. A client
with the extension for tasks gets a handle of a task that takes longer. Where a task waits for a person, a client that
supports elicitation asks; any other gets a reply that says what to send next.
"""

import asyncio
import json
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing, contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from importlib.metadata import version
from typing import Any, Literal, cast
from urllib.parse import quote, unquote
from uuid import uuid4

from mcp.server import Server, ServerRequestContext
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp.types import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CallToolRequestParams,
    CallToolResult,
    CancelledNotificationParams,
    ClientCapabilities,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    ElicitationCapability,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    EmptyResult,
    GetPromptRequestParams,
    GetPromptResult,
    InputRequests,
    InputRequiredResult,
    JSONRPCMessage,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    Prompt,
    PromptArgument,
    PromptMessage,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
    Tool,
    ToolAnnotations,
)
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .app import App
from .core.agents import Agent
from .core.approval import ApprovalAnswer, read_verdicts
from .core.calls import FORM_SCHEMA, WAIT
from .core.errors import InvalidAnswer, QuestionClosed, SegueError, TaskError, UnknownAgent, UnknownTask
from .core.events import ASKING, Action, ErrorRaised, Event, RecursionStart, StepUpdate, ToolCall, WaitStarted
from .core.message import AnswerFormat
from .core.records import Json, RequestKey, SessionFilter, Task, is_short_id
from .core.task import ANYBODY, LONGEST_NAME, NAME, TaskStatus
from .prompts.catalogue import Language, error_text
from .prompts.protocols import (
    answer_of,
    answer_schema,
    ask_again,
    no_answer,
    progress,
    question_text,
    stop_notice,
    verdict_of,
)
from .runtime.questions import interrupt_of
from .runtime.start import Request
from .tools.adapters.mcp_tasks import EXTENSION, Status, TaskParams, UpdateParams

INPUT_REQUIRED_SINCE = "2026-07-28"
"""The protocol version from which on a call that needs input is answered with what it needs."""
SESSIONS = "segue://sessions/"
"""What the URI of a session's resource begins with; its name follows."""
LISTED = 100
"""Sessions in the list of resources, the newest first; any other can be read by its name."""
_JSON = "application/json"
_ANSWER = "answer"
_STATE = re.compile(r"([^:]+):(\w+(?:-\d+)?)")
"""What a client sends back with an answer: the ids of the task and of its question."""
_HANDLE_SECONDS = 0.5
"""After so long a call is answered with a handle, where the client takes one."""
_POLL_MS = 1_000
"""How often a client should ask for a task."""
_LATEST = 20
"""Of a task's events: among these is what it says of how far it is."""
_KEYS = "mcp:"
"""What the idempotency keys of calls begin with, after the tenant's prefix."""
_CANCEL_SECONDS = 5.0
"""How long after a call ended early its cancellation may be noticed."""
Context = ServerRequestContext[Any, Any]
Admit = Callable[[Context, str], AbstractContextManager[None]]
"""Takes a session; refuses a task beyond the caller's limit."""
Describe = Callable[[Context, SegueError], str]
"""Gives the sentence of an error as the caller reads it."""


class Call(BaseModel):
    """The arguments of a tool."""

    model_config = ConfigDict(extra="forbid")

    message: str = Field(min_length=1, description="What the agent is to do or to answer.")
    session_id: str | None = Field(default=None, pattern=NAME, max_length=LONGEST_NAME)
    """The session to continue; a new one without it."""
    mode: str | None = Field(default=None, max_length=64)
    interrupt_id: str | None = Field(default=None, max_length=64)
    """The question that the message answers; a message without it is asked the question again."""


class Answered(BaseModel):
    """What a tool returns beside the text."""

    answer: str
    session_id: str
    task_id: str
    interrupt_id: str | None = None
    """The question that it asks."""
    status: Literal["done", "error", "waiting", "paused", "cancelled", "running", "pausing", "pending"]


class AgentServer:
    """Answers the requests of MCP clients with tasks."""

    def __init__(
        self,
        app: App,
        prefix_of: Callable[[Context], str] = lambda _: "",
        admit: Admit = lambda *_: nullcontext(),
        describe: Describe = lambda _, error: error_text(error, "en"),
        agents: Callable[[], Mapping[str, Agent]] | None = None,
    ) -> None:
        self._app = app
        self._agents = agents or (lambda: app.agents)
        self._prefix_of = prefix_of
        self._admit = admit
        self._describe = describe
        self._tasks: dict[tuple[str, str, Any], str] = {}
        """The tasks of the calls that are being answered, by the tenant, the client's session and the request."""
        self.server: Server[Any] = Server(
            "segue",
            version=version("segue"),
            on_list_tools=self._list,
            on_call_tool=cast("Any", self._call),  # with a handle in place of a result, by the extension
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
            on_list_resources=self._list_sessions,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_session,
            on_completion=self._complete,
        )
        self.server.add_notification_handler("notifications/cancelled", CancelledNotificationParams, self._cancel)
        self.server.extensions[EXTENSION] = {}
        self.server.add_request_handler("tasks/get", TaskParams, self._get_task)
        self.server.add_request_handler("tasks/update", UpdateParams, self._update_task)
        self.server.add_request_handler("tasks/cancel", TaskParams, self._cancel_task)

    async def _list(self, _: Context, __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[self._tool(agent) for agent in self._agents().values()])

    def _agent(self, ctx: Context, name: str) -> Agent:
        """The agent of a tool or prompt."""
        agents = self._agents()
        if name not in agents:
            raise MCPError(INVALID_PARAMS, self._describe(ctx, UnknownAgent(name, agents)))
        return agents[name]

    def _tool(self, agent: Agent) -> Tool:
        schema = Call.model_json_schema()
        schema["properties"]["mode"] = {"type": "string", "enum": self._app.modes, "default": agent.mode}
        schema["properties"]["session_id"] = {
            "type": "string",
            "description": "The session to continue, as an earlier result named it; a new one without it.",
        }
        schema["properties"]["interrupt_id"] = {
            "type": "string",
            "description": "The question that the message answers, as the result named it; needed for an answer.",
        }
        return Tool(
            name=agent.agent_id,
            description=agent.public_description,
            input_schema=schema if agent.arguments is None else agent.arguments,
            output_schema=Answered.model_json_schema(),
            annotations=ToolAnnotations(read_only_hint=True) if self._reads_only(agent) else None,
        )

    def _reads_only(self, agent: Agent) -> bool:
        """Whether no mode changes anything; a graph of one's own may."""
        return not self._app.own_modes and all(self._app.agents.reads_only(agent, mode) for mode in self._app.modes)

    async def _call(self, ctx: Context, params: CallToolRequestParams) -> CallToolResult | InputRequiredResult | Json:
        session = self._session(ctx)
        call = (*session, ctx.request_id) if session else None
        try:
            return await self._answer(ctx, params, call)
        except ValidationError as error:
            fault = error.errors()[0]
            return _failed(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}")
        except SegueError as error:
            return _failed(self._describe(ctx, error))
        finally:
            if call:  # a moment later: the notification that cancels a call is handled after the call has ended
                asyncio.get_running_loop().call_later(_CANCEL_SECONDS, self._tasks.pop, call, None)

    async def _answer(
        self, ctx: Context, params: CallToolRequestParams, call: tuple[str, str, Any] | None
    ) -> CallToolResult | InputRequiredResult | Json:
        """What a call comes to: its result, a question, or a handle where the client takes one and it takes longer."""
        seconds: float | None = None
        if self._agent(ctx, params.name).mcp_tasks == "required":
            _refuse_without_tasks(ctx)
            seconds = 0.0
        elif _takes_tasks(ctx):
            seconds = _HANDLE_SECONDS
        task, after = await self._begin(ctx, params)
        while True:
            if call:
                self._tasks[call] = task.task_id
            if not await self._follow(ctx, task, after, seconds):
                return _handle(await self._app.task(task.task_id), "working", "task")
            task = await self._app.task(task.task_id)
            if fault := await self._fault(task):
                raise fault
            if task.status != TaskStatus.WAITING:
                return _result(task, self._prefix_of(ctx))
            question = await self._app.question(task.task_id)
            answer = await self._ask(ctx, task, question)
            if not isinstance(answer, ElicitResult):
                return answer
            task, after = await self._submit_answer(ctx, task, question, answer)

    async def _cancel(self, ctx: Context, params: CancelledNotificationParams) -> None:
        """Cancel the task of a call that the client cancelled; without a session nothing tells whose call it was."""
        session = self._session(ctx)
        if session and (task_id := self._tasks.pop((*session, params.request_id), "")):
            with suppress(TaskError):  # it ended meanwhile
                await self._app.cancel(task_id)

    def _session(self, ctx: Context) -> tuple[str, str] | None:
        """The tenant and the session of the client; None over HTTP without a session, as with several processes."""
        name = ctx.request.headers.get("mcp-session-id", "") if ctx.request else "stdio"
        return (self._prefix_of(ctx), name) if name else None

    # Prompts and resources.

    async def _list_prompts(self, _: Context, __: PaginatedRequestParams | None) -> ListPromptsResult:
        agents = [agent for agent in self._agents().values() if agent.prompt]
        return ListPromptsResult(
            prompts=[
                Prompt(name=agent.agent_id, description=agent.public_description, arguments=_prompt_arguments(agent))
                for agent in agents
            ]
        )

    async def _get_prompt(self, ctx: Context, params: GetPromptRequestParams) -> GetPromptResult:
        agent, arguments = self._agent(ctx, params.name), params.arguments or {}
        if not agent.prompt:
            raise MCPError(INVALID_PARAMS, f"The agent {params.name} has no prompt.")
        if missing := [each.name for each in _prompt_arguments(agent) if each.required and each.name not in arguments]:
            raise MCPError(INVALID_PARAMS, f"The prompt {params.name} needs the arguments {', '.join(missing)}.")
        texts = [agent.prompt] if agent.arguments is None else [agent.prompt, _as_message(arguments)]
        messages = [PromptMessage(role="user", content=TextContent(type="text", text=text)) for text in texts]
        return GetPromptResult(description=agent.public_description, messages=messages)

    async def _list_sessions(self, ctx: Context, _: PaginatedRequestParams | None) -> ListResourcesResult:
        prefix = self._prefix_of(ctx)
        threads = await self._app.sessions.list(LISTED, SessionFilter(prefix=prefix))
        names = [(thread.session_id.removeprefix(prefix), thread.title) for thread in threads]
        return ListResourcesResult(
            resources=[
                Resource(uri=SESSIONS + quote(name, safe=""), name=name, title=title or name, mime_type=_JSON)
                for name, title in names
            ]
        )

    async def _list_templates(self, _: Context, __: PaginatedRequestParams | None) -> ListResourceTemplatesResult:
        template = ResourceTemplate(
            uri_template=SESSIONS + "{session_id}",
            name="session",
            description="A session's messages in OpenAI's format.",
            mime_type=_JSON,
        )
        return ListResourceTemplatesResult(resource_templates=[template])

    async def _complete(self, ctx: Context, params: CompleteRequestParams) -> CompleteResult:
        """Complete the name of a session; prompts have no arguments."""
        values: list[str] = []
        if params.ref.type == "ref/resource":
            prefix = self._prefix_of(ctx)
            which = SessionFilter(prefix=prefix + params.argument.value)
            threads = await self._app.sessions.list(LISTED, which)
            values = [thread.session_id.removeprefix(prefix) for thread in threads]
        return CompleteResult(completion=Completion(values=values))

    async def _read_session(self, ctx: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        if not params.uri.startswith(SESSIONS):
            raise MCPError(
                INVALID_PARAMS,
                f"There is no resource {params.uri}: those of sessions begin with {SESSIONS}.",
                {"uri": params.uri},
            )
        name = self._prefix_of(ctx) + unquote(params.uri.removeprefix(SESSIONS))
        with self._refusing(ctx, {"uri": params.uri}):
            messages = await self._app.history(name)
        text = json.dumps(messages, ensure_ascii=False)
        return ReadResourceResult(contents=[TextResourceContents(uri=params.uri, mime_type=_JSON, text=text)])

    # A task.

    async def _begin(self, ctx: Context, params: CallToolRequestParams) -> tuple[Task, int]:
        """The task of a call: a new one, or the one whose question it answers."""
        prefix = self._prefix_of(ctx)
        if params.request_state:
            return await self._answered(ctx, params)
        call = _call_of(self._agent(ctx, params.name), params.arguments or {})
        thread_id = prefix + (call.session_id or self._app.sessions.new_id())
        key = _key(ctx, prefix, params)
        if known := await self._app.tasks.known(key):
            return await self._app.task(known.task_id), known.seq
        latest = await self._app.tasks.newest(thread_id)
        if latest and latest.status == TaskStatus.WAITING:
            question = await self._app.question(latest.task_id)
            if call.interrupt_id != question["interrupt_id"]:
                return latest, await self._app.tasks.ask_again(latest, key)
            if (answer := answer_of(question, call.message)) is None:
                return latest, await self._app.tasks.ask_again(latest, key)
            return await self._resume(ctx, latest, question, answer, key)
        with self._admit(ctx, thread_id):
            request = Request(
                call.message,
                session_id=thread_id,
                agent=params.name,
                mode=call.mode or "",
                user_id=f"{prefix}{ANYBODY}",
                steer=True,
                key=key,
                origin="mcp",
            )
            task, _ = await self._app.tasks.start(request)
        return task, 0

    async def _answered(self, ctx: Context, params: CallToolRequestParams) -> tuple[Task, int]:
        """The task whose question a call brings the answer to."""
        task, interrupt_id = await self._read_state(ctx, params)
        answer = (params.input_responses or {}).get(_ANSWER)
        if task.status != TaskStatus.WAITING or not isinstance(answer, ElicitResult):
            return task, 0
        question = await self._app.question(task.task_id)
        if question["interrupt_id"] != interrupt_id:
            return task, await self._app.tasks.last_event(task.task_id)
        return await self._submit_answer(ctx, task, question, answer)

    async def _read_state(self, ctx: Context, params: CallToolRequestParams) -> tuple[Task, str]:
        """The task and the id of its question, open or closed, that a client sends back; it is not trusted."""
        found = _STATE.fullmatch(str(params.request_state))
        with suppress(UnknownTask):
            task = await self._app.task(found[1] if found else "")
            is_own = task.agent_id == params.name and task.session_id.startswith(self._prefix_of(ctx))
            events = await self._app.events(task.task_id) if is_own else ()
            asked = {event.interrupt_id for event in events if isinstance(event, (*ASKING, WaitStarted))}
            if found and interrupt_of(found[2]) in asked:
                return task, found[2]
        raise MCPError(INVALID_PARAMS, "No question has this requestState: call the tool again without it.")

    async def _submit_answer(self, ctx: Context, task: Task, question: Json, answer: ElicitResult) -> tuple[Task, int]:
        """Give the task what a person answered, unless the question was answered meanwhile."""
        key = RequestKey(f"{self._prefix_of(ctx)}{_KEYS}{task.task_id}/{question['interrupt_id']}", "")
        try:
            return await self._resume(ctx, task, question, _said(task, question, answer), key)
        except QuestionClosed:
            return task, await self._app.tasks.last_event(task.task_id)

    async def _resume(
        self, ctx: Context, task: Task, question: Json, answer: Any, key: RequestKey | None = None
    ) -> tuple[Task, int]:
        after = await self._app.tasks.last_event(task.task_id)
        with self._admit(ctx, task.session_id):
            row, _ = await self._app.tasks.resume(
                task.task_id, answer=answer, interrupt_id=question["interrupt_id"], key=key, remote=True
            )
        return row, after

    async def _follow(self, ctx: Context, task: Task, after: int, seconds: float | None) -> bool:
        """Report progress until the task stops, for so many seconds at most; returns whether it stopped."""
        try:
            async with (
                asyncio.timeout(seconds),
                aclosing(self._app.follow(task.task_id, after)) as events,
            ):
                async for event in events:
                    if text := _progress(event, task.reply_language):
                        await ctx.session.report_progress(event.seq, None, text)
        except TimeoutError:
            return False
        return True

    async def _ask(
        self, ctx: Context, task: Task, question: Json
    ) -> ElicitResult | CallToolResult | InputRequiredResult:
        """A person's answer, or what the client is to do for one."""
        form = _form(task, question)
        calls = question.get("calls", ())
        for_others = calls and all(call.get("refused") for call in calls)
        if not for_others and _takes_questions(ctx):
            if ctx.protocol_version >= INPUT_REQUIRED_SINCE:
                needed: InputRequests = {_ANSWER: ElicitRequest(params=form)}
                return InputRequiredResult(
                    input_requests=needed, request_state=f"{task.task_id}:{question['interrupt_id']}"
                )
            try:
                return await ctx.session.elicit_form(form.message, form.requested_schema, ctx.request_id)
            except NoBackChannelError:
                pass
        return self._question(ctx, task, question)

    def _question(self, ctx: Context, task: Task, question: Json) -> CallToolResult:
        """The result that says what is asked, and how another call answers it."""
        prefix = self._prefix_of(ctx)
        if self._app.agents.agent(task.agent_id).arguments is not None:  # its tool takes no answer
            return _result(task, prefix, question_text(question, task.reply_language), question)
        text = ask_again(question, task.session_id.removeprefix(prefix), task.reply_language)
        return _result(task, prefix, text, question)

    # Tasks by their handles, of clients with the extension for tasks.

    async def _latest(self, task: Task) -> Sequence[Event]:
        return await self._app.events(task.task_id, max(0, await self._app.tasks.last_event(task.task_id) - _LATEST))

    async def _fault(self, task: Task) -> MCPError | None:
        """The internal error that a task ended with; any other is a result."""
        if task.status != TaskStatus.ERROR:
            return None
        faults = [event for event in await self._latest(task) if isinstance(event, ErrorRaised) and event.internal]
        return MCPError(INTERNAL_ERROR, faults[-1].message) if faults and faults[-1].message == task.error else None

    async def _get_task(self, ctx: Context, params: TaskParams) -> Json:
        task = await self._own_task(ctx, params.task_id)
        match task.status:
            case TaskStatus.WAITING:
                with self._refusing(ctx):
                    return await self._waiting_task(ctx, task)
            case TaskStatus.CANCELLED:
                return _handle(task, "cancelled")
            case TaskStatus.ERROR if fault := await self._fault(task):
                failed = _handle(task, "failed", message=fault.message)
                return {**failed, "error": {"code": fault.code, "message": fault.message}}
            case TaskStatus.DONE | TaskStatus.ERROR:
                return _completed(task, _result(task, self._prefix_of(ctx)))
            case TaskStatus.PAUSED:
                return _handle(task, "working", message=stop_notice(str(task.status), task.reply_language))
        said = [text for event in await self._latest(task) if (text := _progress(event, task.reply_language))]
        return _handle(task, "working", message=said[-1] if said else "")

    async def _waiting_task(self, ctx: Context, task: Task) -> Json:
        """The task with what it asks. A client that cannot ask a person gets the question as its result."""
        question = await self._app.question(task.task_id)
        parts = _parts(question)
        if question["kind"] == WAIT or not parts:
            return _handle(task, "working", message=question_text(question, task.reply_language))
        if not _takes_questions(ctx):
            return _completed(task, self._question(ctx, task, question))
        asked = {key: ElicitRequest(params=_form(task, part)) for key, part in parts.items()}
        return {**_handle(task, "input_required"), "inputRequests": {key: _wire(each) for key, each in asked.items()}}

    async def _update_task(self, ctx: Context, params: UpdateParams) -> EmptyResult:
        """Take the answers to what is open; others are ignored."""
        task = await self._own_task(ctx, params.task_id)
        with self._refusing(ctx):
            while task.status == TaskStatus.WAITING:
                question = await self._app.question(task.task_id)
                given = {key: part for key, part in _parts(question).items() if key in params.input_responses}
                if not given or question["kind"] == WAIT:
                    break
                answers = {key: ElicitResult.model_validate(params.input_responses[key]) for key in given}
                key = RequestKey(f"{self._prefix_of(ctx)}{_KEYS}{task.task_id}/{','.join(sorted(given))}", "")
                with suppress(QuestionClosed):  # somebody else answered a part of it
                    await self._resume(ctx, task, question, _said_of_parts(task, given, answers), key)
                    break
                task = await self._app.task(task.task_id)
        return EmptyResult()

    async def _cancel_task(self, ctx: Context, params: TaskParams) -> EmptyResult:
        task = await self._own_task(ctx, params.task_id)
        with self._refusing(ctx), suppress(TaskError):  # it ended meanwhile
            await self._app.cancel(task.task_id)
        return EmptyResult()

    async def _own_task(self, ctx: Context, task_id: str) -> Task:
        """The caller's task of this id."""
        if ctx.protocol_version < INPUT_REQUIRED_SINCE:
            raise MCPError(METHOD_NOT_FOUND, "Method not found")
        _refuse_without_tasks(ctx)
        if ctx.request and decode_header_value(ctx.request.headers.get(MCP_NAME_HEADER)) != task_id:
            raise MCPError(HEADER_MISMATCH, f"{MCP_NAME_HEADER} header does not match the request body's taskId")
        with self._refusing(ctx):
            task = await self._app.task(task_id)
            if not task.session_id.startswith(self._prefix_of(ctx)):
                raise UnknownTask(task_id)
        return task

    @contextmanager
    def _refusing(self, ctx: Context, about: Json | None = None) -> Iterator[None]:
        """Give errors the protocol's form, with what they are about as their data."""
        try:
            yield
        except ValidationError as error:
            raise MCPError(INVALID_PARAMS, str(error.errors()[0]["msg"]), about) from error
        except SegueError as error:
            raise MCPError(INVALID_PARAMS, self._describe(ctx, error), about) from error


def _takes_tasks(ctx: Context) -> bool:
    """Whether the client takes a handle of a task in place of a call's result."""
    wanted = ClientCapabilities(extensions={EXTENSION: {}})
    return ctx.protocol_version >= INPUT_REQUIRED_SINCE and ctx.session.check_client_capability(wanted)


def _refuse_without_tasks(ctx: Context) -> None:
    if not _takes_tasks(ctx):
        needed: Json = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
        message = f"This needs a client with the extension {EXTENSION}."
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, message, needed)


def _takes_questions(ctx: Context) -> bool:
    return ctx.session.check_client_capability(ClientCapabilities(elicitation=ElicitationCapability()))


def _handle(task: Task, status: Status, result_type: str = "complete", message: str = "") -> Json:
    """A task in the form of the extension."""
    created, updated = (datetime.fromtimestamp(at, UTC).isoformat() for at in (task.created_at, task.updated_at))
    about = {"resultType": result_type, "taskId": task.task_id, "status": status, "createdAt": created}
    said = {"statusMessage": message} if message else {}
    return {**about, "lastUpdatedAt": updated, "ttlMs": None, "pollIntervalMs": _POLL_MS, **said}


def _completed(task: Task, result: CallToolResult) -> Json:
    return {**_handle(task, "completed"), "result": _wire(result)}


def _wire(model: BaseModel) -> Json:
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)


def _form(task: Task, question: Json) -> ElicitRequestFormParams:
    return ElicitRequestFormParams(
        message=question_text(question, task.reply_language), requested_schema=answer_schema(question)
    )


def _parts(question: Json) -> dict[str, Json]:
    """What the caller is asked, each call for itself, by keys that no later question has."""
    name = interrupt_of(question["interrupt_id"])
    if question["kind"] != "approval":
        return {name: question}
    return {
        f"{name}.{call['index']}.{len(call.get('approved_by', ()))}": {**question, "calls": [call]}
        for call in question["calls"]
        if not call.get("refused")
    }


def _call_of(agent: Agent, arguments: dict[str, Any]) -> Call:
    """The call that arguments are."""
    if agent.arguments is None:
        return Call.model_validate(arguments)
    message = _as_message(arguments)
    AnswerFormat(json_schema=agent.arguments).read(message)
    return Call(message=message)


def _as_message(arguments: dict[str, Any]) -> str:
    return json.dumps(arguments, ensure_ascii=False)


def _prompt_arguments(agent: Agent) -> list[PromptArgument]:
    schema = agent.arguments or {}
    return [
        PromptArgument(name=name, description=about.get("description"), required=name in schema.get("required", ()))
        for name, about in schema.get("properties", {}).items()
    ]


def _key(ctx: Context, prefix: str, params: CallToolRequestParams) -> RequestKey:
    """The idempotency key of a call: its client's, if it has one, beside its own."""
    own = RequestKey(f"{prefix}{_KEYS}{uuid4()}", "")
    if not (named := (ctx.meta or {}).get("idempotencyKey")):
        return own
    if not is_short_id(named):
        raise MCPError(INVALID_PARAMS, "idempotencyKey: send at most 255 characters without control characters.")
    asked = json.dumps([params.name, params.arguments], sort_keys=True)
    return replace(RequestKey.named(f"{prefix}{named}", sha256(asked.encode()).hexdigest()), also=own)


def _said_of_parts(task: Task, parts: Mapping[str, Json], answers: Mapping[str, ElicitResult]) -> Any:
    """What a person answered to parts of a question; the others stay open. A question that is declined is ended."""
    verdicts: list[Any] = []
    for key, part in parts.items():
        if part["kind"] != "approval":
            return _said(task, part, answers[key]) if answers[key].action == "accept" else {"manual_finish": True}
        verdicts += read_verdicts(part["calls"], _said(task, part, answers[key]))
    return ApprovalAnswer(verdicts=tuple(verdicts), partial=True)


def _said(task: Task, question: Json, answer: ElicitResult) -> Any:
    """What a person answered, as the task takes it."""
    content = answer.content or {}
    if question["kind"] == "approval":
        return verdict_of(question, content, task.reply_language, accepted=answer.action == "accept")
    if answer.action != "accept":
        raise InvalidAnswer("The question was not answered: call the tool again with an answer.")
    return json.dumps(content, ensure_ascii=False) if FORM_SCHEMA in question else str(content.get(_ANSWER) or "")


def _progress(event: Event, language: Language) -> str:
    """What an event says of how far the task is; empty if nothing."""
    match event:
        case RecursionStart():
            return progress("round", language, n=event.iteration)
        case ToolCall():
            return progress("call", language, name=event.name)
        case StepUpdate():
            return progress(event.status, language, step=event.step_id)
        case Action():
            return progress(event.action_type, language)
    return ""


def _result(task: Task, prefix: str, text: str = "", question: Json | None = None) -> CallToolResult:
    """The result of a task that stopped; `text` is what a person is asked with a question."""
    result = task.result or {}
    answer = text or result.get("answer") or task.error or no_answer(task.reply_language)
    about = Answered(
        answer=answer,
        session_id=task.session_id.removeprefix(prefix),
        task_id=task.task_id,
        interrupt_id=question["interrupt_id"] if question else None,
        status=cast(Any, str(task.status)),
    )
    return CallToolResult(
        content=[TextContent(type="text", text=answer)],
        structured_content=about.model_dump(),
        is_error=task.status == TaskStatus.ERROR,
    )


def _failed(sentence: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=sentence)], is_error=True)


# The sessions of MCP clients over HTTP, whose streams can be resumed.

EVENTS = 100
"""How many events of a session are kept."""


class LatestEvents(EventStore):
    """The latest events of one session."""

    def __init__(self) -> None:
        self._events: deque[tuple[str, str, JSONRPCMessage | None]] = deque(maxlen=EVENTS)
        """The id, the stream and the message of each."""
        self._count = 0

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        self._count += 1
        self._events.append((str(self._count), stream_id, message))
        return str(self._count)

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        known = list(self._events)
        at = next((index for index, (event_id, *_) in enumerate(known) if event_id == last_event_id), None)
        if at is None:
            return None
        stream = known[at][1]
        for event_id, owner, message in known[at + 1 :]:
            if owner == stream and message is not None:
                await send_callback(EventMessage(message, event_id))
        return stream


class SessionManager(StreamableHTTPSessionManager):
    """Keeps the events of each session apart: the SDK names a stream by its request, as other sessions do theirs."""

    @property
    def event_store(self) -> EventStore | None:
        """A new store; the SDK reads this once for each session."""
        return None if self.stateless else LatestEvents()

    @event_store.setter
    def event_store(self, _: EventStore | None) -> None: ...
