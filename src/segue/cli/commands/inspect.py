"""The read-only commands of `segue`."""

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from ...core.bounds import MOST_COUNT
from ...core.environment import need_extra
from ...core.errors import MissingExtra, SegueError, UnknownThread, listed
from ...core.task import ACTIVE
from .. import options
from ..exits import FAILED, USAGE, report_errors, sentence_of
from ..lookup import ask, find_session, find_task, named
from ..output import echo
from ..settings import DEFAULT_DATABASE, Settings, task_command
from ..views.console import output, print_error, print_note, write_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from ...app import App
    from ...core.agents import Agent
    from ...core.calls import Tool
    from ...core.records import Json, SessionFilter, Task, TaskTrace, Thread

    Interrupted = dict[str, str]


def sessions(
    limit: Annotated[int, typer.Option(min=1, max=MOST_COUNT, help="The maximum number of sessions.")] = 50,
    bots: Annotated[
        bool, typer.Option("--bots", help="Also list sessions of bots in simulated conversations.")
    ] = False,
    archived: Annotated[bool, typer.Option("--archived", help="List the archived sessions instead.")] = False,
    search: Annotated[str, typer.Option(metavar="TEXT", help="Search messages and answers for these words.")] = "",
    index: Annotated[bool, typer.Option("--index", help="Rebuild the search index.")] = False,
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.JsonOfList = False,
) -> None:
    """List the sessions, most recently used first."""
    from ...core.records import SessionFilter
    from ..views.tables import print_hits, print_sessions

    settings, which = Settings(db), SessionFilter(bots=bots, archived=archived)
    if index:
        ask(settings, lambda app: app.sessions.index())
        return echo(settings.say("indexed"))
    if search:
        hits = ask(settings, lambda app: app.sessions.search(search, limit=limit))
        return write_json([hit.json() for hit in hits], indent=2) if as_json else print_hits(output(), hits, settings)

    found, interrupted = ask(settings, partial(list_sessions, settings=settings, limit=limit, which=which))
    if as_json:
        rows = ({**each.json(), **_interruption(settings, interrupted.get(each.session_id))} for each in found)
        return write_json([*rows], indent=2)
    print_sessions(output(), found, interrupted, settings)


async def list_sessions(
    app: "App", settings: Settings, limit: int, which: "SessionFilter"
) -> "tuple[Sequence[Thread], Interrupted]":
    """The newest sessions, and the interrupted tasks of theirs; a note says how many more there are."""
    found = await app.sessions.list(limit, which)
    if len(found) == limit and (more := await app.sessions.count(which) - limit) > 0:
        print_note(settings.say("more_sessions", n=more))
    return found, await _interrupted(app, found)


def tasks(
    agent: options.OfAgent = "",
    session: options.OfSession = "",
    limit: Annotated[int, typer.Option(min=1, max=MOST_COUNT, help="The maximum number of tasks.")] = 50,
    agents: options.MoreAgents = "",
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.JsonOfList = False,
) -> None:
    """List the tasks of all sessions, newest first."""
    from ..views.tables import print_tasks

    settings = Settings(db, agents)

    async def listed(app: "App") -> "tuple[Sequence[Task], Interrupted]":
        found = await app.tasks.list(agent or None, session or None, limit)
        if session and not found and not await app.tasks.newest(session):
            raise UnknownThread(session)
        if waiting := await app.tasks.waiting_for_worker():
            print_note(settings.say("waiting_for_worker", n=len(waiting)))
        if pinned := await app.tasks.waiting_for_version():
            print_note(settings.say("waiting_for_version", n=len(pinned), versions=versions_of(pinned)))
        return found, await _interrupted(app, found)

    found, interrupted = ask(settings, listed)
    ids = {*interrupted.values()}
    if as_json:
        return write_json([_task_row(settings, task, task.task_id in ids) for task in found], indent=2)
    print_tasks(output(), found, ids, settings)


def versions_of(tasks: "Sequence[Task]") -> str:
    """The versions of agents that tasks have, as AGENT@VERSION."""
    return listed(dict.fromkeys(f"{task.agent_id}@{task.agent_version}" for task in tasks))


async def _interrupted(app: "App", rows: "Sequence[Task | Thread]") -> "Interrupted":
    """By session the task whose process ended while it ran; nothing is looked up if none of the rows is active."""
    unfinished = await app.tasks.resumable() if any(row.status in ACTIVE for row in rows) else ()
    interrupted = (each for each in unfinished if each.interrupted and each.status in ACTIVE)
    return {task.session_id: task.task_id for task in interrupted}


def _task_row(settings: Settings, task: "Task", interrupted: bool) -> "Json":
    return {**task.json(), **_interruption(settings, task.task_id if interrupted else None)}


def _interruption(settings: Settings, task_id: str | None) -> "Json":
    """Whether a task was interrupted, and the command that resumes it."""
    if task_id is None:
        return {"interrupted": False}
    return {"interrupted": True, "hint": task_command(settings, "resume", task_id)}


def history(
    session: options.AnySession = None,
    last: options.LastSession = False,
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.JsonOfList = False,
) -> None:
    """Print the messages of a session."""
    from ..hints import unfinished_hint
    from ..views.tables import print_history

    settings, name = Settings(db), named(session, last, "SESSION")

    async def read(app: "App") -> "tuple[Sequence[Json], list[str]]":
        found = await find_session(app, name)
        return await app.sessions.history(found), await unfinished_hint(app, settings, found)

    messages, hints = ask(settings, read)
    write_json(messages, indent=2) if as_json else print_history(output(), messages, settings.ui_language, hints)


