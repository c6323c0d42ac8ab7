"""The agents as tools of an MCP server over streamable HTTP, at `/mcp`, where the extra `mcp` is installed."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from fastapi import FastAPI
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ..core.actor import acting
from ..core.errors import SegueError
from ..prompts.errors import render_over_http
from .errors import Problem, language_of, refusal
from .service import Service
from .tenants import Tenant

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from ..mcp.agent_server import Context

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
    if find_spec("mcp") is None:
        yield
        return
    from ..mcp.agent_server import AgentServer
    from ..mcp.sessions import SessionManager

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
    route = Route(PATH, _Endpoint(service, manager), methods=None)
    application.router.routes.append(route)
    try:
        async with manager.run():
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
