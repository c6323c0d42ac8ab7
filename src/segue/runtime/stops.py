"""Stops of tasks: pause and cancel."""

import asyncio
import time
from typing import Any

from ..core.errors import IllegalTransition, TaskError, ThreadBusy
from ..core.records import Task
from ..core.task_status import ACTIVE, TaskStatus
from .notices import LOOK_EVERY
from .runner import Runner

STOP_SECONDS = 10.0
"""How long another process may take to stop a task that it runs."""


class Stops:
    """Pauses and cancels tasks, wherever they run."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    async def pause(self, task_id: str) -> None:
        """Stop a task, of this process or another, at its next boundary."""
        row = await self._runner.tasks.get(task_id)
        if run := self._runner.run_of(task_id):
            return await self._runner.request_pause(run)
        if row.status not in ACTIVE:
            raise TaskError(
                "Task {task_id} is {status}: only a task that runs can be paused.", task_id=task_id, status=row.status
            )
        if await self._runner.leases.held(row.thread_id):
            return await self._request_pause(row)
        try:  # its process is gone, or no worker took it yet
            async with self._runner.leased(row.thread_id):
                await self._move_unless_ended(row, TaskStatus.PAUSED, requested="pause")
        except ThreadBusy:  # one did meanwhile
            await self._request_pause(row)

    async def _request_pause(self, row: Task) -> None:
        """Ask the process that runs a task to pause it."""
        status = None if row.status == TaskStatus.PENDING else TaskStatus.PAUSING
        await self._move_unless_ended(row, status, requested="pause")

    async def _move_unless_ended(self, row: Task, status: TaskStatus | None, **changes: Any) -> None:
        now = await self._runner.tasks.get(row.task_id)
        if now.requested == "cancel":
            return
        try:
            await self._runner.move(row, None if now.status == status else status, **changes)
        except IllegalTransition:
            now = await self._runner.tasks.get(row.task_id)
            raise TaskError("Task {task_id} is {status} meanwhile.", task_id=row.task_id, status=now.status) from None

    def stop_now(self, task_id: str) -> None:
        """Stop a task of this process without waiting for a boundary; it stays resumable."""
        if run := self._runner.run_of(task_id):
            run.stop()

    async def cancel(self, task_id: str) -> None:
        """Cancel a task that runs here, in another process, or not at all."""
        row = await self._runner.tasks.get(task_id)
        if row.is_over:
            raise TaskError(
                "Task {task_id} is {status}: there is nothing to cancel.", task_id=task_id, status=row.status
            )
        deadline = time.monotonic() + STOP_SECONDS
        while not row.is_over:
            await self._cancel_where_it_is(row)
            row = await self._runner.tasks.get(task_id)
            if not row.is_over and time.monotonic() > deadline:
                raise TaskError(
                    "Task {task_id} still runs: its process was asked to cancel it, but does not answer.",
                    task_id=task_id,
                )
        if row.status != TaskStatus.CANCELLED:
            raise TaskError(
                "Task {task_id} is {status} meanwhile: {reason}.",
                task_id=task_id,
                status=row.status,
                reason=row.error or "it has its answer",
            )

    async def _cancel_where_it_is(self, row: Task) -> None:
        """Try once: somebody else may be about to resume the task, or about to end it."""
        if (run := self._runner.run_of(row.task_id)) and run.task:
            run.cancel()
            await asyncio.wait([run.task])
        elif row.status in ACTIVE and await self._runner.leases.held(row.thread_id):
            if row.requested != "cancel":
                await self._runner.move(row, None, requested="cancel")
            await asyncio.sleep(LOOK_EVERY)
        else:
            try:
                async with self._runner.leased(row.thread_id):
                    row = await self._runner.tasks.get(row.task_id)
                    if not row.is_over:
                        await self._runner.end_cancelled(row)
            except ThreadBusy:
                await asyncio.sleep(LOOK_EVERY)
