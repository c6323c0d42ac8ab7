"""The times of model calls: timeouts, retries and their delays."""

import random
import time
from asyncio import sleep
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

ATTEMPTS = 3
"""How often a call is made, the first time included; no other layer retries."""

MAX_RETRY_AFTER = 60.0
"""The longest Retry-After in seconds that is waited for; with a longer one the task ends, to be resumed."""

FIRST_DELAY = 1.0
"""Seconds before the second attempt; they double with each further one, less a random part of up to half."""

REPLY_SECONDS = 300.0
"""Seconds that a reply may take which is not streamed."""


@dataclass(frozen=True)
class RetryPolicy:
    """How long to wait, in seconds, and where time and chance come from.

    `read_timeout` bounds the wait for each piece of a stream, `reply_timeout` that for a reply that is not streamed.
    """

    read_timeout: float = 60.0
    reply_timeout: float = REPLY_SECONDS
    sleep: Callable[[float], Awaitable[object]] = sleep
    chance: Callable[[], float] = random.random
    clock: Callable[[], float] = time.time

    def delay(self, attempt: int, retry_after: float | None) -> float:
        """Seconds to wait before an attempt (2 is the first that waits): its Retry-After, else backoff."""
        if retry_after is not None:
            return retry_after
        return float(FIRST_DELAY * 2 ** (attempt - 2)) * (1 - self.chance() / 2)

    def time_after(self, seconds: float) -> str:
        """The time of day in so many seconds."""
        return datetime.fromtimestamp(self.clock() + seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
