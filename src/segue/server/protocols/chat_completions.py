"""A task as a chat completion: the chunks of a stream, or the whole."""

import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, Field

from ...core.events import Event, ToolCall
from ...core.records import Json, Task
from ...prompts.protocols import reply_notice, stop_notice
from ...runtime.reply_stream import Added, CallOpened, Discarded, Kind, Part, ReplyStream
from ..readers.client_tools import tool_call_id, waiting_calls
from ..service import Service
from ..stream import events_of, with_error_frames
from ..tenants import Tenant
from ..truncation import encoded, readable
from ..views import outcome

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

    def __post_init__(self) -> None:
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
            case Added(Kind.TEXT) | Discarded() if self._as_json:
                pass
            case Added(Kind.TEXT, text):
                yield {"content": text}
            case Added(Kind.THOUGHT, text):
                yield self._thought(text)
            case CallOpened(ToolCall() as call):
                yield self._thought(f"\n{call.name} {readable(call.arguments)}\n")
            case Discarded():
                yield {"content": RESTARTED}

    def _thought(self, text: str) -> Json:
        self.reasoning += text
        return {"reasoning_content": text}

    def rest(self, result: Json) -> str:
        """What of the text that the task ends with was not sent yet."""
        if self._as_json:
            return self.text(result)
        parts = self._reply.end(self.text(result))
        return "".join(delta["content"] for part in parts for delta in self._delta(part))

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
        yield self.chunk({}, _finish_reason(calls, result), segue=task_of(result))

    def text(self, result: Json) -> str:
        """The answer; of a task that has none, what was written of it and what it waits for."""
        language = self.row.reply_language
        if result["status"] == "done":
            return self._reply.own(str(result["answer"]))
        if result["status"] != "waiting":
            answer = self._reply.own(str(result["answer"]))
            return "\n\n".join(filter(None, (answer, stop_notice(result["status"], language, resumed=self.resumed))))
        if waiting_calls(result):
            return self._reply.text
        text = self._reply.text
        separator = "\n\n" if text and not text.endswith("\n\n") else ""
        return text + separator + reply_notice(result["question"], language)

    def chunk(self, delta: Json, finish_reason: str | None = None, **more: object) -> Json:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return {**self._head("chat.completion.chunk"), "choices": [choice], **more}

    def usage_chunk(self, result: Json) -> Json:
        return {**self._head("chat.completion.chunk"), "choices": [], "usage": _usage(result)}

    def whole(self, result: Json) -> Json:
        """The completion of a request that does not stream."""
        reasoning = {"reasoning_content": self.reasoning} if self.reasoning else {}
        text, refused = self.text(result), bool(result.get("refused"))
        content: Json = {"content": None if refused else text, "refusal": text if refused else None, "annotations": []}
        message: Json = {"role": "assistant", **content, **reasoning}
        if calls := self.calls(result):
            message |= {"content": text.strip() or None, "tool_calls": calls}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish_reason(calls, result)}
        about = {"usage": _usage(result), "segue": task_of(result)}
        return {**self._head("chat.completion"), "choices": [choice], **about}

    def _head(self, kind: str) -> Json:
        return {"id": f"chatcmpl-{self.row.task_id}", "object": kind, "created": self.created, "model": self.model}


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
    async with aclosing(events_of(service, task_id, after, so_far=True)) as events:
        async for event in events:
            for delta in completion.deltas(event):
                yield _frame(completion.chunk(delta))
    result = await result_of(service, tenant, completion)
    if result["status"] == "error":
        yield _frame({"error": error_of(result)})
        return
    rest = completion.rest(result)
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
    if service.draining and service.settings.resume and result["status"] == "paused":
        completion.resumed = (await service.app.tasks.get(result["task_id"])).resumes_itself
    return result


def error_of(result: Json) -> Json:
    """The error of a task that failed, in OpenAI's format."""
    return {"message": result.get("error") or "", "type": "server_error", "param": None, "code": "task_failed"}


def task_of(result: Json) -> Json:
    """The fields of a `TaskOfCompletion`."""
    return {name: result.get(name) for name in ("task_id", "session_id", "status", "question")}


def _usage(result: Json) -> Json:
    usage = result.get("usage") or {}
    prompt, completion = usage.get("input", 0), usage.get("output", 0)
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _frame(form: Json) -> bytes:
    return f"data: {encoded(form)}\n\n".encode("ascii")
