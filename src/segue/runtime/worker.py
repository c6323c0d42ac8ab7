"""Workers and what is due: tasks that are left to other processes, and moments that somebody has to look at."""

import asyncio
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from contextvars import Context
from dataclasses import replace
from enum import StrEnum
from typing import Protocol

from ..checkpoints.due import DueKind, DueMoments
from ..checkpoints.ports import Workers
from ..checkpoints.storage import Storage
from ..core.actor import SEGUE, act_as
from ..core.errors import ConfigurationError, DatabaseUnavailable, SegueError, TaskPinned, ThreadBusy, UnknownTask
from ..core.events import ErrorRaised, Paused, PauseReason, Resumed
from ..core.records import Json, Task, Unowned
from ..core.records import Worker as WorkerRecord
from ..core.spend import Owner
from ..core.task import ACTIVE, TaskStatus
from ..prompts.catalogue import error_text
from ..registry import Registry
from .questions import ask_about_version
from .relay import REQUESTS, Observer
from .run import is_inside_task
from .runner import Begin, Runner, describe_owner, is_dead

# What is due: one poller in a process for everything that happens at a moment.

logger = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""Seconds between two looks: another process may have stored something that is due."""
RETRY_SECONDS = 60.0
"""Seconds until a job is tried again that failed on an error which it does not know."""


class Job(Protocol):
    """Something that is due at moments."""

    async def take(self, now: float) -> None:
        """Begin what is due; several processes may try, and one does it."""
        ...


class Due:
    """Looks for what is due, until it is closed; `clock` gives Unix seconds."""

    def __init__(self, moments: DueMoments, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.jobs: dict[DueKind, Job] = {}
        self.begins_itself = True
        """Whether this process looks once it stored something that will be due."""
        self._moments = moments
        self._watched: set[DueKind] = set()
        self._put_off = PutOff()
        self._awake = asyncio.Event()
        self._taking = asyncio.Lock()
        self._running: asyncio.Task[None] | None = None
        self._closed = False
        self._is_away = False

    def wake(self) -> None:
        """Look at once, since something may be due sooner than was known; begin to look, where that is wanted."""
        if self.begins_itself:
            self.watch()
        self.look()

    def look(self) -> None:
        """Look at once for what is watched."""
        self._awake.set()

    def watch(self, *kinds: DueKind) -> None:
        """Look for these kinds from now on, by default for all."""
        self._watched.update(kinds or self.jobs)
        if self._running is None and not self._closed:
            # In a context of its own: what a task begins here is no part of that task.
            self._running = asyncio.create_task(self._run(), name="due", context=Context())
        self.look()

    async def take(self) -> None:
        """Begin everything that is due now; what another call is just beginning has begun as well."""
        async with self._taking:
            now, found = self.clock(), await self._moments.next(self.jobs)
            for kind, job in self.jobs.items():
                if found.get(kind, now + 1) <= now:
                    await job.take(now)

    async def next(self) -> float | None:
        """When something is due next, as far as that is known; what is due now is left to others, or was put off."""
        now, found = self.clock(), await self._moments.next(self.jobs)
        return min((moment for moment in found.values() if moment > now), default=None)

    async def drain(self) -> None:
        """Begin no task any more, and only go on sending notifications; what is being begun is finished first."""
        self.begins_itself = False
        self._watched &= {"notification"}
        async with self._taking:
            pass

    async def close(self) -> None:
        """Look no more; what is being begun is finished first."""
        self._closed = True
        if self._running is not None:
            self.look()
            await asyncio.gather(self._running, return_exceptions=True)

    async def _run(self) -> None:
        while not self._closed:
            self._awake.clear()
            try:
                async with self._taking:
                    pause = await self._take_watched()
                self._is_away = False
            except DatabaseUnavailable as error:
                pause = LOOK_SECONDS
                if not self._is_away:
                    logger.warning("Nothing that is due is begun: %s", error)
                self._is_away = True
            except Exception:
                pause = LOOK_SECONDS
                logger.exception("Nothing that is due is begun")
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):  # `wait_for` can lose that it is cancelled, before Python 3.12
                    await self._awake.wait()

    async def _take_watched(self) -> float:
        """Begin what is due of what is watched; returns the seconds until the next look."""
        found = await self._moments.next(self._watched)
        now = self.clock()
        for kind, job in self.jobs.items():
            if found.get(kind, now + 1) <= now and not self._put_off.has(kind, now):
                await self._take(kind, job, now)
        return min([LOOK_SECONDS, *(moment - now for moment in found.values() if moment > now)])

    async def _take(self, kind: DueKind, job: Job, now: float) -> None:
        """One job that fails keeps no other from what is due."""
        try:
            await job.take(now)
        except DatabaseUnavailable:
            raise
        except Exception:
            logger.exception("What is due of the kind %s was not begun", kind)
            self._put_off.put_off(kind, now + RETRY_SECONDS)


class PutOff:
    """What could not be begun, each until it is tried again."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def put_off(self, name: str, until: float) -> None:
        self._until[name] = until

    def has(self, name: str, now: float) -> bool:
        """Whether something is to be left for now."""
        self._until = {name: until for name, until in self._until.items() if until > now}
        return name in self._until


