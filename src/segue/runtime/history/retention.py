"""Retention: the older snapshots of sessions are merged, on request or every hour."""

import asyncio
import logging
import math
import time
from collections.abc import Mapping
from typing import Any

from ...checkpoints.storage import Storage
from ...core.errors import SegueError, ThreadBusy, UnknownThread
from ...core.session_filter import SessionFilter
from ...core.timeline import Place, Pruned, Retention, Snapshot
from ..run import config_of, state_at
from ..runner import Runner
from .timeline import listed_snapshots

logger = logging.getLogger(__name__)

EVERY = 3600.0
"""Seconds between two prunings by a policy."""


class Pruning:
    """Prunes sessions, each under its lease: one whose task runs is left as it is."""

    def __init__(self, storage: Storage, runner: Runner) -> None:
        self._storage = storage
        self._runner = runner
        self._regular: asyncio.Task[None] | None = None

    def start(self, retention: Retention) -> None:
        """Prune at once and every hour, in the background, and delete the links that expired."""
        self._regular = asyncio.create_task(self._regularly(retention), name="retention")

    async def close(self) -> None:
        """End the background task."""
        if self._regular is not None:
            self._regular.cancel()
            await asyncio.gather(self._regular, return_exceptions=True)

    async def _regularly(self, retention: Retention) -> None:
        while True:
            try:
                await self._storage.shares.delete_expired()
                await self.prune(retention)
            except SegueError as error:
                logger.warning("Snapshots could not be pruned: %s", error)
            except Exception:
                logger.exception("Snapshots could not be pruned")
            await asyncio.sleep(EVERY)

    async def prune(
        self, retention: Retention, session_id: str | None = None, *, dry_run: bool = False, compact: bool = False
    ) -> Pruned:
        """Prune one session, or all, and return the freed space to the file system.

        A `dry_run` only says what would be removed; `compact` rewrites the whole file, which others wait for.

        Raises:
            UnknownThread, DamagedSession: only of the session that is named.
        """
        if session_id is not None:
            names = [session_id]
        else:
            names = [thread.thread_id for thread in await self._storage.threads.list(SessionFilter(bots=True))]
        counts, busy = [], []
        for name in names:
            try:
                counts.append(await self._one(name, retention, dry_run))
            except ThreadBusy:
                busy.append(name)
            except UnknownThread:  # it has no snapshots: nothing was sent to it yet, or it was deleted meanwhile
                if session_id is not None:
                    await self._storage.threads.get(session_id)
            except SegueError as error:
                if session_id is not None:
                    raise
                logger.warning("The snapshots of session %s could not be pruned: %s", name, error)
        if any(counts) and not dry_run:
            await (self._storage.compact() if compact else self._storage.shrink())
        return Pruned(sum(counts), sum(map(bool, counts)), tuple(busy))

    async def _one(self, thread_id: str, retention: Retention, dry_run: bool) -> int:
        if await self._bound(thread_id, retention) is None:
            return 0  # as most often: no lease is needed for that
        async with self._runner.leased(thread_id):
            bound = await self._bound(thread_id, retention)
            if bound is None:
                return 0
            kept, before = bound
            fence = self._runner.saver.fence(thread_id)
            return await self._storage.sessions.prune(
                thread_id, kept.checkpoint_id, fence, self._values, before.created_at, dry_run=dry_run
            )

    async def _bound(self, thread_id: str, retention: Retention) -> tuple[Snapshot, Snapshot] | None:
        """The oldest listed snapshot that is kept, and the one before it; None if there is none before."""
        sessions = self._storage.sessions
        since = math.inf if retention.seconds is None else time.time() - retention.seconds
        if await sessions.oldest_checkpoint_time(thread_id) >= since:
            return None
        bound, oldest, place = None, None, 0
        async for each in listed_snapshots(sessions, thread_id, retention.last or 0):
            if place == 0 or place < (retention.last or 0) or each.created_at >= since:
                bound, oldest = None, each
            elif oldest and bound is None:
                bound = oldest, each
            if bound and not each.damaged:  # all that come now are older
                break
            place += 1
        return bound

    async def _values(self, place: Place) -> Mapping[str, Any]:
        values: Mapping[str, Any] = (await state_at(self._runner.graph, config_of(place))).values
        return values
