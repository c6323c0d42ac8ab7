"""When a call is made again."""

import random
import time
from asyncio import sleep
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

ATTEMPTS = 3
"""How often a call is made, the first time included; nothing below retries."""

LONGEST_WAIT = 60.0
"""Seconds that an endpoint may ask to be left alone for; if it asks for more the task stops, to be resumed."""

FIRST_WAIT = 1.0
"""Seconds before the second attempt; they double with each further one, and up to half is taken off by chance."""

WHOLE = 300.0
"""Seconds that a reply may take which comes in one piece."""


@dataclass(frozen=True)
class Patience:
    """How calls are timed: seconds, and where time and chance come from.

    `silence` bounds the wait for each piece of a stream, `whole` that for a reply that comes in one piece.
    """

    silence: float = 60.0
    whole: float = WHOLE
    sleep: Callable[[float], Awaitable[object]] = sleep
    chance: Callable[[], float] = random.random
    clock: Callable[[], float] = time.time

    def before(self, attempt: int, asked_for: float | None) -> float:
        """Seconds to wait before an attempt (2 is the first that waits): what the endpoint asked for, else backoff."""
        if asked_for is not None:
            return asked_for
        return float(FIRST_WAIT * 2 ** (attempt - 2)) * (1 - self.chance() / 2)

    def moment(self, seconds: float) -> str:
        """The time of day in so many seconds."""
        return datetime.fromtimestamp(self.clock() + seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
