"""Errors as answers: a status, one sentence, and an id that leads to the log."""

import logging
import uuid
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from ..core import errors
from ..core.task_status import ACTIVE
from ..prompts.errors import render
from ..prompts.language import Language, language_named
from .log_config import logger
from .sse.truncation import encoded, readable
from .tenants import Tenant

SHOWN = 100
"""Characters of a name that an error repeats."""


class ErrorDetail(BaseModel):
    """What went wrong."""

    type: str = Field(examples=["ThreadBusy"])
    message: str = Field(examples=["Session 's1' is busy with another task: wait for it, or use another session."])
    error_id: str = Field(examples=["5f0c1a9be2d4"])
    task_id: str | None = Field(default=None, description="the task that is in the way, of a conflict")


class ErrorBody(BaseModel):
    """The body of every answer that is no success."""

    error: ErrorDetail


class Problem(Exception):
    """An error whose message is sent to the client unchanged."""

    def __init__(
        self, status: int, kind: str, message: str, headers: Mapping[str, str] | None = None, task_id: str = ""
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.message = message
        self.headers = headers or {}
        self.task_id = task_id


def not_found(what: str, name: str) -> Problem:
    """The 404 of a name that is not there, or that is another tenant's."""
    return Problem(404, "NotFound", f"There is no {what} '{name[:SHOWN]}'.")


class JsonResponse(JSONResponse):
    """JSON as people read it, in UTF-8; in ASCII where a text that is stored is none."""

    def render(self, content: Any) -> bytes:
        try:
            return readable(content).encode("utf-8")
        except UnicodeEncodeError:
            return encoded(content).encode("ascii")


_STATUS: Sequence[tuple[type[errors.SegueError], int]] = (
    (errors.UnknownTask, 404),
    (errors.UnknownThread, 404),
    (errors.UnknownSnapshot, 422),
    (errors.InvalidAnswer, 422),
    (errors.InvalidExport, 422),
    (errors.InvalidMessage, 422),
    (errors.TooManyTasks, 429),
    (errors.TaskError, 409),
    (errors.IllegalTransition, 409),
    (errors.StaleOwner, 409),
    (errors.DamagedSession, 409),
    (errors.StorageError, 503),
    (errors.ToolServerUnavailable, 502),
    (errors.ConfigurationError, 422),
    (errors.ModelError, 502),
)


def status_of(error: errors.SegueError) -> int:
    """The HTTP status of one of Segue's errors; 500 for one that no request should bring about."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def language_of(request: Request) -> Language:
    """Chinese where it is the first language that the request accepts, else English."""
    first = request.headers.get("accept-language", "").partition(",")[0].partition(";")[0]
    return language_named(first) or "en"


def new_error_id() -> str:
    return uuid.uuid4().hex[:12]


def error_body(kind: str, message: str, error_id: str, task_id: str = "") -> dict[str, Any]:
    in_the_way = {"task_id": task_id} if task_id else {}
    return {"error": {"type": kind, "message": message, "error_id": error_id, **in_the_way}}


def told(problem: Problem, cause: BaseException | None = None) -> JsonResponse:
    """The answer that tells of a problem; the log has it with the same id, and the trace of what the server caused."""
    error_id = new_error_id()
    trace = cause if problem.status >= 500 else None
    level = logging.ERROR if problem.status >= 500 else logging.INFO
    extra = {"error_id": error_id, "type": problem.kind, "status": problem.status}
    logger.log(level, "problem", extra=extra, exc_info=trace)
    body = error_body(problem.kind, problem.message, error_id, problem.task_id)
    return JsonResponse(body, problem.status, dict(problem.headers))


async def answer_problem(_: Request, error: Exception) -> JsonResponse:
    """For `Problem`."""
    assert isinstance(error, Problem)
    return told(error)


async def answer_segue_error(request: Request, error: Exception) -> JsonResponse:
    """For Segue's own errors: their sentence, with names as the tenant knows them."""
    assert isinstance(error, errors.SegueError)
    tenant: Tenant = request.scope.get("segue_tenant", Tenant())
    status = status_of(error)
    sentence = (
        tenant.told(render(error, language_of(request)))
        if status != 500
        else "Internal error: look for the error_id in the log."
    )
    headers = {"Retry-After": str(error.retry_after)} if isinstance(error, errors.TooManyTasks) else {}
    problem = Problem(status, type(error).__name__, sentence, headers, await _in_the_way(request, error))
    return told(problem, error)


async def _in_the_way(request: Request, error: errors.SegueError) -> str:
    """The task that a conflict is with; empty where there is none."""
    if isinstance(error, errors.TaskUnfinished):
        return error.task_id
    if not isinstance(error, errors.ThreadBusy):
        return ""
    latest = await request.app.state.service.app.tasks(session_id=error.thread_id, limit=1)
    return next((row["task_id"] for row in latest if row["status"] in ACTIVE), "")


async def answer_invalid(_: Request, error: Exception) -> JsonResponse:
    """For a request that does not fit: where, and why, but not what it held."""
    assert isinstance(error, RequestValidationError)
    reasons = [f"{'.'.join(str(part) for part in each['loc'])}: {each['msg']}" for each in error.errors()[:10]]
    return told(Problem(422, "InvalidRequest", "; ".join(reasons)[:1000] + "."))


async def answer_http(_: Request, error: Exception) -> JsonResponse:
    """For what the framework refuses: an unknown path, a wrong method, a body that is no JSON."""
    assert isinstance(error, HTTPException)
    kind = HTTPStatus(error.status_code).phrase.title().replace(" ", "").replace("-", "")
    return told(Problem(error.status_code, kind, f"{error.detail}.".replace("..", "."), error.headers))


def internal() -> Problem:
    """What an error of ours is told as."""
    return Problem(500, "Internal", "Internal error: look for the error_id in the log.")