def trace(
    task_id: options.TaskId = None,
    last: options.Last = False,
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.JsonOfList = False,
    otel: Annotated[
        bool, typer.Option("--otel", help="Print OpenTelemetry's OTLP as JSON, for a collector's /v1/traces.")
    ] = False,
) -> None:
    """Print all steps of a task as a tree."""
    settings, name = Settings(db), named(task_id, last)
    if otel:
        write_json(ask(settings, partial(_otlp, name)))
        return
    found, interrupted = ask(settings, partial(read_trace, name=name))
    if as_json:
        write_json({**found.json(), "task": _task_row(settings, found.task, interrupted)}, indent=2)
    else:
        print_trace(output(), found, settings, interrupted=interrupted)


async def read_trace(app: "App", name: str) -> "tuple[TaskTrace, bool]":
    """A task's trace, and whether the end of its process interrupted it."""
    found = await app.trace(await find_task(app, name))
    interrupted = await _interrupted(app, [found.task])
    return found, found.task.task_id in interrupted.values()


def print_trace(console: "Console", found: "TaskTrace", settings: Settings, *, interrupted: bool) -> None:
    from ..views.lines import symbols_for
    from ..views.task import trace_tree

    language = settings.language_for(found.task.message)
    console.print(trace_tree(found, symbols_for(console), language, interrupted=interrupted))


async def _otlp(name: str, app: "App") -> "Json":
    from ...telemetry import EXPORTER

    need_extra("segue trace --otel", "otel", EXPORTER)
    from ...telemetry.trace_export import otlp_json

    return otlp_json(await app.tasks.trace(await find_task(app, name)))


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
        print_error(Settings().say("no_graph", name=name, known=", ".join((*known, *own))))
        raise typer.Exit(USAGE)
    compiled = own[name] if name in own else import_module(f"segue.graphs.{name}").graph
    output().print(compiled.get_graph().draw_mermaid(), soft_wrap=True)


def modes(agents: options.MoreAgents = "", as_json: options.JsonOfList = False) -> None:
    """List the modes, including those of the agents file."""
    from ..views.tables import print_modes

    language = Settings().ui_language

    async def listed(app: "App") -> dict[str, str]:
        return {name: app.mode_description(name, language) for name in app.modes}

    found = ask(Settings(":memory:", agents), listed)
    write_json([*found]) if as_json else print_modes(output(), found, language)


def agents(agents: options.MoreAgents = "", as_json: options.JsonOfList = False) -> None:
    """List the agents: those of the agents file, or else the examples."""
    from ...registry import EXAMPLES, served_tools
    from ..views.tables import print_agents

    with report_errors():
        settings = Settings(agents_file=agents)
        found = settings.agents() or [*EXAMPLES]
        if modes := settings.modes():
            from ...runtime.modes import mode_graphs

            mode_graphs(modes)
        if as_json:
            write_json([_agent_row(agent) for agent in found], indent=2)
        else:
            print_agents(output(), found, Settings().ui_language, asyncio.run(served_tools(found)))


def _agent_row(agent: "Agent") -> "Json":
    """An agent with its own tools and the names of its MCP servers, which are not connected."""
    from ..views.tables import own_tools

    model = None if agent.model is None else str(agent.model)
    described = {"agent": agent.agent_id, "mode": agent.mode, "model": model, "description": agent.description}
    elsewhere = {"mcp_servers": [server.name for server in agent.mcp], "a2a": [remote.name for remote in agent.a2a]}
    return {**described, "tools": own_tools(agent), **elsewhere}


def tools(
    agent: Annotated[str, typer.Argument(metavar="[AGENT]", help="Only the tools of this agent.")] = "",
    agents: options.MoreAgents = "",
    as_json: options.JsonOfList = False,
) -> None:
    """List the agents' tools, including those of MCP servers."""
    from ..views.tables import print_tools

    settings = Settings(agents_file=agents)
    with report_errors(settings):
        found, problems, missing = asyncio.run(_tools(settings, agent))
    if as_json:
        write_json([_tool_row(owner, tool) for owner, tool in found], indent=2)
    else:
        print_tools(output(), found, settings.ui_language)
    for note in missing:
        print_note(note)
    for problem in problems:
        print_error(problem)
    raise typer.Exit(FAILED if problems else 0)


async def _tools(settings: Settings, agent: str) -> "tuple[list[tuple[str, Tool]], list[str], list[str]]":
    """The tools with their agents, why those of an agent cannot be listed, and which built-in agents lack an extra."""
    from ...registry import EXAMPLES, Registry

    given = settings.agents()
    registry = Registry(() if given else EXAMPLES)
    tools: list[tuple[str, Tool]] = []
    problems: list[str] = []
    missing: list[str] = []
    try:
        for each in given:
            registry.register(each)
        for found in [registry.agent(agent)] if agent else registry.values():
            try:
                await registry.prepare(found)
                tools += [(found.agent_id, tool) for tool in registry.tools_for(found).values()]
            except SegueError as error:
                is_optional = isinstance(error, MissingExtra) and found in EXAMPLES and not agent
                (missing if is_optional else problems).append(f"{found.agent_id}: {sentence_of(error, settings)}")
    finally:
        await registry.close()
    return tools, problems, missing


def _tool_row(agent_id: str, tool: "Tool") -> "Json":
    from ..views.tables import tool_description, tool_marks

    return {"tool": tool.name, "agent": agent_id, "marks": tool_marks(tool), "description": tool_description(tool)}


def doctor(
    agent: options.Agent = "",
    agents: options.Agents = "",
    model: options.Model = "",
    db: options.Database = DEFAULT_DATABASE,
) -> None:
    """Check the installation, model, database and agents."""
    from .doctor import doctor as look_over

    raise typer.Exit(look_over(output(), Settings(db, agents, agent, model=model)))
