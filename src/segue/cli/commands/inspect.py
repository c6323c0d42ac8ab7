"""The read-only commands of `segue`."""

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...core.environment import need_extra
from ...core.errors import SegueError, UnknownThread
from ...core.task_status import ACTIVE
from .. import options
from ..command_lines import task_command
from ..exits import FAILED, USAGE, complain, remark, report_errors, sentence_of
from ..latest import find_session, find_task, named
from ..settings import DEFAULT_DATABASE, Settings
from ..views.consoles import output, write_json

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from ...app import App
    from ...core.agents import Agent
    from ...core.records import Json, Task, Thread
    from ...core.tools import Tool


def sessions(
    limit: Annotated[int, typer.Option(min=1, help="The maximum number of sessions.")] = 50,
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.JsonOfList = False,
) -> None:
    """List the sessions, most recently used first."""
    from ..views.tables import print_sessions

    settings = Settings(db)

    async def listed(opened: "App") -> "list[Json]":
        rows = await opened.sessions.list(limit)
        if len(rows) == limit and (more := await opened.sessions.count() - limit) > 0:
            remark(settings.say("more_sessions", n=more))
        return await _with_interruption(opened, settings, rows)

    rows = ask(settings, listed)
    write_json(rows, indent=2) if as_json else print_sessions(output(), rows, settings.language_for(""))


def tasks(
    agent: options.OfAgent = "",
    session: options.OfSession = "",
    limit: Annotated[int, typer.Option(min=1, help="The maximum number of tasks.")] = 50,
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.JsonOfList = False,
) -> None:
    """List the tasks of all sessions, newest first."""
    from ..views.tables import print_tasks

    settings = Settings(db)

    async def listed(opened: "App") -> "list[Json]":
        rows = await opened.tasks.list(agent or None, session or None, limit)
        if session and not rows and not await opened.tasks.newest(session):
            raise UnknownThread(session)
        if waiting := await opened.tasks.waiting_for_worker():
            remark(settings.say("waiting_for_worker", n=len(waiting)))
        return await _with_interruption(opened, settings, rows)

    rows = ask(settings, listed)
    write_json(rows, indent=2) if as_json else print_tasks(output(), rows, settings.language_for(""))


async def _with_interruption(opened: "App", settings: Settings, rows: "Sequence[Task | Thread]") -> "list[Json]":
    """The rows with `interrupted`, whether a task counts as running though its process is gone, and then a `hint`."""
    unfinished = await opened.tasks.resumable() if any(row.status in ACTIVE for row in rows) else ()
    gone = {each.task.thread_id: each.task.task_id for each in unfinished if each.interrupted}

    def interruption(row: "Task | Thread") -> "Json":
        task_id = gone.get(row.thread_id)
        if row.status not in ACTIVE or task_id is None or getattr(row, "task_id", task_id) != task_id:
            return {"interrupted": False}
        return {"interrupted": True, "hint": task_command(settings, "resume", task_id)}

    return [{**row.json(), **interruption(row)} for row in rows]


def history(
    session: options.AnySession = None,
    last: options.LastSession = False,
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.JsonOfList = False,
) -> None:
    """Print the messages of a session."""
    from ..dialog.hints import unfinished_hint
    from ..views.tables import print_history

    settings, name = Settings(db), named(session, last, "SESSION")

    async def read(opened: "App") -> "tuple[list[Json], list[str]]":
        found = await find_session(opened, name)
        return await opened.history(found), await unfinished_hint(opened, settings, found)

    messages, hints = ask(settings, read)
    write_json(messages, indent=2) if as_json else print_history(output(), messages, settings.language_for(""), hints)


def trace(
    task_id: options.TaskId = None,
    last: options.Last = False,
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.JsonOfList = False,
    otel: Annotated[
        bool, typer.Option("--otel", help="As OpenTelemetry's OTLP in JSON, for a collector's /v1/traces.")
    ] = False,
) -> None:
    """Print everything that a task did, as a tree."""
    from ..views.lines import signs_for
    from ..views.trace_tree import trace_tree

    settings, name = Settings(db), named(task_id, last)
    if otel:
        write_json(ask(settings, partial(_otlp, name)))
        return

    async def traced(opened: "App") -> "Json":
        found = await opened.tasks.trace(await find_task(opened, name))
        (task,) = await _with_interruption(opened, settings, [found.task])
        return {**found.json(), "task": task}

    found = ask(settings, traced)
    if as_json:
        write_json(found, indent=2)
    else:
        console = output()
        console.print(trace_tree(found, signs_for(console), settings.language_for(found["task"]["message"])))


