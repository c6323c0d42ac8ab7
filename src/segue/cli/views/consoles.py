"""What the command line writes to and reads from; none of it ever fails on a character."""

import io
import json
import sys
from typing import Any, TextIO

from rich.console import Console

from .sanitize import from_shell

PIPED_WIDTH = 400
"""Columns where no terminal sets a width: nothing is wrapped or cut then."""


def _console(stream: TextIO, *, stderr: bool) -> Console:
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    console = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = PIPED_WIDTH
    return console


def output() -> Console:
    """Standard output."""
    return _console(sys.stdout, stderr=False)


def complaints() -> Console:
    """Standard error."""
    return _console(sys.stderr, stderr=True)


def write_json(value: Any, indent: int | None = None) -> None:
    """Write a JSON value to standard output, in ASCII, so that no locale and no splitting into lines can harm it."""
    sys.stdout.write(json.dumps(value, indent=indent, default=str) + "\n")
    sys.stdout.flush()


def read_line(prompt: str) -> str:
    """Read a line from standard input; bytes that are no UTF-8 become �.

    Raises:
        EOFError, KeyboardInterrupt: the person leaves.
    """
    if isinstance(sys.stdin, io.TextIOWrapper) and sys.stdin.errors != "surrogateescape":
        sys.stdin.reconfigure(errors="surrogateescape")
    return from_shell(input(prompt))
