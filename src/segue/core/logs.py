"""The logs of commands that serve: text for people or a JSON object a line, without keys and values of variables."""

import json
import logging
import os
import re
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, TextIO

from .errors import ConfigurationError
from .variables import masked

request_id: ContextVar[str] = ContextVar("request_id", default="")
"""The id of the HTTP request that is answered; the server sets it."""

_KEY = re.compile(r"(bearer\s+|api[_-]?key['\"]?\s*[=:]\s*['\"]?|\bsk-)[^\s'\",}]+", re.IGNORECASE)
_QUIET = ("httpx", "httpcore", "openai", "asyncio")
_OWN = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName", "color_message"}
"""Attributes of a record that are not its `extra`; uvicorn adds the last one for terminals."""
_COLOURS = {"WARNING": "\x1b[33m", "ERROR": "\x1b[31m", "CRITICAL": "\x1b[31m"}


def configure_logs(stream: TextIO | None = None, level: int = logging.INFO) -> None:
    """Send every log to `stream`, which is standard error by default; `level` is that of other libraries."""
    is_terminal = (stream or sys.stderr).isatty()
    handler = logging.StreamHandler(stream) if stream else _StandardError()
    has_colours = is_terminal and not os.environ.get("NO_COLOR")
    handler.setFormatter(LogLines(is_json=_is_json(is_terminal), has_colours=has_colours))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.getLogger("segue").setLevel(logging.INFO)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("a2a").setLevel(logging.CRITICAL)  # its warnings and errors quote what clients send


def _is_json(is_terminal: bool) -> bool:
    asked = os.environ.get("SEGUE_LOG_FORMAT", "").strip()
    if asked not in ("", "text", "json"):
        raise ConfigurationError(
            "SEGUE_LOG_FORMAT is '{asked}': set it to text or json, or leave it out.", asked=asked[:40]
        )
    return not is_terminal if not asked else asked == "json"


class LogLines(logging.Formatter):
    """Writes a record, its `extra` and the id of its request."""

    def __init__(self, *, is_json: bool, has_colours: bool = False) -> None:
        super().__init__()
        self._is_json = is_json
        self._has_colours = has_colours

    def format(self, record: logging.LogRecord) -> str:
        event, when = record.getMessage(), datetime.fromtimestamp(record.created, UTC)
        trace = self.formatException(record.exc_info) if record.exc_info else ""
        extra = {name: value for name, value in vars(record).items() if name not in _OWN}
        if self._is_json:
            about = {
                **({"request_id": request_id.get()} if request_id.get() else {}),
                **extra,
                "level": record.levelname.lower(),
                "logger": record.name,
                "timestamp": when.isoformat().replace("+00:00", "Z"),
                "event": event,
                **({"exception": trace} if trace else {}),
            }
            return json.dumps({name: _redact(value) for name, value in about.items()}, default=_redact_repr)
        level, name = f"{record.levelname:<8}", "uvicorn" if record.name == "uvicorn.error" else record.name
        if self._has_colours and (colour := _COLOURS.get(record.levelname)):
            level = f"{colour}{level}\x1b[0m"
        fields = [f"{name}={value}" for name, value in extra.items() if value is not None]
        line = " ".join([f"{when.astimezone():%Y-%m-%d %H:%M:%S}", level, f"{name}: {event}", *fields])
        return str(_redact(f"{line}\n{trace}" if trace else line))


def _redact(value: Any) -> Any:
    """Take out what looks like a key, and values of an agents file's variables; a library's message may quote one."""
    return _KEY.sub(r"\1***", masked(value)) if isinstance(value, str) else value


def _redact_repr(value: Any) -> Any:
    return _redact(repr(value))


class _StandardError(logging.StreamHandler[TextIO]):
    """Writes to what is standard error at the time: the stream of one moment may be closed later."""

    @property
    def stream(self) -> TextIO:
        return sys.stderr

    @stream.setter
    def stream(self, stream: TextIO) -> None: ...
