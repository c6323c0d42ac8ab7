"""A response as its clients read it, what it answers, and its stream."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import aclosing
from typing import Any, Literal

from pydantic import BaseModel, Field

from ...core.attachments import kind_of
from ...core.errors import TaskError
from ...core.events import ASKING, ApprovalGiven, Event, ModelCalled, QuestionAnswered, Steered, ToolResult
from ...core.records import Json
from ..readers.client_tools import tool_call_id
from ..readers.responses import ConversationName
from ..readers.segment import Segment, segment_of
from ..service import Service
from ..stream import events_of, with_error_frames
from ..tenants import Tenant
from ..truncation import encoded
from .responses import Output, items_of

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
        "conversation": {"id": tenant.shown(row.thread_id)},
        "parallel_tool_calls": all(spec.get("parallel", True) for spec in row.client_tools),
        "reasoning": {"effort": None, "summary": None, **about.get("reasoning", {})},
        "temperature": about.get("temperature", segment.temperature),
        "text": _text(about.get("text", {})),
        "tools": [{"type": "function", **spec["function"], "strict": None} for spec in row.client_tools],
    }


def _text(asked: Json) -> Json:
    """The form of the answer, with every field that the schemas require."""
    form = asked.get("format", {"type": "text"})
    unknown = {"description": None, "strict": False} if form["type"] == "json_schema" else {}
    return {**asked, "format": {**unknown, **form}}


def beginning(segment: Segment, tenant: Tenant) -> Json:
    """The response before anything came of it, as the first events of its stream hold it."""
    unknown = dict.fromkeys(("completed_at", "error", "incomplete_details", "usage"))
    about = {"task_id": segment.task_id, "session_id": tenant.shown(segment.row.thread_id)}
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
            "session_id": tenant.shown(row.thread_id),
            "status": str(row.status),
            "question": await _question(service, segment),
        },
    }


async def _question(service: Service, segment: Segment) -> Json | None:
    """What the response's task asks a person, while it waits."""
    if not segment.is_last or segment.row.status != "waiting":
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
        return [*_results(segment, place, results)]
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
            "approve": verdict["verdict"] != "reject",
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
        output = made.result.get("success", made.result.get("error"))
        about = {"call_id": named, "output": output, "status": "completed"}
        yield {"id": f"{place}_{len(calls) - len(left) - 1}", "type": "function_call_output", **about}


def frames(service: Service, tenant: Tenant, segment: Segment, after: int = -1) -> AsyncGenerator[bytes, None]:
    """The frames of a response's stream whose numbers are above `after`."""
    output = Output(segment, after)
    whole = _frames(service, tenant, segment, output)
    return with_error_frames(whole, tenant, segment.row, lambda result: map(_frame, output.fail(result["error"])))


async def _frames(service: Service, tenant: Tenant, segment: Segment, output: Output) -> AsyncGenerator[bytes, None]:
    for kind in ("created", "in_progress"):
        for form in output.lifecycle(kind, beginning(segment, tenant)):
            yield _frame(form)
    async with aclosing(events_of(service, segment.task_id, segment.start, so_far=True)) as events:
        async for event in events:
            if isinstance(event, Steered) and event.seq > segment.start + 1:
                break
            for form in output.of(event):
                yield _frame(form)
            if isinstance(event, ASKING):
                break
    segment = await segment_of(service, await service.app.tasks.get(segment.task_id), segment.start)
    for form in _ending(output, segment, await response_view(service, segment, tenant)):
        yield _frame(form)


def _ending(output: Output, segment: Segment, view: Json) -> Iterator[Json]:
    """How a stream ends; one whose task is to continue in another process just stops."""
    if kind := _TERMINAL.get(segment.status):
        yield from output.close(segment.answer)
        yield from output.lifecycle(kind, view)


def _frame(form: Any) -> bytes:
    return f"event: {form['type']}\ndata: {encoded(form)}\n\n".encode("ascii")
