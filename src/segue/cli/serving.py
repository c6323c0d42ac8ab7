"""`segue serve`: the HTTP service over a database."""

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ..errors import ConfigurationError, MissingExtra
from .settings import Settings

if TYPE_CHECKING:
    from fastapi import FastAPI

DATABASE = "SEGUE_DATABASE"
AGENTS = "SEGUE_AGENTS"
NEEDED = ("fastapi", "uvicorn", "structlog")


def serve(settings: Settings, host: str, port: int, workers: int) -> None:
    """Serve until a signal says to stop.

    Raises:
        MissingExtra: the extra is not installed.
        ConfigurationError: an address, a key or an agents file cannot be used.
    """
    if not all(find_spec(name) for name in NEEDED):
        raise MissingExtra("segue serve", "serve")
    from ..server import check_address, from_environment
    from ..server import serve as run

    if workers > 1 and settings.database == ":memory:":
        raise ConfigurationError("Several workers need a database that they share: name a file with --db.")
    settings.agents()  # a mistake in the file shows now, not in each worker
    told = from_environment()
    check_address(host, told.keys)
    os.environ[DATABASE] = settings.database
    if settings.agents_file:
        os.environ[AGENTS] = settings.agents_file
    run(told, f"{__name__}:application", host, port, workers)


def application() -> "FastAPI":
    """The service as the environment describes it: what each worker process makes for itself."""
    from ..server import configure_logs, create_app, from_environment

    configure_logs()
    settings = Settings(os.environ[DATABASE], os.environ.get(AGENTS, ""))
    told = from_environment(default_agent=settings.chosen_agent())
    return create_app(settings.database, told, agents=settings.agents(), modes=settings.modes())
