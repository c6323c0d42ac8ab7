"""Polling for what no event tells."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from inspect import isawaitable

SECONDS = 180.0
"""Far longer than a loaded machine needs: it only ends a test that would wait for ever."""


async def until(holds: Callable[[], object | Awaitable[object]]) -> None:
    """Wait until it holds."""
    async with asyncio.timeout(SECONDS):
        while True:
            found = holds()
            if await found if isawaitable(found) else found:
                return
            await asyncio.sleep(0.005)


def wait_until(holds: Callable[[], object]) -> None:
    """Wait until it holds, outside of any event loop."""
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline, "it never came to hold"
        time.sleep(0.01)