# Workers: which tasks are left to them, and the one that runs in this process.


class Dispatching(StrEnum):
    """Where tasks run."""

    AUTO = "auto"
    """By a worker if one has the agent and the mode, else in this process."""
    ALWAYS = "always"
    """By a worker; tasks wait until there is one."""
    NEVER = "never"
    """In this process."""


def dispatching(given: str | None, environ: Mapping[str, str] = os.environ) -> Dispatching:
    """What is given, else SEGUE_DISPATCH, else auto."""
    text = given or environ.get("SEGUE_DISPATCH", "") or Dispatching.AUTO
    if text not in list(Dispatching):
        raise ConfigurationError("dispatch must be auto, always or never, not '{text}'.", text=text[:40])
    return Dispatching(text)


class Dispatch:
    """Decides where tasks run."""

    def __init__(self, how: Dispatching, workers: Workers | None) -> None:
        self.how = how
        self.to_workers = workers is not None
        """Whether the database can have workers."""
        self._workers = workers

    async def workers(self) -> list[WorkerRecord]:
        """The workers that are there now."""
        return [] if self._workers is None else [w for w in await self._workers.list() if not is_dead(w.owner)]

    async def to_worker(self, agent_id: str, mode: str, *versions: str | None) -> bool:
        """Whether a task of this agent, in one of these versions, and mode is left to a worker.

        What a task itself starts never is.
        """
        if self._workers is None or self.how is Dispatching.NEVER or is_inside_task():
            return False
        return self.how is Dispatching.ALWAYS or await self.has_worker(agent_id, mode, *versions)

    async def has_worker(self, agent_id: str, mode: str, *versions: str | None) -> bool:
        """Whether a worker is there that has the mode and the agent, in one of these versions if any is given."""
        workers = await self.workers()
        return any(worker.has(agent_id, mode, version) for worker in workers for version in versions or (None,))

    async def is_taken(self, row: Task) -> bool:
        """Whether a worker is there that takes a task which no process runs."""
        return any(worker.takes(row) for worker in await self.workers())

    async def lacks_worker(self, row: Task) -> bool:
        """Whether a task waits for a worker that is not there."""
        if self._workers is None or row.status is not TaskStatus.PENDING:
            return False
        return not await self.is_taken(row)

    async def awaits_worker(self, row: Task | None) -> bool:
        """Whether a worker will run a task that no process runs now."""
        if self._workers is None or row is None or row.called_by or row.status not in ACTIVE:
            return False
        return await self._workers.is_queued(row.task_id) or await self.is_taken(row)


REPORT_EVERY = 1.0
"""Seconds between two reports, and two looks for tasks without a live owner."""
RETRY = 0.3
"""Seconds until the database is tried again."""
MAX_TAKEOVERS = 3
"""A task that was resumed so often without progress is left alone: it may be what ends its process."""
_NOTHING = ("resumed", "state_changed", "paused")


