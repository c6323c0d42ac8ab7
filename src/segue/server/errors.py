"""Errors as answers: a status, one sentence, and an id that leads to the log; texts of bounded length."""

import json
import logging
import math
import re
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from http import HTTPStatus
from itertools import takewhile
from typing import Any, Literal

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, Field
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from ..core import errors
from ..core.records import Task
from ..core.task import ACTIVE
from ..prompts.catalogue import (
    Language,
    accepted_language,
    http_text,
    invalid_request,
    language_named,
    render_over_http,
)
from .run import logger
from .tenants import Tenant

# JSON that fits into so many bytes: texts are cut, lists and objects keep what comes first.

_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
_READABLE = json.JSONEncoder(separators=(",", ":"), allow_nan=False, ensure_ascii=False)
MARK = "…"
DEEPEST = 20
"""Levels of a value that are shown; what lies deeper is left out."""
SMALL = 120
"""Bytes of a field, with its name, that is kept whole before longer ones share the rest."""


def encoded(value: Any, encoder: json.JSONEncoder = _ENCODER) -> str:
    """The value as JSON in ASCII, on one line; what JSON has no form for becomes null or text."""
    try:
        return encoder.encode(value)
    except (TypeError, ValueError, RecursionError):
        return encoder.encode(_plain(value, DEEPEST))


def readable(value: Any) -> str:
    """The same, with characters as they are."""
    return encoded(value, _READABLE)


def parts(value: Any, levels: int = 2) -> Iterator[bytes]:
    """The value as JSON in UTF-8, in parts: the fields and items of its upper levels one by one.

    A text that is stored but not valid Unicode is written in ASCII.
    """
    if levels and isinstance(value, Mapping):
        yield b"{"
        for place, (name, item) in enumerate(value.items()):
            yield b"," * bool(place) + encoded(str(name)).encode() + b":"
            yield from parts(item, levels - 1)
        yield b"}"
    elif levels and isinstance(value, list | tuple):
        yield b"["
        for place, item in enumerate(value):
            yield b"," * bool(place)
            yield from parts(item, levels - 1)
        yield b"]"
    else:
        try:
            yield readable(value).encode()
        except UnicodeEncodeError:
            yield encoded(value).encode()


def _plain(value: Any, levels: int) -> Any:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if abs(value) < 10**300 else None
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if levels == 0:
        return MARK
    if isinstance(value, Mapping):
        return {str(key): _plain(item, levels - 1) for key, item in value.items()}
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, bytes | bytearray):
        return [_plain(item, levels - 1) for item in value]
    return str(value)


def size(value: Any) -> int:
    """Bytes of the value's JSON."""
    return len(encoded(value))


def split(text: str, room: int) -> Iterator[str]:
    """The text in pieces whose JSON takes at most `room` bytes each; `room` is at least 14, for one character."""
    while size(text) > room:
        first = _prefix(text, room)
        yield first
        text = text[len(first) :]
    yield text


def truncate(value: Any, room: int, levels: int = DEEPEST) -> Any:
    """The value, or as much of it as takes at most `room` bytes; None where not even a beginning does."""
    if size(value) <= room:
        return value
    if levels == 0 or room < size(MARK):
        return None
    if isinstance(value, str):
        return _prefix(value, room - size(MARK) + 2) + MARK
    if isinstance(value, Mapping):
        return _first_fields(value, room, levels)
    if isinstance(value, list | tuple):
        return _first_items(value, room, levels)
    return None


def _prefix(text: str, room: int) -> str:
    """The longest beginning of the text whose JSON takes at most `room` bytes."""
    low, high = 0, min(len(text), max(room, 0))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if size(text[:middle]) <= room else (low, middle - 1)
    return text[:low]


def _first_fields(value: Mapping[Any, Any], room: int, levels: int) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    room -= 2
    for key, item in value.items():
        room -= size(str(key)) + 2
        if room < size(MARK):
            break
        kept[str(key)] = truncate(item, room, levels - 1)
        room -= size(kept[str(key)])
    return kept


def _first_items(value: Sequence[Any], room: int, levels: int) -> list[Any]:
    kept: list[Any] = []
    room -= 2
    for item in value:
        if room < size(MARK) + 1:
            break
        kept.append(truncate(item, room - 1, levels - 1))
        room -= size(kept[-1]) + 1
    return kept


