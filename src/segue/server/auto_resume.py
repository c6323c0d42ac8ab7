"""Automatic resumption of tasks that a crash or a shutdown interrupted."""

import asyncio
from collections.abc import Iterable

from ..core.errors import SegueError
from ..runtime.dispatch import Dispatching
from ..runtime.tasks import ResumableTask
from ..runtime.worker import is_hopeless
from .log_config import logger
from .service import Service

AT_ONCE = 4
LOOK_EVERY = 30.0
"""Seconds between two looks for tasks of other processes that are gone: their leases take that long to run out."""
_LIVE_ONLY = 2**62
"""After this event there are none in the log."""


class AutoResume:
    """Resumes each task once, the oldest first, a few at a time; none that a person paused.

    So it does tasks that were left to workers which are all gone, unless only workers are to run them.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._places = asyncio.Semaphore(AT_ONCE)
        self._tried: set[str] = set()
        self._without_worker: set[str] = set()

    async def find(self, *, paused: bool) -> list[str]:
        """The tasks to resume: interrupted by a crash, and with `paused` those that a shutdown paused.

        Streams of them wait until they run.
        """
        try:
            found = [*await self._service.app.tasks.resumable(), *await self._left_by_workers()]
        except SegueError as error:
            logger.error("not resumed", exc_info=error)
            return []
        tasks = [each.task for each in found if each.task.requested is None and (paused or each.interrupted)]
        ids = [task.task_id for task in tasks if task.task_id not in self._tried]
        self._service.resuming.update({task_id: asyncio.Event() for task_id in ids})
        return ids

    async def _left_by_workers(self) -> list[ResumableTask]:
        """The tasks that had waited for a worker at the last look already, where they need not."""
        tasks = self._service.app.tasks
        if tasks.dispatching is not Dispatching.AUTO:
            return []
        waiting = await tasks.waiting_for_worker()
        left = [ResumableTask(task, "", interrupted=True) for task in waiting if task.task_id in self._without_worker]
        self._without_worker = {task.task_id for task in waiting}
        return left

    async def run(self, ids: Iterable[str]) -> None:
        """Resume these, then what is found later, until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                for task_id in ids:
                    self._tried.add(task_id)
                    group.create_task(self._resume(task_id), name=f"resuming {task_id}")
                await asyncio.sleep(LOOK_EVERY)
                ids = await self.find(paused=False)

    async def _resume(self, task_id: str) -> None:
        """Resume a task and wait until it ends, so that not too many run at once."""
        app = self._service.app
        async with self._places:
            try:
                if self._service.draining or is_hopeless(event.type for event in await app.tasks.events(task_id)):
                    return
                await app.tasks.resume(task_id)
                logger.info("resumed", extra={"task_id": task_id})
                self._service.mark_resumed(task_id)
                async for _ in app.follow(task_id, _LIVE_ONLY):
                    pass
            except SegueError as error:  # another worker was faster, or its agent or model is gone
                logger.info("not resumed", extra={"task_id": task_id, "type": type(error).__name__})
            except Exception:  # noqa: BLE001  logged with its trace, and the others go on
                logger.exception("not resumed", extra={"task_id": task_id})
            finally:
                self._service.mark_resumed(task_id)
