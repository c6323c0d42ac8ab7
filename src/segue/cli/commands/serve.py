"""`segue serve`: the HTTP service over a database."""

import asyncio
import os
import signal
import threading
import time
from typing import TYPE_CHECKING

from ...core.environment import need_extra
from ...core.errors import ConfigurationError
from ..settings import Settings

if TYPE_CHECKING:
    from fastapi import FastAPI

DATABASE = "SEGUE_DATABASE"
AGENTS = "SEGUE_AGENTS"
RETENTION = "SEGUE_RETENTION"
SUPERVISOR = "SEGUE_SUPERVISOR"
"""The process id that workers live as long as."""
LOOK_EVERY = 1.0
NEEDED = ("fastapi", "uvicorn", "structlog")


def serve(settings: Settings, host: str, port: int, workers: int, retention: str = "") -> None:
    """Serve until a signal says to stop.

    Raises:
        MissingExtra: the extra is not installed.
        ConfigurationError: an address, a key or an agents file cannot be used.
        StorageError: the database cannot be used.
    """
    need_extra("segue serve", "serve", *NEEDED)
    from ...server import check_address, from_environment
    from ...server import serve as run

    if workers > 1 and settings.database == ":memory:":
        raise ConfigurationError("Several workers need a database that they share: name a file with --db.")
    asyncio.run(_try(settings))  # a mistake shows now, not in each worker
    if retention:
        os.environ[RETENTION] = retention
    server_settings = from_environment()
    check_address(host, server_settings.keys)
    os.environ[DATABASE] = settings.database
    if settings.agents_file:
        os.environ[AGENTS] = settings.agents_file
    if workers > 1:
        os.environ[SUPERVISOR] = str(os.getpid())
    run(server_settings, f"{__name__}:application", host, port, workers)


async def _try(settings: Settings) -> None:
    """Open the database and read the agents file once."""
    async with settings.opened():
        pass


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
    return create_app(settings.database, server_settings, agents=settings.agents(), modes=settings.modes())
