"""`segue mcp`: the agents as an MCP server, and logins at the MCP servers that agents use."""

import asyncio
import sys
import threading
import webbrowser
from typing import TYPE_CHECKING, Annotated

import typer

from ...core.environment import need_extra
from ...core.errors import ConfigurationError, listed
from .. import options
from ..exits import report_errors
from ..settings import DEFAULT_DATABASE, Settings
from ..views.consoles import print_note

if TYPE_CHECKING:
    from ...core.agents import McpServer

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

    from ...mcp.agent_server import AgentServer

    if sys.stdin.isatty():
        print_note(settings.say("mcp_at_terminal"))
    async with settings.opened() as app, stdio_server() as (reading, writing):
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
    """The server of that name with a url.

    Raises:
        ConfigurationError: listing the ones there are.
    """
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
