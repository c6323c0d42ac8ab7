"""The service as a part of one's own ASGI application: `segue.asgi()`."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from contextvars import Context
from dataclasses import replace
from typing import Any

from starlette.types import Receive, Scope, Send

from ..app import App
from ..core.errors import ConfigurationError, SegueError
from ..entry import Opening
from .app import build
from .errors import Problem, refusal
from .lifespan import serving_app
from .run import logger
from .settings import ServerSettings, from_environment
from .tenants import Authenticate, Users


class EmbeddedService:
    """The HTTP API and the page over an app, to be mounted or served.

    It starts with its `lifespan`. An application that runs none of it has it started by the first request; then it
    stops with `App.close`, or with the event loop.
    """

    def __init__(self, app: App | Opening, settings: ServerSettings) -> None:
        self._app = app
        self._settings = settings
        self._application = build(settings, self.lifespan)
        self._is_running = False
        self._started: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def lifespan(self, _: Any = None) -> AsyncIterator[None]:
        """Resume interrupted tasks, serve, and pause what runs at the end: `FastAPI(lifespan=service.lifespan)`.

        In a lifespan of one's own: `async with service.lifespan():`. An app that is not open yet is opened and closed.
        """
        if self._is_running:
            yield
            return
        async with AsyncExitStack() as closing:
            app = self._app
            if isinstance(app, Opening):
                app = await closing.enter_async_context(app.when_reachable())
            await closing.enter_async_context(serving_app(self._application, app, self._settings))
            self._is_running = True
            try:
                yield
            finally:
                self._is_running = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._is_running:
            try:
                await self._start()
            except SegueError as error:
                logger.exception("not started")
                answer = refusal(Problem(503, "Internal"), scope, error)
                return await answer(scope, receive, send)
        await self._application(scope, receive, send)

    async def _start(self) -> None:
        """Start without a lifespan, once for all requests that come meanwhile."""
        if self._started is None or self._started.done() or self._started.get_loop().is_closed():
            self._ready = asyncio.get_running_loop().create_future()
            running = self._run(self._ready)
            self._started = asyncio.get_running_loop().create_task(running, name="service", context=Context())
        await asyncio.shield(self._ready)

    async def _run(self, ready: asyncio.Future[None]) -> None:
        closing = asyncio.Event()
        stopped = asyncio.get_running_loop().create_future()

        async def stop() -> None:
            closing.set()
            await stopped

        try:
            async with self.lifespan():
                if isinstance(self._app, App):
                    self._app.before_close(stop)
                ready.set_result(None)
                with suppress(asyncio.CancelledError):  # the loop ends
                    await closing.wait()
        except Exception as error:
            if ready.done():
                raise
            ready.set_exception(error)
        finally:
            stopped.set_result(None)


def asgi(
    app: App | Opening,
    *,
    user: Authenticate | None = None,
    path: str = "",
    settings: ServerSettings | None = None,
) -> EmbeddedService:
    """The whole HTTP service over `app`, as an ASGI application to mount in FastAPI or Starlette.

    `app` is an open app, or `segue.open(…)`, which is opened and closed with the service. Give its `lifespan` to the
    application that it is mounted in, since FastAPI and Starlette do not run those of mounted applications.

    `user` replaces the API keys: it gets the request, and returns the name of its user, or (name, roles), or raises
    `HTTPException`; None is answered with 401. Each user has sessions of its own. Without it the keys of
    SEGUE_API_KEY hold, and without keys only this machine is answered.

    `path` is where the service is at a proxy that strips it. Below a mount it is known, and left out. `settings` take
    the place of the SEGUE_… variables.

    Raises:
        ConfigurationError: `app` or `path` cannot be used.
    """
    if not isinstance(app, App | Opening):
        raise ConfigurationError(
            "segue.asgi() was given {kind}: pass segue.open(…), or an app that is open.", kind=type(app).__name__
        )
    chosen = from_environment() if settings is None else settings
    if path:
        chosen = replace(chosen, path=path)
    if user is not None:
        chosen = replace(chosen, keys=Users(user))
    return EmbeddedService(app, chosen)
