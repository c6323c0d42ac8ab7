"""The uvicorn server: one process, or several workers over one database, and its logs."""

import asyncio
import logging
import os
import re
import signal
import sys
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

import structlog
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.auto import AutoHTTPProtocol
from uvicorn.supervisors import Multiprocess

from ..core.environment import log_format
from ..core.variables import masked
from .settings import ServerSettings, check_address

# Logs on standard error; messages are never logged.

logger = logging.getLogger("segue.server")
"""The service's own; what an entry is about goes into `extra`."""

_SECRET = re.compile(r"(bearer\s+|api[_-]?key['\"]?\s*[=:]\s*['\"]?|\bsk-)[^\s'\",}]+", re.IGNORECASE)
_QUIET = ("httpx", "httpcore", "openai", "asyncio")


def configure_logs(stream: TextIO | None = None) -> None:
    """Send every log, the libraries' too, to `stream` (standard error): as text at a terminal, else as JSON lines.

    Raises:
        ConfigurationError: SEGUE_LOG_FORMAT is no format.
    """
    is_terminal = (stream or sys.stderr).isatty()
    is_json = log_format(os.environ, is_terminal=is_terminal) == "json"
    processors: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        _without_colours,
        *(() if is_json else (_shortened,)),
        structlog.processors.TimeStamper(fmt="iso" if is_json else "%H:%M:%S", utc=is_json),
        structlog.processors.format_exc_info,
        _redact,
    ]
    has_colours = is_terminal and not os.environ.get("NO_COLOR")
    text = structlog.dev.ConsoleRenderer(colors=has_colours, exception_formatter=structlog.dev.plain_traceback)
    rendering: list[Any] = [
        structlog.stdlib.ProcessorFormatter.remove_processors_meta,
        structlog.processors.JSONRenderer() if is_json else text,
    ]
    handler = logging.StreamHandler(stream) if stream else _StandardError()
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=processors, processors=rendering))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("a2a").setLevel(logging.CRITICAL)  # its warnings and errors quote what clients send


class _StandardError(logging.StreamHandler[TextIO]):
    """Writes to what is standard error at the time: the stream of one moment may be closed later."""

    @property
    def stream(self) -> TextIO:
        return sys.stderr

    @stream.setter
    def stream(self, stream: TextIO) -> None: ...


def _without_colours(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Take out the copy of the message that uvicorn adds for terminals."""
    event.pop("color_message", None)
    return event


def _shortened(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Take out what a person at a terminal does not read: ids of requests, empty values, a misleading logger's name."""
    event.pop("request_id", None)
    if event.get("logger") == "uvicorn.error":
        event["logger"] = "uvicorn"
    return {name: value for name, value in event.items() if value is not None}


def _redact(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Take out what looks like a key, and values of an agents file's variables; a library's message may quote one."""
    for name, value in event.items():
        if isinstance(value, str):
            event[name] = _SECRET.sub(r"\1***", masked(value))
    return event


# The uvicorn server: one process, or several workers over one database.

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
    """Serve until a signal says to stop. `application` makes the ASGI app; with several workers, by its import name.

    Raises:
        ConfigurationError: the address would be open to everybody.
    """
    check_address(host, settings.keys)
    configure_logs()
    config = uvicorn_config(settings, application, host=host, port=port, workers=workers, factory=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # what uvicorn raises again once all is closed
    if workers > 1:
        Multiprocess(config, sockets=[config.bind_socket()]).run()
    else:
        with suppress(KeyboardInterrupt):
            uvicorn.Server(config).run()
