"""The OpenTelemetry spans of a task, derived from its event log with OpenTelemetry's conventions for generative AI."""

import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from importlib.metadata import version
from typing import Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event as SpanEvent
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.status import Status, StatusCode

from ..core.calls import CallResult, CallStatus
from ..core.events import Event, ModelCalled
from ..core.models import OFFLINE
from ..core.records import Call, TaskTrace
from ..core.task_status import OPEN, TaskStatus
from ..runtime.projection import Projection, call_id, project

Attributes = dict[str, Any]
SCOPE = InstrumentationScope("segue", version("segue"))
MOMENTS = frozenset(
    {"mode_selected", "fallback", "paused", "resumed", "steered", "recovered", "cancelled"}
    | {"approval_requested", "approval_given", "question_asked", "question_answered"}
)
"""The events that a task's span has as its own; `reason` is their only field there."""


def trace_id_of(task_id: str) -> int:
    """The id of a task's trace: that of the task without its hyphens."""
    try:
        return uuid.UUID(task_id).int
    except ValueError:  # an imported task may have any id
        return int.from_bytes(blake2b(task_id.encode(), digest_size=16).digest()) or 1


def spans_of(trace: TaskTrace, resource: Resource, *, content: bool = False) -> list[ReadableSpan]:
    """The model calls and tool calls of a task, and the task itself once it has ended.

    The ids follow from the task's id and the positions of the events, so that each span has the same ones whenever and
    wherever it is made. `content` adds messages, arguments and results.
    """
    task = _Task(trace, project(trace.events), resource, content)
    spans = [*_calls(task)]
    return spans if trace.task.status in OPEN else [task.span(), *spans]


@dataclass(frozen=True)
class _Task:
    trace: TaskTrace
    known: Projection
    resource: Resource
    content: bool

    def context(self, place: str = "") -> SpanContext:
        task_id = self.trace.task.task_id
        span_id = int.from_bytes(blake2b(f"{task_id}/{place}".encode(), digest_size=8).digest()) or 1
        return SpanContext(trace_id_of(task_id), span_id, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))

    def span(self) -> ReadableSpan:
        """The span of the whole task, across its pauses and processes."""
        task, events = self.trace.task, self.trace.events
        usage, failed = self.known.usage, task.status == TaskStatus.ERROR
        attributes = {
            **self._common("invoke_agent"),
            "gen_ai.provider.name": _provider(task.used_model),
            "gen_ai.agent.name": task.agent_id,
            "gen_ai.request.model": task.used_model,
            "gen_ai.usage.input_tokens": usage.input,
            "gen_ai.usage.output_tokens": usage.output,
            "segue.task.status": str(task.status),
            "segue.task.mode": str((task.result or {}).get("mode") or task.mode),
            "segue.task.unknown_outcomes": len((task.result or {}).get("unknown_outcomes") or ()),
        }
        if failed:
            attributes["error.type"] = "task_failed"
        if self.content:
            attributes["gen_ai.input.messages"] = _messages("user", _text(task.message))
            attributes["gen_ai.output.messages"] = _messages("assistant", _text((task.result or {}).get("answer", "")))
        return ReadableSpan(
            f"invoke_agent {task.agent_id}",
            context=self.context(),
            resource=self.resource,
            attributes=attributes,
            events=[_moment(event) for event in events if event.type in MOMENTS],
            status=self._status(task.error or "", failed),
            start_time=_nanoseconds(task.created_at),
            end_time=_nanoseconds(max([task.created_at, *(event.timestamp for event in events)])),
            instrumentation_scope=SCOPE,
        )

    def child(
        self, name: str, kind: SpanKind, place: str, times: tuple[float, float], attributes: Attributes, error: str
    ) -> ReadableSpan:
        return ReadableSpan(
            name,
            context=self.context(place),
            parent=self.context(),
            resource=self.resource,
            attributes={**self._common(name.partition(" ")[0]), **attributes},
            kind=kind,
            status=self._status(error, "error.type" in attributes),
            start_time=_nanoseconds(times[0]),
            end_time=_nanoseconds(times[1]),
            instrumentation_scope=SCOPE,
        )

    def _common(self, operation: str) -> Attributes:
        task = self.trace.task
        return {
            "gen_ai.operation.name": operation,
            "gen_ai.conversation.id": task.thread_id,
            "gen_ai.agent.id": task.agent_id,
            "segue.task.id": task.task_id,
        }

    def _status(self, error: str, failed: bool) -> Status:
        """What failed says why only where content is asked for: an error may quote it."""
        return Status(StatusCode.ERROR, error if self.content else None) if failed else Status(StatusCode.UNSET)