def fit(fields: Mapping[str, Any], room: int, first: str = "") -> dict[str, Any]:
    """The fields as an object of at most `room` bytes.

    Where they are longer, short ones stay, then `first` gets what it needs, the others share the rest evenly, and
    "truncated" says that something is missing.
    """
    if size(fields) <= room:
        return dict(fields)
    sizes = {name: size({name: value}) for name, value in fields.items()}
    order = sorted(fields, key=lambda name: (sizes[name] > SMALL, name != first, sizes[name]))
    shown: dict[str, Any] = {}
    room -= size({"truncated": True}) + 1
    for place, name in enumerate(order):
        overhead = size(name) + 2
        whole = name == first or sizes[name] <= SMALL
        share = (room if whole else room // (len(order) - place)) - overhead
        if share < size(MARK):
            continue
        shown[name] = truncate(fields[name], share)
        room -= size(shown[name]) + overhead
    return {**{name: shown[name] for name in fields if name in shown}, "truncated": True}


# Errors as answers: a status, one sentence, and an id that leads to the log.

SHOWN = 100
"""Characters of a name that an error repeats."""


class ErrorDetail(BaseModel):
    """What went wrong."""

    type: str = Field(examples=["ThreadBusy"])
    message: str = Field(examples=["Session 's1' is busy with another task: wait for it, or use another session."])
    error_id: str = Field(examples=["5f0c1a9be2d4"])
    task_id: str | None = Field(default=None, description="the conflicting task of a 409")


class ErrorBody(BaseModel):
    """The body of every answer that is no success."""

    error: ErrorDetail


class Problem(Exception):
    """A refusal of the service's own; its sentence is that of the catalogue by that name, else by its kind."""

    def __init__(
        self, status: int, kind: str, headers: Mapping[str, str] | None = None, *, name: str = "", **params: object
    ) -> None:
        super().__init__(kind)
        self.status = status
        self.kind = kind
        self.headers = headers or {}
        self._name = name or kind
        self._params = params

    def message(self, language: Language) -> str:
        return http_text(self._name, language, **self._params)


def not_found(
    what: Literal[
        "task",
        "session",
        "user",
        "agent",
        "graph",
        "mcp_server",
        "memory",
        "fact",
        "file",
        "rehearsal",
        "backtest",
        "conversation",
        "response",
        "unstored_response",
        "share",
        "schedule",
        "notification",
        "approval_request",
        "item",
        "call",
    ],
    missing: str,
) -> Problem:
    """The 404 of a name that is not there, or that is another tenant's."""
    return Problem(404, "NotFound", name=what, missing=missing[:SHOWN])


class JsonResponse(JSONResponse):
    """JSON as people read it, in UTF-8; in ASCII where a stored text is not valid Unicode."""

    def render(self, content: Any) -> bytes:
        try:
            return readable(content).encode("utf-8")
        except UnicodeEncodeError:
            return encoded(content).encode("ascii")


_CHUNK = 64 * 1024


class LongJsonResponse(StreamingResponse):
    """JSON that may be long: it is encoded piece by piece beside the event loop while it is sent."""

    media_type = "application/json"

    def __init__(self, content: Any) -> None:
        super().__init__(_chunks(content))


def _chunks(content: Any) -> Iterator[bytes]:
    chunk = bytearray()
    for part in parts(content):
        chunk += part
        if len(chunk) >= _CHUNK:
            yield bytes(chunk)
            chunk.clear()
    yield bytes(chunk)


_STATUS: Sequence[tuple[type[errors.SegueError], int]] = (
    (errors.UnknownTask, 404),
    (errors.UnknownThread, 404),
    (errors.UnknownSchedule, 404),
    (errors.InvalidMemory, 422),
    (errors.MemoryUnavailable, 503),
    (errors.UnknownSnapshot, 422),
    (errors.InvalidAnswer, 422),
    (errors.InvalidPlan, 422),
    (errors.InvalidExport, 422),
    (errors.NotAnApprover, 403),
    (errors.InvalidMessage, 422),
    (errors.TooManyTasks, 429),
    (errors.TaskError, 409),
    (errors.IllegalTransition, 409),
    (errors.StaleOwner, 409),
    (errors.DamagedSession, 409),
    (errors.StorageError, 503),
    (errors.ToolServerUnavailable, 502),
    (errors.MissingExtra, 501),
    (errors.ConfigurationError, 422),
    (errors.ModelError, 502),
)


def status_of(error: errors.SegueError) -> int:
    """The HTTP status of one of Segue's errors; 500 for one that no request should bring about."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


class Uninstalled:
    """Answers every request to a protocol with the extra that it needs."""

    def __init__(self, error: errors.MissingExtra) -> None:
        self._error = error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raise self._error


def language_of(scope: Scope) -> Language:
    """The language that the body of a request names, else the one that it accepts."""
    named: Language | None = scope.get("segue_language")
    return named or accepted_language(Headers(scope=scope).get("accept-language", ""))


def new_error_id() -> str:
    return uuid.uuid4().hex[:12]


def error_body(kind: str, message: str, error_id: str, task_id: str = "") -> dict[str, Any]:
    conflict = {"task_id": task_id} if task_id else {}
    return {"error": {"type": kind, "message": message, "error_id": error_id, **conflict}}


_OPENAI_TYPES = {
    401: "authentication_error",
    429: "rate_limit_error",
    **dict.fromkeys((500, 502, 503), "server_error"),
}


def respond(
    scope: Scope,
    status: int,
    kind: str,
    message: str,
    headers: Mapping[str, str] | None = None,
    *,
    task_id: str = "",
    param: str | None = None,
    cause: BaseException | None = None,
) -> JsonResponse:
    """The answer that describes an error; the log has it with the same id, and the trace of what the server caused."""
    error_id = new_error_id()
    trace = None if status < 500 or isinstance(cause, errors.MissingExtra) else cause
    level = logging.ERROR if status >= 500 else logging.INFO
    logger.log(level, "problem", extra={"error_id": error_id, "type": kind, "status": status}, exc_info=trace)
    body = error_body(kind, message, error_id, task_id)
    if scope["path"].startswith("/v1/"):  # as OpenAI's clients read it
        body["error"].update(type=_OPENAI_TYPES.get(status, "invalid_request_error"), code=kind, param=param or None)
    return JsonResponse(body, status, dict(headers or {}))


def refusal(problem: Problem, scope: Scope, cause: BaseException | None = None) -> JsonResponse:
    """The answer to a request that is refused, in its language."""
    message = problem.message(language_of(scope))
    return respond(scope, problem.status, problem.kind, message, problem.headers, cause=cause)


async def answer_problem(request: Request, error: Exception) -> JsonResponse:
    """For `Problem`."""
    assert isinstance(error, Problem)
    return refusal(error, request.scope)


async def answer_segue_error(request: Request, error: Exception) -> JsonResponse:
    """For Segue's own errors: their sentence, with names as the tenant knows them."""
    assert isinstance(error, errors.SegueError)
    status, language = status_of(error), language_of(request.scope)
    tenant: Tenant = request.scope.get("segue_tenant", Tenant())
    sentence = (
        http_text("Internal", language) if status == 500 else tenant.without_prefix(render_over_http(error, language))
    )
    if isinstance(error, errors.LoginRequired) and not request.app.state.service.settings.keys:
        link = f"{request.base_url}mcp/login/{error.params['server']}"
        sentence = http_text("LoginRequired", language, server=error.params["server"], link=link)
    headers = {"Retry-After": str(error.retry_after)} if isinstance(error, errors.TooManyTasks) else {}
    task_id = await _conflicting_task(request, error)
    param = error.option if isinstance(error, errors.InvalidReplyOption) else None
    kind = type(error).__name__
    return respond(request.scope, status, kind, sentence, headers, task_id=task_id, param=param, cause=error)


async def _conflicting_task(request: Request, error: errors.SegueError) -> str:
    """The task that a conflict is with; empty where there is none."""
    if isinstance(error, errors.TaskUnfinished):
        return error.task_id
    if not isinstance(error, errors.ThreadBusy):
        return ""
    latest: Task | None = await request.app.state.service.app.tasks.newest(error.session_id)
    return latest.task_id if latest and latest.status in ACTIVE else ""


async def answer_invalid(request: Request, error: Exception) -> JsonResponse:
    """For a request that does not fit: where, and why, but not what it held."""
    assert isinstance(error, RequestValidationError)
    if isinstance(error.body, dict) and isinstance(tag := error.body.get("language"), str):
        request.scope["segue_language"] = language_named(tag)
    _release(error)
    scope = request.scope
    found = error.errors()[:10]
    if found[0]["type"] == "json_invalid":
        return respond(scope, 400, "InvalidJson", invalid_request(found, language_of(scope)))
    sentence = invalid_request(found, language_of(scope), _fields(request))
    return respond(scope, 422, "InvalidRequest", sentence, param=_param(found[0], error.body))


def _fields(request: Request) -> Collection[str]:
    """The fields of the body that the route reads."""
    body = getattr(request.scope.get("route"), "body_field", None)
    model = body.field_info.annotation if body else None
    return model.model_fields if isinstance(model, type) and issubclass(model, BaseModel) else ()


def _release(error: Exception) -> None:
    """Let go of the frames of an error, which hold it and the request's body until the next garbage collection."""
    error.__traceback__ = error.__cause__ = error.__context__ = None


def _param(error: Mapping[str, Any], body: Any) -> str:
    """The field of a body, or the parameter, that an error is about."""
    place = [*takewhile(lambda part: not _TAG.search(str(part)), error["loc"][1:])]
    fields = []
    for number, part in enumerate(place, start=1):
        if isinstance(body, dict) and part not in body and number < len(place):
            continue  # the arm of a union, by the value of its `type`
        fields.append(str(part))
        body = body.get(part) if isinstance(body, dict) else None
    return ".".join(fields)


_TAG = re.compile(r"^[A-Z]|\[|^(?:str|list|dict|int|float|bool)$")
"""What pydantic names in a place beside fields: the arm of a union."""


async def answer_http(request: Request, error: Exception) -> JsonResponse:
    """For what the framework refuses: an unknown path, a wrong method, a body that is not JSON."""
    assert isinstance(error, HTTPException)
    _release(error)
    kind = HTTPStatus(error.status_code).phrase.title().replace(" ", "").replace("-", "")
    name = kind if kind in http_text else "Http"
    refused = Problem(error.status_code, kind, error.headers, name=name, detail=error.detail.rstrip("."))
    return refusal(refused, request.scope)


def internal() -> Problem:
    """What an error of ours is described as."""
    return Problem(500, "Internal")
