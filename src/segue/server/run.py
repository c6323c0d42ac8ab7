"""Running the service with uvicorn: one process, or several workers over one database."""

import signal
import sys
from collections.abc import Callable
from contextlib import suppress

import uvicorn
from starlette.types import ASGIApp
from uvicorn.supervisors import Multiprocess

from .logging import configure_logs
from .settings import ServerSettings, check_address

GRACE = 5
"""Seconds beyond those for draining, after which connections are cut."""


def serve(
    settings: ServerSettings, application: "str | Callable[[], ASGIApp]", host: str, port: int, workers: int
) -> None:
    """Serve until a signal says to stop. `application` makes the ASGI app; with several workers, by its import name.

    Raises:
        ConfigurationError: the address would be open to everybody.
    """
    check_address(host, settings.keys)
    configure_logs()
    config = uvicorn.Config(
        application,
        host=host,
        port=port,
        workers=workers,
        factory=True,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="on",
        timeout_graceful_shutdown=int(settings.drain_seconds) + GRACE,
    )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # what uvicorn raises again once all is closed
    if workers > 1:
        Multiprocess(config, sockets=[config.bind_socket()]).run()
    else:
        with suppress(KeyboardInterrupt):
            uvicorn.Server(config).run()
