"""A worker: it runs the tasks that other processes leave to it, and takes over those of workers that are gone."""

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress

from ..checkpoints.storage import Storage
from ..core import records
from ..core.errors import ConfigurationError, DatabaseUnavailable
from ..registry import Registry
from .notices import REQUESTS
from .observer import Observer
from .runner import Runner
from .takeover import Takeover

logger = logging.getLogger(__name__)

REPORT_EVERY = 1.0
"""Seconds between two reports, and two looks for tasks without a live owner."""
RETRY = 0.3
"""Seconds until the database is tried again."""


class Worker:
    """Runs up to `concurrency` tasks of the app's agents at once, until it is stopped.

    What it stops, it leaves to the others without pausing it.

    Raises:
        ConfigurationError: the database is SQLite's, which has no workers.
    """

    def __init__(
        self, storage: Storage, registry: Registry, runner: Runner, modes: Iterable[str], concurrency: int
    ) -> None:
        if storage.workers is None:
            raise ConfigurationError("Workers need a PostgreSQL database: name one with --db postgresql://…")
        self._workers = storage.workers
        self._takeover = Takeover(registry, runner, modes)
        self._runner = runner
        self._concurrency = concurrency
        self._stopping = asyncio.Event()
        self._is_away = False
        runner.for_others = True
        runner.observers.append(_Log())

    async def run(self, grace: float) -> None:
        """Serve until `stop`; tasks that reach no boundary within `grace` seconds are then stopped where they are."""
        serving = [
            asyncio.create_task(self._serve(), name="serving"),
            asyncio.create_task(self._report(), name="reporting"),
        ]
        with self._runner.notices.about(REQUESTS):  # so that it knows who follows its tasks, from the first one on
            await self._stopping.wait()
        for each in serving:
            each.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        with suppress(DatabaseUnavailable):
            await self._workers.leave(self._runner.leases.owner)
        await self._runner.drain(grace)

    def stop(self) -> None:
        """Hand the tasks over at their next boundaries; the second time, stop them where they are."""
        if self._stopping.is_set():
            self._runner.stop_all()
        self._stopping.set()

    async def _serve(self) -> None:
        while True:
            try:
                await self._workers.serve(self._takeover.agents, self._concurrency, self._run)
            except DatabaseUnavailable as error:
                self._note_outage(error)
            await asyncio.sleep(RETRY)

    async def _run(self, task_id: str) -> None:
        """Run a task, if it is for this worker; who waits for its end may be cancelled, the task is not."""
        try:
            if run := await self._takeover.take(task_id):
                logger.info("Task %s runs here.", task_id)
                await asyncio.wait([run])
        except DatabaseUnavailable as error:
            logger.warning("Task %s is not taken: %s", task_id, error)

    async def _report(self) -> None:
        while True:
            try:
                await self._workers.report(self._described())
                unowned = await self._workers.unowned(self._takeover.agents)
                await self._workers.wake(await self._takeover.to_wake(unowned))
                self._note_outage(None)
            except DatabaseUnavailable as error:
                self._note_outage(error)
            await asyncio.sleep(REPORT_EVERY)

    def _note_outage(self, error: DatabaseUnavailable | None) -> None:
        """Log when the database is gone, and when it is back."""
        if error and not self._is_away:
            logger.warning("%s", error)
        elif self._is_away and not error:
            logger.info("The database can be used again.")
        self._is_away = error is not None

    def _described(self) -> records.Worker:
        return records.Worker(
            owner=self._runner.leases.owner,
            agents=self._takeover.agents,
            modes=self._takeover.modes,
            concurrency=self._concurrency,
            running=len(self._runner.running()),
        )


class _Log(Observer):
    """Logs what becomes of the tasks that run here."""

    def stopped(self, task: records.Task) -> None:
        logger.info("Task %s is %s.", task.task_id, task.status)
