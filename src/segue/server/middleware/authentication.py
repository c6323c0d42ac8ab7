"""Who comes in: each request below /api/ belongs to a tenant, or is refused."""

from ..errors import Problem
from ..keys import Keys
from .asgi import ASGIApp, Receive, Scope, Send, header, refuse
from .rate_limit import Rates

API = "/api/"
_UNKNOWN = Problem(401, "Unauthorized", {"WWW-Authenticate": "Bearer"})


class Gate:
    """Finds the tenant of a request by its key, and holds each to its rate."""

    def __init__(self, app: ASGIApp, keys: Keys, rates: Rates) -> None:
        self._app = app
        self._keys = keys
        self._rates = rates

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(API):
            return await self._app(scope, receive, send)
        tenant = self._keys.tenant_of(header(scope, b"authorization"))
        chats = scope["path"] == "/api/chat" and scope["method"] == "POST"
        if seconds := self._rates.wait(None if tenant is None else tenant.name, chats=chats and tenant is not None):
            busy = Problem(429, "TooManyRequests", {"Retry-After": str(seconds)}, seconds=seconds)
            return await refuse(busy, scope, receive, send)
        if tenant is None:
            return await refuse(_UNKNOWN, scope, receive, send)
        scope["segue_tenant"] = tenant
        await self._app(scope, receive, send)
