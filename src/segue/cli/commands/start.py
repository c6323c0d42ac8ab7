"""Commands that begin: init, chat, run and mcp."""

import asyncio
import re
import shlex
import sys
import threading
import webbrowser
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...core.environment import need_extra
from ...core.errors import ConfigurationError, listed
from ...prompts.catalogue import Language, joined
from .. import options
from ..exits import report_errors
from ..lookup import continued
from ..output import echo
from ..settings import DEFAULT_DATABASE, Settings
from ..views.console import from_shell, piped_text, print_note
from .schedules import At, Every, Missed, Overlap, Timezone, schedule_message

if TYPE_CHECKING:
    from ...core.agents import McpServer


# `segue mcp`: the agents as an MCP server, and logins at the MCP servers that agents use.

Name = Annotated[str, typer.Argument(metavar="NAME", help="The server's name in the agents file.")]
NoBrowser = Annotated[bool, typer.Option("--no-browser", help="Only print the link.")]

mcp = typer.Typer(
    name="mcp",
    help="Serve the agents over MCP, or log in to an MCP server.\n\n"
    "`segue mcp` serves on standard input and output; each agent is a tool. `segue serve` serves them at /mcp.",
    invoke_without_command=True,
    rich_markup_mode=None,
)


@mcp.callback()
def serve_stdio(context: typer.Context, agents: options.Agents = "", db: options.Database = DEFAULT_DATABASE) -> None:
    """Serve the agents over MCP, or log in to an MCP server."""
    if context.invoked_subcommand is None:
        settings = Settings(db, agents)
        with report_errors(settings):
            need_extra("segue mcp", "mcp", "mcp")
            asyncio.run(_serve_stdio(settings))


async def _serve_stdio(settings: Settings) -> None:
    from mcp.server.stdio import stdio_server

    from ...mcp import AgentServer

    if sys.stdin.isatty():
        print_note(settings.say("mcp_at_terminal"))
    async with stdio_server() as (reading, writing), settings.opened() as app:
        server = AgentServer(app).server
        await server.run(reading, writing, server.create_initialization_options())


@mcp.command()
def login(name: Name, agents: options.MoreAgents = "", no_browser: NoBrowser = False) -> None:
    """Log in to an MCP server with OAuth, in the browser."""
    settings = Settings(agents_file=agents)

    def show(link: str) -> None:
        print_note(settings.say("mcp_open_link"), link)
        if not no_browser:
            threading.Thread(target=webbrowser.open, args=(link,), daemon=True).start()  # one in the terminal blocks

    with report_errors(settings):
        need_extra("segue mcp login", "mcp", "mcp")
        from ...tools.adapters.mcp_login import login as log_in

        asyncio.run(log_in(_server(settings, name), show))
        print_note(settings.say("mcp_logged_in", name=name))


@mcp.command()
def logout(name: Name, agents: options.MoreAgents = "") -> None:
    """Delete the stored login at an MCP server."""
    settings = Settings(agents_file=agents)
    with report_errors(settings):
        need_extra("segue mcp logout", "mcp", "mcp")
        from ...tools.adapters.mcp_login import LoginFile

        removed = LoginFile(_server(settings, name)).remove()
        print_note(settings.say("mcp_logged_out" if removed else "mcp_no_login", name=name))


def _server(settings: Settings, name: str) -> "McpServer":
    """The server of that name with a url."""
    servers = {server.name: server for agent in settings.agents() for server in agent.mcp if server.url}
    if not servers:
        raise ConfigurationError(
            "No agent has an MCP server with a url: name the agents file that has one with --agents.",
        )
    if name not in servers:
        raise ConfigurationError(
            "The agents file has no MCP server '{name}' with a url; use one of: {known}.",
            name=name,
            known=listed(servers),
        )
    return servers[name]


# Commands that begin: init, chat and run.

PROJECT = ("agents.toml", "shop_tools.py", "test_shop.py")
DATA_AGENT = "data"
LIFECYCLE = "lifecycle"
Folder = Annotated[Path, typer.Argument(metavar="[FOLDER]", help="The folder; created if missing.")]


def init(folder: Folder = Path()) -> None:
    """Create an agents file with two tools and a test."""
    settings = Settings()
    with report_errors(settings):
        _write_project(folder, settings.ui_language)
    echo(settings.say("project_written", files=joined((str(folder / name) for name in PROJECT), settings.ui_language)))
    if folder.resolve() != Path.cwd():
        echo(f"  cd {shlex.quote(str(folder))}")
    for message in ("order_message", "refund_message"):
        echo(f'  segue chat "{settings.say(message)}"')
    echo(f"  python {PROJECT[-1]}")


def _write_project(folder: Path, language: Language) -> None:
    """Copy the project's files, in this language, into a folder."""
    from importlib.resources import files

    written_in = ["zh"] if language == "zh" else []
    for name in PROJECT:
        if (folder / name).exists():
            raise ConfigurationError(
                "The file {file} already exists: name another folder, as in `segue init my-agents`.", file=folder / name
            )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in PROJECT:
            text = files("segue.cli").joinpath("project", *written_in, name).read_text(encoding="utf-8")
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(
            "The folder {folder} cannot be written: {error}.", folder=folder, error=error.strerror
        ) from error


