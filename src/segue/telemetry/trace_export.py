"""The export of tasks' traces, beside the work: no task waits for it, or fails because of it."""

import asyncio
import base64
import logging
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from google.protobuf.json_format import MessageToDict
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from ..app import App
from ..core.errors import SegueError
from ..core.records import Json, Task, TaskTrace
from ..runtime.relay import Observer
from .environment import EXPORTER, wants_content
from .spans import spans_of, trace_id_of

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
        except Exception as error:  # noqa: BLE001 - an exporter may raise anything, and tasks go on
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
