"""Prometheus metrics of a process, and of the database that it uses."""

import asyncio
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, start_http_server
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

from ..app import App
from ..core.calls import CallResult
from ..core.errors import ConfigurationError, StorageError
from ..core.events import Event, ModelCalled, ToolResult
from ..core.records import Call, StatusTally, Task
from ..core.task import TaskStatus
from ..runtime.relay import Observer

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""Where the processes of one service keep their numbers, so that each can answer for all."""
OTHER = "other"
MOST_VALUES = 200
"""Values of a label; a model or a tool that is named beyond them counts as `other`."""
LONGEST_FIELD = 64
"""Characters of a field's name in a label."""
DATABASE_SECONDS = 5.0
"""How long a scrape waits for the database."""
_TOOL_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_MODEL_BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320)


class Metrics(Observer):
    """Counts what happens to the tasks of this process.

    With PROMETHEUS_MULTIPROC_DIR, `exposition` has the sums over all processes that share the folder.
    """

    def __init__(self, app: App) -> None:
        folder = os.environ.get(FOLDER, "")
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
        own = CollectorRegistry()
        self._takeovers = Counter(
            "segue_takeovers", "Sessions taken from a process that had not released them.", registry=own
        )
        self._unknown = Counter(
            "segue_unknown_outcomes", "Calls that may or may not have taken effect.", ("agent", "tool"), registry=own
        )
        self._tool_seconds = Histogram(
            "segue_tool_seconds",
            "Duration of tool calls; outcome is success, error or unknown.",
            ("agent", "tool", "outcome"),
            buckets=_TOOL_BUCKETS,
            registry=own,
        )
        self._model_seconds = Histogram(
            "segue_model_seconds", "Duration of model calls.", ("agent", "model"), buckets=_MODEL_BUCKETS, registry=own
        )
        self._tokens = Counter(
            "segue_model_tokens", "Tokens, as the endpoint counted them.", ("agent", "model", "direction"), registry=own
        )
        self.open_streams = Gauge(
            "segue_open_streams", "Streams that clients have open.", multiprocess_mode="livesum", registry=own
        )
        self._ignored = Counter(
            "segue_ignored_fields",
            "Fields, and tools and items of other types, that requests of OpenAI's clients had and that were left out.",
            ("api", "field"),
            registry=own,
        )
        self._values: dict[str, set[str]] = {}
        self._registry = CollectorRegistry()
        self._registry.register(_Processes(folder) if folder else _Own(own))
        self._registry.register(_Database(app))
        app.tasks.observe(self)

    def session_taken_over(self) -> None:
        self._takeovers.inc()

    def stored(self, task: Task, event: Event) -> None:
        agent = self._bounded("agent", task.agent_id)
        match event:
            case ToolResult():
                tool, outcome = self._bounded("tool", event.name), CallResult.of(event.result).outcome
                self._tool_seconds.labels(agent, tool, outcome).observe(event.seconds)
                if outcome == "unknown":
                    self._unknown.labels(agent, tool).inc()
            case ModelCalled():
                model = self._bounded("model", event.model)
                self._model_seconds.labels(agent, model).observe(event.seconds)
                self._tokens.labels(agent, model, "input").inc(event.input)
                self._tokens.labels(agent, model, "output").inc(event.output)

    def left_open(self, task: Task, call: Call) -> None:
        if CallResult.of(call.outcome or {}).unknown:
            self._unknown.labels(self._bounded("agent", task.agent_id), self._bounded("tool", call.name)).inc()

    def note_ignored(self, api: str, names: Iterable[str]) -> None:
        """Count what a request had that is left out: a field, or as `field.type` an object in it."""
        for name in names:
            self._ignored.labels(api, self._bounded("field", name[:LONGEST_FIELD])).inc()

    def _bounded(self, label: str, value: str) -> str:
        """The value, while the label has few: a client may name any model, and a model any tool."""
        known = self._values.setdefault(label, set())
        if value not in known and len(known) >= MOST_VALUES:
            return OTHER
        known.add(value)
        return value

    async def exposition(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return await asyncio.to_thread(generate_latest, self._registry)

    @contextmanager
    def serving(self, port: int, host: str = "127.0.0.1") -> Iterator[int]:
        """Answer GET /metrics on a port (0 picks one), for a process that serves nothing else; gives the port."""
        try:
            server, thread = start_http_server(port, host, self._registry)
        except OSError as error:
            raise ConfigurationError(
                "Metrics cannot be served on port {port} of {host}: {reason}. Choose another port.",
                port=port,
                host=host,
                reason=error.strerror or error,
            ) from error
        try:
            yield server.server_port
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


class _Own(Collector):
    """The numbers of this process, without the times at which the client library created each of them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._own = registry

    def collect(self) -> Iterable[Metric]:
        for metric in self._own.collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric


class _Processes(Collector):
    """The numbers of all processes that share a folder."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._collector = MultiProcessCollector(None, folder)

    def collect(self) -> Iterable[Metric]:
        for pid in {int(path.stem.rpartition("_")[2]) for path in self._folder.glob("gauge_live*_*.db")}:
            if Path("/proc/self").exists() and not Path(f"/proc/{pid}").exists():
                mark_process_dead(pid, str(self._folder))
        collected: Iterable[Metric] = self._collector.collect()
        return collected


class _Database(Collector):
    """The tally of tasks, read in the app's event loop from the thread of a scrape."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._loop = asyncio.get_running_loop()

    def collect(self) -> Iterable[Metric]:
        up = GaugeMetricFamily("segue_database_up", "Whether the database can be read.")
        try:
            asking = asyncio.run_coroutine_threadsafe(self._app.tasks.tally(), self._loop)
            found = {row.status: row for row in asking.result(DATABASE_SECONDS)}
        except (StorageError, TimeoutError):
            up.add_metric((), 0)
            return [up]
        up.add_metric((), 1)
        return [up, _tasks(found), _oldest(found)]


def _tasks(found: dict[TaskStatus, StatusTally]) -> Metric:
    family = GaugeMetricFamily("segue_tasks", "Tasks in the database.", labels=("status",))
    for status in TaskStatus:
        family.add_metric((str(status),), found[status].tasks if status in found else 0)
    return family


def _oldest(found: dict[TaskStatus, StatusTally]) -> Metric:
    meaning = (
        "How long the oldest task has been queued (pending) or waited for a person (waiting); 0 where there is none."
    )
    family = GaugeMetricFamily("segue_oldest_task_seconds", meaning, labels=("status",))
    for status in (TaskStatus.PENDING, TaskStatus.WAITING):
        age = time.time() - found[status].oldest if status in found else 0.0
        family.add_metric((str(status),), max(age, 0.0))
    return family
