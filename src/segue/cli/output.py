"""Standard output: its failures by name, and kept for what the command itself writes."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO


class OutputFailed(Exception):
    """Standard output cannot be written."""


class ReaderGone(OutputFailed):
    """Whoever reads standard output, such as `head`, has read enough."""


class _CheckedOutput(io.TextIOWrapper):
    """Names the failures of standard output, which libraries would take for others or swallow."""

    def write(self, text: str) -> int:
        with _failures_named():
            return super().write(text)

    def flush(self) -> None:
        with _failures_named():
            super().flush()


@contextmanager
def _failures_named() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise (ReaderGone if isinstance(error, BrokenPipeError) else OutputFailed)(error.strerror) from error


@contextmanager
def checked_output() -> Iterator[None]:
    """Have standard output raise OutputFailed where it cannot be written."""
    usual = sys.stdout
    if usual is None:
        raise OutputFailed("closed")
    if not isinstance(usual, io.TextIOWrapper):
        yield
        return
    sys.stdout = checked = _CheckedOutput(
        usual.buffer, encoding=usual.encoding, errors=usual.errors, line_buffering=usual.line_buffering
    )
    try:
        try:
            yield
        finally:
            standard_output().flush()
    except OutputFailed:
        with suppress(OSError):  # let what is left go nowhere, so that the interpreter ends without a complaint
            os.dup2(os.open(os.devnull, os.O_WRONLY), checked.fileno())
        raise
    finally:
        sys.stdout = usual
        _own.clear()
        with suppress(OutputFailed):
            checked.detach()


_own: list[TextIO] = []
"""Standard output, once it is kept for the command."""


def standard_output() -> TextIO:
    """What the command itself writes to."""
    return _own[0] if _own else sys.stdout


def keep_output() -> None:
    """Have what tools, their modules and their child processes print go to standard error, except at a terminal."""
    checked = sys.stdout
    if _own or not isinstance(checked, _CheckedOutput) or checked.isatty():
        return
    checked.flush()
    own = checked
    with suppress(OSError, ValueError):  # in tests it is no file
        descriptor = checked.fileno()
        kept = os.fdopen(os.dup(descriptor), "wb")
        os.dup2(2, descriptor)
        own = _CheckedOutput(kept, encoding=checked.encoding, errors=checked.errors)
    _own.append(own)
    sys.stdout = sys.stderr


def echo(text: str, *, err: bool = False, end: str = "\n") -> None:
    """Write a line to standard output, or to standard error."""
    stream = sys.stderr if err else standard_output()
    stream.write(f"{text}{end}")
    stream.flush()
