"""The agents as A2A servers, at `/a2a/AGENT`; without the package `a2a-sdk` the answer says how to install it.

The package takes long to import, so that only the first request does.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

from fastapi import FastAPI
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ...core.environment import need_extra
from ...core.errors import MissingExtra
from ...core.notifications import PUSH, Notification
from ...core.task import ACTIVE
from ...runtime.notifications import Sender
from ..errors import Problem, Uninstalled, not_found, refusal
from ..service import Service

PATH = "/a2a"
CARD = "/.well-known/agent-card.json"
RETRY_SECONDS = (2.0, 10.0, 60.0, 300.0)
"""How long after a notification failed the next attempt is made."""


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
        routes: ASGIApp = _module("routes").routes(self._service)
        return routes


def _module(name: str) -> Any:
    return import_module(f".{name}", __package__)


class PushNotifications(Sender):
    """Reports tasks that stopped to the webhooks of their clients, whichever process ran them.

    Of several services one sends.
    """

    def __init__(self, service: Service) -> None:
        self._service = service

    def again_in(self, attempts: int) -> float | None:
        return RETRY_SECONDS[attempts - 1] if attempts <= len(RETRY_SECONDS) else None

    def lane(self, thread_id: str) -> str | None:
        """The receivers of one tenant may be slow, and hold up no other's; without keys there is one tenant."""
        return thread_id.partition(":")[0] + ":" if self._service.settings.keys else None

    async def send(self, notification: Notification) -> None:
        """Send a task as it is, unless it continues by itself."""
        tasks = self._service.app.tasks
        task = await self._service.app.task(notification.task_id)
        if task.status in ACTIVE or task.resumes_itself:
            return
        if webhook := await tasks.webhooks.reported_to(notification):
            routes = await asyncio.to_thread(_module, "routes")
            await routes.send(self._service, task, webhook)


@asynccontextmanager
async def serving_a2a(application: FastAPI, service: Service) -> AsyncIterator[None]:
    """Answer at `/a2a/AGENT`, and with the default agent's card at the well-known path."""
    endpoint: ASGIApp = _Endpoint(service)
    try:
        need_extra("The A2A protocol", "a2a", "a2a")
        service.app.notifications.add(PUSH, PushNotifications(service))
    except MissingExtra as error:
        endpoint = Uninstalled(error)
    paths = (CARD, f"{PATH}/{{agent}}", f"{PATH}/{{agent}}/{{path:path}}")
    added = [Route(path, endpoint, methods=None) for path in paths]
    application.router.routes.extend(added)
    try:
        yield
    finally:
        for route in added:
            application.router.routes.remove(route)
