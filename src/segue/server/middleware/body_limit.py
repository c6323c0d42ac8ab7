"""Limits of a request's body: its size, its nesting, its values, and the time that it may take to arrive."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...core.json_depth import DEEPEST, Outline
from ..errors import Problem, refusal

_SHORT = 16 * 1024
"""Bytes of a body whose outline takes too little time for a thread."""


@dataclass(frozen=True)
class Limit:
    """What a body may measure, and how long it may take to arrive."""

    most: int
    """Bytes."""
    seconds: float
    values: int = 0
    """Values of its JSON; 0 if it is not JSON."""
    setting: str = ""
    """The environment variable that sets it, if there is one."""


class BodyLimit:
    """Refuses a body that is too long, is nested too deeply, has too many values, or takes too long to arrive."""

    def __init__(self, app: ASGIApp, usual: Limit, own: Mapping[str, Limit]) -> None:
        self._app = app
        self._usual = usual
        self._own = own
        """Of some paths, and of those one below."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        path = scope["path"]
        limit = self._own.get(path) or self._own.get(path.rpartition("/")[0], self._usual)
        try:
            async with asyncio.timeout(limit.seconds):
                messages = await _read(scope, receive, limit.most)
        except TimeoutError:
            slow = Problem(408, "RequestTimeout", seconds=f"{limit.seconds:g}")
            return await refusal(slow, scope)(scope, receive, send)
        if messages is None:
            long = Problem(413, "BodyTooLong", most=limit.most)
            if limit.setting:
                long = Problem(413, "FileTooLong", most=limit.most, setting=limit.setting)
            return await refusal(long, scope)(scope, receive, send)
        if limit.values and (refused := await _refused(messages, limit.values)):
            return await refusal(refused, scope)(scope, receive, send)
        again = iter(messages)

        async def replay() -> Message:
            message = next(again, None)
            return await receive() if message is None else message

        await self._app(scope, replay, send)


async def _read(scope: Scope, receive: Receive, most: int) -> list[Message] | None:
    """The messages of the body; None where it is too long."""
    announced = Headers(scope=scope).get("content-length", "")
    if announced.isdecimal() and int(announced[:20]) > most:
        return None
    messages, size = [], 0
    while True:
        message = await receive()
        messages.append(message)
        size += len(message.get("body", b""))
        if size > most:
            return None
        if not message.get("more_body", False):
            return messages


async def _refused(messages: list[Message], most: int) -> Problem | None:
    """Why the JSON of a body is refused, before anything of it is decoded."""
    body = b"".join(message.get("body", b"") for message in messages)
    outline = Outline.of(body, most) if len(body) <= _SHORT else await asyncio.to_thread(Outline.of, body, most)
    if outline.depth > DEEPEST:
        return Problem(400, "BodyTooDeep", most=DEEPEST)
    return Problem(413, "TooManyValues", most=most) if outline.values > most else None