async def _otlp(name: str, opened: "App") -> "Json":
    from ...telemetry.environment import EXPORTER

    need_extra("segue trace --otel", "otel", EXPORTER)
    from ...telemetry.trace_export import otlp_json

    return otlp_json(await opened.tasks.trace(await find_task(opened, name)))


def graph(
    name: Annotated[str, typer.Argument(help="react, direct, plan, chat, …, or a mode of the agents file.")],
    agents: options.MoreAgents = "",
) -> None:
    """Print a graph as Mermaid."""
    from importlib import import_module
    from pkgutil import iter_modules

    from ... import graphs
    from ...runtime.modes import mode_graphs

    known = sorted(module.name for module in iter_modules(graphs.__path__))
    with report_errors():
        own = mode_graphs(Settings(agents_file=agents).modes())
    if name not in (*known, *own):
        complain(Settings().say("no_graph", name=name, known=", ".join((*known, *own))))
        raise typer.Exit(USAGE)
    compiled = own[name] if name in own else import_module(f"segue.graphs.{name}").graph
    output().print(compiled.get_graph().draw_mermaid(), soft_wrap=True)


def modes(agents: options.MoreAgents = "", as_json: options.JsonOfList = False) -> None:
    """List the modes, including those of the agents file."""
    from ..views.tables import print_modes

    names = ask(Settings(":memory:", agents), _modes)
    write_json(names) if as_json else print_modes(output(), names, Settings().language_for(""))


async def _modes(opened: "App") -> list[str]:
    return opened.modes


def agents(agents: options.MoreAgents = "", as_json: options.JsonOfList = False) -> None:
    """List the agents, including those of the agents file."""
    from ...registry import EXAMPLES, served_tools
    from ..views.tables import print_agents

    with report_errors():
        found = [*EXAMPLES, *Settings(agents_file=agents).agents()]
        if as_json:
            write_json([_agent_row(agent) for agent in found], indent=2)
        else:
            print_agents(output(), found, Settings().language_for(""), asyncio.run(served_tools(found)))


def _agent_row(agent: "Agent") -> "Json":
    """An agent with its own tools and the names of its MCP servers, which are not connected."""
    from ..views.tables import own_tools

    model = None if agent.model is None else str(agent.model)
    described = {"agent": agent.agent_id, "mode": agent.mode, "model": model, "description": agent.description}
    return {**described, "tools": own_tools(agent), "mcp_servers": [server.name for server in agent.mcp]}


def tools(
    agent: Annotated[str, typer.Argument(metavar="[AGENT]", help="Only the tools of this agent.")] = "",
    agents: options.MoreAgents = "",
    as_json: options.JsonOfList = False,
) -> None:
    """List the tools of the agents, those of MCP servers included."""
    from ..views.tables import print_tools

    settings = Settings(agents_file=agents)
    with report_errors(settings):
        rows, problems = asyncio.run(_tools(settings, agent))
    write_json(rows, indent=2) if as_json else print_tools(output(), rows, settings.language_for(""))
    for problem in problems:
        complain(problem)
    raise typer.Exit(FAILED if problems else 0)


async def _tools(settings: Settings, agent: str) -> "tuple[list[Json], list[str]]":
    """The tools with their agents and marks, and why those of an agent cannot be listed."""
    from ...registry import Registry

    registry = Registry()
    rows: list[Json] = []
    problems: list[str] = []
    try:
        for each in settings.agents():
            registry.register(each)
        for found in [registry.agent(agent)] if agent else registry.values():
            try:
                await registry.prepare(found)
                rows += [_tool_row(found.agent_id, tool) for tool in registry.tools_for(found).values()]
            except SegueError as error:
                problems.append(f"{found.agent_id}: {sentence_of(error, settings)}")
    finally:
        await registry.close()
    return rows, problems


def _tool_row(agent_id: str, tool: "Tool") -> "Json":
    repeatable = ("read_only" if tool.read_only else "idempotent", tool.idempotent)
    marks = [mark for mark, is_set in (repeatable, ("needs_approval", tool.needs_approval)) if is_set]
    described = tool.spec["function"].get("description", "")
    return {"tool": tool.name, "agent": agent_id, "marks": marks, "description": described}


def doctor(
    agent: options.Agent = "",
    agents: options.Agents = "",
    model: options.Model = "",
    db: options.Database = DEFAULT_DATABASE,
) -> None:
    """Check the installation, the model, the database and the agents."""
    from .doctor import doctor as look_over

    raise typer.Exit(look_over(output(), Settings(db, agents, agent, model=model)))


def ask(settings: Settings, question: "Callable[[App], Awaitable[Any]]") -> Any:
    """Ask the app over a database that is there already."""

    async def asked() -> Any:
        async with settings.reopened() as opened:
            return await question(opened)

    with report_errors(settings):
        return asyncio.run(asked())
