"""How much: a request's body is read here, up to its limit, before anything looks at it."""

import asyncio

from ..errors import Problem
from .asgi import ASGIApp, Message, Receive, Scope, Send, header, refuse


class BodyLimit:
    """Refuses a body that is too long, and one that takes too long to come."""

    def __init__(self, app: ASGIApp, most: int, seconds: float) -> None:
        self._app = app
        self._most = most
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        try:
            async with asyncio.timeout(self._seconds):
                messages = await self._read(scope, receive)
        except TimeoutError:
            slow = Problem(408, "RequestTimeout", f"The body did not come within {self._seconds:g} seconds.")
            return await refuse(slow, scope, receive, send)
        if messages is None:
            long = Problem(413, "BodyTooLong", f"The body has more than {self._most} bytes: send less.")
            return await refuse(long, scope, receive, send)
        again = iter(messages)

        async def replay() -> Message:
            message = next(again, None)
            return await receive() if message is None else message

        await self._app(scope, replay, send)

    async def _read(self, scope: Scope, receive: Receive) -> list[Message] | None:
        """The messages of the body; None where it is too long."""
        announced = header(scope, b"content-length")
        if announced.isdecimal() and int(announced[:20]) > self._most:
            return None
        messages, size = [], 0
        while True:
            message = await receive()
            messages.append(message)
            size += len(message.get("body", b""))
            if size > self._most:
                return None
            if not message.get("more_body", False):
                return messages
