"""The agents as A2A servers, at `/a2a/AGENT`, where the package `a2a-sdk` is installed.

The package takes long to import, so that only the first request does.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from fastapi import FastAPI
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ..core.records import Task
from ..core.task_status import TaskStatus
from ..runtime.relay import Observer
from .errors import Problem, not_found, refusal
from .log_config import logger
from .service import Service

PATH = "/a2a"
CARD = "/.well-known/agent-card.json"


class _Endpoint:
    """Hands a request to the protocol's routes, once they are loaded."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._routes: asyncio.Task[ASGIApp] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        agent = scope["path_params"].get("agent", self._service.default_agent)
        try:
            self._service.refuse_while_draining()
            if agent not in self._service.agents:
                raise not_found("agent", agent)
        except Problem as problem:
            return await refusal(problem, scope)(scope, receive, send)
        await (await self._loaded())(scope, receive, send)

    async def _loaded(self) -> ASGIApp:
        if self._routes is None:
            self._routes = asyncio.create_task(asyncio.to_thread(self._load), name="loading a2a")
        return await asyncio.shield(self._routes)

    def _load(self) -> ASGIApp:
        routes: ASGIApp = _module("a2a_routes").routes(self._service)
        return routes


def _module(name: str) -> Any:
    return import_module(f".{name}", __package__)


class PushNotifications(Observer):
    """Reports that a task of this process stopped, to whom its clients asked to."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._sending: set[asyncio.Task[None]] = set()

    def stopped(self, task: Task) -> None:
        sending = asyncio.create_task(self._report(task), name="push notification")
        self._sending.add(sending)
        sending.add_done_callback(self._sending.discard)

    async def _report(self, task: Task) -> None:
        try:
            if task.status == TaskStatus.PAUSED and task.requested is None:
                return  # it goes on when the service starts again
            if await self._service.app.tasks.webhooks.list(task.task_id):
                push = await asyncio.to_thread(_module, "a2a_push")
                await push.report(self._service, task)
        except Exception:  # noqa: BLE001  logged with its trace: nobody waits for it
            logger.exception("push notification failed", extra={"task_id": task.task_id})

    async def close(self) -> None:
        await asyncio.gather(*self._sending, return_exceptions=True)


@asynccontextmanager
async def serving_a2a(application: FastAPI, service: Service) -> AsyncIterator[None]:
    """Answer at `/a2a/AGENT`, and with the default agent's card at the well-known path."""
    if find_spec("a2a") is None:
        yield
        return
    service.app.tasks.observe(PushNotifications(service))
    endpoint = _Endpoint(service)
    paths = (CARD, f"{PATH}/{{agent}}", f"{PATH}/{{agent}}/{{path:path}}")
    added = [Route(path, endpoint, methods=None) for path in paths]
    application.router.routes.extend(added)
    try:
        yield
    finally:
        for route in added:
            application.router.routes.remove(route)
