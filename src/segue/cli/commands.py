"""The commands of `segue`: what each one takes, and who carries it out."""

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import options
from .consoles import output, write_json
from .exits import USAGE, complain, told_in_a_sentence
from .printable import from_shell
from .settings import DEFAULT_DATABASE, Settings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ..app import App

app = typer.Typer(
    name="segue",
    help="Talk with tool-using agents that do not lose work.\n\n"
    "Exit codes: 0 done, 1 failed, 2 the command line is wrong, 130 paused.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def main() -> None:
    """The entry point of the console script."""
    app(prog_name="segue")


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"segue {version('segue')}")
        raise typer.Exit


@app.callback()
def segue(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Take the options that stand before a command."""


@app.command()
def chat(
    message: Annotated[
        str | None, typer.Argument(help="The message, or - for standard input; without one you talk turn by turn.")
    ] = None,
    mode: options.Mode = "",
    session: options.Session = "",
    agent: options.Agent = "",
    agents: options.Agents = "",
    model: options.Model = "",
    user: options.User = "default",
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.Json = False,
) -> None:
    """Send one message and watch its task, or talk turn by turn."""
    settings = Settings(db, agents, agent, mode, model, user, session)
    if message is None and as_json:
        raise typer.BadParameter("it needs a MESSAGE, or - to read one from standard input", param_hint="--json")
    with told_in_a_sentence(settings):
        if message is None:
            from .interactive import interactive

            raise typer.Exit(interactive(settings))
        from .conversation import one_shot

        said = sys.stdin.buffer.read().decode("utf-8", "replace") if message == "-" else from_shell(message)
        raise typer.Exit(one_shot(settings, said, as_json=as_json))


@app.command()
def resume(
    task_id: options.TaskId,
    model: options.Model = "",
    agents: options.Agents = "",
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.Json = False,
) -> None:
    """Go on with a task that was paused, crashed or failed; with the model that it began with, unless told another."""
    with told_in_a_sentence():
        from .conversation import resumed

        raise typer.Exit(resumed(Settings(db, agents, model=model), task_id, as_json=as_json))


@app.command()
def cancel(task_id: options.TaskId, agents: options.Agents = "", db: options.Database = DEFAULT_DATABASE) -> None:
    """Give a task up that does not run; its session takes the next message."""
    _ask(Settings(db, agents), lambda opened: opened.cancel(task_id))
    typer.echo(f"Task {task_id} is cancelled.")


@app.command()
def threads(db: options.Database = DEFAULT_DATABASE, as_json: options.Json = False) -> None:
    """List the sessions."""
    from .tables import print_threads

    rows = _ask(Settings(db), lambda opened: opened.threads())
    write_json(rows, indent=2) if as_json else print_threads(output(), rows)


@app.command()
def tasks(
    agent: options.Agent = "",
    session: options.Session = "",
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 50,
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.Json = False,
) -> None:
    """List the tasks, the latest first."""
    from .tables import print_tasks

    rows = _ask(
        Settings(db), lambda opened: opened.tasks(agent_id=agent or None, session_id=session or None, limit=limit)
    )
    write_json(rows, indent=2) if as_json else print_tasks(output(), rows)


@app.command()
def history(
    session: Annotated[str, typer.Argument(help="The session.")],
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.Json = False,
) -> None:
    """Print what was said in a session."""
    from .tables import print_history

    messages = _ask(Settings(db), lambda opened: opened.history(session))
    write_json(messages, indent=2) if as_json else print_history(output(), messages)


@app.command()
def trace(task_id: options.TaskId, db: options.Database = DEFAULT_DATABASE, as_json: options.Json = False) -> None:
    """Draw everything that a task did as a tree."""
    from .lines import signs_for
    from .tree import trace_tree

    found = _ask(Settings(db), lambda opened: opened.trace(task_id))
    if as_json:
        write_json(found, indent=2)
    else:
        console = output()
        console.print(trace_tree(found, signs_for(console)))


@app.command()
def graph(name: Annotated[str, typer.Argument(help="react, direct, plan, chat, …")]) -> None:
    """Print a graph as Mermaid."""
    from importlib import import_module
    from pkgutil import iter_modules

    from .. import graphs

    known = sorted(module.name for module in iter_modules(graphs.__path__))
    if name not in known:
        complain(f"There is no graph «{name}»; use one of: {', '.join(known)}.")
        raise typer.Exit(USAGE)
    output().print(import_module(f"segue.graphs.{name}").graph.get_graph().draw_mermaid(), soft_wrap=True)


@app.command()
def modes(as_json: options.Json = False) -> None:
    """List the modes."""
    from .tables import print_modes

    names = _ask(Settings(":memory:"), _modes)
    write_json(names) if as_json else print_modes(output(), names)


@app.command()
def agents(agents: options.Agents = "") -> None:
    """List the agents."""
    from ..bootstrap import EXAMPLE
    from .tables import print_agents

    with told_in_a_sentence():
        print_agents(output(), [EXAMPLE, *Settings(agents_file=agents).agents()])


@app.command()
def doctor(
    agent: options.Agent = "",
    agents: options.Agents = "",
    model: options.Model = "",
    db: options.Database = DEFAULT_DATABASE,
) -> None:
    """Look over the installation, the model, the database and the agents."""
    from .doctor import doctor as look_over

    raise typer.Exit(look_over(output(), Settings(db, agents, agent, model=model)))


async def _modes(opened: "App") -> list[str]:
    return opened.modes


def _ask(settings: Settings, question: "Callable[[App], Awaitable[Any]]") -> Any:
    """Ask the app over a database that is there already."""

    async def asked() -> Any:
        async with settings.reopened() as opened:
            return await question(opened)

    with told_in_a_sentence():
        return asyncio.run(asked())
