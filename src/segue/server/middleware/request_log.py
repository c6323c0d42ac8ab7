"""A log line for each request, and the answer to an unexpected error."""

import re
import time
import uuid

import structlog
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..errors import internal, refusal
from ..log_config import logger

_ID = re.compile(r"[\w.-]{1,64}", re.ASCII)
_QUIET = ("/healthz", "/readyz")


class RequestLog:
    """Gives every request an id, notes how it went, and answers what nobody else caught."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        asked = Headers(scope=scope).get("x-request-id", "")
        request_id = asked if _ID.fullmatch(asked) else uuid.uuid4().hex
        status = 0

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", request_id.encode())]
            await send(message)

        began = time.monotonic()
        with structlog.contextvars.bound_contextvars(request_id=request_id):
            try:
                await self._app(scope, receive, noting)
            except Exception as error:  # noqa: BLE001  the last resort: logged with its trace, answered without
                answer = refusal(internal(), scope, error)
                if not status:
                    await answer(scope, receive, noting)
            finally:
                _note(scope, status, time.monotonic() - began)


def _note(scope: Scope, status: int, seconds: float) -> None:
    tenant = scope.get("segue_tenant")
    template = getattr(scope.get("route"), "path", "")
    if template in _QUIET:
        return
    entry = {
        "method": scope["method"],
        "path": template or "unknown",
        "status": status,
        "seconds": round(seconds, 4),
        "tenant": tenant.name if tenant else None,
    }
    logger.info("request", extra=entry)
