"""Logs as JSON lines on standard error; messages are never logged."""

import logging
import re
import sys
from collections.abc import MutableMapping
from typing import Any, TextIO

import structlog

logger = logging.getLogger("segue.server")
"""The service's own; what an entry is about goes into `extra`."""

_SECRET = re.compile(r"(bearer\s+|api[_-]?key['\"]?\s*[=:]\s*['\"]?|\bsk-)[^\s'\",}]+", re.IGNORECASE)
_QUIET = ("httpx", "httpcore", "openai", "asyncio")


def configure_logs(stream: TextIO | None = None) -> None:
    """Send every log, the libraries' too, to `stream` (standard error), a JSON object a line."""
    processors: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        _without_colours,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _redact,
    ]
    rendering: list[Any] = [
        structlog.stdlib.ProcessorFormatter.remove_processors_meta,
        structlog.processors.JSONRenderer(),
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


def _redact(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Take out what looks like a key; a library's message may quote one."""
    for name, value in event.items():
        if isinstance(value, str):
            event[name] = _SECRET.sub(r"\1***", value)
    return event
