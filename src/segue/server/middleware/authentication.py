"""Authentication: each request of the API belongs to a tenant, or is refused."""

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from ..errors import Problem, refusal
from ..keys import Keys
from .rate_limit import RateLimits

API = ("/api/", "/v1/", "/mcp", "/ag-ui/")
METRICS = "/metrics"
_CHATS = ("/api/chat", "/v1/chat/completions", "/ag-ui/")
_CHAT = "/v1/responses"
"""A path that is a chat, while those below it are not."""
_UNKNOWN = Problem(401, "Unauthorized", {"WWW-Authenticate": "Bearer"})


class Authentication:
    """Finds the tenant of a request by its key, and holds each to its rate."""

    def __init__(self, app: ASGIApp, keys: Keys, rates: RateLimits, *, open_metrics: bool = False) -> None:
        self._app = app
        self._guarded = API if open_metrics else (*API, METRICS)
        self._keys = keys
        self._rates = rates

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(self._guarded):
            return await self._app(scope, receive, send)
        tenant = self._keys.tenant_of(Headers(scope=scope).get("authorization", ""))
        chats = (scope["path"] == _CHAT or scope["path"].startswith(_CHATS)) and scope["method"] == "POST"
        try:
            _refuse(self._rates.wait(None if tenant is None else tenant.name, chats=chats and tenant is not None))
        except Problem as busy:
            return await refusal(busy, scope)(scope, receive, send)
        if tenant is None:
            return await refusal(_UNKNOWN, scope)(scope, receive, send)
        scope["segue_tenant"] = tenant
        scope["segue_count_chat"] = lambda: _refuse(self._rates.wait_chat(tenant.name))
        await self._app(scope, receive, send)


def _refuse(seconds: int) -> None:
    """Refuse what may come only later.

    Raises:
        Problem
    """
    if seconds:
        raise Problem(429, "TooManyRequests", {"Retry-After": str(seconds)}, seconds=seconds)
