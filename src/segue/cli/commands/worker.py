"""`segue worker`: a process that runs the tasks of a PostgreSQL database."""

import asyncio
import logging
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from ...core.environment import need_extra
from ..dialog.interrupts import taken_over
from ..exits import remark
from ..settings import Settings

if TYPE_CHECKING:
    from ...app import App


def work(settings: Settings, concurrency: int, grace: float, metrics_host: str, metrics_port: int) -> None:
    """Serve until a signal says to stop.

    Raises:
        MissingExtra: there are to be metrics, and their package is not installed.
        ConfigurationError: the database has no workers, or an agents file cannot be used.
        StorageError: the database cannot be used.
    """
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING)
    logging.getLogger("segue").setLevel(logging.INFO)
    for name in ("procrastinate", "psycopg.pool"):  # what they cannot do is said here
        logging.getLogger(name).setLevel(logging.CRITICAL)
    if metrics_port:
        need_extra("segue worker --metrics-port", "serve", "prometheus_client")
    asyncio.run(_work(settings, concurrency, grace, metrics_host, metrics_port))


async def _work(settings: Settings, concurrency: int, grace: float, metrics_host: str, metrics_port: int) -> None:
    async with settings.opened(max_running=concurrency, serving=True) as app:
        worker = app.worker(concurrency)
        with _metrics(app, metrics_host, metrics_port), taken_over(worker.stop):
            remark(settings.say("worker_ready", agents=", ".join(app.agents), n=concurrency))
            await worker.run(grace)
    remark(settings.say("worker_stopped"))


def _metrics(app: "App", host: str, port: int) -> AbstractContextManager[object]:
    """Answer GET /metrics on a port, if one is named."""
    if not port:
        return nullcontext()
    from ...telemetry.metrics import Metrics

    return Metrics(app).serving(port, host)
