"""`segue serve`: the HTTP service over a database."""

import asyncio
import os
import signal
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from ...core.environment import need_extra
from ...core.errors import ConfigurationError, listed
from ...core.models import OFFLINE
from ...models.build import OFFLINE_PACE
from ..settings import Settings

if TYPE_CHECKING:
    from fastapi import FastAPI

DATABASE = "SEGUE_DATABASE"
AGENTS = "SEGUE_AGENTS"
RETENTION = "SEGUE_RETENTION"
REHEARSALS = "SEGUE_REHEARSALS"
METRICS = "PROMETHEUS_MULTIPROC_DIR"
SUPERVISOR = "SEGUE_SUPERVISOR"
"""The process id that workers live as long as."""
LOOK_EVERY = 1.0
WATCHABLE = "150"
"""Characters a second of the offline planner, so that people can watch, pause and steer it."""
NEEDED = ("ag_ui", "fastapi", "uvicorn", "structlog", "markdown_it", "nh3", "prometheus_client")


def serve(
    settings: Settings,
    host: str,
    port: int,
    workers: int,
    retention: str = "",
    rehearsals: str = "",
    *,
    require_model: bool = False,
) -> None:
    """Serve until a signal says to stop.

    Raises:
        MissingExtra: the extra is not installed.
        ConfigurationError: an address, a key, a model or an agents file cannot be used.
        StorageError: the database cannot be used.
    """
    need_extra("segue serve", "serve", *NEEDED)
    from ...server import check_address, check_port, configure_logs, from_environment
    from ...server import serve as run

    if workers > 1 and settings.database == ":memory:":
        raise ConfigurationError("Several workers need a database that they share: name a file with --db.")
    if retention:
        os.environ[RETENTION] = retention
    if rehearsals:
        os.environ[REHEARSALS] = _existing_folder(rehearsals)
    server_settings = from_environment()
    check_address(host, server_settings.keys)
    check_port(host, port)
    configure_logs()
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


def _existing_folder(name: str) -> str:
    folder = Path(name).expanduser().resolve()
    if not folder.is_dir():
        raise ConfigurationError(
            "There is no folder {folder}: --rehearsals names the folder of batches.", folder=folder
        )
    return str(folder)


async def _try(settings: Settings, require_model: bool) -> None:
    """Open the database, read the agents file and check the models' names once."""
    async with settings.opened(serving=True) as app:
        for agent in app.agents.values():
            app.agents.check_model(agent)
        offline = [agent.agent_id for agent in app.agents.values() if app.agents.model_name(agent) == OFFLINE]
    if require_model and offline:
        raise ConfigurationError(
            "No model is configured for {agents}: set OPENAI_API_KEY or SEGUE_MODEL, or a model in the agents file.",
            agents=listed(offline),
        )


def _leave_with(supervisor: int) -> None:
    """Stop this worker when its supervisor is gone, so that the port is free for the next one."""
    while os.getppid() == supervisor:
        time.sleep(LOOK_EVERY)
    os.kill(os.getpid(), signal.SIGTERM)


def application() -> "FastAPI":
    """The service as the environment describes it: what each worker process makes for itself."""
    from ...server import configure_logs, create_app, from_environment

    configure_logs()
    if supervisor := os.environ.get(SUPERVISOR):
        threading.Thread(target=_leave_with, args=(int(supervisor),), name="supervisor", daemon=True).start()
    settings = Settings(os.environ[DATABASE], os.environ.get(AGENTS, ""))
    server_settings = from_environment(default_agent=settings.chosen_agent())
    return create_app(
        settings.database,
        server_settings,
        agents=settings.agents(),
        modes=settings.modes(),
        agents_file=settings.agents_path,
    )
