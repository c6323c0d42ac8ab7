"""On a service without keys: only this machine's own pages and programs come in."""

import re
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from ..errors import Problem, refusal
from ..settings import is_loopback

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[\w.-]+)(?::\d{1,5})?", re.ASCII)


class OwnHostOnly:
    """Refuses requests under another machine's name (DNS rebinding) and from another site's page."""

    def __init__(self, app: ASGIApp, origins: Collection[str] = ()) -> None:
        self._app = app
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        host, origin = Headers(scope=scope).get("host", ""), Headers(scope=scope).get("origin", "")
        if not is_loopback(_name(host)):
            return await refusal(Problem(421, "WrongHost"), scope)(scope, receive, send)
        if origin and origin not in self._origins and urlsplit(origin).netloc.lower() != host.lower():
            return await refusal(Problem(403, "WrongOrigin"), scope)(scope, receive, send)
        await self._app(scope, receive, send)


def _name(host: str) -> str:
    """A Host header without its port; empty where it is none."""
    found = _HOST.fullmatch(host)
    return found[1] if found else ""
