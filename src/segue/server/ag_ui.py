"""AG-UI: the request of a run, its events, and the route.

Source: `RunAgentInput` of the package `ag-ui-protocol` 1.0.
"""

import json
import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from hashlib import sha256
from typing import Any, Literal

from ag_ui.core import (
    PROTOCOL_VERSION,
    ActivityDeltaEvent,
    ActivitySnapshotEvent,
    BaseEvent,
    Interrupt,
    MessagesSnapshotEvent,
    ReasoningEndEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    ReasoningStartEvent,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedOutcome,
    RunFinishedSuccessOutcome,
    RunStartedEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    StepFinishedEvent,
    StepStartedEvent,
    SubagentErrorEvent,
    SubagentFinishedEvent,
    SubagentFinishedSuspendedOutcome,
    SubagentStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    TokenUsage,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from ag_ui.encoder import EventEncoder
from fastapi.responses import StreamingResponse
from jsonpatch import make_patch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from ..core.calls import CLIENT_CALLS, CallResult
from ..core.errors import InvalidAnswer, InvalidMessage, MemoryUnavailable
from ..core.events import BranchEnd, BranchStart, Event, ToolCall, ToolResult
from ..core.message import AnswerFormat, ReplyOptions
from ..core.records import Json, RequestKey, Task
from ..core.reviews import RESPOND, list_decisions
from ..core.task import ANYBODY, ENDED, LONGEST_NAME, NAME, OPEN, TaskStatus
from ..prompts.catalogue import Language
from ..prompts.protocols import answer_schema, client_result, declined, question_text, stop_notice
from ..runtime.message_files import fingerprint
from ..runtime.reply import (
    Added,
    CallClosed,
    CallOpened,
    Kind,
    Opened,
    Part,
    ReplyStream,
    RoundOpened,
    TextDropped,
    TextPaused,
    call_id,
)
from .continuation import Attempts, end_stopped
from .dependencies import CONFLICT, MODEL_DOWN, KeyDep, ServiceDep, TenantDep, routes
from .errors import Problem, not_found, readable
from .middleware import Items
from .requests import File, SchemaForm, asked_calls, file_of, image_of, refuse_files, submit_results, waiting_calls
from .service import Begun, Service
from .stream import EventStream, events_of, task_headers, with_error_frames
from .tenants import Tenant
from .views import outcome, plan_view

_CAMEL = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class PartSource(BaseModel):
    """Where the content of a part is: in base64 in `value`, or at an address."""

    model_config = _CAMEL

    type: Literal["data", "url", "file"]
    value: str
    mime_type: str | None = None

    @property
    def url(self) -> str:
        """The content as a data: URL, or its address; empty for a file that a provider keeps."""
        if self.type == "data":
            return f"data:{(self.mime_type or '').split(';')[0]};base64,{self.value}"
        return self.value if self.type == "url" else ""


class MessagePart(BaseModel):
    """A part of a user's message; `binary` is that of clients before 1.0."""

    model_config = _CAMEL

    type: Literal["text", "image", "document", "audio", "video", "binary"]
    text: str = ""
    source: PartSource | None = None
    metadata: Any = Field(default=None, description="of a file {filename}")
    mime_type: str | None = None
    data: str | None = None
    url: str | None = None
    filename: str | None = None

    @property
    def file(self) -> File | None:
        """The file that the part is."""
        if self.type == "text":
            return None
        source = self.source
        if source is None:
            kind: Literal["data", "url"] = "data" if self.data else "url"
            source = PartSource(type=kind, value=self.data or self.url or "", mime_type=self.mime_type)
        named = self.metadata.get("filename") if isinstance(self.metadata, dict) else self.filename
        read = image_of if self.is_image else file_of
        return read(source.url, named if isinstance(named, str) else "")

    @property
    def is_image(self) -> bool:
        media_type = (self.source.mime_type if self.source else self.mime_type) or ""
        return self.type == "image" or (self.type == "binary" and media_type.startswith("image/"))


class MadeCall(BaseModel):
    """A call in the message that made it."""

    model_config = ConfigDict(extra="allow")

    id: str


class RunMessage(BaseModel):
    """A message of the thread; the session knows the earlier ones."""

    model_config = ConfigDict(**_CAMEL, extra="allow")

    id: str = ""
    role: str
    content: str | Items[MessagePart] | dict[str, Any] | None = None
    tool_calls: Items[MadeCall] | None = Field(default=None, description="the calls that an assistant's message made")
    tool_call_id: str | None = Field(default=None, description="of a tool's message: the call that it is the result of")
    error: str | None = Field(default=None, description="of a tool's message: why the call failed")

    @property
    def text(self) -> str:
        """The text of a user's message."""
        if isinstance(self.content, list):
            return "\n".join(part.text for part in self.content if part.type == "text")
        return self.content if isinstance(self.content, str) else ""

    @property
    def files(self) -> list[File]:
        """The files of a user's message."""
        parts = self.content if isinstance(self.content, list) else []
        return [file for part in parts if (file := part.file)]


class ResumeEntry(BaseModel):
    """The answer to an interrupt that ended an earlier run."""

    model_config = _CAMEL

    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: Any = Field(
        default=None,
        description="to an approval {approved, editedArgs, reason} or {response}, to a question {answer} or a text",
    )


class FrontendTool(BaseModel):
    """A tool that the front end carries out."""

    name: str
    description: str = ""
    parameters: dict[str, Any] | None = Field(default=None, description="a JSON schema of an object")


class ContextEntry(BaseModel):
    """What the application tells the agent beside the message."""

    description: str
    value: str


class ForwardedProps(BaseModel):
    """What the application passes to the agent."""

    model_config = _CAMEL

    mode: str | None = Field(default=None, max_length=64)
    response_schema: SchemaForm | None = Field(default=None, description="the answer is a JSON object of this schema")


class RunInput(BaseModel):
    """A run: the last message is new, or `resume` answers what the last run ended with."""

    model_config = ConfigDict(
        **_CAMEL,
        json_schema_extra={
            "examples": [
                {"threadId": "t1", "runId": "r1", "messages": [{"id": "m1", "role": "user", "content": "你好"}]}
            ]
        },
    )

    thread_id: str = Field(pattern=NAME, max_length=LONGEST_NAME, description="the session")
    run_id: str = Field(min_length=1, max_length=200, description="the same run again streams the same task")
    messages: Items[RunMessage]
    resume: Items[ResumeEntry] | None = None
    tools: Items[FrontendTool] | None = None
    context: Items[ContextEntry] | None = Field(default=None, description="goes along with the message as a file")
    state: Any = Field(default=None, description="an object is part of the state of the run's events")
    forwarded_props: ForwardedProps | None = None

    @property
    def prefix(self) -> str:
        """What the ids of the messages begin with that the run makes."""
        return f"{self.run_id}:"

    @property
    def known(self) -> list[RunMessage]:
        """The messages without what a stream of this run that broke off left of it, which is sent again."""
        return [message for message in self.messages if not message.id.startswith(self.prefix)]

    @property
    def has_history(self) -> bool:
        """Whether the client has messages of the thread beside the new one."""
        return len(self.known) > (0 if self.resume else 1)

    @property
    def latest(self) -> RunMessage | None:
        """The last message that the client itself made."""
        return next((each for each in reversed(self.known) if each.role in ("user", "tool")), None)

    @property
    def newest(self) -> RunMessage | None:
        """The last message, if the client itself made it."""
        return self.latest if self.known and self.latest is self.known[-1] else None

    @property
    def reply_options(self) -> ReplyOptions:
        """What is asked of the reply: the system messages, and the form of the answer."""
        schema = self.forwarded_props.response_schema if self.forwarded_props else None
        return ReplyOptions(
            instructions=[each.text for each in self.known if each.role in ("system", "developer") and each.text],
            answer_format=AnswerFormat(json_schema=schema) if schema else None,
        )

    @property
    def context_file(self) -> list[File]:
        """The context as a file of the message; none where it is empty."""
        text = "\n\n".join(f"## {entry.description}\n\n{entry.value}" for entry in self.context or ())
        return [("context.md", text.encode())] if text else []

    @property
    def own_state(self) -> dict[str, Any]:
        """The application's part of the state, where that is an object."""
        state = self.state if isinstance(self.state, dict) else {}
        return {name: value for name, value in state.items() if name not in SHARED_STATE}


SHARED_STATE = ("task", "plan", "memory")
"""The parts of the state that the session itself has."""
PAUSED = "paused:"
"""Begins the id of the interrupt that a paused task ends a run with; the task's id follows."""
CALL = "#"
"""Stands in the id of the interrupt of a call between that of its approval and the call's number."""
NO_RUN = "Nothing can be resumed: this thread has no run."
_KEYS = "run:"
"""What the idempotency keys of runs begin with."""
USER = "user"
"""Ends the id of a message that a snapshot gives to a client, after the id of its task."""


async def begin_run(service: Service, tenant: Tenant, agent: str, run: RunInput, asked: RequestKey | None) -> Begun:
    """The task of a run; the same run again joins it, as does one with the key that the client `asked` with.

    Only `resume` answers a question. A run without it, or with a message that came before, shows the question again; of
    a task that does not wait it joins the one that the message began.
    """
    app, thread_id = service.app, tenant.stored(run.thread_id)
    content = _content(agent, run)
    named = tenant.stored(f"{_KEYS}{run.thread_id}/{run.run_id}")  # no thread's name has a slash
    key = RequestKey(named, sha256(content.encode()).hexdigest())
    if known := await service.known(asked) or await service.known(key):
        return known
    latest, last = await app.tasks.newest(thread_id), run.newest
    if latest and not run.resume:
        await end_stopped(service, latest)
        latest = await app.task(latest.task_id)
    attempts = _attempts(service, tenant, agent, run)
    if last and last.id:
        key = replace(key, also=RequestKey(attempts.key(attempts.number(await attempts.last()) + 1), ""))
    key = replace(asked, also=key) if asked else key
    if run.resume:
        if latest is None:
            raise InvalidMessage(NO_RUN)
        return await _resume(service, tenant, latest, run.resume, key)
    question = await app.question(latest.task_id) if latest and latest.status == TaskStatus.WAITING else {}
    heard = await _heard(service, tenant, thread_id, last, attempts) if last else None
    if last is None or heard or (question and last.role == "user" and CLIENT_CALLS not in question):
        return await _show(service, latest, question, heard)
    if last.role == "tool" and latest is None:
        raise InvalidMessage(NO_RUN)
    if latest and (question or last.role == "tool"):
        refuse_files(last.files)
        return await _answer(service, tenant, latest, question, run.known, key)
    message, files = last.text, last.files
    if latest is None or latest.status in ENDED:
        files += run.context_file
    return await service.start(
        tenant,
        message,
        key,
        session_id=thread_id,
        agent=agent,
        mode=(run.forwarded_props.mode if run.forwarded_props else "") or "",
        user_id=tenant.stored(ANYBODY),
        files=files,
        client_tools=[tool.model_dump() for tool in run.tools or ()],
        reply_options=run.reply_options,
        steer=True,
        origin="ag_ui",
    )


def _content(agent: str, run: RunInput) -> str:
    """What makes a run the same as another of its id; the history before the last message does not."""
    said = [
        (each.role, each.text, each.tool_call_id, each.error, *map(fingerprint, each.files))
        for each in (run.latest,)
        if each and not run.resume
    ]
    about = run.model_dump(include={"resume", "tools", "context", "forwarded_props"}, exclude_none=True)
    return json.dumps([agent, said, about], default=repr)


def _attempts(service: Service, tenant: Tenant, agent: str, run: RunInput) -> Attempts:
    """The runs that brought the last message, which its id and its content name."""
    last, mode = run.latest, run.forwarded_props.mode if run.forwarded_props else None
    content = (last.id, last.role, last.text, *map(fingerprint, last.files)) if last else ()
    digest = sha256(json.dumps([agent, mode, content]).encode()).hexdigest()
    return Attempts(service, tenant.stored(f"message:{run.thread_id}/{digest}#"))


async def _heard(
    service: Service, tenant: Tenant, thread_id: str, message: RunMessage, attempts: Attempts
) -> Begun | None:
    """What a message began or continued when it came before; None where it is new, or that failed or was cancelled."""
    if known := await attempts.last() if message.id else None:
        task_id, seq = known.task_id, known.seq
    else:  # it may be from a snapshot, which names it by its task
        task_id, seq = message.id.removesuffix(f":{USER}"), 0
    try:
        task = await service.own_task(tenant, task_id)
    except Problem:
        return None
    if task.session_id != thread_id:
        return None
    match task.status:
        case TaskStatus.ERROR | TaskStatus.CANCELLED:
            return None
        case TaskStatus.PENDING | TaskStatus.RUNNING | TaskStatus.WAITING:
            return task, seq
        case TaskStatus.PAUSING | TaskStatus.PAUSED | TaskStatus.DONE:
            return task, seq


async def _show(service: Service, latest: Task | None, question: Mapping[str, Any], heard: Begun | None) -> Begun:
    """The thread's newest task, to which nothing is sent, or that of the message that was `heard` before."""
    tasks = service.app.tasks
    if heard and (not latest or not question or heard[0].task_id == latest.task_id):
        return heard
    if latest and question:
        return latest, await tasks.before_question(latest)
    if latest and latest.status in OPEN:
        return latest, await tasks.last_event(latest.task_id)
    raise InvalidMessage("The last message is not the user's: send the user's message last, or resume.")


async def _answer(
    service: Service,
    tenant: Tenant,
    task: Task,
    question: Mapping[str, Any],
    messages: Sequence[RunMessage],
    key: RequestKey,
) -> Begun:
    """Bring results of calls of the front end, or a message of the user in place of those."""
    last = messages[-1]
    if question and CLIENT_CALLS not in question:
        raise InvalidMessage("This thread is waiting for a person, not for a tool's result: resume it.")
    waiting = {call["id"] for call in question.get(CLIENT_CALLS, ())}
    if last.role == "tool" and last.tool_call_id not in waiting:
        if last.tool_call_id not in await asked_calls(service, task.task_id):
            raise not_found("call", last.tool_call_id or "")
        waiting = {last.tool_call_id}
    language = task.reply_language
    sent = {
        each.tool_call_id: client_result(each.text, each.error or "", language)
        for each in messages
        if each.tool_call_id in waiting and each.tool_call_id
    }
    return await submit_results(service, tenant, task, sent, last.text if last.role == "user" else "", key)


async def _resume(
    service: Service, tenant: Tenant, task: Task, entries: Sequence[ResumeEntry], key: RequestKey
) -> Begun:
    """Continue the task as the entries say: one for each interrupt that the last run ended with."""
    first = entries[0]
    if first.interrupt_id == f"{PAUSED}{task.task_id}":
        return await service.resume(tenant, task, key)
    named, _, _ = first.interrupt_id.partition(CALL)
    question = await service.app.tasks.open_question(task.task_id, named)
    asked = sorted(interrupt_ids(question))
    if sorted(entry.interrupt_id for entry in entries) != asked:
        raise InvalidAnswer(
            "`resume` must have one entry for each interrupt of the last run: {ids}.", ids=", ".join(asked)
        )
    if question["kind"] == "approval":
        language = task.reply_language
        by_id = {entry.interrupt_id: entry for entry in entries}
        verdicts = [_verdict(by_id[_call_interrupt(question, call)], call, language) for call in question["calls"]]
        return await service.answer(tenant, task, question, {"verdicts": verdicts}, key)
    payload = first.payload if isinstance(first.payload, dict) else {"answer": first.payload}
    cancelled = first.status == "cancelled"
    answer = {"manual_finish": True} if cancelled else {"answer": payload.get("answer")}
    return await service.answer(tenant, task, question, answer, key)


def interrupt_ids(question: Mapping[str, Any]) -> list[str]:
    """The ids of the interrupts that a question is: one for each call to approve, in their order."""
    if question["kind"] != "approval":
        return [question["interrupt_id"]]
    return [_call_interrupt(question, call) for call in question["calls"]]


def _call_interrupt(question: Mapping[str, Any], call: Mapping[str, Any]) -> str:
    return f"{question['interrupt_id']}{CALL}{call['index']}"


def _verdict(entry: ResumeEntry, call: Mapping[str, Any], language: Language) -> dict[str, Any]:
    """The verdict on a call that an entry is; whatever its reason says, only `approved` approves."""
    payload = entry.payload if isinstance(entry.payload, dict) else {"approved": entry.payload}
    if entry.status == "resolved" and isinstance(response := payload.get("response"), str):
        return {"index": call["index"], "verdict": RESPOND, "reason": response}
    if entry.status == "resolved" and not isinstance(payload.get("approved"), bool):
        raise InvalidAnswer(
            'The payload of an approval must be {{"approved": true}}, {{"approved": false}} or {{"response": "…"}}.'
        )
    verdict: dict[str, Any] = {"index": call["index"], "verdict": "approve"}
    if entry.status == "cancelled" or not payload["approved"]:
        reason = str(payload.get("reason") or "") or declined(language)
        return {**verdict, "verdict": "reject", "reason": reason}
    edited = payload.get("editedArgs")
    return verdict if edited in (None, call["arguments"]) else {**verdict, "verdict": "edit", "arguments": edited}


# A task's events as AG-UI's.


class ClientThread:
    """A client's messages, as it sent them and as the run's events add to them.

    A snapshot of them gives a new client what it lacks, and takes back what does not count any more.
    """

    def __init__(self, run: RunInput, row: Task) -> None:
        self._run, self._row = run, row
        self._before = [said.model_dump(by_alias=True, exclude_unset=True) for said in run.known]
        self._made: dict[str, Json] = {}
        self._calls = {call.id for said in run.known for call in said.tool_calls or ()}
        self.is_open = False
        """Whether a text is being written."""

    def has_call(self, named: str) -> bool:
        """Whether the client has the call of this id."""
        return named in self._calls

    def corrected(self, earlier: Sequence[Task], continues: bool) -> Iterator[BaseEvent]:
        """The messages that the client should have where it has others.

        `earlier` are the tasks of the thread before this one, which a client that knows the thread has the messages of;
        `continues` says that this one began in an earlier run.
        """
        lacking = [said for task in earlier for said in _turn(task)]
        if continues and not self._run.has_history:
            lacking.append(_asked(self._row))
        if lacking:  # clients leave a message that they have where it is, so the new one gets another id
            named = f"{self._run.prefix}{USER}" if continues else _asked(self._row)["id"]
            self._before = [*lacking, *({**said, "id": named} for said in self._before)]
        if lacking or len(self._run.known) < len(self._run.messages):
            yield from self._snapshot()

    def retracted(self, kept: int) -> Iterator[BaseEvent]:
        """The messages without those of the run's text after its first `kept` characters."""
        for named, said in [*self._made.items()]:
            if said["role"] == "assistant" and "content" in said:
                kept -= len(said["content"])
                if kept < 0:
                    del self._made[named]
        yield from self._snapshot()

    def _snapshot(self) -> Iterator[BaseEvent]:
        """All messages; nothing where the client has some that are not the protocol's."""
        try:
            yield MessagesSnapshotEvent.model_validate({"messages": [*self._before, *self._made.values()]})
        except ValidationError:
            return

    def add(self, event: BaseEvent) -> None:
        """Take in an event of the run."""
        match event:
            case TextMessageStartEvent(message_id=named):
                self.is_open = True
                self._made[named] = {"id": named, "role": "assistant", "content": ""}
            case TextMessageEndEvent():
                self.is_open = False
            case ReasoningMessageStartEvent(message_id=named):
                self._made[named] = {"id": named, "role": "reasoning", "content": ""}
            case TextMessageContentEvent(message_id=named) | ReasoningMessageContentEvent(message_id=named):
                self._made[named]["content"] += event.delta
            case ToolCallStartEvent(tool_call_id=named):
                self._calls.add(named)
                call = {"id": named, "function": {"name": event.tool_call_name, "arguments": ""}}
                self._made[named] = {"id": named, "role": "assistant", "toolCalls": [call]}
            case ToolCallArgsEvent(tool_call_id=named):
                self._made[named]["toolCalls"][0]["function"]["arguments"] += event.delta
            case ToolCallResultEvent(message_id=named):
                result = {"toolCallId": event.tool_call_id, "content": event.content}
                self._made[named] = {"id": named, "role": "tool", **result}


def _asked(task: Task) -> Json:
    return {"id": f"{task.task_id}:{USER}", "role": "user", "content": task.message}


def _turn(task: Task) -> list[Json]:
    """What was said in a task that ended."""
    answer = (task.result or {}).get("answer")
    answered = [{"id": f"{task.task_id}:answer", "role": "assistant", "content": str(answer)}] if answer else []
    return [_asked(task), *answered]


TURNS = 50
"""How many earlier turns a client is given that has none of them."""


_APPROVED = {True: {"approve", "edit"}, False: {"reject"}}
"""The decisions that each value of `approved` stands for."""


def describe_approval(call: Mapping[str, Any]) -> Json:
    """The schema of what a person decides about a call."""
    decisions = list_decisions(call)
    approved = [approves for approves, names in _APPROVED.items() if not names.isdisjoint(decisions)]
    properties: Json = {}
    if approved:
        properties["approved"] = {"type": "boolean", **({"enum": approved} if len(approved) == 1 else {})}
    if "edit" in decisions:
        properties["editedArgs"] = {"type": "object", "description": "other arguments, all of them"}
    if "reject" in decisions:
        properties["reason"] = {"type": "string", "description": "why not"}
    if RESPOND in decisions:
        about = "the result, given in place of the tool; nothing else counts then"
        properties["response"] = {"type": "string", "description": about}
    needed = [{"required": [name]} for name in ("approved", "response") if name in properties]
    return {"type": "object", "properties": properties, **(needed[0] if len(needed) == 1 else {"anyOf": needed})}


class Translation:
    """One run's events, with the message and the round that are open."""

    def __init__(self, run: RunInput, row: Task) -> None:
        self._run = run
        self._row = row
        self._language = row.reply_language
        self._thread = ClientThread(run, row)
        self._message_id, self._round = "", ""
        self._count = len(run.messages)
        self._memory: Sequence[str] = ()
        self._state: Json = {}
        self._branches: dict[str, Json] = {}
        self._agents: dict[str, BranchStart] = {}
        """Agents that work for a flow, by the ids of their runs."""
        self._reply = ReplyStream({spec["function"]["name"] for spec in row.client_tools})

    def start(self, before: Sequence[Event], earlier: Sequence[Task], memory: Sequence[str]) -> Iterator[BaseEvent]:
        """The events that begin the run, with the state, and the messages where the client lacks some or has too many.

        `before` are the task's events in earlier runs, `earlier` as in `ClientThread.corrected`, `memory` the names
        of the user's memory files.
        """
        yield RunStartedEvent(thread_id=self._run.thread_id, run_id=self._run.run_id, protocol_version=PROTOCOL_VERSION)
        self._reply.recall(before)
        self._memory = memory
        self._state = self._state_of(self._status)
        yield StateSnapshotEvent(snapshot={**self._run.own_state, **self._state})
        yield from self._thread.corrected(earlier, continues=bool(before))
        for event in before:
            if isinstance(event, BranchStart) and event.kind == AGENT:
                self._agents[_branch_id(event)] = event
            elif isinstance(event, BranchEnd):
                self._agents.pop(_branch_id(event), None)
        yield from map(_subagent, self._agents.values())

    @property
    def _status(self) -> str:
        statuses = self._reply.task.statuses
        return statuses[-1].new if statuses else str(self._row.status)

    def _state_of(self, status: str) -> Json:
        task = self._reply.task
        plan = {"plan": plan_view(task)} if task.plan else {}
        about = {"task_id": self._row.task_id, "status": status, "mode": task.mode or self._row.mode}
        return {"task": about, **plan, "memory": [*self._memory]}

    def _update(self, status: str) -> Iterator[BaseEvent]:
        """What changed of the state, of which the application's part does not."""
        before, self._state = self._state, self._state_of(status)
        if before and (patch := make_patch(before, self._state).patch):
            yield StateDeltaEvent.model_validate({"delta": patch})

    def of(self, event: Event) -> Iterator[BaseEvent]:
        """An event as AG-UI's."""
        for part in self._reply.of(event):
            yield from self._sent(part)
        if event.durable:
            yield from self._update(self._status)

    def _sent(self, part: Part) -> Iterator[BaseEvent]:
        for event in self._of(part):
            self._thread.add(event)
            yield event

    def _of(self, part: Part) -> Iterator[BaseEvent]:
        """A part as AG-UI's events."""
        match part:
            case Opened(kind):
                yield from self._open(kind)
            case Added(Kind.TEXT, text):
                yield TextMessageContentEvent(message_id=self._message_id, delta=text)
            case Added(Kind.THOUGHT, text):
                yield ReasoningMessageContentEvent(message_id=self._message_id, delta=text)
            case TextPaused(kind):
                yield from self._close(kind)
            case TextDropped():
                yield from self._retract()
            case RoundOpened(iteration):
                yield from self._begin_round(f"round {iteration}")
            case CallOpened(call):
                yield from self._begin_call(_call_id(call), call.name, call.arguments)
            case CallClosed(result):
                yield self._end_call(result)
            case BranchStart() | BranchEnd():
                yield from self._branch(part)

    def finish(self, result: Json, memory: Sequence[str] | None = None) -> Iterator[BaseEvent]:
        """The events that end the run; `memory` as in `start`, None where it is not known."""
        for part in self._reply.end(str(result["answer"])):
            yield from self._sent(part)
        pending = waiting_calls(result)
        for call in (*pending, *self._undecided(result)):
            yield from self._begin_call(call["id"], call["name"], call["arguments"])
        yield from self._end_round()
        yield from self._suspend_agents(result)
        self._memory = self._memory if memory is None else memory
        yield from self._update(result["status"])
        usage = _usage(result)
        if result["status"] == TaskStatus.ERROR:
            yield RunErrorEvent(message=str(result.get("error") or ""), code="task_failed", usage=usage)
            return
        yield RunFinishedEvent(
            thread_id=self._run.thread_id,
            run_id=self._run.run_id,
            outcome=self._outcome(result, [call["id"] for call in pending]),
            result={name: result.get(name) for name in ("task_id", "session_id", "status", "mode")},
            usage=usage,
        )

    def _outcome(self, result: Json, pending: list[str]) -> RunFinishedOutcome:
        if pending:
            return RunFinishedSuccessOutcome(pending_tool_call_ids=pending)
        match TaskStatus(result["status"]):
            case TaskStatus.DONE:
                return RunFinishedSuccessOutcome(pending_tool_call_ids=None)
            case TaskStatus.CANCELLED:
                return RunFinishedCancelledOutcome()
            case TaskStatus.WAITING:
                asked = result["question"]
                ids = interrupt_ids(asked)
                if asked["kind"] == "approval":
                    return RunFinishedInterruptOutcome(interrupts=[*map(self._approval, ids, asked["calls"])])
                question = Interrupt(
                    id=ids[0],
                    reason="input_required",
                    message=question_text(asked, self._language),
                    response_schema=answer_schema(asked),
                )
                return RunFinishedInterruptOutcome(interrupts=[question])
            case TaskStatus.PENDING | TaskStatus.RUNNING | TaskStatus.PAUSING | TaskStatus.PAUSED | TaskStatus.ERROR:
                message = stop_notice(result["status"], self._language)
                paused = Interrupt(id=f"{PAUSED}{self._row.task_id}", reason="segue:paused", message=message)
                return RunFinishedInterruptOutcome(interrupts=[paused])

    def _undecided(self, result: Json) -> list[Json]:
        """The calls that wait for approval, by the ids of their places in the task."""
        asked = result.get("question") or {}
        calls = asked["calls"] if asked.get("kind") == "approval" else []
        return [{**call, "id": self._place_of(call)} for call in calls]

    def _place_of(self, call: Json) -> str:
        """The id of a call to approve; a plan announces its calls behind their approval, one for each step."""
        decided = reversed(self._reply.task.running.values())
        place = next((each for each in decided if (each.index, each.name) == (call["index"], call["name"])), None)
        return _call_id(place) if place else f"{self._row.task_id}:{call.get('step_id', '')}:0"

    def _approval(self, interrupt_id: str, call: Json) -> Interrupt:
        """The interrupt of a call to approve."""
        return Interrupt(
            id=interrupt_id,
            reason="tool_call",
            tool_call_id=self._place_of(call),
            message=question_text({"kind": "approval", "calls": [call]}, self._language),
            response_schema=describe_approval(call),
            metadata={"call": call},
        )

    # The answer, the thinking, the rounds.

    def _new_id(self, kind: str) -> str:
        self._count += 1
        return f"{self._run.prefix}{kind}:{self._count}"

    def _open(self, kind: Kind) -> Iterator[BaseEvent]:
        if kind is Kind.TEXT:
            self._message_id = self._new_id("answer")
            yield TextMessageStartEvent(message_id=self._message_id, role="assistant")
        else:
            self._message_id = self._new_id("thought")
            yield ReasoningStartEvent(message_id=self._message_id)
            yield ReasoningMessageStartEvent(message_id=self._message_id)

    def _close(self, kind: Kind) -> Iterator[BaseEvent]:
        if kind is Kind.TEXT:
            yield TextMessageEndEvent(message_id=self._message_id)
        else:
            yield ReasoningMessageEndEvent(message_id=self._message_id)
            yield ReasoningEndEvent(message_id=self._message_id)

    def _retract(self) -> Iterator[BaseEvent]:
        """Take back the messages of the text that was discarded; one that is open continues as a new message."""
        is_open = self._thread.is_open
        if is_open:
            yield TextMessageEndEvent(message_id=self._message_id)
        yield from self._thread.retracted(len(self._reply.text))
        if is_open:
            yield from self._open(Kind.TEXT)

    def _begin_round(self, name: str) -> Iterator[BaseEvent]:
        yield from self._end_round()
        self._round = name
        yield StepStartedEvent(step_name=name)

    def _end_round(self) -> Iterator[BaseEvent]:
        if self._round:
            yield StepFinishedEvent(step_name=self._round)
        self._round = ""

    # Calls and the plan.

    def _begin_call(self, named: str, name: str, arguments: Json) -> Iterator[BaseEvent]:
        """Announce a call unless the client knows it: one that waited for approval was announced by an earlier run."""
        if self._thread.has_call(named):
            return
        yield ToolCallStartEvent(tool_call_id=named, tool_call_name=name)
        yield ToolCallArgsEvent(tool_call_id=named, delta=readable(arguments))
        yield ToolCallEndEvent(tool_call_id=named)

    def _end_call(self, event: ToolResult) -> BaseEvent:
        content = readable(event.result)
        return ToolCallResultEvent(message_id=self._new_id("result"), tool_call_id=_call_id(event), content=content)

    def _branch(self, event: BranchStart | BranchEnd) -> Iterator[BaseEvent]:
        """An agent that works for a flow as a subagent, a graph as an activity, which ends with its result."""
        named = _branch_id(event)
        if event.kind == AGENT:
            yield self._agent(event, named)
        elif event.kind == "built_in":
            pass
        elif isinstance(event, BranchStart):
            self._branches[named] = {"branch": event.branch, "kind": event.kind, "arguments": event.arguments}
            yield ActivitySnapshotEvent(message_id=named, activity_type="branch", content=self._branches[named])
        elif named in self._branches:
            patch = [{"op": "add", "path": "/result", "value": event.result}]
            about = {"message_id": named, "activity_type": "branch"}
            yield ActivityDeltaEvent.model_validate({**about, "patch": patch})

    def _agent(self, event: BranchStart | BranchEnd, named: str) -> BaseEvent:
        if isinstance(event, BranchStart):
            self._agents[named] = event
            return _subagent(event)
        del self._agents[named]
        result = CallResult.of(event.result)
        if result.has_error:
            return SubagentErrorEvent(subagent_run_id=named, message=result.error)
        return SubagentFinishedEvent(subagent_run_id=named, result=result.value)

    def _suspend_agents(self, result: Json) -> Iterator[BaseEvent]:
        """End the agents in this run that did not end; one that waits or is paused goes on in a later run."""
        for named in self._agents:
            if result["status"] in (TaskStatus.WAITING, TaskStatus.PAUSED):
                yield SubagentFinishedEvent(subagent_run_id=named, outcome=SubagentFinishedSuspendedOutcome())
            else:
                yield SubagentErrorEvent(subagent_run_id=named, message=stop_notice(result["status"], self._language))


AGENT = "agent"
"""The kind of a branch that is an agent."""


def _branch_id(event: BranchStart | BranchEnd) -> str:
    return f"{event.task_id}:branch:{event.trace_id}"


def _subagent(event: BranchStart) -> BaseEvent:
    about = {"arguments": event.arguments}
    return SubagentStartedEvent(subagent_run_id=_branch_id(event), name=event.branch, metadata=about)


def _call_id(event: ToolCall | ToolResult) -> str:
    """One id for a call in all runs: its place in the task."""
    return ":".join(map(str, (event.task_id, *call_id(event))))


def _usage(result: Json) -> list[TokenUsage] | None:
    used = result.get("usage")
    if not used:
        return None
    return [TokenUsage(model=result.get("model"), input_tokens=used["input"], output_tokens=used["output"])]


def frames(service: Service, tenant: Tenant, run: RunInput, row: Task, after: int) -> AsyncGenerator[bytes, None]:
    """The frames of a run's stream."""
    translation = Translation(run, row)
    whole = _frames(service, tenant, translation, run, row, after)
    return with_error_frames(
        whole, tenant, row, lambda result: _encoded(translation.finish({**result, "status": "error"}))
    )


async def _frames(
    service: Service, tenant: Tenant, translation: Translation, run: RunInput, row: Task, after: int
) -> AsyncGenerator[bytes, None]:
    tasks = service.app.tasks
    before = await tasks.events(row.task_id, limit=after) if after else []
    known = run.has_history
    earlier = [] if known else await tasks.list(session_id=row.session_id, before=row.task_id, limit=TURNS)
    for frame in _encoded(translation.start(before, earlier[::-1], await _memory_of(service, row))):
        yield frame
    async with aclosing(events_of(service, row.task_id, after, so_far=True)) as events:
        async for event in events:
            for frame in _encoded(translation.of(event)):
                yield frame
    result = await outcome(service.app, tenant, row.task_id)
    for frame in _encoded(translation.finish(result, await _memory_of(service, row))):
        yield frame


async def _memory_of(service: Service, row: Task) -> list[str]:
    """The names of the user's memory files; none where they cannot be read."""
    try:
        return [file["name"] for file in await service.app.memory.files(user_id=row.user_id)]
    except MemoryUnavailable:
        return []


def _encoded(translated: Iterator[BaseEvent]) -> Iterator[bytes]:
    encoder = EventEncoder()
    for event in translated:
        event.timestamp = int(time.time() * 1000)
        yield encoder.encode(event).encode()


# The route.

router = routes("ag-ui")
_STREAM = {"description": "Server-sent events of AG-UI 1.0.", "content": {"text/event-stream": {}}}


@router.post("/ag-ui/{agent_id}", response_class=StreamingResponse, responses={200: _STREAM, **CONFLICT, **MODEL_DOWN})
async def run(agent_id: str, body: RunInput, service: ServiceDep, tenant: TenantDep, key: KeyDep) -> EventStream:
    """Run an agent for an AG-UI client; one that disconnects stops its task, unless the service is set to continue.

    `threadId` is the session. Only the last message is new. A task that waits for a person ends the run with an
    interrupt, which the next run answers in `resume`.
    """
    service.refuse_while_draining()
    if agent_id not in service.agents:
        raise not_found("agent", agent_id)
    service.open_stream(tenant)
    try:
        row, after = await begin_run(service, tenant, agent_id, body, key)
        stream, stops = frames(service, tenant, body, row, after), service.stops("ag_ui", row.task_id)
        return EventStream(service, tenant, stream, task_headers(tenant, row), stops)
    except BaseException:
        service.close_stream(tenant)
        raise
