"""ASGI middleware of the service, and the body of a request."""

import asyncio
import json
import math
import re
import time
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar
from urllib.parse import quote, urlsplit

from pydantic import BaseModel, BeforeValidator, Field, model_validator
from starlette._utils import get_route_path
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..core import logs
from ..core.actor import acting
from ..core.decision import check_storable
from ..core.json import DEEPEST, Outline
from .errors import Problem, answer_http, internal, refusal
from .run import logger
from .settings import is_address, is_loopback
from .tenants import Keys, Tenant


class TokenBucket:
    """Holds as many tokens as may be taken in a minute."""

    def __init__(self, a_minute: int, now: float) -> None:
        self._most = float(a_minute)
        self._tokens = float(a_minute)
        self._at = now

    def wait(self, now: float) -> int:
        """Take a token and return 0, or the seconds until there is one."""
        self._tokens = min(self._most, self._tokens + (now - self._at) * self._most / 60)
        self._at = now
        if self._tokens < 1:
            return max(1, math.ceil((1 - self._tokens) * 60 / self._most))
        self._tokens -= 1
        return 0


class RateLimits:
    """A tenant's requests and chats a minute; all who are no tenant, None, share one bucket."""

    def __init__(self, requests: int, chats: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = {False: requests, True: chats}
        self._clock = clock
        self._buckets: dict[tuple[str | None, bool], TokenBucket] = {}

    def wait(self, tenant: str | None, *, chats: bool = False) -> int:
        """Count a request and return 0, or the seconds after which it may come."""
        now = self._clock()
        waits = [self._bucket(tenant, kind, now).wait(now) for kind in {False, chats}]
        return max(waits)

    def wait_chat(self, tenant: str) -> int:
        """The same for a chat within a request that was counted."""
        now = self._clock()
        return self._bucket(tenant, True, now).wait(now)

    def _bucket(self, tenant: str | None, chats: bool, now: float) -> TokenBucket:
        key = (tenant, chats)
        if key not in self._buckets:
            self._buckets[key] = TokenBucket(self._most[chats], now)
        return self._buckets[key]


GRAPHS = ("/assistants", "/threads", "/runs", "/store/", "/info", "/ui/")
"""The paths of LangGraph's server API."""
API = ("/api/", "/v1/", "/mcp", "/ag-ui/", "/a2a/", "/.well-known/agent-card.json", *GRAPHS)
METRICS = "/metrics"
SHARED = "/api/shared/"
"""Below it no key is needed: the path has the token of a link."""
_CHATS = ("/api/chat", "/api/conversations", "/v1/chat/completions", "/ag-ui/")
_CHAT = "/v1/responses"
"""A path that is a chat, while those below it are not."""
_UNKNOWN = Problem(401, "Unauthorized", {"WWW-Authenticate": "Bearer"})


class Authentication:
    """Finds the tenant of a request by its key, and holds each to its rate."""

    def __init__(
        self,
        app: ASGIApp,
        keys: Keys,
        rates: RateLimits,
        *,
        origins: Collection[str] = (),
        open_metrics: bool = False,
    ) -> None:
        self._app = app
        self._origins = origins
        self._guarded = API if open_metrics else (*API, METRICS)
        self._keys = keys
        self._rates = rates

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            return await self._admit_socket(scope, receive, send)
        if scope["type"] != "http" or not scope["path"].startswith(self._guarded):
            return await self._app(scope, receive, send)
        try:
            tenant = await self._keys.find(scope)
        except HTTPException as refused:
            return await (await answer_http(Request(scope), refused))(scope, receive, send)
        if self._keys.are_users and self._is_foreign(scope):
            return await refusal(Problem(403, "WrongOrigin"), scope)(scope, receive, send)
        chats = (scope["path"] == _CHAT or scope["path"].startswith(_CHATS)) and scope["method"] == "POST"
        try:
            _refuse(self._rates.wait(None if tenant is None else tenant.name, chats=chats and tenant is not None))
        except Problem as busy:
            return await refusal(busy, scope)(scope, receive, send)
        if scope["path"].startswith(SHARED):
            return await self._app(scope, receive, send)
        if tenant is None:
            return await refusal(_UNKNOWN, scope)(scope, receive, send)
        await self._admit(scope, tenant, receive, send)

    async def _admit_socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As a request: what is refused gets no connection."""
        try:
            tenant = await self._keys.find({**scope, "type": "http", "method": "GET"})
        except HTTPException:
            tenant = None
        name = None if tenant is None else tenant.name
        if tenant is None or (self._keys.are_users and self._is_foreign(scope)) or self._rates.wait(name):
            return await _refuse_socket(send)
        await self._admit(scope, tenant, receive, send)

    async def _admit(self, scope: Scope, tenant: Tenant, receive: Receive, send: Send) -> None:
        scope["segue_tenant"] = tenant
        scope["segue_count_chat"] = lambda: _refuse(self._rates.wait_chat(tenant.name))
        with acting(tenant.actor, tenant.roles):
            await self._app(scope, receive, send)

    def _is_foreign(self, scope: Scope) -> bool:
        """Whether another site's page sends it, with the cookies of the user."""
        headers = Headers(scope=scope)
        site, origin = headers.get("sec-fetch-site", "none"), headers.get("origin")
        if scope["type"] == "websocket":  # not every browser says which site it is
            is_foreign = origin is not None and not _is_same_host(origin, headers.get("host", ""))
        else:
            is_foreign = site not in ("none", "same-origin") and scope["method"] not in ("GET", "OPTIONS")
        return is_foreign and origin not in self._origins


def _is_same_host(origin: str, host: str) -> bool:
    """Whether the Origin header of a page and the Host header of its request name the same host and port."""
    return urlsplit(origin).netloc.lower() == host.lower()


async def _refuse_socket(send: Send) -> None:
    """Close a WebSocket that is not open yet, which answers with 403."""
    await send({"type": "websocket.close", "code": 1008})


def _refuse(seconds: int) -> None:
    """Refuse what may come only later."""
    if seconds:
        raise Problem(429, "TooManyRequests", {"Retry-After": str(seconds)}, seconds=seconds)


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
    whole_text: bool = False
    """Whether half a character in its JSON is refused here, since what decodes it does not."""


class BodyLimit:
    """Refuses a body that is too long, is nested too deeply, has too many values, or takes too long to arrive.

    On some paths also one whose texts cannot be encoded.
    """

    def __init__(self, app: ASGIApp, usual: Limit, own: Mapping[str, Limit]) -> None:
        self._app = app
        self._usual = usual
        self._own = own
        """Of some paths, and of those below."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        path = scope["path"]
        while path and path not in self._own:
            path = path.rpartition("/")[0]
        limit = self._own.get(path, self._usual)
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
        if limit.values and (refused := await _refused(messages, limit)):
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


async def _refused(messages: list[Message], limit: Limit) -> Problem | None:
    """Why the JSON of a body is refused, before a route decodes it."""
    body = b"".join(message.get("body", b"") for message in messages)
    if len(body) <= _SHORT:
        return _find_problem(body, limit)
    return await asyncio.to_thread(_find_problem, body, limit)


def _find_problem(body: bytes, limit: Limit) -> Problem | None:
    outline = Outline.of(body, limit.values)
    if outline.depth > DEEPEST:
        return Problem(400, "BodyTooDeep", most=DEEPEST)
    if outline.values > limit.values:
        return Problem(413, "TooManyValues", most=limit.values)
    return Problem(422, "HalfCharacter") if limit.whole_text and _has_half_character(body) else None


def _has_half_character(body: bytes) -> bool:
    """Whether a name or a text of the JSON has a lone surrogate, which cannot be encoded."""
    try:
        check_storable(json.loads(body))
    except UnicodeEncodeError:
        return True
    except ValueError:  # the route says what is wrong
        return False
    return False


_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[\w.-]+)(?::\d{1,5})?", re.ASCII)


class OwnHostOnly:
    """Refuses requests under another machine's name (DNS rebinding) and from another site's page."""

    def __init__(self, app: ASGIApp, origins: Collection[str] = ()) -> None:
        self._app = app
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return await self._app(scope, receive, send)
        host, origin = Headers(scope=scope).get("host", ""), Headers(scope=scope).get("origin", "")
        client = scope.get("client")
        refused: Problem | None = None
        if not is_loopback(_name(host)) or (client and is_address(client[0]) and not is_loopback(client[0])):
            refused = Problem(421, "WrongHost")
        elif origin and origin not in self._origins and not _is_same_host(origin, host):
            refused = Problem(403, "WrongOrigin")
        if refused is None:
            return await self._app(scope, receive, send)
        if scope["type"] == "websocket":
            return await _refuse_socket(send)
        await refusal(refused, scope)(scope, receive, send)


def _name(host: str) -> str:
    """A Host header without its port; empty where it is not valid."""
    found = _HOST.fullmatch(host)
    return found[1] if found else ""


class HeadAsGet:
    """Answers HEAD as GET, without the body. A stream ends at once: a server reports a whole response as left."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            return await self._app(scope, receive, send)

        async def send_head(message: Message) -> None:
            if message["type"] == "http.response.start":
                await send(message)
                await send({"type": "http.response.body", "body": b""})

        await self._app({**scope, "method": "GET"}, receive, send_head)


class BelowPath:
    """Takes away what the service's own paths begin with: where it is mounted, and the path that it is served below.

    A request without that path came through a proxy that strips it. A path of an API is the same with a slash at its
    end: clients add one to an address, and do not follow a redirect of what they post.
    """

    def __init__(self, app: ASGIApp, path: str = "") -> None:
        self._app = app
        self._path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return await self._app(scope, receive, send)
        path, root = get_route_path(scope), scope.get("root_path", "")
        if path == self._path and root + path and scope["type"] == "http":
            query = scope.get("query_string", b"").decode("latin-1")
            target = f"{root}{path}/" + (f"?{query}" if query else "")
            return await RedirectResponse(target)(scope, receive, send)
        if self._path and path.startswith(f"{self._path}/"):
            path = path.removeprefix(self._path)
        if (bare := path.removesuffix("/")).startswith(API):
            path = bare
        below = {"path": path, "raw_path": quote(path).encode(), "root_path": "", "app_root_path": root + self._path}
        await self._app({**scope, **below}, receive, send)


_ID = re.compile(r"[\w.-]{1,64}", re.ASCII)
_QUIET = ("/healthz", "/readyz")


_BEGINNINGS = {"http.response.start": 0, "websocket.accept": 101, "websocket.close": 403}
"""What a response begins with, and the status of one that names none."""


class RequestLog:
    """Gives every request an id, notes how it went, and answers what nobody else caught."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return await self._app(scope, receive, send)
        asked = Headers(scope=scope).get("x-request-id", "")
        request_id = asked if _ID.fullmatch(asked) else uuid.uuid4().hex
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if not status and message["type"] in _BEGINNINGS:
                status = message.get("status", _BEGINNINGS[message["type"]])
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", request_id.encode())]
            await send(message)

        began = time.monotonic()
        token = logs.request_id.set(request_id)
        try:
            await self._app(scope, receive, send_with_id)
        except Exception as error:
            if scope["type"] == "websocket":
                raise
            answer = refusal(internal(), scope, error)
            if not status:
                await answer(scope, receive, send_with_id)
        finally:
            _note(scope, status, time.monotonic() - began)
            logs.request_id.reset(token)


def _note(scope: Scope, status: int, seconds: float) -> None:
    tenant = scope.get("segue_tenant")
    template = getattr(scope.get("route"), "path", "")
    if template in _QUIET or (status < 400 and isinstance(scope.get("endpoint"), StaticFiles)):
        return
    entry = {
        "method": scope.get("method", "GET"),
        "path": template or "unknown",
        "status": status,
        "seconds": round(seconds, 4),
        "tenant": tenant.name if tenant else None,
    }
    logger.info("request", extra=entry)


HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


_STREAM_HEADERS = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}
"""Of every stream of events, whoever answers with it: what is between must neither keep nor hold back its events."""


class ResponseHeaders:
    """Adds the headers that a response does not set itself, and those of streams of events."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)

        async def adding(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if headers.get("content-type", "").startswith("text/event-stream"):
                    headers.update(_STREAM_HEADERS)
            await send(message)

        await self._app(scope, receive, adding)


# Requests' JSON objects and lists, whose validation stops at the first errors.

MODEL = r"(offline|openai:[\w./:@-]+)"
"""The models that a client may name; what else a model may be, such as a file, belongs to the service."""
LONGEST_MODEL = 207
"""Characters of such a name, 200 of them after `openai:`. In a pattern, a repetition up to a number takes megabytes."""
MOST_FIELDS = 1000
"""Fields of a request that has only some: each of the others would be an error of its own."""

Item = TypeVar("Item")
Items = Annotated[list[Item], Field(fail_fast=True)]
"""A list of which only the first invalid item is reported."""


def refuse_many_fields(given: Any) -> Any:
    """Refuse an object with very many fields, each of which could be an error."""
    if isinstance(given, dict) and len(given) > MOST_FIELDS:
        raise ValueError(f"it has more than {MOST_FIELDS} fields")
    return given


Texts = Annotated[dict[str, str], BeforeValidator(refuse_many_fields)]
"""Texts by name."""


class RequestBody(BaseModel, extra="forbid"):
    """A request; a field that it does not have is refused."""

    @model_validator(mode="before")
    @classmethod
    def _has_few_fields(cls, given: Any) -> Any:
        return refuse_many_fields(given)
