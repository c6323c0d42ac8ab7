"""The commands of `segue` that only look at what there is."""

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import options
from .consoles import output, write_json
from .exits import USAGE, complain, told_in_a_sentence
from .settings import DEFAULT_DATABASE, Settings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ..app import App


def threads(db: options.Database = DEFAULT_DATABASE, as_json: options.Json = False) -> None:
    """List the sessions."""
    from .tables import print_threads

    rows = ask(Settings(db), lambda opened: opened.threads())
    write_json(rows, indent=2) if as_json else print_threads(output(), rows)


def tasks(
    agent: options.Agent = "",
    session: options.Session = "",
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 50,
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.Json = False,
) -> None:
    """List the tasks, the latest first."""
    from .tables import print_tasks

    rows = ask(
        Settings(db), lambda opened: opened.tasks(agent_id=agent or None, session_id=session or None, limit=limit)
    )
    write_json(rows, indent=2) if as_json else print_tasks(output(), rows)


def history(
    session: Annotated[str, typer.Argument(help="The session.")],
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.Json = False,
) -> None:
    """Print what was said in a session."""
    from .tables import print_history

    messages = ask(Settings(db), lambda opened: opened.history(session))
    write_json(messages, indent=2) if as_json else print_history(output(), messages)


def trace(task_id: options.TaskId, db: options.Database = DEFAULT_DATABASE, as_json: options.Json = False) -> None:
    """Draw everything that a task did as a tree."""
    from .lines import signs_for
    from .tree import trace_tree

    async def traced(opened: "App") -> Any:
        return await opened.trace(await opened.find_task(task_id))

    found = ask(Settings(db), traced)
    if as_json:
        write_json(found, indent=2)
    else:
        console = output()
        console.print(trace_tree(found, signs_for(console)))


def graph(
    name: Annotated[str, typer.Argument(help="react, direct, plan, chat, …, or a mode of the agents file.")],
    agents: options.Agents = "",
) -> None:
    """Print a graph as Mermaid."""
    from importlib import import_module
    from pkgutil import iter_modules

    from .. import graphs
    from ..modes import mode_graphs

    known = sorted(module.name for module in iter_modules(graphs.__path__))
    with told_in_a_sentence():
        own = mode_graphs(Settings(agents_file=agents).modes())
    if name not in (*known, *own):
        complain(f"There is no graph «{name}»; use one of: {', '.join((*known, *own))}.")
        raise typer.Exit(USAGE)
    compiled = own[name] if name in own else import_module(f"segue.graphs.{name}").graph
    output().print(compiled.get_graph().draw_mermaid(), soft_wrap=True)


def modes(agents: options.Agents = "", as_json: options.Json = False) -> None:
    """List the modes, those of the agents file among them."""
    from .tables import print_modes

    names = ask(Settings(":memory:", agents), _modes)
    write_json(names) if as_json else print_modes(output(), names)


async def _modes(opened: "App") -> list[str]:
    return opened.modes


def agents(agents: options.Agents = "") -> None:
    """List the agents."""
    from ..bootstrap import EXAMPLES
    from .tables import print_agents

    with told_in_a_sentence():
        print_agents(output(), [*EXAMPLES, *Settings(agents_file=agents).agents()])


def doctor(
    agent: options.Agent = "",
    agents: options.Agents = "",
    model: options.Model = "",
    db: options.Database = DEFAULT_DATABASE,
) -> None:
    """Look over the installation, the model, the database and the agents."""
    from .doctor import doctor as look_over

    raise typer.Exit(look_over(output(), Settings(db, agents, agent, model=model)))


def ask(settings: Settings, question: "Callable[[App], Awaitable[Any]]") -> Any:
    """Ask the app over a database that is there already."""

    async def asked() -> Any:
        async with settings.reopened() as opened:
            return await question(opened)

    with told_in_a_sentence(settings):
        return asyncio.run(asked())
