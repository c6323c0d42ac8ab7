"""The reply of a response: its items, the events of its stream, and the routes.

The number of a stream's event follows from what is stored, so that a stream that begins again numbers them alike. Each
event has a number; a message's text has room for `TEXT` characters, and again as many after each time that the task
was resumed, so that the number of a piece of text says how much of it was sent.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import Annotated, Any, Literal

from fastapi import Path, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from ...core.calls import CallResult
from ...core.errors import TaskError
from ...core.events import (
    ASKING,
    ApprovalGiven,
    ApprovalRequested,
    Event,
    ModelCalled,
    QuestionAnswered,
    QuestionAsked,
    Resumed,
    Steered,
    ToolCall,
    ToolResult,
)
from ...core.message import kind_of
from ...core.records import Json, Session, Task
from ...core.task import ANYBODY, TaskStatus
from ...prompts.protocols import reply_notice, with_choices
from ...runtime.reply import (
    Added,
    Approved,
    CallClosed,
    CallId,
    CallOpened,
    Kind,
    Part,
    Question,
    ReplyDone,
    ReplyStream,
    TextDone,
    TextDropped,
    call_id,
)
from .. import background
from ..continuation import in_turn
from ..dependencies import (
    CONFLICT,
    MODEL_DOWN,
    KeyDep,
    Retries,
    ServiceDep,
    SessionId,
    TenantDep,
    Unset,
    UserName,
    routes,
)
from ..errors import JsonResponse, Problem, encoded, not_found, readable
from ..openai_chat import RESTARTED, Deleted, ItemList, agent_and_mode, item_list
from ..requests import Segment, approval_id, own_segment, segment_of, tool_call_id
from ..service import Service
from ..stream import EventStream, events_of, task_headers, while_connected, with_error_frames
from ..tenants import Tenant
from .request import ConversationChange, ConversationName, ConversationRequest, ResponseRequest, ResponseTasks

TEXT = 1_000_000


class Output:
    """Makes the items and the stream of a response; events up to number `after` were sent before."""

    def __init__(self, segment: Segment, after: int = -1) -> None:
        self.items: list[Json] = []
        self._label = segment.row.agent_id
        self._language = segment.row.reply_language
        self._is_stored = segment.is_stored
        self._place = f"{segment.task_id}_{segment.start}"
        self._reply = ReplyStream(segment.client_tools)
        self._reply.recall(segment.log[: segment.start])
        self._asked = segment.asked
        self._after = after
        self._number = 0
        self._resumed = 0
        self._calls: dict[CallId, int] = {}
        self._message = -1
        """The place of the message under way; -1 where there is none."""
        self._base = 0
        self._sent = ""
        """What the client has of the message's text, unless it was `_restarted` since."""
        self._written = 0
        """How many characters were numbered since the task was resumed last."""
        self._restarted = False
        self._as_json = "answer_format" in segment.row.reply_options
        """Whether the answer is JSON, which is sent once it is known to fit; texts before calls are thoughts."""

    def of(self, event: Event) -> Iterator[Json]:
        """What an event of the task adds to the stream."""
        for part in self._reply.of(event):
            yield from self._of(part)

    def _of(self, part: Part) -> Iterator[Json]:
        match part:
            case Added(Kind.TEXT, text):
                yield from self._add_text(text) if not self._as_json else ()
            case TextDone(Kind.TEXT, text):
                yield from self._reason(text) if self._as_json else self._say(text)
            case TextDone(Kind.THOUGHT, text):
                yield from self._reason(text)
            case TextDropped():
                self._restarted, self._sent = self._restarted or bool(self._sent), ""
            case Resumed():
                self._resumed, self._written = self._resumed + 1, 0
            case ReplyDone(text):
                if rest := text or (self._sent if self._message >= 0 else ""):
                    yield from self._say(rest)
            case _:
                yield from self._of_call(part)

    def _of_call(self, part: Part) -> Iterator[Json]:
        match part:
            case CallOpened(ToolResult() | ToolCall(needs_approval=False) as call):  # others once they are approved
                yield from self._begin_call(call)
            case CallClosed(result):
                yield from self._end_call(result)
            case Approved(given):
                yield from self._begin_approved(given)
            case Question(ApprovalRequested() as asked):
                yield from self._ask(asked)
            case Question(QuestionAsked() as asked):
                yield from (
                    self._ask_client(asked)
                    if asked.client_calls
                    else self._say(with_choices(asked.question, asked.choices))
                )

    def lifecycle(self, kind: str, response: Json) -> Iterator[Json]:
        """An event that holds the whole response."""
        yield from self._event(f"response.{kind}", response=response)

    def fail(self, message: str) -> Iterator[Json]:
        """The event of a stream that breaks."""
        yield from self._event("error", code="server_error", message=message, param=None)

    def close(self, answer: str) -> Iterator[Json]:
        """The rest of the answer that the response ends with, and the end of calls that have no result."""
        for part in self._reply.end(answer):
            yield from self._of(part)
        for index in self._calls.values():
            yield from self._end(index, status="incomplete")

    def _event(self, kind: str, **fields: Any) -> Iterator[Json]:
        number, self._number = self._number, self._number + 1
        if number > self._after:
            yield {"type": kind, "sequence_number": number, **fields}

    def _add(self, kind: str, item: Json) -> Iterator[Json]:
        """Announce an item."""
        self.items.append({"id": f"{kind}_{self._place}_{len(self.items)}", **item})
        yield from self._of_output("output_item.added", len(self.items) - 1, item=dict(self.items[-1]))

    def _of_output(self, kind: str, index: int, **fields: Any) -> Iterator[Json]:
        yield from self._event(f"response.{kind}", output_index=index, **fields)

    def _of_item(self, kind: str, index: int, **fields: Any) -> Iterator[Json]:
        yield from self._of_output(kind, index, item_id=self.items[index]["id"], **fields)

    def _end(self, index: int, **changes: Any) -> Iterator[Json]:
        self.items[index] |= changes
        yield from self._of_output("output_item.done", index, item=dict(self.items[index]))

    # Thoughts.

    def _reason(self, text: str) -> Iterator[Json]:
        """A thought, whole."""
        yield from self._add("rs", {"type": "reasoning", "summary": [], "status": "in_progress"})
        index, part = len(self.items) - 1, {"type": "summary_text", "text": text}
        yield from self._of_item("reasoning_summary_part.added", index, summary_index=0, part={**part, "text": ""})
        yield from self._of_item("reasoning_summary_text.delta", index, summary_index=0, delta=text)
        yield from self._of_item("reasoning_summary_text.done", index, summary_index=0, text=text)
        yield from self._of_item("reasoning_summary_part.done", index, summary_index=0, part=part)
        yield from self._end(index, summary=[part], status="completed")

    # Messages.

    def _add_text(self, content: str) -> Iterator[Json]:
        if self._message < 0:
            yield from self._begin_message()
        yield from self._write(content)

    def _begin_message(self) -> Iterator[Json]:
        yield from self._add("msg", {"type": "message", "role": "assistant", "content": [], "status": "in_progress"})
        self._message, self._sent, self._written, self._restarted = len(self.items) - 1, "", 0, False
        yield from self._of_item("content_part.added", self._message, content_index=0, part=_text_part(""))
        self._base = self._number

    def _write(self, content: str) -> Iterator[Json]:
        """A piece of text, without what was sent of it; text that takes another's place follows a line."""
        start = self._base + self._resumed * TEXT
        other = self._restarted or self._base < self._after < start
        self._restarted = False
        piece = content[max(0, self._after - start - self._written) :]
        self._sent, self._written = self._sent + content, self._written + len(content)
        if piece:
            self._number = start + self._written
            delta = RESTARTED + piece if other else piece
            yield from self._of_item("output_text.delta", self._message, content_index=0, delta=delta, logprobs=[])
            self._after = min(self._after, self._base)

    def _say(self, text: str) -> Iterator[Json]:
        """A message that is complete; what was streamed of it stays, where it begins with that."""
        if self._message < 0:
            yield from self._begin_message()
        index = self._message
        if not text.startswith(self._sent) and not self._sent.startswith(text):
            self._restarted, self._sent = True, ""
        if rest := text[len(self._sent) :]:
            yield from self._write(rest)
        self._number = self._base + (self._resumed + 1) * TEXT
        yield from self._of_item("output_text.done", index, content_index=0, text=text, logprobs=[])
        yield from self._of_item("content_part.done", index, content_index=0, part=_text_part(text))
        yield from self._end(index, content=[_text_part(text)], status="completed")
        self._message, self._sent, self._restarted = -1, "", False

    # Calls and approvals.

    def _begin_call(self, event: ToolCall | ToolResult) -> Iterator[Json]:
        """Announce a call, unless it was when it was approved."""
        if call_id(event) in self._calls:
            return
        arguments = readable(event.arguments)
        call = {"type": "mcp_call", "name": event.name, "server_label": self._label, "arguments": arguments}
        asked = next((call for call in self._asked if _is_call(call, event)), None)
        if asked:
            self._asked.remove(asked)
        unknown = {"output": None, "error": None, "status": "in_progress"}
        yield from self._add("mcp", {**call, "approval_request_id": asked and asked["id"], **unknown})
        index = self._calls[call_id(event)] = len(self.items) - 1
        yield from self._of_item("mcp_call.in_progress", index)
        yield from self._of_item("mcp_call_arguments.done", index, arguments=arguments)

    def _end_call(self, event: ToolResult) -> Iterator[Json]:
        yield from self._begin_call(event)
        index = self._calls.pop(call_id(event))
        result = CallResult.of(event.result)
        if result.has_error:
            yield from self._of_item("mcp_call.failed", index)
            error = {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": result.error}]}
            yield from self._end(index, error=error, status="failed")
            return
        output = result.value if isinstance(result.value, str) else readable(result.value)
        yield from self._of_item("mcp_call.completed", index)
        yield from self._end(index, output=output, status="completed")

    def _ask(self, event: ApprovalRequested) -> Iterator[Json]:
        """The requests, in place of the calls, which the next response has.

        A client that sends all that was said each time has the question as a text, too: it may show no others.
        """
        for index in self._calls.values():
            yield from self._end(index, status="incomplete")
        if not self._is_stored:
            yield from self._say(reply_notice({"kind": "approval", "calls": event.calls}, self._language))
        for call in event.calls:
            about = {"name": call["name"], "server_label": self._label, "arguments": readable(call["arguments"])}
            named = approval_id(event.task_id, event.interrupt_id, call["index"])
            yield from self._add("mcpr", {"id": named, "type": "mcp_approval_request", **about})
            yield from self._end(len(self.items) - 1)

    def _ask_client(self, event: QuestionAsked) -> Iterator[Json]:
        """The calls that the client carries out."""
        for call in event.client_calls:
            name, arguments = call["name"], readable(call["arguments"])
            about = {"call_id": tool_call_id(event.task_id, call["id"]), "name": name, "arguments": ""}
            yield from self._add("fc", {"type": "function_call", **about, "status": "in_progress"})
            index = len(self.items) - 1
            yield from self._of_item("function_call_arguments.delta", index, delta=arguments)
            yield from self._of_item("function_call_arguments.done", index, name=name, arguments=arguments)
            yield from self._end(index, arguments=arguments, status="completed")

    def _begin_approved(self, event: ApprovalGiven) -> Iterator[Json]:
        """The calls of a round that were announced before they were approved; those of a plan's steps are after."""
        for verdict in event.verdicts if event.trace_id else ():
            call = next((call for call in self._asked if call["index"] == verdict["index"]), None)
            if call and verdict["verdict"] != "reject":
                about = {"name": call["name"], "arguments": verdict.get("arguments") or call["arguments"]}
                place = {"task_id": event.task_id, "trace_id": event.trace_id, "index": call["index"]}
                yield from self._begin_call(ToolCall(**about, **place))


def _is_call(asked: Json, event: ToolCall | ToolResult) -> bool:
    """Whether the approval of a call was asked for: one of a round has a place there, one of a plan its step."""
    place = asked["index"] == event.index if event.trace_id else asked.get("step_id", "") == event.step_id
    return place and bool(asked["name"] == event.name)


def _text_part(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def items_of(segment: Segment) -> Sequence[Json]:
    """The items of a response, as far as they are stored."""
    output = Output(segment)
    for event in segment.events:
        for _ in output.of(event):
            pass
    if segment.is_over:
        for _ in output.close(segment.answer):
            pass
    return output.items


# A response as its clients read it, what it answers, and its stream.

_DEFAULTS: Json = {
    "background": False,
    "frequency_penalty": 0.0,
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "presence_penalty": 0.0,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "safety_identifier": None,
    "store": True,
    "tool_choice": "auto",
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}
"""OpenAI's defaults of what a request may say; the schema requires numbers."""
_FIXED: Json = {"max_tool_calls": None, "prompt": None, "service_tier": "default", "top_logprobs": 0}
_TERMINAL = {"completed": "completed", "failed": "failed", "incomplete": "incomplete", "cancelled": "incomplete"}


class TaskOfResponse(BaseModel):
    """The task of a response: its status, and what it asks while it waits for a person."""

    task_id: str
    session_id: str
    status: str
    question: dict[str, Any] | None
    background: bool = Field(default=False, description="whether it was taken for a request of the chat client itself")


class ResponseView(BaseModel, extra="allow"):
    """A response."""

    id: str = Field(examples=["resp_2f1c9a52-6f1e-4f3e-9a55-0d2a4f5b6c7d"])
    object: Literal["response"]
    created_at: int
    model: str
    status: Literal["queued", "in_progress", "completed", "failed", "cancelled", "incomplete"]
    output: list[dict[str, Any]]
    previous_response_id: str | None
    conversation: ConversationName
    segue: TaskOfResponse


def head_of(segment: Segment, tenant: Tenant) -> Json:
    """The fields that stay as they are from the beginning of a response to its end."""
    row, about = segment.row, segment.about
    began = segment.events[0].timestamp if segment.start and segment.events else row.created_at
    return {
        "id": segment.id,
        "object": "response",
        "created_at": int(began),
        "model": about.get("model") or row.agent_id,
        **{name: about.get(name, default) for name, default in _DEFAULTS.items()},
        **_FIXED,
        "conversation": {"id": tenant.shown(row.session_id)},
        "parallel_tool_calls": all(spec.get("parallel", True) for spec in row.client_tools),
        "reasoning": {"effort": None, "summary": None, **about.get("reasoning", {})},
        "temperature": about.get("temperature", segment.temperature),
        "text": _text_options(about.get("text", {})),
        "tools": [{"type": "function", **spec["function"], "strict": None} for spec in row.client_tools],
    }


def _text_options(asked: Json) -> Json:
    """The form of the answer, with every field that the schemas require."""
    form = asked.get("format", {"type": "text"})
    unknown = {"description": None, "strict": False} if form["type"] == "json_schema" else {}
    return {**asked, "format": {**unknown, **form}}


def beginning(segment: Segment, tenant: Tenant) -> Json:
    """The response before anything came of it, as the first events of its stream hold it."""
    unknown = dict.fromkeys(("completed_at", "error", "incomplete_details", "usage"))
    about = {"task_id": segment.task_id, "session_id": tenant.shown(segment.row.session_id)}
    initial: Json = {"status": "in_progress", "output": [], **unknown}
    return {**head_of(segment, tenant), **initial, "segue": {**about, "status": "running", "question": None}}


async def response_view(service: Service, segment: Segment, tenant: Tenant) -> Json:
    """The response as it is now."""
    row, status = segment.row, segment.status
    failure = tenant.without_prefix(str(row.error or (row.result or {}).get("error") or ""))
    reason = segment.incomplete_reason
    return {
        **head_of(segment, tenant),
        "status": status,
        "output": await asyncio.to_thread(items_of, segment),
        "completed_at": int(segment.events[-1].timestamp) if status == "completed" and segment.events else None,
        "error": {"code": "server_error", "message": failure} if status == "failed" else None,
        "incomplete_details": {"reason": reason} if reason else None,
        "usage": _usage(segment) if segment.is_over else None,
        "segue": {
            "task_id": segment.task_id,
            "session_id": tenant.shown(row.session_id),
            "status": str(row.status),
            "question": await _question(service, segment),
            **({"background": True} if segment.about.get("is_own") else {}),
        },
    }


async def _question(service: Service, segment: Segment) -> Json | None:
    """What the response's task asks a person, while it waits."""
    if not segment.is_last or segment.row.status != TaskStatus.WAITING:
        return None
    try:
        return await service.app.question(segment.task_id)
    except TaskError:  # it was just answered
        return None


def _usage(segment: Segment) -> Json:
    calls = [event for event in segment.events if isinstance(event, ModelCalled)]
    sent, received = sum(call.input for call in calls), sum(call.output for call in calls)
    return {
        "input_tokens": sent,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": received,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": sent + received,
    }


def input_items(segment: Segment) -> list[Json]:
    """What the response answers: a message, or a person's decisions."""
    place = f"in_{segment.task_id}_{segment.start}"
    if results := segment.results_of:
        messages = [each.message for each in segment.events if isinstance(each, Steered) and each.with_results]
        return [*_results(segment, place, results), *(_message(f"{place}_{len(results)}", text) for text in messages)]
    if not segment.start:
        return [_message(place, str(segment.row.message), segment.row.attachments)]
    first: Event | None = next((e for e in segment.events if isinstance(e, _INPUTS)), None)
    match first:
        case Steered():
            return [_message(place, first.message)]
        case QuestionAnswered():
            return [_message(place, first.answer)]
        case ApprovalGiven():
            return [*_decisions(segment, place, first)]
    return []


_INPUTS = (Steered, QuestionAnswered, ApprovalGiven)


def _message(named: str, text: str, files: Iterable[Json] = ()) -> Json:
    return {
        "id": named,
        "type": "message",
        "role": "user",
        "status": "completed",
        "content": [{"type": "input_text", "text": text}, *file_parts(files)],
    }


def file_parts(files: Iterable[Json]) -> list[Json]:
    """The files of a message, in the form of `Attachment.json`, as parts that name them."""
    return [
        {
            "type": "input_image",
            "detail": "auto",
            "file_id": None,
            "image_url": file.get("url"),
            "filename": file["name"],
        }
        if kind_of(file["media_type"]) == "image"
        else {"type": "input_file", "file_id": None, "filename": file["name"]}
        for file in files
    ]


def _decisions(segment: Segment, place: str, given: ApprovalGiven) -> Iterator[Json]:
    requested = {call["index"]: call["id"] for call in segment.asked}
    for verdict in given.verdicts:
        yield {
            "id": f"{place}_{verdict['index']}",
            "type": "mcp_approval_response",
            "approval_request_id": requested.get(verdict["index"], ""),
            "approve": verdict["verdict"] in ("approve", "edit"),
            "reason": verdict.get("reason") or None,
        }


def _results(segment: Segment, place: str, calls: Sequence[Json]) -> Iterator[Json]:
    """The results that the client sent, as the agent reads them."""
    left = list(calls)
    for event in segment.events:
        made = event if isinstance(event, ToolResult) else None
        call = next((c for c in left if made and (c["name"], c["arguments"]) == (made.name, made.arguments)), None)
        if made is None or call is None:
            continue
        left.remove(call)
        named = tool_call_id(segment.task_id, call["id"])
        output = CallResult.of(made.result).content
        about = {"call_id": named, "output": output, "status": "completed"}
        yield {"id": f"{place}_{len(calls) - len(left) - 1}", "type": "function_call_output", **about}


Note = Callable[[Sequence[Json], Task, int], Awaitable[None]]
"""Notes the items of a response of a task that begins after an event, before its client has their end."""


def frames(
    service: Service, tenant: Tenant, segment: Segment, after: int = -1, note: Note | None = None
) -> AsyncGenerator[bytes, None]:
    """The frames of a response's stream whose numbers are above `after`."""
    output = Output(segment, after)
    whole = _frames(service, tenant, segment, output, note)
    return with_error_frames(whole, tenant, segment.row, lambda result: map(_frame, output.fail(result["error"])))


async def _frames(
    service: Service, tenant: Tenant, segment: Segment, output: Output, note: Note | None
) -> AsyncGenerator[bytes, None]:
    for kind in ("created", "in_progress"):
        for form in output.lifecycle(kind, beginning(segment, tenant)):
            yield _frame(form)
    async with aclosing(events_of(service, segment.task_id, segment.start, so_far=True, takes_over=True)) as events:
        async for event in events:
            if isinstance(event, Steered) and segment.begins_next(event):
                break
            for form in output.of(event):
                yield _frame(form)
            if isinstance(event, ASKING):
                break
    segment = await segment_of(service, await service.app.task(segment.task_id), segment.start)
    view = await response_view(service, segment, tenant)
    if note and segment.is_over:
        await note(view["output"], segment.row, segment.start)
    for form in _ending(output, segment, view):
        yield _frame(form)


def _ending(output: Output, segment: Segment, view: Json) -> Iterator[Json]:
    """How a stream ends; one whose task is to continue in another process just stops."""
    if kind := _TERMINAL.get(segment.status):
        yield from output.close(segment.answer)
        yield from output.lifecycle(kind, view)


def _frame(form: Any) -> bytes:
    return f"event: {form['type']}\ndata: {encoded(form)}\n\n".encode("ascii")


# Routes of OpenAI's responses and conversations: a response is a task or part of one, a conversation a session.

router = routes("openai")
_STREAM = {
    "description": "The response; with `stream` server-sent events.",
    "content": {"text/event-stream": {}},
}
_NOT_REPEATED = {"input", "tools", "stream", "stream_options", "include", "conversation", "prompt_cache_options"}
"""What a response does not repeat of its request."""
ResponseId = Annotated[str, Path(max_length=200, examples=["resp_2f1c9a52-6f1e-4f3e-9a55-0d2a4f5b6c7d"])]


@router.post("/v1/responses", response_model=ResponseView, responses={200: _STREAM, **CONFLICT, **MODEL_DOWN})
async def create_response(
    body: ResponseRequest,
    service: ServiceDep,
    tenant: TenantDep,
    request: Request,
    key: KeyDep,
    x_openwebui_user_id: UserName = None,
    x_stainless_retry_count: Retries = 0,
) -> Response:
    """Answer a message, or continue with a person's decisions; a task goes on if its client disconnects.

    With `background` it returns at once; the service can be set to stop a task of others. A response continues after a
    crash of the service; its stream can be read again from any of its events.
    """
    service.refuse_while_draining()
    if body.conversation and body.previous_response_id:
        raise Problem(422, "ConversationAndResponse")
    service.metrics.note_ignored("responses", body.ignored)
    agent, mode = agent_and_mode(service, body.model)
    about = body.model_dump(mode="json", exclude=_NOT_REPEATED, exclude_none=True, by_alias=True)
    user = x_openwebui_user_id or body.user or ANYBODY
    sender = f"{tenant.person}/{user}\n".encode()
    sent = key, sha256(sender + await request.body()).hexdigest(), x_stainless_retry_count, about
    options: Json = {"agent": agent, "mode": mode, "user_id": tenant.stored(user)}
    options["client_tools"] = body.client_tools
    tasks = ResponseTasks(service, tenant, body, options)
    is_own = service.settings.background and not body.background and body.is_in_background
    if body.background and not body.stream:
        return await _view(service, tenant, *await in_turn(partial(tasks.begin, *sent)))
    service.open_stream(tenant)
    note: Note | None = None
    try:
        if is_own:
            about_reply = {**options, "client_tools": [], "origin": "responses"}
            row, start = await background.begin(service, tenant, body.messages, body, about_reply, key), 0
        else:
            row, start = await in_turn(partial(tasks.begin, *sent))
            note = tasks.note
        segment = await segment_of(service, row, start)
        stops = "" if body.background or is_own else service.stops("responses", row.task_id)
        if body.stream:
            sending = frames(service, tenant, segment, note=note)
            sending = background.ending(service, row, sending) if is_own and key is None else sending
            return EventStream(service, tenant, sending, task_headers(tenant, row), stops)
    except BaseException:
        service.close_stream(tenant)
        raise
    try:
        return await while_connected(service, request, stops, _whole(service, tenant, segment, note))
    finally:
        if is_own and key is None:
            await background.end(service, row)
        service.close_stream(tenant)


async def _whole(service: Service, tenant: Tenant, segment: Segment, note: Note | None) -> Response:
    async with aclosing(frames(service, tenant, segment, note=note)) as stream:
        async for _ in stream:
            pass
    return await _view(service, tenant, await service.app.task(segment.task_id), segment.start)


async def _stored_segment(service: Service, tenant: Tenant, response_id: str) -> Segment:
    """A response of the tenant's that can be read again."""
    segment = await own_segment(service, tenant, response_id)
    if not segment.is_stored:
        raise not_found("unstored_response", response_id)
    return segment


@router.post("/v1/responses/compact", include_in_schema=False)
async def compact(_: TenantDep) -> Response:
    """Responses cannot be compacted; without this route the path would be that of a response."""
    raise HTTPException(404)


@router.get("/v1/responses/{response_id}", response_model=ResponseView, responses={200: _STREAM})
async def response(
    response_id: ResponseId,
    service: ServiceDep,
    tenant: TenantDep,
    stream: bool = False,
    starting_after: Annotated[int | Unset, Query(ge=0, le=2**53, description="The number of the last event.")] = None,
) -> Response:
    """A response as it is now; with `stream` its events, those after a number if it is given, and what follows."""
    segment = await _stored_segment(service, tenant, response_id)
    if stream:
        service.open_stream(tenant)
        missed = frames(service, tenant, segment, -1 if starting_after is None else starting_after)
        return EventStream(service, tenant, missed, task_headers(tenant, segment.row))
    return JsonResponse(await response_view(service, segment, tenant))


@router.get("/v1/responses/{response_id}/input_items", response_model=ItemList)
async def response_input_items(
    response_id: ResponseId, service: ServiceDep, tenant: TenantDep, order: Literal["asc", "desc"] = "desc"
) -> JsonResponse:
    """What a response answers."""
    items = input_items(await _stored_segment(service, tenant, response_id))
    return JsonResponse(item_list(items if order == "asc" else items[::-1]))


@router.post("/v1/responses/{response_id}/cancel", response_model=ResponseView, responses=CONFLICT)
async def cancel_response(response_id: ResponseId, service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """Cancel a response's task; one that is cancelled stays so."""
    segment = await _stored_segment(service, tenant, response_id)
    if not segment.is_last:
        raise Problem(409, "ResponseContinued", named=response_id)
    if segment.status != "cancelled":
        await service.app.cancel(segment.task_id)
    return await _view(service, tenant, await service.app.task(segment.task_id), segment.start)


@router.delete("/v1/responses/{response_id}", response_model=Deleted, responses=CONFLICT)
async def delete_response(response_id: ResponseId, service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """Delete a response that is the only one of its conversation, with that."""
    segment = await _stored_segment(service, tenant, response_id)
    thread_id = segment.row.session_id
    tasks = await service.app.tasks.list(session_id=thread_id, limit=2)
    branches = await service.app.sessions.branches(thread_id)
    if len(tasks) > 1 or branches or segment.start or not segment.is_last:
        raise Problem(409, "PartOfConversation", named=tenant.shown(thread_id))
    await service.app.sessions.delete(thread_id)
    return JsonResponse({"id": response_id, "object": "response", "deleted": True})


async def _view(service: Service, tenant: Tenant, row: Task, start: int) -> JsonResponse:
    segment = await segment_of(service, row, start)
    return JsonResponse(await response_view(service, segment, tenant), 200, task_headers(tenant, row))


conversations_router = routes("openai")
_ROLES = ("user", "assistant")
After = Annotated[str | Unset, Query(max_length=200, description="The id of the last item of the page before.")]


class ConversationView(BaseModel):
    """A conversation, which is a session."""

    id: str
    object: Literal["conversation"]
    created_at: int
    metadata: dict[str, str]


@conversations_router.post("/v1/conversations", response_model=ConversationView, responses=CONFLICT)
async def create_conversation(
    service: ServiceDep, tenant: TenantDep, key: KeyDep, body: ConversationRequest | None = None
) -> JsonResponse:
    """Create a conversation without a message."""
    new, made = await service.new_session(tenant, None, key)
    if not made:
        metadata = (body.metadata if body else None) or {}
        session = Session(new, metadata=metadata, created_at=time.time())
        await service.once(key, service.app.sessions.create(session, key))
    return JsonResponse(await _conversation_view(service, tenant, new))


@conversations_router.get("/v1/conversations/{session_id}", response_model=ConversationView)
async def conversation(session_id: SessionId, service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """A conversation, which any session is."""
    return JsonResponse(await _conversation_view(service, tenant, await service.own_session(tenant, session_id)))


@conversations_router.post("/v1/conversations/{session_id}", response_model=ConversationView)
async def change_conversation(
    session_id: SessionId, body: ConversationChange, service: ServiceDep, tenant: TenantDep
) -> JsonResponse:
    """Change a conversation's metadata."""
    thread_id = await service.own_session(tenant, session_id)
    session = await _session(service, thread_id)
    await service.app.sessions.save_settings(replace(session, metadata=body.metadata))
    return JsonResponse(await _conversation_view(service, tenant, thread_id))


@conversations_router.delete("/v1/conversations/{session_id}", response_model=Deleted, responses=CONFLICT)
async def delete_conversation(session_id: SessionId, service: ServiceDep, tenant: TenantDep) -> JsonResponse:
    """Delete a conversation and everything that it holds."""
    await service.app.sessions.delete(await service.own_session(tenant, session_id))
    return JsonResponse({"id": session_id, "object": "conversation.deleted", "deleted": True})


@conversations_router.get("/v1/conversations/{session_id}/items", response_model=ItemList, responses=CONFLICT)
async def conversation_items(
    session_id: SessionId,
    service: ServiceDep,
    tenant: TenantDep,
    order: Literal["asc", "desc"] = "desc",
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    after: After = None,
) -> JsonResponse:
    """The messages of a conversation."""
    thread_id = await service.own_session(tenant, session_id)
    said = await service.app.history(thread_id) if await service.app.tasks.newest(thread_id) else []
    items = [_message_item(number, message) for number, message in enumerate(said) if message["role"] in _ROLES]
    items = [item for item in items if item["content"]]
    if order == "desc":
        items.reverse()
    ids = [item["id"] for item in items]
    if after and after not in ids:
        raise not_found("item", after)
    first = ids.index(after) + 1 if after else 0
    return JsonResponse({**item_list(items[first : first + limit]), "has_more": len(items) > first + limit})


def _message_item(number: int, message: Json) -> Json:
    """A message of a session's history as an item."""
    kind = "input_text" if message["role"] == "user" else "output_text"
    text = message["content"]
    more: Json = {} if kind == "input_text" else {"annotations": [], "logprobs": []}
    content = [{"type": kind, "text": text, **more}] if isinstance(text, str) and text else []
    content += file_parts(message.get("attachments", ()))
    return {
        "id": f"item_{number}",
        "type": "message",
        "status": "completed",
        "role": message["role"],
        "content": content,
    }


async def _session(service: Service, thread_id: str) -> Session:
    """What was chosen for a session, which began with its first message if nothing was."""
    if session := await service.app.sessions.settings(thread_id):
        return session
    (*_, first) = await service.app.tasks.list(session_id=thread_id, limit=-1)
    return Session(thread_id, created_at=first.created_at)


async def _conversation_view(service: Service, tenant: Tenant, thread_id: str) -> Json:
    session = await _session(service, thread_id)
    about = {"created_at": int(session.created_at), "metadata": dict(session.metadata)}
    return {"id": tenant.shown(thread_id), "object": "conversation", **about}
