"""The agents as tools of an MCP server over streamable HTTP, and the routes of a client's MCP logins."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import FastAPI, Header
from starlette.responses import RedirectResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ..core.actor import acting
from ..core.environment import need_extra
from ..core.errors import MissingExtra, SegueError
from ..prompts.catalogue import render_over_http
from .dependencies import ServiceDep, TenantDep, routes
from .errors import Problem, Uninstalled, language_of, not_found, refusal
from .service import Service
from .tenants import Tenant

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from ..mcp import Context


PATH = "/mcp"


class _Endpoint:
    """Hands requests to the manager, unless the service stops; each counts as a stream of its tenant."""

    def __init__(self, service: Service, manager: "StreamableHTTPSessionManager") -> None:
        self._service = service
        self._manager = manager

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
        from mcp.server.auth.provider import AccessToken

        tenant = _tenant_of(scope)
        try:
            self._service.refuse_while_draining()
            self._service.open_stream(tenant)
        except Problem as problem:
            return await refusal(problem, scope)(scope, receive, send)
        try:
            scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=tenant.name, scopes=[]))
            await self._manager.handle_request(scope, receive, send)
        finally:
            self._service.close_stream(tenant)


@asynccontextmanager
async def serving_mcp(application: FastAPI, service: Service) -> AsyncIterator[None]:
    """Answer at `/mcp`.

    With several worker processes each request stands alone, so that any worker takes it. A single one keeps sessions of
    clients before version 2026-07-28: it can ask them for input, and they can resume a stream.
    """
    try:
        need_extra("The MCP server", "mcp", "mcp")
    except MissingExtra as error:
        with _serving(application, Uninstalled(error)):
            yield
        return
    from ..mcp import AgentServer, SessionManager

    @contextmanager
    def admit(ctx: "Context", thread_id: str) -> Iterator[None]:
        scope = _scope_of(ctx)
        try:
            service.refuse_while_draining()
            scope["segue_count_chat"]()
            tenant = _tenant_of(scope)
            with (
                service.starting_task(tenant, thread_id),
                acting(tenant.actor, tenant.roles),
            ):  # not who began the session
                yield
        except Problem as problem:
            raise SegueError(problem.message(language_of(scope))) from None

    agents = AgentServer(service.app, _prefix_of, admit, _describe, lambda: service.agents)
    manager = SessionManager(agents.server, stateless=not service.settings.one_process)
    with _serving(application, _Endpoint(service, manager)):
        async with manager.run():
            yield


@contextmanager
def _serving(application: FastAPI, endpoint: ASGIApp) -> Iterator[None]:
    route = Route(PATH, endpoint, methods=None)
    application.router.routes.append(route)
    try:
        yield
    finally:
        application.router.routes.remove(route)


def _prefix_of(ctx: "Context") -> str:
    return _tenant_of(_scope_of(ctx)).prefix


def _describe(ctx: "Context", error: SegueError) -> str:
    scope = _scope_of(ctx)
    return _tenant_of(scope).without_prefix(render_over_http(error, language_of(scope)))


def _scope_of(ctx: "Context") -> Scope:
    assert ctx.request is not None  # over HTTP
    scope: Scope = ctx.request.scope
    return scope


def _tenant_of(scope: Scope) -> Tenant:
    tenant: Tenant = scope["segue_tenant"]
    return tenant


# The route that begins a login at an MCP server.

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
    from ..tools.adapters.mcp_login import login

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
