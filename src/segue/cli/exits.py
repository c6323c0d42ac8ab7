"""Exit codes, and Segue's errors as one sentence each."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from ..core.errors import (
    AmbiguousTask,
    ConfigurationError,
    DamagedSession,
    DatabaseDamaged,
    InvalidAnswer,
    InvalidMessage,
    MissingExtra,
    MissingKey,
    NotADatabase,
    NothingStored,
    SegueError,
    ToolServerUnavailable,
    UnknownAgent,
    UnknownSchedule,
    UnknownSnapshot,
    UnknownTask,
    UnknownThread,
)
from ..prompts.catalogue import error_text
from .output import OutputFailed, ReaderGone, checked_output
from .settings import Settings, doctor_command, places, task_command
from .views.console import print_error

if TYPE_CHECKING:
    from ..testing.chaos.run import Chaos, ChaosOptions


FAILED = 1
USAGE = 2
WAITING = 3
PAUSED = 130
READER_GONE = 141
"""As a program that SIGPIPE ended, which shells and `set -o pipefail` know."""
EXIT_CODES = (
    "0 done, 1 failed, cancelled, or a key or package is missing, 2 an invalid option, message, file, agent, "
    "mode, model, session or task, 3 waiting for an answer, 130 paused"
)

WORKING = ("chat", "run", "resume", "answer", "demo")
"""Commands that run a task."""

_USAGE = (
    AmbiguousTask,
    ConfigurationError,
    InvalidAnswer,
    InvalidMessage,
    NothingStored,
    UnknownSchedule,
    UnknownSnapshot,
    UnknownTask,
    UnknownThread,
)
"""What another command line, or another agents file, would correct."""
_MISSING = (MissingExtra, MissingKey, ToolServerUnavailable)
"""What would not."""


def code_of(error: SegueError) -> int:
    return USAGE if isinstance(error, _USAGE) and not isinstance(error, _MISSING) else FAILED


def sentence_of(error: SegueError, settings: Settings | None = None) -> str:
    """The error's sentence in the terminal's language."""
    return error_text(error, (settings or Settings()).ui_language)


def _hints(error: SegueError, settings: Settings) -> list[str]:
    if isinstance(error, DamagedSession):
        return [task_command(settings, "recover", error.session_id)]
    if isinstance(error, DatabaseDamaged) and not isinstance(error, NotADatabase):
        return [settings.say("see_doctor", command=doctor_command(settings))]
    if isinstance(error, UnknownAgent) and not settings.agents_file:
        return [settings.say("give_agents_file")]
    return []


class OutputGroup(TyperGroup):
    """Commands that end with a sentence where standard output is closed or its disk is full.

    One that only lists ends without a word where its reader has read enough, as in `segue tasks | head`.
    """

    command = ""
    """The one that was called."""

    def resolve_command(self, *given: Any) -> Any:
        resolved = super().resolve_command(*given)
        self.command = resolved[0] or ""
        return resolved

    def main(self, *given: Any, **options: Any) -> Any:
        self.command = ""
        try:
            with checked_output():
                return super().main(*given, **options)
        except OutputFailed as error:
            if isinstance(error, ReaderGone) and self.command not in WORKING:
                raise SystemExit(READER_GONE) from error
            settings = Settings()
            hints = [settings.say("task_is_paused")] if self.command in WORKING else []
            print_error(settings.say("output_failed", why=error), *hints)
            raise SystemExit(FAILED) from error


@contextmanager
def report_errors(settings: Settings | None = None) -> Iterator[None]:
    """Turn Segue's own errors into a sentence and an exit code; anything else is a bug and keeps its traceback."""
    try:
        yield
    except SegueError as error:
        print_error(sentence_of(error, settings), *(_hints(error, settings) if settings else ()))
        raise typer.Exit(code_of(error)) from error


# A hunt as the command and the fixture of pytest prepare it.


async def prepared(
    settings: Settings, sessions: Sequence[str], scenarios: Sequence[str], given: "ChaosOptions"
) -> "Chaos":
    """Read the sessions of the database, and play the scenarios, which need none."""
    from ..core.errors import ConfigurationError
    from ..testing.chaos.processes import hosts_of, refusing, with_addresses
    from ..testing.chaos.run import prepare

    if not given.agents:
        raise ConfigurationError("Name the agents file whose tools to run with --agents.")
    if not sessions and not scenarios:
        raise ConfigurationError("Name sessions, or scenarios with --scenarios.")
    with refusing([*with_addresses(hosts_of(given.refused, given.agents))]):
        if sessions:
            async with settings.reading() as app:
                return await prepare(app, sessions, scenarios, given, places(settings))
        async with Settings(":memory:", settings.agents_file).opened() as app:
            return await prepare(app, sessions, scenarios, given, ["--agents", settings.agents_file])
