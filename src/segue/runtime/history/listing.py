"""The listed snapshots of a session from the newest on, read page by page: an old session has many."""

from collections.abc import AsyncIterator

from ...checkpoints.sessions.threads import Threads
from ...core.records import Snapshot
from .timeline import is_listed

_EACH = 4
"""Snapshots that are read for one that is listed; of the built-in modes about every third is."""
_LEAST, _MOST = 200, 8000
"""Snapshots of the first page, and of the largest one."""


async def listed_snapshots(sessions: Threads, thread_id: str, expected: int = 0) -> AsyncIterator[Snapshot]:
    """The snapshots that a timeline lists, newest first; `expected` is how many will be asked for.

    Raises:
        UnknownThread: the session has none at all.
    """
    size, before = min(max(_LEAST, _EACH * expected), _MOST), None
    while page := await sessions.snapshots(thread_id, size, before):
        for place, each in enumerate(page):
            if is_listed(each) or (before is None and place == 0):
                yield each
        if len(page) < size:
            return
        before, size = page[-1].checkpoint_id, min(2 * size, _MOST)


async def newest(sessions: Threads, thread_id: str, limit: int) -> tuple[list[Snapshot], Snapshot | None]:
    """The newest listed snapshots, newest first, and the listed one before them, if there is one.

    Damaged ones, whose time is not known, are beside the limit.
    """
    found: list[Snapshot] = []
    async for each in listed_snapshots(sessions, thread_id, limit):
        if len(found) >= limit and not each.damaged:
            return found, each
        found.append(each)
    return found, None
