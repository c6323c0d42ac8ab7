"""Copies of sessions that go on differently, and which of them are branches of one conversation."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from ..checkpoints.sessions.threads import Threads
from ..checkpoints.storage import Storage
from ..core.errors import SegueError
from ..core.records import Task
from ..core.timeline import Branch
from .sessions import Sessions


@asynccontextmanager
async def forked(
    sessions: Sessions,
    session_id: str,
    checkpoint_id: str,
    new_session: str,
    *,
    blocked: bool = False,
    branch: Branch | None = None,
) -> AsyncGenerator[Task | None, None]:
    """A fork's newest task; the fork alone is deleted if what is done with it fails."""
    task = await sessions.fork(session_id, checkpoint_id, new_session, blocked=blocked, branch=branch)
    try:
        yield task
    except BaseException:
        with suppress(SegueError):  # the first error says more
            await sessions.discard(new_session)
        raise


@asynccontextmanager
async def recorded(threads: Threads, branch: Branch | None) -> AsyncGenerator[None, None]:
    """Record a branch that repeats no turn before its first message is stored."""
    if branch is None:
        yield
        return
    await threads.add_branch(branch)
    try:
        yield
    except BaseException:
        with suppress(SegueError):  # the first error says more
            await threads.drop_branch(branch.thread_id)
        raise


async def is_begun(storage: Storage, branch: Branch) -> bool:
    """Whether the branch was stored already, and its own turn was not, as after a crash."""
    if branch not in await storage.sessions.branches(branch.parent):
        return False
    return len(await storage.tasks.since(branch.thread_id, None, 0.0)) == branch.turn - 1
