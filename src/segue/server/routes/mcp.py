"""The route that begins a login at an MCP server."""

import asyncio
from functools import partial
from typing import Annotated, Any

from fastapi import Header
from starlette.responses import RedirectResponse

from ...core.environment import need_extra
from ..errors import Problem, not_found
from .dependencies import ServiceDep, TenantDep, routes

router = routes("agents")


@router.get("/mcp/login/{name}", include_in_schema=False)
async def mcp_login(
    service: ServiceDep, _: TenantDep, name: str, sec_fetch_site: Annotated[str, Header()] = "none"
) -> RedirectResponse:
    """Send the browser to the authorization server, which sends it back to a port of this machine.

    Only a service without keys does so: its clients are people on this machine, who open the link themselves or on
    its own page. A login that is under way continues.
    """
    if sec_fetch_site not in ("none", "same-origin"):
        raise Problem(403, "WrongOrigin")
    servers = {server.name: server for agent in service.agents.values() for server in agent.mcp if server.url}
    if service.settings.keys or name not in servers:
        raise not_found("mcp_server", name)
    need_extra("A login at an MCP server", "mcp", "mcp")
    from ...tools.adapters.mcp_login import login

    if name not in service.logins:
        link: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(login(servers[name], partial(_show, link)), name=f"login {name}")
        service.logins[name] = task, link
        task.add_done_callback(lambda _: service.logins.pop(name))
        task.add_done_callback(_retrieve_exception)
    task, link = service.logins[name]
    either: set[asyncio.Future[Any]] = {task, link}
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    if not link.done():
        task.result()
    return RedirectResponse(link.result())


def _show(link: asyncio.Future[str], address: str) -> None:
    """Give the browsers that wait the address; they keep it if the server asks for a second login."""
    if not link.done():
        link.set_result(address)


def _retrieve_exception(task: asyncio.Task[None]) -> None:
    """A login that fails is described to the person's browser."""
    if not task.cancelled():
        task.exception()
