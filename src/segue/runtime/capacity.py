"""The tasks that run at once in a process, and those that wait for them: fair between tenants, within quotas."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar

from ..core.errors import TooManyTasks
from ..core.spend import Owner, Quotas

MAX_RUNNING = 32
"""Tasks that run at once in a process by default."""
MAX_QUEUED = 256
"""Tasks that may wait for them."""

Slot = asyncio.Future[bool]
"""Whether the task may run; False where it was stopped first."""

_inside: ContextVar[bool] = ContextVar("segue_inside_a_task", default=False)


def is_inside_task() -> bool:
    """Whether a task runs what calls this."""
    return _inside.get()


NOBODY = Owner()


class Capacity:
    """Slots for running tasks. A task that a running one starts and waits for takes none: it could never get it.

    Tenants whose tasks wait take turns; those of one tenant run in their order, as far as their users' quotas allow.
    """

    def __init__(self, running: int = MAX_RUNNING, queued: int = MAX_QUEUED, quotas: Quotas | None = None) -> None:
        self._most_running = running
        self._most_queued = queued
        self.quotas = quotas or Quotas()
        self._running: dict[Slot, Owner] = {}
        self._queues: dict[str, deque[tuple[Slot, Owner]]] = {}
        """By tenant, in the order of their turns."""
        self._starting: list[tuple[Owner, bool]] = []
        """Those that are about to reserve a slot, and whether they will have to wait for it."""

    @asynccontextmanager
    async def admitted(self, owner: Owner | None) -> AsyncIterator[None]:
        """Count a task as it starts; refuse it where it would have to wait and the queue is full. None runs elsewhere.

        Raises:
            TooManyTasks, OverQuota.
        """
        if owner is None or _inside.get():
            yield
            return
        begin = [other for other, waits in self._starting if not waits]
        room = len(self._running) + len(begin) < self._most_running and self.is_within_quotas(owner, begin)
        if not room:
            self._check_queue(owner)
        entry = (owner, not room)
        self._starting.append(entry)
        try:
            yield
        finally:
            if entry in self._starting:
                self._starting.remove(entry)

    def _check_queue(self, owner: Owner) -> None:
        waiting = [*(other for _, other in self._waiting()), *(other for other, waits in self._starting if waits)]
        if len(waiting) >= self._most_queued:
            raise TooManyTasks(self._most_running, self._most_queued)
        of_tenant = [other for other in waiting if other.tenant == owner.tenant]
        self.quotas.check_queue(of_tenant.count(owner), len(of_tenant))

    def has_room(self, owner: Owner) -> bool:
        """Whether a task could run at once."""
        return len(self._running) < self._most_running and self.is_within_quotas(owner)

    def is_within_quotas(self, owner: Owner, also: Sequence[Owner] = ()) -> bool:
        """Whether another task of the owner may run, if those of `also` run as well."""
        of_user, of_tenant = self.quotas.tasks_per_user, self.quotas.tasks_per_tenant
        if of_user is of_tenant is None:
            return True
        running = [*self._running.values(), *also]
        if of_user is not None and running.count(owner) >= of_user:
            return False
        return of_tenant is None or sum(each.tenant == owner.tenant for each in running) < of_tenant

    def reserve(self, owner: Owner = NOBODY) -> Slot:
        """A slot, now or later; `release` it once it was given."""
        slot: Slot = asyncio.get_running_loop().create_future()
        if started := next((entry for entry in self._starting if entry[0] == owner), None):
            self._starting.remove(started)
        if _inside.get() or self.has_room(owner):
            self._give(slot, owner)
        else:
            self._queues.setdefault(owner.tenant, deque()).append((slot, owner))
        return slot

    @staticmethod
    def enter() -> None:
        """The current asyncio task runs a task from now on."""
        _inside.set(True)

    def release(self, slot: Slot) -> None:
        """Give a slot to those whose turn it is; one that was never given is only left."""
        self._running.pop(slot, None)
        for tenant, queue in [*self._queues.items()]:
            self._queues[tenant] = deque(entry for entry in queue if entry[0] is not slot and not entry[0].done())
        while given := next(self._next(), None):
            tenant, following, owner = given
            queue = self._queues.pop(tenant)
            queue.remove((following, owner))
            self._queues[tenant] = queue  # its next turn comes after those of the others
            self._give(following, owner)
        self._queues = {tenant: queue for tenant, queue in self._queues.items() if queue}

    def _next(self) -> Iterator[tuple[str, Slot, Owner]]:
        """The first task of each tenant that could run, in the order of the tenants' turns."""
        for tenant, queue in self._queues.items():
            if found := next((entry for entry in queue if self.has_room(entry[1])), None):
                yield tenant, *found

    def _waiting(self) -> Iterator[tuple[Slot, Owner]]:
        return (entry for queue in self._queues.values() for entry in queue if not entry[0].done())

    def _give(self, slot: Slot, owner: Owner) -> None:
        self._running[slot] = owner
        slot.set_result(True)
