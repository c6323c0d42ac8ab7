"""The uvicorn server: one process, or several workers over one database."""

import asyncio
import logging
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.auto import AutoHTTPProtocol
from uvicorn.supervisors import Multiprocess

from ..core.logs import configure_logs
from .settings import ServerSettings, check_address

logger = logging.getLogger("segue.server")
"""The service's own; what an entry is about goes into `extra`; messages are never logged."""


if TYPE_CHECKING:
    from uvicorn.protocols.http.h11_impl import H11Protocol as HTTPProtocol
    from uvicorn.protocols.http.h11_impl import RequestResponseCycle
else:
    HTTPProtocol = AutoHTTPProtocol

GRACE = 5
"""Seconds beyond those for draining, after which connections are closed."""
WORKER_SECONDS = 60
"""A worker that does not answer its parent for so long is replaced: on a busy machine it may take long to start."""


class PromptProtocol(HTTPProtocol):
    """HTTP that closes a connection whose next request's headers do not arrive in time; uvicorn waits for ever."""

    def __init__(self, *arguments: Any, header_seconds: float, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._header_seconds = header_seconds
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)  # type: ignore[arg-type]
        self._watch()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, without the blanks after its value, which httptools leaves and which are no part of it."""
        super().on_header(name, value.strip(b" \t"))  # type: ignore[misc]

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._unwatch()

    def _watch(self) -> None:
        """Run the deadline while headers are awaited; further bytes do not extend it."""
        if self._responding:
            self._unwatch()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(self._header_seconds, self._close)

    def _unwatch(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _close(self) -> None:
        self._deadline = None
        if not self.transport.is_closing() and not self._responding:
            self.transport.close()

    @property
    def _responding(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle  # None until the first request, whatever its annotation says
        return cycle is not None and not cycle.response_complete


def uvicorn_config(
    settings: ServerSettings, application: "str | ASGIApp | Callable[[], ASGIApp]", **options: Any
) -> uvicorn.Config:
    """How uvicorn serves the application: its logs are ours, and connections are limited."""
    return uvicorn.Config(
        application,
        http=partial(PromptProtocol, header_seconds=settings.header_seconds),  # type: ignore[arg-type]
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="on",
        limit_concurrency=settings.connections,
        timeout_graceful_shutdown=int(settings.drain_seconds) + GRACE,
        timeout_worker_healthcheck=WORKER_SECONDS,
        **options,
    )


def serve(
    settings: ServerSettings, application: "str | Callable[[], ASGIApp]", host: str, port: int, workers: int
) -> None:
    """Serve until a signal says to stop. `application` makes the ASGI app; with several workers, by its import name."""
    check_address(host, settings.keys)
    configure_logs()
    config = uvicorn_config(settings, application, host=host, port=port, workers=workers, factory=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # what uvicorn raises again once all is closed
    if workers > 1:
        Multiprocess(config, sockets=[config.bind_socket()]).run()
    else:
        with suppress(KeyboardInterrupt):
            uvicorn.Server(config).run()
