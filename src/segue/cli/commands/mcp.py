"""`segue mcp`: the agents as tools of an MCP server on standard input and output."""

import asyncio

from ...core.environment import need_extra
from ..settings import Settings


def serve_stdio(settings: Settings) -> None:
    """Serve until the client closes standard input; what runs then is paused.

    Raises:
        MissingExtra: the extra is not installed.
        ConfigurationError: an agents file cannot be used.
        StorageError: the database cannot be used.
    """
    need_extra("segue mcp", "mcp", "mcp")
    asyncio.run(_serve(settings))


async def _serve(settings: Settings) -> None:
    from mcp.server.stdio import stdio_server

    from ...mcp.agent_server import AgentServer

    async with settings.opened() as app, stdio_server() as (reading, writing):
        server = AgentServer(app).server
        await server.run(reading, writing, server.create_initialization_options())
