"""Start and end of the service: it resumes interrupted tasks, and stops without losing work."""

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

from fastapi import FastAPI

from ..app import App
from ..core.actor import SEGUE, act_as
from ..core.agents import Agent
from ..core.audit import load_audit
from ..core.conversation import Restrictions
from ..core.errors import SegueError
from ..core.models import OFFLINE
from ..core.notifications import Receiver
from ..core.schedules import load_deadlines, load_schedules
from ..core.spend import SpendLimits, load_quotas
from ..entry import open as open_app
from ..runtime.runner import TAKEOVER_SECONDS
from ..runtime.tasks import ResumableTask
from ..runtime.worker import Dispatching, exceeds_takeovers
from ..telemetry.metrics import Metrics
from ..testing.rehearsal.participants import shipped_names
from ..testing.rehearsal.segue_bot import attach
from .a2a.endpoint import serving_a2a
from .langgraph.start import serving_langgraph
from .mcp import serving_mcp
from .run import logger
from .service import Service
from .settings import ServerSettings

AT_ONCE = 4
SWEEP_SECONDS = 60.0
MOST = {"conversation_turn_limit": 200, "bot_action_limit": 100, "retry_limit": 10, "api_timeout": 300.0}
"""What a conversation may take at most, by the field of its configuration."""


class AutoResume:
    """Resumes each task once, the oldest first, a few at a time; none that a person paused.

    So it does tasks that were left to workers which are all gone, unless only workers are to run them.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._places = asyncio.Semaphore(AT_ONCE)
        self._tried: set[str] = set()
        self._without_worker: set[str] = set()

    async def find(self, *, paused: bool) -> list[str]:
        """The tasks to resume: interrupted by a crash, and with `paused` those that a shutdown paused.

        Streams of them wait until they run.
        """
        try:
            found = [*await self._service.app.tasks.resumable(), *await self._left_by_workers()]
        except Exception:  # noqa: BLE001  logged with its trace, and tried again
            logger.exception("not resumed")
            return []
        tasks = [each for each in found if each.requested is None and (paused or each.interrupted)]
        ids = [task.task_id for task in tasks if task.task_id not in self._tried]
        self._service.resuming.update({task_id: asyncio.Event() for task_id in ids})
        return ids

    async def _left_by_workers(self) -> list[ResumableTask]:
        """The tasks that had waited for a worker at the last look already, where they need not."""
        tasks = self._service.app.tasks
        if tasks.dispatching is not Dispatching.AUTO:
            return []
        waiting = await tasks.waiting_for_worker()
        left = [
            ResumableTask(**vars(task), owner="", interrupted=True)
            for task in waiting
            if task.task_id in self._without_worker
        ]
        self._without_worker = {task.task_id for task in waiting}
        return left

    async def run(self, ids: Iterable[str]) -> None:
        """Resume these, then what is found later, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._continue_raised(), name="continuing with raised limits")
            while True:
                for task_id in ids:
                    self._tried.add(task_id)
                    group.create_task(self._resume(task_id), name=f"resuming {task_id}")
                await asyncio.sleep(TAKEOVER_SECONDS)
                ids = await self.find(paused=False)

    async def _continue_raised(self) -> None:
        """Continue what waits for a limit that was raised while the service did not run, by a person or in the file."""
        try:
            await self._service.app.tasks.continue_raised()
        except SegueError:
            logger.exception("the tasks that wait for a raised limit were not continued")

    async def _resume(self, task_id: str) -> None:
        """Resume a task and wait until it ends, so that not too many run at once."""
        app = self._service.app
        async with self._places:
            try:
                if self._service.draining or exceeds_takeovers(event.type for event in await app.tasks.events(task_id)):
                    return
                await app.tasks.resume(task_id)
                logger.info("resumed", extra={"task_id": task_id})
                self._service.mark_resumed(task_id)
                await self._service.until_stopped(task_id)
            except SegueError as error:  # another worker was faster, or its agent or model is gone
                logger.info("not resumed", extra={"task_id": task_id, "type": type(error).__name__})
            except Exception:  # noqa: BLE001  logged with its trace, and the others continue
                logger.exception("not resumed", extra={"task_id": task_id})
            finally:
                self._service.mark_resumed(task_id)


async def delete_unstored(service: Service) -> None:
    """Delete the sessions of responses that are not stored, at the start and every minute, until cancelled."""
    settings = service.settings
    while True:
        try:
            await service.app.sessions.delete_unstored(settings.unstored_seconds, settings.unstored_open_seconds)
        except Exception:  # noqa: BLE001  logged with its trace, and tried again
            logger.exception("not deleted")
        await asyncio.sleep(SWEEP_SECONDS)


