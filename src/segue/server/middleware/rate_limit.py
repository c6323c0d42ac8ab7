"""Rate limits as token buckets."""

import math
import time
from collections.abc import Callable


class TokenBucket:
    """Holds as many tokens as may be taken in a minute."""

    def __init__(self, a_minute: int, now: float) -> None:
        self._most = float(a_minute)
        self._tokens = float(a_minute)
        self._at = now

    def wait(self, now: float) -> int:
        """Take a token and return 0, or the seconds until there is one."""
        self._tokens = min(self._most, self._tokens + (now - self._at) * self._most / 60)
        self._at = now
        if self._tokens < 1:
            return max(1, math.ceil((1 - self._tokens) * 60 / self._most))
        self._tokens -= 1
        return 0


class RateLimits:
    """A tenant's requests and chats a minute; all who are no tenant, None, share one bucket."""

    def __init__(self, requests: int, chats: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = {False: requests, True: chats}
        self._clock = clock
        self._buckets: dict[tuple[str | None, bool], TokenBucket] = {}

    def wait(self, tenant: str | None, *, chats: bool = False) -> int:
        """Count a request and return 0, or the seconds after which it may come."""
        now = self._clock()
        waits = [self._bucket(tenant, kind, now).wait(now) for kind in {False, chats}]
        return max(waits)

    def wait_chat(self, tenant: str) -> int:
        """The same for a chat within a request that was counted."""
        now = self._clock()
        return self._bucket(tenant, True, now).wait(now)

    def _bucket(self, tenant: str | None, chats: bool, now: float) -> TokenBucket:
        key = (tenant, chats)
        if key not in self._buckets:
            self._buckets[key] = TokenBucket(self._most[chats], now)
        return self._buckets[key]
