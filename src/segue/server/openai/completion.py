"""A task as a chat completion: the chunks of a stream, or the whole."""

import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field

from ...core.events import AttemptRestarted, Event, Fallback, Thinking, Token, ToolCall
from ...core.records import Json
from ...prompts.elicitation import reply_notice, stop_notice
from ...prompts.language import Language
from ...prompts.phrases import is_banner
from ..service import Service
from ..sse.stream import broken, events_of
from ..sse.truncation import encoded, readable
from ..tenants import Tenant
from ..views import outcome

RESTARTED = "\n\n---\n\n"
"""Stands between a text that was streamed and the one that takes its place, which a client cannot take back."""


@dataclass
class Completion:
    """What a client has been sent of a task's answer."""

    row: Json
    model: str
    created: int = field(default_factory=lambda: int(time.time()))
    content: str = ""
    reasoning: str = ""

    def deltas(self, event: Event) -> Iterator[Json]:
        """What an event adds to the answer, or to the thinking before it."""
        match event:
            case Token():
                self.content += event.content
                yield {"content": event.content}
            case Thinking() if not is_banner(event.content):
                yield self._thought(event.content)
            case ToolCall():
                yield self._thought(f"\n{event.name} {readable(event.arguments)}\n")
            case AttemptRestarted() | Fallback() if self.content:
                self.content = ""
                yield {"content": RESTARTED}

    def _thought(self, text: str) -> Json:
        self.reasoning += text
        return {"reasoning_content": text}

    def rest(self, result: Json) -> str:
        """What of the text that the task ends with was not sent yet."""
        text = _text(result, self.row["language"] or "en")
        return text[len(self.content) :] if text.startswith(self.content) else RESTARTED + text

    def chunk(self, delta: Json, finish_reason: str | None = None, **more: object) -> Json:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
        return {**self._head("chat.completion.chunk"), "choices": [choice], **more}

    def usage_chunk(self, result: Json) -> Json:
        return {**self._head("chat.completion.chunk"), "choices": [], "usage": _usage(result)}

    def whole(self, result: Json) -> Json:
        """The completion of a request that does not stream."""
        reasoning = {"reasoning_content": self.reasoning} if self.reasoning else {}
        message = {"role": "assistant", "content": _text(result, self.row["language"] or "en"), **reasoning}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        about = {"usage": _usage(result), "segue": task_of(result)}
        return {**self._head("chat.completion"), "choices": [choice], **about}

    def _head(self, kind: str) -> Json:
        return {"id": f"chatcmpl-{self.row['task_id']}", "object": kind, "created": self.created, "model": self.model}


async def chunks(
    service: Service, tenant: Tenant, completion: Completion, after: int, include_usage: bool
) -> AsyncGenerator[bytes, None]:
    """The frames of a stream: chunks, at the end one with the reason, and [DONE]; or an error."""
    row = completion.row
    yield _frame(completion.chunk({"role": "assistant", "content": ""}))
    try:
        async with aclosing(events_of(service, row["task_id"], after, so_far=True)) as events:
            async for event in events:
                for delta in completion.deltas(event):
                    yield _frame(completion.chunk(delta))
        result = await outcome(service.app, tenant, row["task_id"])
    except Exception as error:  # noqa: BLE001  logged with its trace, and answered without
        result = {**broken(tenant, row, error), "status": "error"}
    if result["status"] == "error":
        yield _frame({"error": error_of(result)})
        return
    if rest := completion.rest(result):
        yield _frame(completion.chunk({"content": rest}))
    yield _frame(completion.chunk({}, "stop", segue=task_of(result)))
    if include_usage:
        yield _frame(completion.usage_chunk(result))
    yield b"data: [DONE]\n\n"


def error_of(result: Json) -> Json:
    """The error of a task that failed, in OpenAI's format."""
    return {"message": result.get("error") or "", "type": "server_error", "param": None, "code": "task_failed"}


def task_of(result: Json) -> Json:
    """The fields of a `TaskOfCompletion`."""
    return {name: result.get(name) for name in ("task_id", "session_id", "status", "question")}


def _text(result: Json, language: Language) -> str:
    """The answer; of a task that has none, what it waits for."""
    if result["status"] == "done":
        return str(result["answer"])
    if result["status"] != "waiting":
        return "\n\n".join(filter(None, (result["answer"], stop_notice(result["status"], language))))
    return reply_notice(result["question"], language)


def _usage(result: Json) -> Json:
    usage = result.get("usage") or {}
    prompt, completion = usage.get("input", 0), usage.get("output", 0)
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _frame(form: Json) -> bytes:
    return f"data: {encoded(form)}\n\n".encode("ascii")
