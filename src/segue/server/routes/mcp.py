"""The route that begins a login at an MCP server."""

import asyncio
from typing import Any

from starlette.responses import RedirectResponse

from ...core.environment import need_extra
from ..errors import not_found
from .dependencies import ServiceDep, TenantDep, routes

router = routes("agents")


@router.get("/mcp/login/{name}", include_in_schema=False)
async def mcp_login(service: ServiceDep, _: TenantDep, name: str) -> RedirectResponse:
    """Send the browser to the authorization server, which sends it back to a port of this machine.

    Only a service without keys does so: its clients are people on this machine.
    """
    servers = {server.name: server for agent in service.agents.values() for server in agent.mcp if server.url}
    if service.settings.keys or name not in servers:
        raise not_found("mcp_server", name)
    need_extra("A login at an MCP server", "mcp", "mcp")
    from ...tools.adapters.mcp_login import login

    if former := service.logins.pop(name, None):
        former.cancel()
    link: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    task = service.logins[name] = asyncio.create_task(login(servers[name], link.set_result), name=f"login {name}")
    either: set[asyncio.Future[Any]] = {task, link}
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        task.result()
    task.add_done_callback(_retrieve_exception)
    return RedirectResponse(link.result())


def _retrieve_exception(task: asyncio.Task[None]) -> None:
    """A login that fails is described to the person's browser."""
    if not task.cancelled():
        task.exception()
