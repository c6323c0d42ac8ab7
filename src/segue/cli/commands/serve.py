"""Commands that serve: the HTTP service, and workers."""

import asyncio
import logging
import os
import signal
import sys
import threading
import time
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from ...core.environment import need_extra
from ...core.errors import ConfigurationError, listed
from ...core.logs import configure_logs
from .. import options
from ..exits import report_errors
from ..settings import DEFAULT_DATABASE, Settings
from ..views.console import print_note

if TYPE_CHECKING:
    from fastapi import FastAPI

    from ...app import App

DATABASE = "SEGUE_DATABASE"
AGENTS = "SEGUE_AGENTS"
RETENTION = "SEGUE_RETENTION"
REHEARSALS = "SEGUE_REHEARSALS"
BACKTESTS = "SEGUE_BACKTESTS"
URL_PATH = "SEGUE_URL_PATH"
GRAPHS = "SEGUE_GRAPHS"
METRICS = "PROMETHEUS_MULTIPROC_DIR"
SUPERVISOR = "SEGUE_SUPERVISOR"
"""The process id that workers live as long as."""
POLL_SECONDS = 1.0
WATCHABLE = "150"
"""Characters a second of the offline planner, so that people can watch, pause and steer it."""


Host = Annotated[str, typer.Option("--host", envvar="SEGUE_HOST", help="The address to listen on.")]
Port = Annotated[
    int,
    typer.Option("--port", envvar="SEGUE_PORT", min=0, max=65535, help="The port to listen on; 0 picks a free one."),
]
Retention = Annotated[
    str,
    typer.Option(
        "--retention",
        envvar="SEGUE_RETENTION",
        metavar="AGE|N",
        help="Delete old snapshots every hour: keep those of 30d, or the last N of each session.",
    ),
]
RequireModel = Annotated[
    bool, typer.Option("--require-model", help="Do not start if an agent would use the offline planner.")
]
Rehearsals = Annotated[
    str,
    typer.Option(
        "--rehearsals",
        envvar="SEGUE_REHEARSALS",
        metavar="FOLDER",
        help="Show the batches of `segue simulate` in this folder.",
    ),
]
Backtests = Annotated[
    str,
    typer.Option(
        "--backtests",
        envvar="SEGUE_BACKTESTS",
        metavar="FOLDER",
        help="Run backtests over HTTP and on the page, and keep them in this folder.",
    ),
]
UrlPath = Annotated[
    str,
    typer.Option(
        "--url-path",
        envvar="SEGUE_URL_PATH",
        metavar="PATH",
        help="The path that the service is served below, such as /agents; a proxy may strip it.",
    ),
]
Graphs = Annotated[
    str,
    typer.Option(
        "--graphs",
        envvar="SEGUE_GRAPHS",
        metavar="FILE",
        help="Serve the graphs of this langgraph.json through LangGraph's server API.",
    ),
]
Processes = Annotated[int, typer.Option("--workers", min=1, max=64, help="The number of worker processes.")]
Concurrency = Annotated[
    int, typer.Option("--concurrency", min=1, max=1000, help="The number of tasks that run at once.")
]
Grace = Annotated[
    float,
    typer.Option("--grace", min=0, metavar="SECONDS", help="How long a step may take to finish when the worker stops."),
]
MetricsPort = Annotated[
    int,
    typer.Option(
        "--metrics-port", min=0, max=65535, metavar="PORT", help="Serve Prometheus metrics at PORT, without a key."
    ),
]
MetricsHost = Annotated[
    str,
    typer.Option("--metrics-host", metavar="HOST", help="The address for metrics; 0.0.0.0 allows other machines."),
]


# HTTP.


def serve(
    host: Host = "127.0.0.1",
    port: Port = 8000,
    workers: Processes = 1,
    retention: Retention = "",
    rehearsals: Rehearsals = "",
    backtests: Backtests = "",
    url_path: UrlPath = "",
    graphs: Graphs = "",
    require_model: RequireModel = False,
    agents: options.Agents = "",
    db: options.Database = DEFAULT_DATABASE,
) -> None:
    """Serve the HTTP API and the page.

    Only this machine can connect unless SEGUE_API_KEY is set.
    """
    settings = Settings(db, agents)
    with report_errors():
        for variable, option, name in (
            (REHEARSALS, "--rehearsals", rehearsals),
            (BACKTESTS, "--backtests", backtests),
        ):
            if name:
                os.environ[variable] = _existing_folder(option, name)
        if url_path:
            os.environ[URL_PATH] = url_path
        if graphs:
            os.environ[GRAPHS] = str(Path(graphs).expanduser().resolve())
        serve_http(settings, host, port, workers, retention, require_model=require_model)


