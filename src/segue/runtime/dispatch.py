"""The choice between running a task in this process and leaving it to a worker."""

import os
from collections.abc import Mapping
from enum import StrEnum

from ..checkpoints.ports import Workers
from ..core.errors import ConfigurationError
from ..core.records import Task, Worker
from ..core.task_status import ACTIVE, TaskStatus
from .capacity import is_inside_task
from .lease_holder import is_gone


class Dispatching(StrEnum):
    """Where tasks run."""

    AUTO = "auto"
    """By a worker if one has the agent and the mode, else in this process."""
    ALWAYS = "always"
    """By a worker; tasks wait until there is one."""
    NEVER = "never"
    """In this process."""


def dispatching(given: str | None, environ: Mapping[str, str] = os.environ) -> Dispatching:
    """What is given, else SEGUE_DISPATCH, else auto.

    Raises:
        ConfigurationError: it is none of these.
    """
    text = given or environ.get("SEGUE_DISPATCH", "") or Dispatching.AUTO
    if text not in list(Dispatching):
        raise ConfigurationError("Dispatching can be auto, always or never, not '{text}'.", text=text[:40])
    return Dispatching(text)


class Dispatch:
    """Decides where tasks run."""

    def __init__(self, how: Dispatching, workers: Workers | None) -> None:
        self.how = how
        self.to_workers = workers is not None
        """Whether the database can have workers."""
        self._workers = workers

    async def workers(self) -> list[Worker]:
        """The workers that are there now."""
        return [] if self._workers is None else [w for w in await self._workers.list() if not is_gone(w.owner)]

    async def to_worker(self, agent_id: str, mode: str, *digests: str | None) -> bool:
        """Whether a task of this agent, in one of these versions, and mode is left to a worker.

        What a task itself starts never is.
        """
        if self._workers is None or self.how is Dispatching.NEVER or is_inside_task():
            return False
        return self.how is Dispatching.ALWAYS or await self.has_worker(agent_id, mode, *digests)

    async def has_worker(self, agent_id: str, mode: str, *digests: str | None) -> bool:
        """Whether a worker is there that has the mode and the agent, in one of these versions if any is given."""
        workers = await self.workers()
        return any(worker.has(agent_id, mode, digest) for worker in workers for digest in digests or (None,))

    async def lacks_worker(self, row: Task) -> bool:
        """Whether a task waits for a worker that is not there."""
        if self._workers is None or row.status is not TaskStatus.PENDING:
            return False
        return not await self.has_worker(row.agent_id, row.mode)

    async def awaits_worker(self, row: Task | None) -> bool:
        """Whether a worker will run a task that no process runs now."""
        if self._workers is None or row is None or row.status not in ACTIVE:
            return False
        return await self._workers.is_queued(row.task_id) or await self.has_worker(row.agent_id, row.mode)
