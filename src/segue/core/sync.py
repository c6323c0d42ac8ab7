"""Synchronous callers of asynchronous work: their event loop, and waiting for a loop in another thread."""

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from functools import cache
from typing import TypeVar

from .errors import InsideEventLoop

T = TypeVar("T")


@cache
def sync_loop() -> asyncio.AbstractEventLoop:
    """The loop of all synchronous callers; connections stay usable from one call to the next."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="segue-sync", daemon=True).start()
    return loop


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=sync_loop.cache_clear)  # a fork copies no threads


async def run_blocking(work: Callable[[], None]) -> None:
    """Wait for blocking work on another thread; while the interpreter exits, no thread begins, and it runs here."""
    try:
        running = asyncio.get_running_loop().run_in_executor(None, work)
    except RuntimeError:
        return work()
    await running


_STOP_SECONDS = 10.0
"""How long a call that was interrupted may take to stop what it began."""


def run_sync(work: Awaitable[T], loop: asyncio.AbstractEventLoop | None = None) -> T:
    """Wait for work on the event loop of another thread, by default that of synchronous callers."""
    loop, ended = loop or sync_loop(), threading.Event()

    async def whole() -> T:
        try:
            return await work
        finally:
            ended.set()

    if asyncio._get_running_loop() is loop:
        if isinstance(work, Coroutine):
            work.close()
        raise InsideEventLoop("segue.open_sync")
    running = asyncio.run_coroutine_threadsafe(whole(), loop)
    try:
        return running.result()
    except BaseException:  # Ctrl-C, beside what the work raised
        if running.cancel():
            ended.wait(_STOP_SECONDS)
        raise