SIGNALS = (signal.SIGTERM, signal.SIGINT)
CLOSING_SECONDS = 1.0
"""How long streams of tasks that other processes run may take to end."""


async def drain(service: Service) -> None:
    """Take on nothing new, pause what runs here, end every stream. The app stays open."""
    if service.drained is None:
        service.drained = asyncio.create_task(_drain(service), name="draining")
    await asyncio.shield(service.drained)


async def _drain(service: Service) -> None:
    logger.info("draining", extra={"streams": len(service.streams)})
    for task_id in [*service.resuming]:
        service.mark_resumed(task_id)
    await service.rehearsals.close()
    await service.backtests.close()
    seconds = service.settings.drain_seconds
    await asyncio.gather(service.app.drain(seconds), *(drain_more(seconds) for drain_more in service.drains))
    if service.streams:
        await asyncio.wait(service.streams, timeout=CLOSING_SECONDS)
    service.app.tasks.stop_following()


@contextmanager
def draining_on_signal(service: Service) -> Iterator[None]:
    """Begin to drain on the signal itself: uvicorn waits for open streams before the lifespan ends."""
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def on_signal(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(loop.create_task, drain(service))
        former = before[signal.Signals(number)]
        if callable(former):
            former(number, frame)

    if not _listen(on_signal):
        yield
        return
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


def _listen(on_signal: Callable[[int, FrameType | None], None]) -> bool:
    """Whether signals come to `on_signal` now; they belong to the main thread, and a test may run in another."""
    if threading.current_thread() is not threading.main_thread():
        return False
    for number in SIGNALS:
        signal.signal(number, on_signal)
    return True


def _log_model(model: str) -> None:
    if model == OFFLINE:
        logger.warning("the offline planner answers: set OPENAI_API_KEY, or SEGUE_MODEL, for a language model")
    else:
        logger.info("model", extra={"model": model})


def _restrict(app: App, settings: ServerSettings) -> None:
    """Let conversations reach only what the service's agents and its settings name, whoever configured them."""
    named = {tool for agent in app.agents.values() for tool in agent.tools if isinstance(tool, str) and ":" not in tool}
    modules, hosts = frozenset(settings.participants), frozenset(settings.api_hosts)
    restrictions = Restrictions(
        modules=modules,
        tools=frozenset(named),
        hosts=hosts,
        workflows=frozenset(shipped_names()),
        local_models=False,
        limits=MOST,
        most_bytes=max(agent.budget.message_bytes for agent in app.agents.values()),
    )
    app.agents.participants = replace(app.agents.participants, restrictions=restrictions)


def serving(
    database: str | Path,
    settings: ServerSettings,
    agents: tuple[Agent, ...],
    modes: Mapping[str, Any] | None,
    agents_file: str,
    notify: tuple[Receiver, ...] = (),
    spend: SpendLimits | None = None,
) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(application: FastAPI) -> AsyncIterator[None]:
        act_as(SEGUE)  # requests act in the names of their keys
        configured: dict[str, Any] = {"retention": settings.retention, "notify": notify, "spend": spend}
        if agents_file:
            configured |= {"audit": load_audit(agents_file), "quotas": load_quotas(agents_file)}
            configured["approvals"] = load_deadlines(agents_file)
        opening = open_app(database, agents=agents, modes=modes, **configured)
        async with opening.when_reachable() as app:
            app.agents.agents_file = agents_file
            app.agents.default_agent = settings.default_agent
            await app.schedules.keep(load_schedules(agents_file) if agents_file else ())
            async with serving_app(application, app, settings, str(database)):
                yield

    return lifespan


@asynccontextmanager
async def serving_app(
    application: FastAPI, app: App, settings: ServerSettings, database: str = ""
) -> AsyncIterator[None]:
    """Serve an open app. Interrupted tasks are resumed; at the end what runs is paused, and the app stays open."""
    attach(app)
    _restrict(app, settings)
    service = application.state.service = Service(app, settings, Metrics(app), database or app.database)
    _log_model(service.default_model)
    auto_resume = AutoResume(service)
    ids = await auto_resume.find(paused=True) if settings.resume else []
    app.schedules.watch()
    background = [asyncio.create_task(delete_unstored(service), name="delete unstored")]
    if settings.resume:
        background.append(asyncio.create_task(auto_resume.run(ids), name="auto-resume"))
    async with (
        serving_mcp(application, service),
        serving_a2a(application, service),
        serving_langgraph(application, service),
    ):
        with draining_on_signal(service):
            yield
    await drain(service)
    background += [login for login, _ in service.logins.values()]
    for task in background:
        task.cancel()
    await asyncio.gather(*background, return_exceptions=True)
    await app.drain(settings.drain_seconds)  # what a request had begun to start meanwhile
