"""The request of an AG-UI run, and the task that it begins, joins or answers.

Source: `RunAgentInput` of the package `ag-ui-protocol` 1.0.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from ...core.errors import InvalidAnswer, InvalidMessage
from ...core.question import CLIENT_CALLS
from ...core.records import RequestKey, Task
from ...core.reply_options import AnswerFormat, ReplyOptions
from ...core.task_status import ENDED, OPEN, TaskStatus
from ...prompts.language import Language
from ...prompts.protocols import client_result, declined
from ...runtime.message_files import fingerprint
from ..errors import Problem, not_found
from ..request_body import LONGEST, NAME, Items
from ..service import Begun, Service
from ..tenants import Tenant
from .client_tools import asked_calls, submit_results
from .continuation import Attempts
from .messages import File, file_of, image_of, refuse_files
from .reply_options import SchemaForm

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
        """The file that the part is.

        Raises:
            InvalidMessage: it is an address, and no image, it has no content, or that is not valid base64.
        """
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
        """The files of a user's message.

        Raises:
            InvalidMessage: as those of its parts.
        """
        parts = self.content if isinstance(self.content, list) else []
        return [file for part in parts if (file := part.file)]


class ResumeEntry(BaseModel):
    """The answer to an interrupt that ended an earlier run."""

    model_config = _CAMEL

    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: Any = Field(
        default=None, description="to an approval {approved, editedArgs, reason}, to a question {answer} or a text"
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

    thread_id: str = Field(pattern=NAME, max_length=LONGEST, description="the session")
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


async def begin(service: Service, tenant: Tenant, agent: str, run: RunInput, asked: RequestKey | None) -> Begun:
    """The task of a run; the same run again joins it, as does one with the key that the client `asked` with.

    Only `resume` answers a question. A run without it, or with a message that came before, shows the question again; of
    a task that does not wait it joins the one that the message began.

    Raises:
        InvalidMessage: the last message is not the user's, and nothing is resumed; or a file has no content.
        InvalidAnswer, QuestionClosed: an answer does not fit what is asked.
        And those of `App.start` and `App.resume`.
    """
    app, thread_id = service.app, tenant.stored(run.thread_id)
    content = _content(agent, run)
    named = tenant.stored(f"{_KEYS}{run.thread_id}/{run.run_id}")  # no thread's name has a slash
    key = RequestKey(named, sha256(content.encode()).hexdigest())
    if known := await service.known(asked) or await service.known(key):
        return known
    latest, last = await app.tasks.newest(thread_id), run.newest
    attempts = _attempts(service, tenant, agent, run)
    if last and last.id:
        key = replace(key, also=RequestKey(attempts.key(attempts.number(await attempts.last()) + 1), ""))
    key = replace(asked, also=key) if asked else key
    if run.resume:
        if latest is None:
            raise InvalidMessage(NO_RUN)
        return await _resume(service, tenant, latest, run.resume, key)
    question = await app.question(latest.task_id) if latest and latest.status == "waiting" else {}
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
        user_id=tenant.stored("default"),
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
    if task.thread_id != thread_id or task.status in (TaskStatus.ERROR, TaskStatus.CANCELLED):
        return None
    return task, seq


async def _show(service: Service, latest: Task | None, question: Mapping[str, Any], heard: Begun | None) -> Begun:
    """The thread's newest task, to which nothing is sent, or that of the message that was `heard` before.

    Raises:
        InvalidMessage: neither has anything to show.
    """
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
    """Bring results of calls of the front end, or a message of the user in place of those.

    Raises:
        InvalidMessage: the task waits for a person.
    """
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
    """The verdict on a call that an entry is; whatever its reason says, only `approved` approves.

    Raises:
        InvalidAnswer: a resolved entry says neither.
    """
    payload = entry.payload if isinstance(entry.payload, dict) else {"approved": entry.payload}
    if entry.status == "resolved" and not isinstance(payload.get("approved"), bool):
        raise InvalidAnswer('The payload of an approval must be {{"approved": true}} or {{"approved": false}}.')
    verdict: dict[str, Any] = {"index": call["index"], "verdict": "approve"}
    if entry.status == "cancelled" or not payload["approved"]:
        reason = str(payload.get("reason") or "") or declined(language)
        return {**verdict, "verdict": "reject", "reason": reason}
    edited = payload.get("editedArgs")
    return verdict if edited in (None, call["arguments"]) else {**verdict, "verdict": "edit", "arguments": edited}