@options.with_options_of(options.MessageOptions)
def chat(
    message: Annotated[
        str | None,
        typer.Argument(
            metavar="MESSAGE", help="The message; piped input is appended. Without either the chat is interactive."
        ),
    ] = None,
    mode: options.Mode = "",
    interactive: Annotated[
        bool,
        typer.Option(
            "--interactive", help="Chat interactively, one message per line, even if standard input is not a terminal."
        ),
    ] = False,
    files: options.MessageFiles = None,
    memory_files: options.MemoryFiles = None,
    ask_user: options.AskUser = None,
    review_plan: options.ReviewPlan = None,
    at: At = "",
    every: Every = "",
    timezone: Timezone = "",
    overlap: Overlap = None,
    missed: Missed = None,
    *,
    shared: options.MessageOptions,
) -> None:
    """Send a message, now or later, or start an interactive chat.

    With --at or --every the message is sent later: see `segue schedules`.
    """
    settings = replace(continued(shared.settings(mode)), memory_files=options.by_name(memory_files or ()))
    asked = {"ask_user": ask_user, "review_plan": review_plan}
    asks = {name: value for name, value in asked.items() if value is not None}
    if asks and shared.steer:
        hint = f"--{next(iter(asks)).replace('_', '-')}"
        raise typer.BadParameter("it does not go with --steer: an unfinished task keeps its own", param_hint=hint)
    settings = replace(settings, asks=asks)
    given = {"at": at, "every": every, "timezone": timezone, "overlap": overlap, "missed": missed}
    times = {name: value for name, value in given.items() if value}
    with report_errors(settings):
        if interactive or (message is None and sys.stdin.isatty()):
            _check_interactive(message, files, shared, times)
            from .chat import converse

            raise typer.Exit(converse(settings))
        from ..dialog import one_shot

        settings = replace(settings, files=tuple(map(str, files or ())))
        text = _read_message(settings, message)
        if times:
            return schedule_message(
                settings, text, times | ({"steer": True} if shared.steer else {}), as_json=shared.as_json
            )
        code = one_shot(settings, text, as_json=shared.as_json, steer=shared.steer, files=settings.files)
        raise typer.Exit(code)


def _check_interactive(
    message: str | None, files: Sequence[Path] | None, shared: options.MessageOptions, times: Mapping[str, str]
) -> None:
    """Refuse a message, and options that need one."""
    if message is not None:
        raise typer.BadParameter("it takes no MESSAGE", param_hint="--interactive")
    needing = {"--json": shared.as_json, "--steer": shared.steer, **{f"--{name}": True for name in times}}
    for option, is_given in needing.items():
        if is_given:
            raise typer.BadParameter("it needs a MESSAGE", param_hint=option)
    if files:
        raise typer.BadParameter("it needs a MESSAGE; in an interactive chat type /file PATH", param_hint="--file")


@options.with_options_of(options.MessageOptions)
def run(
    text: Annotated[str, typer.Argument(metavar="GOAL", help="The goal; piped input is appended.")],
    file: options.Files = None,
    *,
    shared: options.MessageOptions,
) -> None:
    """Break a goal down into subtasks and run them.

    Ctrl-C pauses the task; `segue resume` continues it.
    """
    settings = replace(continued(shared.settings()), mode=LIFECYCLE, verb="run")
    with report_errors(settings):
        from ..dialog import one_shot

        goal = _read_message(settings, text)
        if file:
            given = tuple(map(str, file))
            agents = settings.agents()
            reading = [agent.agent_id for agent in agents if DATA_AGENT in agent.tools]
            default = reading[0] if reading else "" if agents else DATA_AGENT  # "" is the first of the file
            settings = replace(settings, agent=settings.agent or default, files=given, message=goal)
            goal = _with_names(settings, goal, _copied(file))
        raise typer.Exit(one_shot(settings, goal, as_json=shared.as_json, steer=shared.steer))


def _read_message(settings: Settings, given: str | None) -> str:
    """The given message with piped input appended, or either; - stands for piped input alone."""
    piped = piped_text(lambda: print_note(settings.say("reading_input")))
    message = "" if given in (None, "-") else from_shell(given or "")
    return f"{message.rstrip()}\n\n{piped}" if message.strip() and piped.strip() else message or piped


def _copied(files: Sequence[Path]) -> dict[str, str]:
    """Copy the files into the data folder; maps the name there to the original one."""
    from unicodedata import normalize

    from ...tools.data.sources import DataFolder, import_file, need_duckdb

    need_duckdb()
    folder = DataFolder.of().path
    return {import_file(file, folder): normalize("NFC", file.name) for file in files}


def _with_names(settings: Settings, text: str, copied: dict[str, str]) -> str:
    """The text with the files' names in the data folder; names that it does not mention are added."""
    from ...prompts.catalogue import language_of, terminal_text

    for name, given in copied.items():
        if name.casefold() != given.casefold():
            print_note(settings.say("file_renamed", given=given, name=name))
            if given not in copied:
                text = name.join(_mention(given).split(text))
    missing = [name for name in copied if not _mention(name).search(text)]
    return (
        f"{text.rstrip()}\n\n{terminal_text('files', language_of(text), names=', '.join(missing))}" if missing else text
    )


def _mention(name: str) -> re.Pattern[str]:
    """The name in a text, unless it is part of another name."""
    return re.compile(rf"(?<![A-Za-z0-9_.-]){re.escape(name)}(?![A-Za-z0-9_-])", re.IGNORECASE)
