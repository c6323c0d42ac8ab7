"""The words of ASGI that the layers around the application share."""

from collections.abc import Iterable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..errors import Problem, refusal

__all__ = ["ASGIApp", "Message", "Receive", "Scope", "Send", "header", "refuse"]


def header(scope: Scope, name: bytes) -> str:
    """A header's value; empty where it is missing."""
    return next((value.decode("latin-1") for key, value in headers(scope) if key == name), "")


def headers(scope: Scope) -> Iterable[tuple[bytes, bytes]]:
    found: Iterable[tuple[bytes, bytes]] = scope["headers"]
    return found


async def refuse(problem: Problem, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with a problem instead of passing the request on."""
    await refusal(problem, scope)(scope, receive, send)
