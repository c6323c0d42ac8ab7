"""The export of tasks' traces, beside the work: no task waits for it, or fails because of it."""

import asyncio
import base64
import json
import logging
import os
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from importlib.metadata import version
from typing import Any

from google.protobuf.json_format import MessageToDict
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import Event as SpanEvent
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.status import Status, StatusCode

from ..app import App
from ..core.calls import CallResult, CallStatus
from ..core.errors import SegueError
from ..core.events import Event, ModelCalled
from ..core.models import OFFLINE, is_local
from ..core.records import Call, Json, Task, TaskTrace
from ..core.task import OPEN, TaskStatus
from ..runtime.relay import Observer
from ..runtime.reply import Projection, project
from . import EXPORTER, wants_content

Attributes = dict[str, Any]
SCOPE = InstrumentationScope("segue", version("segue"))
TASK_EVENTS = frozenset(
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
            events=[_span_event(event) for event in events if event.type in TASK_EVENTS],
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
            "gen_ai.conversation.id": task.session_id,
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
        attributes = {**_tool(event.name, event.scope, event.index), **_place(event)}
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
    if event.is_refused:
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


def _span_event(event: Event) -> SpanEvent:
    reason = getattr(event, "reason", "")
    return SpanEvent(f"segue.{event.type}", {"reason": reason} if reason else {}, _nanoseconds(event.timestamp))


def _provider(model: str) -> str:
    """Who makes the model, by the name that Segue has for it; what speaks OpenAI's protocol counts as OpenAI."""
    if model == OFFLINE:
        return "segue"
    return "llama.cpp" if is_local(model) else "openai"


def _text(content: str) -> Attributes:
    return {"type": "text", "content": content}


def _messages(role: str, *parts: Attributes, **fields: str) -> str:
    return json.dumps([{"role": role, "parts": parts, **fields}], ensure_ascii=False)


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e6) * 1000


logger = logging.getLogger(__name__)

MOST_WAITING = 1000
"""Tasks whose traces wait for the collector; beyond them the one that waits longest is left out."""
RETRY_SECONDS = 5.0
CLOSE_SECONDS = 2.0
"""How long closing the app waits for the collector."""
THREAD = "segue trace export"
LATER = "`segue trace TASK --otel` gives any trace later."
UNREACHABLE = "Traces cannot be exported: %s Tasks go on, and the export is tried again. " + LATER
NOT_EXPORTED = "Traces that were not exported: %d. %s " + LATER


class TraceExport(Observer):
    """Exports the trace of each task that ends here, and what there is of it when it pauses or waits.

    `exporter` is any of OpenTelemetry's; it is called from a thread.
    """

    def __init__(self, app: App, exporter: SpanExporter, *, content: bool = False) -> None:
        self._app = app
        self._exporter = exporter
        self._content = content
        self._resource, self._sampler = resource(), TracerProvider(shutdown_on_exit=False).sampler
        self._waiting: dict[str, None] = {}
        self._news = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._closing = asyncio.Event()
        self._problem = ""
        self._library = _LogFilter()
        logging.getLogger(EXPORTER).addFilter(self._library)
        self._exporting = asyncio.create_task(self._export_all(), name=THREAD)
        app.tasks.observe(self)

    def stopped(self, task: Task) -> None:
        sampled = self._sampler.should_sample(None, trace_id_of(task.task_id), "invoke_agent").decision.is_sampled()
        if sampled:
            self._add(task.task_id)

    def _add(self, task_id: str) -> None:
        self._waiting.pop(task_id, None)
        self._waiting[task_id] = None
        if len(self._waiting) > MOST_WAITING:
            del self._waiting[next(iter(self._waiting))]
        self._idle.clear()
        self._news.set()

    async def _export_all(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            while self._waiting:
                task_id = next(iter(self._waiting))
                del self._waiting[task_id]
                if await self._export(task_id):
                    continue
                self._waiting = {task_id: None, **self._waiting}
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._closing.wait(), RETRY_SECONDS)
                if self._closing.is_set():
                    break
            self._idle.set()

    async def _export(self, task_id: str) -> bool:
        """Whether the trace was exported, or is not there any more."""
        try:
            trace = await self._app.tasks.trace(task_id)
        except SegueError as error:  # its session was deleted, or is damaged
            logger.info("The trace of task %s cannot be exported: %s", task_id, error)
            return True
        problem = await _in_thread(lambda: self._send(trace))
        if problem and not self._problem:
            logger.warning(UNREACHABLE, problem)
        elif self._problem and not problem:
            logger.info("Traces are exported again.")
        self._problem = problem
        return not problem

    def _send(self, trace: TaskTrace) -> str:
        """Export the spans; returns why that failed, or an empty text."""
        done = self._exporter.export(spans_of(trace, self._resource, content=self._content))
        return "" if done is SpanExportResult.SUCCESS else self._library.last or "The exporter failed."

    async def close(self) -> None:
        self._closing.set()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), CLOSE_SECONDS)
        left = len(self._waiting) + (not self._idle.is_set())
        if left:
            logger.warning(NOT_EXPORTED, left, self._problem or "The collector does not answer.")
        self._exporting.cancel()
        await asyncio.gather(self._exporting, return_exceptions=True)
        with suppress(TimeoutError):
            await asyncio.wait_for(_in_thread(self._shut_down), CLOSE_SECONDS)
        if not left:  # else its last attempt is still to fail
            logging.getLogger(EXPORTER).removeFilter(self._library)

    def _shut_down(self) -> str:
        self._exporter.shutdown()
        return ""


class _LogFilter(logging.Filter):
    """Drops what OpenTelemetry logs of each attempt: the export logs a failure once."""

    last = ""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.threadName != THREAD:
            return True
        self.last = record.getMessage()
        return False


def resource() -> Resource:
    """What the spans come from: OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES, with `segue` as the default name."""
    found = Resource.create()
    if str(found.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        found = found.merge(Resource({SERVICE_NAME: "segue"}))
    return found


async def _in_thread(work: Callable[[], str]) -> str:
    """What the work returns, or the error that it raises; its thread ends with the process at the latest."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[str] = loop.create_future()

    def finish(outcome: str) -> None:
        if not done.cancelled():
            done.set_result(outcome)

    def run() -> None:
        try:
            outcome = work()
        except Exception as error:  # noqa: BLE001 - an exporter may raise anything, and tasks continue
            outcome = f"{type(error).__name__}: {error}."
        with suppress(RuntimeError):  # the loop closed meanwhile
            loop.call_soon_threadsafe(finish, outcome)

    threading.Thread(target=run, name=THREAD, daemon=True).start()
    return await done


_IDS = ("traceId", "spanId", "parentSpanId")


def otlp_json(trace: TaskTrace) -> Json:
    """The body that a collector takes at /v1/traces; messages are in it where the environment asks for content."""
    spans = spans_of(trace, resource(), content=wants_content(os.environ))
    document: Json = _with_hexadecimal_ids(MessageToDict(encode_spans(spans), use_integers_for_enums=True))
    return document


def _with_hexadecimal_ids(value: Any) -> Any:
    """OTLP writes ids in hexadecimal, unlike the other bytes of protobuf's JSON."""
    if isinstance(value, list):
        return [_with_hexadecimal_ids(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: base64.b64decode(item).hex() if name in _IDS else _with_hexadecimal_ids(item)
        for name, item in value.items()
    }