def _calls(task: _Task) -> Iterator[ReadableSpan]:
    spans = {event.seq: _chat(task, event) for event in task.known.model_calls}
    for event in task.known.results:
        times = (event.timestamp - event.seconds, event.timestamp)
        attributes = {**_tool(event.name, *call_id(event)), **_place(event)}
        spans[event.seq] = _execute_tool(task, str(event.seq), times, attributes, event.arguments, event.result)
    yield from (spans[seq] for seq in sorted(spans))
    for call in task.trace.calls:
        if left := _left_open(call):
            attributes = _tool(call.name, call.scope, call.idx)
            yield _execute_tool(task, f"{call.scope}/{call.idx}", left, attributes, call.arguments, call.outcome or {})


def _left_open(call: Call) -> tuple[float, float] | None:
    """When a call ran that was under way as its task was cancelled, so that no event tells of its end."""
    if CallResult.of(call.outcome or {}).status is CallStatus.LEFT_OPEN:
        return call.started_at, call.finished_at or call.started_at
    return None


def _chat(task: _Task, event: ModelCalled) -> ReadableSpan:
    reply = event.reply
    attributes: Attributes = {
        "gen_ai.provider.name": _provider(event.model),
        "gen_ai.request.model": event.model,
        "gen_ai.usage.input_tokens": event.input,
        "gen_ai.usage.output_tokens": event.output,
        "segue.purpose": event.purpose,
        **_place(event),
    }
    if reason := reply.get("finish_reason"):
        attributes["gen_ai.response.finish_reasons"] = [reason]
    if event.cost is not None:
        attributes["segue.cost"] = event.cost
    if "error" in reply:
        attributes["error.type"] = "model_error"
    elif task.content:
        attributes["gen_ai.output.messages"] = _messages("assistant", *_parts(reply), finish_reason=reason or "stop")
    times = (event.timestamp - event.seconds, event.timestamp)
    return task.child(f"chat {event.model}", SpanKind.CLIENT, str(event.seq), times, attributes, reply.get("error", ""))


def _parts(reply: Mapping[str, Any]) -> Iterator[Attributes]:
    if reply.get("reasoning"):
        yield {"type": "reasoning", "content": reply["reasoning"]}
    if reply.get("text"):
        yield _text(reply["text"])
    for call in reply.get("tool_calls", ()):
        yield {"type": "tool_call", **{name: call.get(name) for name in ("id", "name", "arguments")}}


def _tool(name: str, scope: str, index: int) -> Attributes:
    return {
        "gen_ai.tool.name": name,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": f"{scope}/{index}",
    }


def _execute_tool(
    task: _Task,
    place: str,
    times: tuple[float, float],
    attributes: Attributes,
    arguments: Mapping[str, Any],
    result: Mapping[str, Any],
) -> ReadableSpan:
    called = CallResult.of(result)
    if called.unknown:
        attributes["error.type"] = "unknown_outcome"
    elif called.status is CallStatus.REJECTED:
        attributes["segue.tool.rejected"] = True
    elif not called.success:
        attributes["error.type"] = "tool_error"
    if task.content:
        attributes["gen_ai.tool.call.arguments"] = json.dumps(arguments, ensure_ascii=False)
        attributes["gen_ai.tool.call.result"] = json.dumps(result, ensure_ascii=False)
    name = f"execute_tool {attributes['gen_ai.tool.name']}"
    return task.child(name, SpanKind.INTERNAL, place, times, attributes, str(result.get("error", "")))


def _place(event: Event) -> Attributes:
    """The round and the step of the plan that an event belongs to."""
    place = {"segue.iteration": event.iteration, "segue.step.id": event.step_id}
    return {name: value for name, value in place.items() if value}


def _moment(event: Event) -> SpanEvent:
    reason = getattr(event, "reason", "")
    return SpanEvent(f"segue.{event.type}", {"reason": reason} if reason else {}, _nanoseconds(event.timestamp))


def _provider(model: str) -> str:
    """Who makes the model, by the name that Segue has for it; what speaks OpenAI's protocol counts as OpenAI."""
    if model == OFFLINE:
        return "segue"
    return "llama.cpp" if model.startswith("local:") else "openai"


def _text(content: str) -> Attributes:
    return {"type": "text", "content": content}


def _messages(role: str, *parts: Attributes, **fields: str) -> str:
    return json.dumps([{"role": role, "parts": parts, **fields}], ensure_ascii=False)


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e6) * 1000