def serve_http(
    settings: Settings,
    host: str,
    port: int,
    workers: int,
    retention: str = "",
    *,
    require_model: bool = False,
) -> None:
    """Serve until a signal says to stop."""
    from ...models.build import OFFLINE_PACE
    from ...server import check_address, check_port, from_environment
    from ...server import serve as run

    if workers > 1 and settings.database == ":memory:":
        raise ConfigurationError("Several workers need a database that they share: name a file with --db.")
    if retention:
        os.environ[RETENTION] = retention
    server_settings = from_environment()
    check_address(host, server_settings.keys)
    check_port(host, port)
    if server_settings.graphs:
        from ...server.langgraph.graphs import load_sources

        load_sources(server_settings.graphs)  # a mistake shows now, not in each worker
    configure_logs()
    if port and sys.stderr.isatty():
        print_note(settings.say("serving", url=f"http://{host}:{port}"))
    asyncio.run(_try(settings, require_model))  # a mistake shows now, not in each worker
    os.environ[DATABASE] = settings.database
    os.environ.setdefault(OFFLINE_PACE, WATCHABLE)
    if settings.agents_file:
        os.environ[AGENTS] = settings.agents_file
    with ExitStack() as stack:
        if workers > 1:
            os.environ[SUPERVISOR] = str(os.getpid())
            if not os.environ.get(METRICS):
                os.environ[METRICS] = stack.enter_context(TemporaryDirectory(prefix="segue-metrics-"))
        run(server_settings, f"{__name__}:application", host, port, workers)


def _existing_folder(option: str, name: str) -> str:
    folder = Path(name).expanduser().resolve()
    if not folder.is_dir():
        raise ConfigurationError("There is no folder {folder}: {option} names one.", folder=folder, option=option)
    return str(folder)


async def _try(settings: Settings, require_model: bool) -> None:
    """Open the database, read the agents file and check the models' names once."""
    from ...core.models import OFFLINE

    async with settings.opened(serving=True) as app:
        for agent in app.agents.values():
            app.agents.check_model(agent)
        offline = [agent.agent_id for agent in app.agents.values() if app.agents.model_name(agent) == OFFLINE]
    if require_model and offline:
        raise ConfigurationError(
            "No model is configured for {agents}: set OPENAI_API_KEY or SEGUE_MODEL, or a model in the agents file.",
            agents=listed(offline),
        )


def _exit_with(supervisor: int) -> None:
    """Stop this worker when its supervisor is gone, so that the port is free for the next one."""
    while os.getppid() == supervisor:
        time.sleep(POLL_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)


def application() -> "FastAPI":
    """The service as the environment describes it: what each worker process makes for itself."""
    from ...server import create_app, from_environment

    configure_logs()
    if supervisor := os.environ.get(SUPERVISOR):
        threading.Thread(target=_exit_with, args=(int(supervisor),), name="supervisor", daemon=True).start()
    settings = Settings(os.environ[DATABASE], os.environ.get(AGENTS, ""))
    server_settings = from_environment(default_agent=settings.chosen_agent())
    return create_app(
        settings.database,
        server_settings,
        agents=settings.agents(),
        modes=settings.modes(),
        agents_file=settings.agents_path,
        notify=settings.receivers(),
        spend=settings.spend(),
    )


# Workers.


def worker(
    concurrency: Concurrency = 4,
    grace: Grace = 30.0,
    metrics_port: MetricsPort = 0,
    metrics_host: MetricsHost = "127.0.0.1",
    agents: options.Agents = "",
    db: options.Database = DEFAULT_DATABASE,
) -> None:
    """Start a worker for the tasks of a PostgreSQL database.

    Ctrl-C or SIGTERM hands its tasks over to the other workers; a second one stops them immediately.
    """
    settings = Settings(db, agents)
    with report_errors(settings):
        work(settings, concurrency, grace, metrics_host, metrics_port)


def work(settings: Settings, concurrency: int, grace: float, metrics_host: str, metrics_port: int) -> None:
    """Run tasks until a signal says to stop."""
    configure_logs(level=logging.WARNING)
    for name in ("procrastinate", "psycopg.pool"):  # their failures are reported here
        logging.getLogger(name).setLevel(logging.CRITICAL)
    if metrics_port:
        need_extra("segue worker --metrics-port", "serve", "prometheus_client")
    asyncio.run(_work(settings, concurrency, grace, metrics_host, metrics_port))


async def _work(settings: Settings, concurrency: int, grace: float, metrics_host: str, metrics_port: int) -> None:
    from ..interrupts import handling_signals

    async with settings.opened(max_running=concurrency, serving=True) as app:
        worker = app.worker(concurrency)
        with _metrics(app, metrics_host, metrics_port), handling_signals(worker.stop):
            print_note(settings.say("worker_ready", agents=", ".join(app.agents), n=concurrency))
            await worker.run(grace)
    print_note(settings.say("worker_stopped"))


def _metrics(app: "App", host: str, port: int) -> AbstractContextManager[object]:
    """Answer GET /metrics on a port, if one is named."""
    if not port:
        return nullcontext()
    from ...telemetry.metrics import Metrics

    return Metrics(app).serving(port, host)
