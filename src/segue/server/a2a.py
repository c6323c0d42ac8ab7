"""The agents as A2A servers, at `/a2a/AGENT`, where the package `a2a-sdk` is installed.

The package takes long to import, so that only the first request does.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from fastapi import FastAPI
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ..core.errors import SegueError
from ..core.records import Json, Task, Webhook
from ..core.task_status import ACTIVE
from ..runtime.relay import Observer
from .errors import Problem, not_found, refusal
from .log_config import logger
from .service import Service

PATH = "/a2a"
CARD = "/.well-known/agent-card.json"
POLL_SECONDS = 2.0
"""Seconds between two looks for tasks that other processes stopped, and for receivers to try again."""
RETRY_SECONDS = (2.0, 10.0, 60.0, 300.0)
"""How long after a notification failed the next attempt is made."""
CLAIM_SECONDS = 60.0
"""How long no other service sends a notification that one is sending."""
MAX_CONCURRENT = 16
"""Notifications that are sent at once."""
MAX_OF_A_TENANT = 4
"""Of these, those of one tenant; its receivers may be slow."""
CLOSE_SECONDS = 2.0
"""How long those that are being sent may take when the service stops."""


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
    """Reports tasks that stopped to the webhooks of their clients, whichever process ran them.

    What is due is stored with the task. A receiver that fails is tried again; of several services one sends.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._webhooks = service.app.tasks.webhooks
        self._due = asyncio.Event()
        self._sending: dict[asyncio.Task[None], str] = {}
        """Each with the prefix of its tenant's threads."""
        self._running = asyncio.create_task(self._run(), name="push notifications")

    def stopped(self, task: Task) -> None:
        self._due.set()

    async def close(self) -> None:
        self._running.cancel()
        if self._sending:
            await asyncio.wait(self._sending, timeout=CLOSE_SECONDS)
        for sending in self._sending:  # it is sent by the next service
            sending.cancel()
        await asyncio.gather(self._running, *self._sending, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._due.wait(), POLL_SECONDS)
            self._due.clear()
            try:
                while len(self._sending) < MAX_CONCURRENT and (
                    claimed := await self._webhooks.claim(1, CLAIM_SECONDS, self._busy())
                ):
                    sending = asyncio.create_task(self._report(claimed[0]), name="push notification")
                    self._sending[sending] = claimed[0].thread.partition(":")[0] + ":"
                    sending.add_done_callback(self._sent)
            except Exception as error:  # noqa: BLE001  the next round tries again
                logger.warning("push notifications wait", extra={"type": type(error).__name__})
                await asyncio.sleep(CLAIM_SECONDS)

    def _busy(self) -> list[str]:
        """The prefixes of tenants with as many notifications as they may have; without keys there is one tenant."""
        count = Counter(self._sending.values()) if self._service.settings.keys else Counter[str]()
        return [prefix for prefix, number in count.items() if number >= MAX_OF_A_TENANT]

    def _sent(self, sending: asyncio.Task[None]) -> None:
        del self._sending[sending]
        self._due.set()  # there is room for another one

    async def _report(self, webhook: Webhook) -> None:
        """Send a task as it is, unless it continues by itself. Addresses hold secrets, and are never logged."""
        again = RETRY_SECONDS[webhook.attempts - 1] if webhook.attempts <= len(RETRY_SECONDS) else None
        about: Json = {"task_id": webhook.task_id, "attempt": webhook.attempts}
        try:
            task = await self._service.app.tasks.get(webhook.task_id)
            if task.status not in ACTIVE and not task.resumes_itself:
                push = await asyncio.to_thread(_module, "a2a_push")
                await push.send(self._service, task, webhook)
            again = None
        except Exception as error:  # noqa: BLE001  nobody waits for it: it is logged, and due again
            logger.warning("push notification failed", extra={**about, "type": type(error).__name__})
        with suppress(SegueError):  # it is due again once its claim ends
            await self._webhooks.settle(webhook, again)


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
