"""Shutdown without losing work: tasks pause at a checkpoint, streams end, then the server closes."""

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from .log_config import logger
from .service import Service

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
    await service.app.drain(service.settings.drain_seconds)
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
