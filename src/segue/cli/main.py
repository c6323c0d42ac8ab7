"""The command line: its commands, by section of `segue --help`."""

import gc
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from ..core.actor import TERMINAL, acting
from .commands import inspect, rewind, serve, sessions, start, tasks
from .commands.audit import audit
from .commands.backtest import backtest, rollout
from .commands.chaos import chaos
from .commands.demo import demo
from .commands.preferences import memory, permissions, preferences
from .commands.record import record, replay
from .commands.schedules import notifications, schedules
from .commands.simulate import report, simulate, workflows
from .commands.start import mcp
from .commands.usage import usage
from .exits import EXIT_CODES, OutputGroup

SECTIONS: Mapping[str, Sequence[str]] = {
    "Start": ("demo", "init", "chat", "run", "doctor"),
    "Tasks": ("waiting", "answer", "pause", "resume", "cancel", "event", "spawn", "rate", "schedules"),
    "Read": ("sessions", "tasks", "history", "trace", "timeline", "diff", "usage", "audit"),
    "Go back": ("fork", "edit", "undo"),
    "Sessions and databases": ("export", "import", "copy", "backup", "restore", "prune", "recover", "title", "delete"),
    "Agents and settings": ("agents", "tools", "modes", "graph", "preferences", "permissions", "memory"),
    "Rehearse and test": ("simulate", "workflows", "report", "record", "replay", "backtest", "chaos"),
    "Serve": ("serve", "worker", "rollout", "mcp", "notifications"),
}
"""The commands of each section."""


WHOLE = 1000
"""Characters of a command's description: it is wrapped and never cut."""


class SectionedGroup(OutputGroup):
    """Lists its commands by section."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        width = max(map(len, self.commands))
        for title, names in SECTIONS.items():
            listed = [(name, self.commands[name]) for name in names]
            about = [(name.ljust(width), one.get_short_help_str(WHOLE)) for name, one in listed]
            with formatter.section(title):
                formatter.write_dl(about)


app = typer.Typer(
    name="segue",
    cls=SectionedGroup,
    help=f"Chat with durable agents.\n\nExit codes: {EXIT_CODES}.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

GC_THRESHOLD = 10_000
"""New objects before a garbage collection."""
GC_STARTUP = 500_000
"""The same for the first one: a server creates 370,000 that stay. What tasks leave adds to them."""


def main() -> None:
    """The entry point of the console script."""
    gc.set_threshold(GC_STARTUP)
    gc.callbacks.append(_after_collection)
    try:
        app(prog_name="segue")
    finally:
        if "duckdb" in sys.modules:  # it reports objects that are not collected as leaked
            gc.callbacks[:] = [each for each in gc.callbacks if each is not _after_collection]
            gc.unfreeze()
        else:
            gc.freeze()  # otherwise the exit begins with a collection of everything that was imported


def _after_collection(phase: str, _: Mapping[str, int]) -> None:
    """After the first collection, collect at the usual threshold, and leave out what the imports created."""
    if phase == "stop":
        gc.callbacks.remove(_after_collection)
        gc.freeze()
        gc.set_threshold(GC_THRESHOLD)


def _print_version(requested: bool) -> None:
    if requested:
        from importlib.metadata import version

        typer.echo(f"segue {version('segue')}")
        raise typer.Exit


def _user() -> str:
    """The name of the person at the operating system, whatever the environment says."""
    try:
        import pwd
    except ImportError:  # Windows
        return os.getlogin()
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # in a container, say
        return str(os.getuid())


@app.callback()
def segue(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Take the options before a command."""
    context.with_resource(acting(f"{TERMINAL}:{_user()}", None))


for command in (
    demo,
    start.init,
    start.chat,
    start.run,
    inspect.doctor,
    tasks.waiting,
    tasks.pause,
    tasks.resume,
    tasks.cancel,
    tasks.event,
    tasks.spawn,
    tasks.rate,
    inspect.sessions,
    inspect.tasks,
    inspect.history,
    inspect.trace,
    rewind.timeline,
    rewind.diff,
    usage,
    audit,
    rewind.fork,
    rewind.edit,
    rewind.undo,
    sessions.export,
    sessions.copy,
    sessions.backup,
    sessions.restore,
    sessions.prune,
    sessions.recover,
    sessions.title,
    sessions.delete,
    inspect.agents,
    inspect.tools,
    inspect.modes,
    inspect.graph,
    preferences,
    simulate,
    workflows,
    report,
    record,
    replay,
    backtest,
    chaos,
    serve.serve,
    serve.worker,
    rollout,
    schedules,
    notifications,
):
    app.command()(command)
app.command(cls=tasks.AnswerCommand)(tasks.answer)
app.command("import")(sessions.import_)
app.command("threads", hidden=True)(inspect.sessions)
app.add_typer(memory)
app.add_typer(permissions)
app.add_typer(mcp)
