"""The web application: `create_app()` wires routes, layers and the app that they serve."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from ..core.agents import Agent
from ..core.errors import SegueError
from ..entry import open as open_app
from ..rehearsal.segue_bot import attach
from .auto_resume import AutoResume
from .errors import JsonResponse, Problem, answer_http, answer_invalid, answer_problem, answer_segue_error
from .middleware.authentication import Authentication
from .middleware.body_limit import BodyLimit
from .middleware.own_host import OwnHostOnly
from .middleware.rate_limit import RateLimits
from .middleware.request_log import RequestLog
from .routes import OPEN, ROUTERS
from .service import Service
from .settings import ServerSettings
from .shutdown import drain, draining_on_signal

_ABOUT = 'A conversational-agent engine that does not lose work. Errors are `{"error": {type, message, error_id}}`.'
_EXPOSED_HEADERS = ["X-Task-Id", "X-Session-Id", "X-Request-Id", "Retry-After"]


def create_app(
    database: str | Path = "segue.db",
    settings: ServerSettings | None = None,
    *,
    agents: Iterable[Agent] = (),
    modes: Mapping[str, Any] | None = None,
) -> FastAPI:
    """The service over one database, which is opened when the server starts."""
    settings = settings or ServerSettings()
    application = FastAPI(
        title="Segue",
        description=_ABOUT,
        version="1",
        docs_url=None,  # they load their scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        default_response_class=JsonResponse,
        generate_unique_id_function=_operation_id,
        lifespan=_lifespan(database, settings, tuple(agents), modes),
    )
    for router in (*ROUTERS, *OPEN):
        application.include_router(router)
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
    application.add_middleware(BodyLimit, most=settings.body_bytes, seconds=settings.body_seconds)
    application.add_middleware(Authentication, keys=settings.keys, rates=rates)
    if settings.origins:
        application.add_middleware(
            CORSMiddleware,
            allow_origins=settings.origins,
            allow_methods=["GET", "POST", "PUT"],
            allow_headers=["Authorization", "Content-Type", "Last-Event-ID"],
            expose_headers=_EXPOSED_HEADERS,
        )
    if not settings.keys:
        application.add_middleware(OwnHostOnly, origins=settings.origins)
    application.add_middleware(RequestLog)


def _operation_id(route: APIRoute) -> str:
    return route.name


def _lifespan(
    database: str | Path, settings: ServerSettings, agents: tuple[Agent, ...], modes: Mapping[str, Any] | None
) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(application: FastAPI) -> AsyncIterator[None]:
        async with open_app(database, agents=agents, modes=modes, retention=settings.retention) as app:
            attach(app)
            service = application.state.service = Service(app, settings)
            auto_resume = AutoResume(service)
            ids = await auto_resume.find(paused=True) if settings.resume else []
            background = asyncio.create_task(auto_resume.run(ids), name="auto-resume") if settings.resume else None
            with draining_on_signal(service):
                yield
            await drain(service)
            if background:
                background.cancel()
                await asyncio.gather(background, return_exceptions=True)
            await app.drain(settings.drain_seconds)  # what a request had begun to start meanwhile

    return lifespan
