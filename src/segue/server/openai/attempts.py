"""Requests that a client sends again: the attempts of one request, and the task of each."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from ...core.errors import TaskError
from ...core.events import ApprovalRequested, QuestionAsked, Resumed
from ...core.records import KnownRequest, Task
from ...core.task_status import ENDED, TaskStatus
from ..service import Service
from ..tenants import Tenant

TRY_SECONDS = 610.0
"""How long the `openai` package waits for an answer before it tries again."""


@dataclass(frozen=True)
class Attempts:
    """The attempts of one request; `key` gives the idempotency key of each by its number, from 0."""

    service: Service
    key: Callable[[int], str]

    async def known(self, number: int) -> KnownRequest | None:
        """What an attempt did."""
        return await self.service.app.tasks.request(self.key(number))

    async def task(self, number: int) -> Task | None:
        """The task of an attempt."""
        known = await self.known(number)
        return await self.service.app.tasks.get(known.task_id) if known else None

    async def count(self) -> int:
        """How many there were, found in logarithmically many look-ups."""
        low, high = 0, 1
        while await self.known(high - 1):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if await self.known(middle - 1) else (low, middle)
        return low


async def is_awaited(service: Service, task: Task, name: str, retries: int, *, over: bool) -> bool:
    """Whether the client of a request may not have its answer.

    That is so if the request may have ended since the first of the client's `retries`. Without those it is so for a
    few minutes if the request is not `over` or was interrupted, as by a service that was killed, unless this process
    has delivered what has this `name`.
    """
    age = time.time() - task.updated_at
    if retries and age <= retries * TRY_SECONDS:
        return True
    if service.has_delivered(name) or age > TRY_SECONDS:
        return False
    return not over or await _was_interrupted(service, task)


async def _was_interrupted(service: Service, task: Task) -> bool:
    types = {type(event) for event in await service.app.tasks.events(task.task_id)}
    return Resumed in types and types.isdisjoint((QuestionAsked, ApprovalRequested))


async def rejoin(service: Service, tenant: Tenant, task: Task) -> Task:
    """The task, which is resumed if it was paused, interrupted or failed."""
    if task.status in (*ENDED, TaskStatus.WAITING) or await service.app.tasks.runs_elsewhere(task.task_id):
        return task
    try:
        with service.starting_task(tenant, task.thread_id):
            return (await service.app.tasks.resume(task.task_id))[0]
    except TaskError:  # it runs or was resumed meanwhile, or its session has gone on without it
        return await service.app.tasks.get(task.task_id)
