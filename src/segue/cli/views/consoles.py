"""What the command line writes to and reads from; none of it ever fails on a character."""

import io
import json
import os
import re
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.text import Text

from .sanitize import INDENT, from_shell, indented, printable

PIPED_WIDTH = 400
"""Columns where no terminal sets a width: nothing is wrapped or cut then."""
PATIENCE = 3.0
"""Seconds after which it is said that standard input is read."""


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
    """Have standard output raise OutputFailed where it cannot be written.

    Raises:
        OutputFailed: it is closed already, or what was left cannot be written.
    """
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
            checked.flush()
    except OutputFailed:
        with suppress(OSError):  # let what is left go nowhere, so that the interpreter ends without a complaint
            os.dup2(os.open(os.devnull, os.O_WRONLY), checked.fileno())
        raise
    finally:
        sys.stdout = usual
        with suppress(OutputFailed):
            checked.detach()


class _TrimmedConsole(Console):
    """Ends no line with spaces where it is not a terminal: tables and trees are padded."""

    def print(self, *objects: Any, **options: Any) -> None:
        if self.is_terminal:
            return super().print(*objects, **options)
        with self.capture() as printed:
            super().print(*objects, **options)
        self.file.write(_PADDING.sub("\n", printed.get()))
        self.file.flush()
        return None


_PADDING = re.compile(r"(?<! ) +\n")


def _console(stream: TextIO, *, stderr: bool) -> Console:
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    console = _TrimmedConsole(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = PIPED_WIDTH
    return console


def output() -> Console:
    """Standard output."""
    return _console(sys.stdout, stderr=False)


def stderr_console() -> Console:
    """Standard error."""
    return _console(sys.stderr, stderr=True)


def progress() -> Console:
    """Where progress and hints are shown: a terminal, that of standard output or else of standard error, or nowhere."""
    shown = output()
    if not shown.is_terminal:
        shown = stderr_console()
        shown.quiet = not shown.is_terminal
    return shown


def print_prose(console: Console, text: RenderableType) -> None:
    """Print text that a terminal breaks between words; elsewhere a line stays a line."""
    console.print(text, soft_wrap=not console.is_terminal)


def print_said(console: Console, label: str, text: RenderableType, style: str = "") -> None:
    """Print what was said after a label; each further line is indented, also where a terminal breaks one."""
    if not isinstance(text, str):
        console.print(Text(label, style=style), Padding(text, (0, 0, 1, INDENT)), sep="\n")
        return
    body, indent = Text(printable(text)), max(INDENT, cell_len(label))
    lines = body.wrap(console, max(console.width - indent, 20)) if console.is_terminal else body.split(allow_blank=True)
    console.print(Text(label, style=style) + Text("\n" + " " * indent, style=style).join(lines), soft_wrap=True)


def print_error(sentence: str, *hints: str) -> None:
    """Write a sentence to standard error in red, and hints below it."""
    _write(Text(indented(sentence, 2), style="red"), hints)


def print_note(sentence: str, *hints: str) -> None:
    """Write to standard error what is no failure, and hints below it."""
    _write(Text(indented(sentence, 2), style="yellow"), hints)


def print_hints(*hints: str) -> None:
    """Write to standard error what can be done next."""
    for hint in hints:
        stderr_console().print(Text(indented(hint, 2)), soft_wrap=True)


def _write(sentence: Text, hints: tuple[str, ...]) -> None:
    print_prose(stderr_console(), sentence)
    print_hints(*hints)


def write_answer(text: str) -> None:
    """Write an answer to standard output as it is, without what a terminal would obey."""
    output().file.write(f"{printable(text).rstrip()}\n")
    sys.stdout.flush()


def write_json(value: Any, indent: int | None = None) -> None:
    """Write a JSON value to standard output, in ASCII, so that no locale and no splitting into lines can harm it."""
    sys.stdout.write(json.dumps(value, indent=indent, default=str) + "\n")
    sys.stdout.flush()


def piped_text(on_delay: Callable[[], None]) -> str:
    """What a pipe or a file gives to standard input; empty at a terminal. Calls `on_delay` if the pipe stays silent."""
    if sys.stdin is None or sys.stdin.closed or sys.stdin.isatty():
        return ""
    with suppress(OSError, ValueError):
        if not select.select([sys.stdin], [], [], PATIENCE)[0]:
            on_delay()
    return sys.stdin.buffer.read().decode("utf-8", "replace")


def read_line(prompt: str) -> str:
    """Read a line from standard input; bytes that are no UTF-8 become �.

    Raises:
        EOFError, KeyboardInterrupt: the person leaves.
    """
    if isinstance(sys.stdin, io.TextIOWrapper) and sys.stdin.errors != "surrogateescape":
        sys.stdin.reconfigure(errors="surrogateescape")
    return from_shell(input(prompt))


def discard_typed() -> None:
    """Discard what was typed at the terminal and not read yet."""
    try:
        import termios
    except ImportError:  # Windows
        return
    if sys.stdin.isatty():
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
