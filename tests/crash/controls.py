"""Changes to the engine, in a child alone: promises switched off, so that the judge must notice; shorter leases."""

import errno
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from segue.checkpoints import leases
from segue.checkpoints.ledger import ToolLedger
from segue.checkpoints.sqlite import database
from segue.core.calls import CallKey, Claim
from segue.core.context import Services
from segue.core.errors import DatabaseUnavailable
from segue.runtime.runner import Heartbeat

NO_LEDGER = "ledger"
NO_LEASE = "lease"


def apply(
    without: Collection[str], unknown: Collection[str], ttl: float | None, lock_timeout: float | None = None
) -> None:
    if NO_LEDGER in without:
        _drop_ledger()
    if NO_LEASE in without:
        _give_everyone_the_lease()
    if unknown:
        _interrupt(frozenset(unknown))
    if ttl is not None:
        _shorten(ttl)
    if lock_timeout is not None:
        _give_up_after(lock_timeout)


def _drop_ledger() -> None:
    """Services as they would be without a ledger."""
    real = Services.__init__

    def without_ledger(self: Services, **options: Any) -> None:
        real(self, **{**options, "ledger": None})

    Services.__init__ = without_ledger  # type: ignore[method-assign]


def _give_everyone_the_lease() -> None:
    """Everybody holds fence 1 of every thread, so that every check of it passes."""

    async def acquire(self: leases.Lease, thread_id: str, owner: str, **_: Any) -> int:
        put = "INSERT OR REPLACE INTO leases (thread_id, owner, fence, expires_at) VALUES (?, ?, 1, 9e9)"
        lease: Any = self
        await lease._database.write(lambda connection: connection.execute(put, (thread_id, owner)))
        return 1

    async def release(self: leases.Lease, thread_id: str, fence: int) -> None:
        pass

    leases.Lease.acquire = acquire  # type: ignore[method-assign, assignment]
    leases.Lease.release = release  # type: ignore[method-assign]


def _interrupt(labels: frozenset[str]) -> None:
    """Tell of these calls what the ledger tells of a call whose process died in it."""
    real = ToolLedger.claim

    async def claim(
        self: ToolLedger, key: CallKey, name: str, arguments: Mapping[str, Any], *, synced: bool = True
    ) -> Claim:
        claimed = await real(self, key, name, arguments, synced=synced)
        return Claim("interrupted") if arguments.get("label") in labels else claimed

    ToolLedger.claim = claim  # type: ignore[method-assign]


def _shorten(ttl: float) -> None:
    """Let leases run out after `ttl` seconds, wherever that is a default."""
    real = Heartbeat.__init__

    def start(self: Heartbeat, *arguments: Any, **options: Any) -> None:
        real(self, *arguments, **{**options, "ttl": ttl})

    Heartbeat.__init__ = start  # type: ignore[method-assign]


def _give_up_after(seconds: float) -> None:
    """Wait no longer for SQLite's lock."""
    database.open_database.__defaults__ = (seconds,)


def fail_renewals(count: int) -> None:
    """Let the first so many renewals of leases fail, as without a file descriptor left."""
    real, left = leases.Renewal.renew, iter(range(count))

    def renew(self: leases.Renewal, fences: Mapping[str, int], ttl: float) -> set[str]:
        if next(left, None) is not None:
            raise DatabaseUnavailable("Too many open files.")
        return real(self, fences, ttl)

    leases.Renewal.renew = renew  # type: ignore[method-assign]


def fill_folder(count: int) -> None:
    """Let the folder of messages' files have room for so many more of them, and for a part of the next one."""
    real, left = database.write_synced, iter(range(count))

    def write(path: Path, content: bytes) -> None:
        if next(left, None) is not None:
            return real(path, content)
        real(path, content[: len(content) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    database.write_synced = write