class Worker:
    """Runs up to `concurrency` tasks of the app's agents at once, until it is stopped.

    What it stops, it leaves to the others without pausing it.
    """

    def __init__(
        self,
        storage: Storage,
        registry: Registry,
        runner: Runner,
        modes: Iterable[str],
        concurrency: int,
        due: Due,
    ) -> None:
        if storage.workers is None:
            raise ConfigurationError("Workers need a PostgreSQL database: name one with --db postgresql://…")
        self._workers = storage.workers
        self._takeover = Takeover(registry, runner, modes)
        self._runner = runner
        self._concurrency = concurrency
        self._due = due
        self._stopping = asyncio.Event()
        self._is_away = False
        runner.for_others = True
        runner.observers.append(_Log())

    async def run(self, grace: float) -> None:
        """Serve until `stop`; tasks that reach no boundary within `grace` seconds are then stopped where they are."""
        act_as(SEGUE)
        serving = [
            asyncio.create_task(self._serve(), name="serving"),
            asyncio.create_task(self._report(), name="reporting"),
        ]
        self._due.watch()
        with self._runner.notices.subscribe(REQUESTS):  # so that it knows who follows its tasks, from the first one on
            await self._stopping.wait()
        await self._due.drain()
        for each in serving:
            each.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        with suppress(DatabaseUnavailable):
            await self._workers.leave(self._runner.leases.owner)
        await self._runner.drain(grace)

    def stop(self) -> None:
        """Hand the tasks over at their next boundaries; the second time, stop them where they are."""
        if self._stopping.is_set():
            self._runner.stop_all()
        self._stopping.set()

    async def _serve(self) -> None:
        while True:
            try:
                await self._workers.serve(self._takeover.agents, self._concurrency, self._run)
            except DatabaseUnavailable as error:
                self._note_outage(error)
            await asyncio.sleep(RETRY)

    async def _run(self, task_id: str) -> None:
        """Run a task, if it is for this worker; who waits for its end may be cancelled, the task is not."""
        try:
            if run := await self._takeover.take(task_id):
                logger.info("Task %s runs here.", task_id)
                await asyncio.wait([run])
        except SegueError as error:  # also of a damaged row: the others go on
            logger.warning("Task %s is not taken: %s", task_id, error)

    async def _report(self) -> None:
        while True:
            try:
                await self._workers.report(worker := self._described())
                unowned = await self._workers.unowned(worker)
                await self._workers.wake(await self._takeover.runnable(unowned))
                self._note_outage(None)
            except DatabaseUnavailable as error:
                self._note_outage(error)
            await asyncio.sleep(REPORT_EVERY)

    def _note_outage(self, error: DatabaseUnavailable | None) -> None:
        """Log when the database is gone, and when it is back."""
        if error and not self._is_away:
            logger.warning("%s", error)
        elif self._is_away and not error:
            logger.info("The database can be used again.")
        self._is_away = error is not None

    def _described(self) -> WorkerRecord:
        return WorkerRecord(
            owner=self._runner.leases.owner,
            agents=self._takeover.agents,
            modes=self._takeover.modes,
            upgrades=self._takeover.upgrades,
            concurrency=self._concurrency,
            running=len(self._runner.running()),
        )


class _Log(Observer):
    """Logs what becomes of the tasks that run here."""

    def stopped(self, task: Task) -> None:
        logger.info("Task %s is %s.", task.task_id, task.status)


