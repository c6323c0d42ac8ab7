"""The web application: `create_app()` wires routes, layers and the app that they serve."""

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from ..core.agents import Agent
from ..core.errors import SegueError
from ..core.notifications import Receiver
from ..core.spend import SpendLimits, spend_limits
from .errors import Problem, answer_http, answer_invalid, answer_problem, answer_segue_error
from .lifespan import serving
from .middleware import (
    Authentication,
    BelowPath,
    BodyLimit,
    HeadAsGet,
    Limit,
    OwnHostOnly,
    RateLimits,
    RequestLog,
    ResponseHeaders,
)
from .routers import ROUTES
from .settings import IMPORT, UPLOAD, ServerSettings

_TITLE, _VERSION = "Segue", "1"
_ABOUT = 'A conversational-agent engine that does not lose work. Errors are `{"error": {type, message, error_id}}`.'
_EXPOSED_HEADERS = [
    *("X-Task-Id", "X-Session-Id", "X-Request-Id", "Retry-After"),
    *("Content-Location", "Location", "X-Pagination-Total", "X-Pagination-Next"),
]


def create_app(
    database: str | Path = "segue.db",
    settings: ServerSettings | None = None,
    *,
    agents: Iterable[Agent] = (),
    modes: Mapping[str, Any] | None = None,
    agents_file: str = "",
    notify: Iterable[Receiver] = (),
    spend: SpendLimits | Mapping[str, Any] | None = None,
) -> FastAPI:
    """The service over one database, which is opened when the server starts.

    `agents_file` is the path of the file that the agents come from: a task remembers it for the command line. `notify`
    are the receivers that are told what becomes of tasks. `spend` limits what model calls may use; where the settings
    have keys, that of each tenant by itself.
    """
    settings = settings or ServerSettings()
    limits = None if spend is None else spend_limits(spend)
    if limits and limits.by_tenant is None:
        limits = limits.model_copy(update={"by_tenant": bool(settings.keys)})
    return build(settings, serving(database, settings, tuple(agents), modes, agents_file, tuple(notify), limits))


def build(settings: ServerSettings, lifespan: Callable[[FastAPI], AbstractAsyncContextManager[None]]) -> FastAPI:
    """The routes, the page and the layers, over the app that the lifespan gives."""
    application = FastAPI(
        title=_TITLE,
        description=_ABOUT,
        version=_VERSION,
        openapi_url=None,  # FastAPI's does not know the path below which the service is
        docs_url=None,  # FastAPI's load their scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    application.router.routes.extend(ROUTES)
    application.add_route("/openapi.json", _describe, include_in_schema=False)
    add_page(application)
    for kind, answer in (
        (Problem, answer_problem),
        (SegueError, answer_segue_error),
        (RequestValidationError, answer_invalid),
        (HTTPException, answer_http),
    ):
        application.add_exception_handler(kind, answer)
    _add_layers(application, settings)
    return application


@cache
def _schema() -> dict[str, Any]:
    """All services of a process have the same routes."""
    return get_openapi(title=_TITLE, version=_VERSION, description=_ABOUT, routes=ROUTES)


async def _describe(request: Request) -> Response:
    """The API as OpenAPI; its paths are below the one that the service is at, if there is one."""
    schema, path = _schema(), request.scope["app_root_path"]
    return JSONResponse({**schema, "servers": [{"url": path}]} if path else schema)


def _add_layers(application: FastAPI, settings: ServerSettings) -> None:
    """The innermost first: what a request passes last."""
    rates = RateLimits(settings.requests_a_minute, settings.chats_a_minute)
    file = Limit(settings.upload_bytes, settings.upload_seconds, setting=UPLOAD)
    message = replace(file, values=settings.body_values)
    document = Limit(settings.import_bytes, settings.upload_seconds, settings.import_values, IMPORT)
    application.add_middleware(
        BodyLimit,
        usual=Limit(settings.body_bytes, settings.body_seconds, settings.body_values),
        own={
            "/api/files": file,
            "/api/attachments": file,
            "/v1/chat/completions": message,
            "/ag-ui": message,
            "/a2a": replace(message, values=min(settings.body_values, A2A_VALUES), whole_text=True),
            "/v1/files": file,
            "/v1/responses": message,
            "/threads": message,
            "/runs": message,
            "/api/sessions/import": document,
        },
    )
    application.add_middleware(
        Authentication,
        keys=settings.keys,
        rates=rates,
        origins=settings.origins,
        open_metrics=settings.open_metrics,
    )
    if settings.origins:
        application.add_middleware(
            CORSMiddleware,
            allow_origins=settings.origins,
            allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=["*"],
            allow_private_network=True,  # pages of the internet, such as LangGraph Studio, may be listed, too
            expose_headers=_EXPOSED_HEADERS,
        )
    if not settings.keys:
        application.add_middleware(OwnHostOnly, origins=settings.origins)
    application.add_middleware(RequestLog)
    application.add_middleware(ResponseHeaders)
    application.add_middleware(BelowPath, path=settings.path)
    application.add_middleware(HeadAsGet)


A2A_VALUES = 5_000
"""Values in the JSON of an A2A request, which its package decodes slowly."""
PAGE = Path(__file__).with_name("page")
PAGE_DOCUMENTS = {"/": "index.html", "/docs": "docs.html", "/shared": "shared.html"}
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
"""By ending: browsers run no module of another type, and a machine may be configured to say another."""


class PageFiles(StaticFiles):
    """The folder's files. A browser keeps them and asks each time whether they changed."""

    def __init__(self) -> None:
        super().__init__(directory=PAGE)

    def file_response(
        self, full_path: "str | os.PathLike[str]", stat_result: os.stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers["Cache-Control"] = "no-cache"
        if kind := _TYPES.get(Path(full_path).suffix):
            response.headers["Content-Type"] = f"{kind}; charset=utf-8"
        return response


def add_page(application: FastAPI) -> None:
    """Serve the documents by their paths, and everything that they load below `/page/`."""
    files = PageFiles()
    for path, name in PAGE_DOCUMENTS.items():
        application.add_route(path, _document(files, name), include_in_schema=False)
    application.mount("/page", files)


def _document(files: PageFiles, name: str) -> Callable[[Request], Awaitable[Response]]:
    async def respond(request: Request) -> Response:
        return await files.get_response(name, request.scope)

    return respond
