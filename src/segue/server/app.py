"""The web application: `create_app()` wires routes, layers and the app that they serve."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from ..core.agents import Agent
from ..core.errors import SegueError
from ..core.models import OFFLINE
from ..entry import open as open_app
from ..rehearsal.segue_bot import attach
from ..telemetry.metrics import Metrics
from .auto_resume import AutoResume
from .errors import Problem, answer_http, answer_invalid, answer_problem, answer_segue_error
from .log_config import logger
from .mcp import serving_mcp
from .middleware.authentication import Authentication
from .middleware.body_limit import BodyLimit, Limit
from .middleware.own_host import OwnHostOnly
from .middleware.rate_limit import RateLimits
from .middleware.request_log import RequestLog
from .middleware.security_headers import SecurityHeaders
from .page_files import add_page
from .routes import API
from .service import Service
from .settings import BYTES_A_VALUE, IMPORT, UPLOAD, ServerSettings
from .shutdown import drain, draining_on_signal

_ABOUT = 'A conversational-agent engine that does not lose work. Errors are `{"error": {type, message, error_id}}`.'
_EXPOSED_HEADERS = ["X-Task-Id", "X-Session-Id", "X-Request-Id", "Retry-After"]


def create_app(
    database: str | Path = "segue.db",
    settings: ServerSettings | None = None,
    *,
    agents: Iterable[Agent] = (),
    modes: Mapping[str, Any] | None = None,
    agents_file: str = "",
) -> FastAPI:
    """The service over one database, which is opened when the server starts.

    `agents_file` is the path of the file that the agents come from: a task remembers it for the command line.
    """
    settings = settings or ServerSettings()
    application = FastAPI(
        title="Segue",
        description=_ABOUT,
        version="1",
        docs_url=None,  # FastAPI's load their scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        lifespan=_lifespan(database, settings, tuple(agents), modes, agents_file),
    )
    application.router.routes.extend(API.routes)
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


def _add_layers(application: FastAPI, settings: ServerSettings) -> None:
    """The innermost first: what a request passes last."""
    rates = RateLimits(settings.requests_a_minute, settings.chats_a_minute)
    file = Limit(settings.upload_bytes, settings.upload_seconds, setting=UPLOAD)
    message = replace(file, values=settings.body_values)
    document = Limit(settings.import_bytes, settings.upload_seconds, settings.import_bytes // BYTES_A_VALUE, IMPORT)
    application.add_middleware(
        BodyLimit,
        usual=Limit(settings.body_bytes, settings.body_seconds, settings.body_values),
        own={
            "/api/files": file,
            "/api/attachments": file,
            "/v1/chat/completions": message,
            "/ag-ui": message,
            "/v1/files": file,
            "/v1/responses": message,
            "/api/sessions/import": document,
        },
    )
    application.add_middleware(Authentication, keys=settings.keys, rates=rates, open_metrics=settings.open_metrics)
    if settings.origins:
        application.add_middleware(
            CORSMiddleware,
            allow_origins=settings.origins,
            allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=["Authorization", "Content-Type", "Idempotency-Key", "Last-Event-ID", "X-Session-Id"],
            expose_headers=_EXPOSED_HEADERS,
        )
    if not settings.keys:
        application.add_middleware(OwnHostOnly, origins=settings.origins)
    application.add_middleware(RequestLog)
    application.add_middleware(SecurityHeaders)


def _log_model(model: str) -> None:
    if model == OFFLINE:
        logger.warning("the offline planner answers: set OPENAI_API_KEY, or SEGUE_MODEL, for a language model")
    else:
        logger.info("model", extra={"model": model})


def _lifespan(
    database: str | Path,
    settings: ServerSettings,
    agents: tuple[Agent, ...],
    modes: Mapping[str, Any] | None,
    agents_file: str,
) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(application: FastAPI) -> AsyncIterator[None]:
        opening = open_app(database, agents=agents, modes=modes, retention=settings.retention)
        async with opening.when_reachable() as app:
            app.agents.agents_file = agents_file
            app.agents.default_agent = settings.default_agent
            attach(app)
            service = application.state.service = Service(app, settings, Metrics(app))
            _log_model(service.default_model)
            auto_resume = AutoResume(service)
            ids = await auto_resume.find(paused=True) if settings.resume else []
            background = asyncio.create_task(auto_resume.run(ids), name="auto-resume") if settings.resume else None
            async with serving_mcp(application, service):
                with draining_on_signal(service):
                    yield
            await drain(service)
            if background:
                background.cancel()
                await asyncio.gather(background, return_exceptions=True)
            await app.drain(settings.drain_seconds)  # what a request had begun to start meanwhile

    return lifespan