class Takeover:
    """Takes tasks under their threads' leases; the lease decides, whoever was woken."""

    def __init__(self, registry: Registry, runner: Runner, modes: Iterable[str]) -> None:
        self._registry = registry
        self._runner = runner
        self.modes = [*modes]

    @property
    def agents(self) -> dict[str, list[str]]:
        """The versions of the agents, by their ids, the current one first."""
        return {name: [*self._registry.versions(name)] for name in self._registry}

    @property
    def upgrades(self) -> list[str]:
        """The agents whose tasks of other versions are not left to wait for these."""
        return [name for name, agent in self._registry.items() if agent.on_upgrade != "pin"]

    def can_run(self, agent_id: str, mode: str) -> bool:
        """Whether the task's agent and mode are here."""
        return agent_id in self._registry and mode in self.modes

    async def take(self, task_id: str) -> "asyncio.Task[Json] | None":
        """Begin to run a task, or continue it; None where there is nothing to do, or another process does it."""
        try:
            row = await self._runner.tasks.get(task_id)
            within = self._runner.capacity.is_within_quotas(Owner.of(row.session_id, row.user_id))
            if not within or not await self._can_take(row):  # `runnable` wakes it again once it may run
                return None
            owner = await self._runner.leases.last_owner(row.session_id)
            async with self._runner.leased(row.session_id, first=True) as begin:
                return await self._begin(await self._runner.tasks.get(task_id), owner, begin)
        except (ThreadBusy, UnknownTask, TaskPinned):  # another worker or a person was faster, or it was deleted
            return None

    async def _can_take(self, row: Task) -> bool:
        if row.status not in ACTIVE or row.called_by or await self._runner.tasks.conversation_of(row.session_id):
            return False
        if not self.can_run(row.agent_id, row.mode):
            logger.warning(
                "Task %s is left to other workers: this one has no agent %s with mode %s. Start it with --agents %s.",
                row.task_id, row.agent_id, row.mode, row.agents_file or "FILE",
            )  # fmt: skip
            return False
        if self._registry.on_upgrade(row) == "pin":
            logger.info(
                "Task %s is left to other workers: it keeps version %s of its agent %s.",
                row.task_id, row.agent_version, row.agent_id,
            )  # fmt: skip
            return False
        return True

    async def _begin(self, row: Task, owner: str, begin: Begin) -> "asyncio.Task[Json] | None":
        if not await self._can_take(row):
            return None
        if row.requested == "cancel":
            await self._runner.end_cancelled(row)
        elif row.requested in ("pause", "stop"):
            await self._pause(row, PauseReason.REQUESTED)
        elif owner and exceeds_takeovers(event.type for event in await self._runner.log.read(row.task_id)):
            await self._pause(row, f"it was taken over {MAX_TAKEOVERS} times without progress")
        elif self._registry.on_upgrade(row) == "ask":
            await ask_about_version(self._runner, row, self._registry.current_version(row.agent_id))
        elif await self._is_ready(row):
            return begin(await self._entered(row, owner))
        return None

    async def _entered(self, row: Task, owner: str) -> Task:
        """The task once it is stored that its worker is gone, or had another version of its agent."""
        changed, began = self._registry.on_upgrade(row) is not None, row.status is not TaskStatus.PENDING
        version = (not changed and row.agent_version) or self._registry.current_version(row.agent_id)
        if changed:
            logger.warning(
                "Task %s is run with another version of its agent %s: no worker has the one that it was started with.",
                row.task_id, row.agent_id,
            )  # fmt: skip
        if owner and began:
            logger.info("Task %s is taken over from %s.", row.task_id, describe_owner(owner))
        elif not changed:
            return row
        resumed = Resumed(task_id=row.task_id, agent_changed=changed)
        status = TaskStatus.RUNNING if began else None
        return await self._runner.move(row, status, events=[resumed] if began else [], agent_version=version)

    async def _is_ready(self, row: Task) -> bool:
        """Make the agent's tools and model ready; a task whose agent cannot be used fails."""
        registry = self._registry.of(row)
        agent = registry.agent(row.agent_id)
        try:
            await registry.prepare(agent)
            registry.model_for(agent, row.model)
        except SegueError as error:
            text = error_text(error, row.reply_language)
            failed = ErrorRaised(task_id=row.task_id, message=text, final=True)
            await self._runner.move(row, TaskStatus.ERROR, error=text, events=[failed])
            return False
        return True

    async def _pause(self, row: Task, reason: str) -> None:
        await self._runner.move(row, TaskStatus.PAUSED, events=[Paused(task_id=row.task_id, reason=reason)])

    async def runnable(self, unowned: Iterable[Unowned]) -> list[Unowned]:
        """The tasks that this worker can run and nobody does: the owner's lease ran out, or its process is gone."""
        agents = self.agents
        ours: list[Unowned] = []
        for each in unowned:
            others = [Owner.of(other.session_id, other.user_id) for other in ours]
            within = self._runner.capacity.is_within_quotas(Owner.of(each.session_id, each.user_id), others)
            if within and self.can_run(each.agent_id, each.mode):
                ours.append(each)
        found = [replace(each, agent_version=agents[each.agent_id][0]) if each.orphaned else each for each in ours]
        dead = [each for each in found if not each.expired and is_dead(each.owner)]
        for each in dead:
            await self._runner.leases.expire(each.session_id, each.owner)
        return [*(each for each in found if each.expired), *dead]


def exceeds_takeovers(types: Iterable[str]) -> bool:
    """Whether a task with events of these types was resumed again and again, and nothing happened."""
    resumed = 0
    for kind in types:
        resumed = resumed + (kind == "resumed") if kind in _NOTHING else 0
    return resumed >= MAX_TAKEOVERS
