"""Exit codes, and Segue's errors as one sentence each."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.text import Text

from ..errors import InvalidMessage, SegueError, TaskUnfinished, UnknownAgent, UnknownMode, UnknownModel
from .consoles import complaints
from .printable import printable
from .settings import Settings

FAILED = 1
USAGE = 2
PAUSED = 130

_USAGE = (InvalidMessage, UnknownAgent, UnknownMode, UnknownModel)
"""What another command line would mend."""


def complain(sentence: str, *hints: str) -> None:
    """Write a sentence to standard error in red, and hints below it."""
    console = complaints()
    console.print(Text(printable(sentence), style="red"), soft_wrap=True)
    for hint in hints:
        console.print(Text(printable(hint)), soft_wrap=True)


def code_of(error: SegueError) -> int:
    return USAGE if isinstance(error, _USAGE) else FAILED


@contextmanager
def told_in_a_sentence(settings: Settings | None = None) -> Iterator[None]:
    """Turn Segue's own errors into a sentence and an exit code; anything else is a bug and keeps its traceback."""
    try:
        yield
    except SegueError as error:
        hints = []
        if isinstance(error, TaskUnfinished) and settings:
            hints = [settings.command_on(verb, error.task_id) for verb in ("resume", "cancel")]
        complain(str(error), *hints)
        raise typer.Exit(code_of(error)) from error
