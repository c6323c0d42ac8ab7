"""Authentication: each request below /api/ belongs to a tenant, or is refused."""

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from ..errors import Problem, refusal
from ..keys import Keys
from .rate_limit import RateLimits

API = "/api/"
_UNKNOWN = Problem(401, "Unauthorized", {"WWW-Authenticate": "Bearer"})


class Authentication:
    """Finds the tenant of a request by its key, and holds each to its rate."""

    def __init__(self, app: ASGIApp, keys: Keys, rates: RateLimits) -> None:
        self._app = app
        self._keys = keys
        self._rates = rates

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(API):
            return await self._app(scope, receive, send)
        tenant = self._keys.tenant_of(Headers(scope=scope).get("authorization", ""))
        chats = scope["path"] == "/api/chat" and scope["method"] == "POST"
        if seconds := self._rates.wait(None if tenant is None else tenant.name, chats=chats and tenant is not None):
            busy = Problem(429, "TooManyRequests", {"Retry-After": str(seconds)}, seconds=seconds)
            return await refusal(busy, scope)(scope, receive, send)
        if tenant is None:
            return await refusal(_UNKNOWN, scope)(scope, receive, send)
        scope["segue_tenant"] = tenant
        await self._app(scope, receive, send)
