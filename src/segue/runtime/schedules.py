"""Schedules: messages that are sent at a moment or again and again, each run once, by whichever process is there."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, cast

from ..checkpoints.storage import Storage
from ..core.actor import SEGUE, acting, actor
from ..core.errors import (
    DatabaseUnavailable,
    InvalidMessage,
    KeyUsed,
    SegueError,
    TaskUnfinished,
    ThreadBusy,
    TooManyTasks,
    UnknownSchedule,
    UnknownTask,
)
from ..core.message import ReplyOptions
from ..core.records import Task
from ..core.schedules import (
    PREFIX,
    FileSchedule,
    RunTaken,
    Schedule,
    ScheduledRun,
    ScheduleOptions,
    Step,
    following,
    step_of,
    timing,
)
from ..core.task import OPEN
from ..prompts.catalogue import Language, error_text, language_named, language_of, word
from .start import MessageOptions, Request, Starter
from .tasks import Tasks
from .worker import Due, PutOff, exceeds_takeovers

logger = logging.getLogger(__name__)

WAIT_SECONDS = 5.0
"""Seconds until a run whose session is busy is tried again."""
RETRY_SECONDS = 60.0
"""Seconds until a run that could not be started is tried again."""
_KEPT = ("session_id", "agent", "mode", "user_id", "model", "language", "origin")
"""The options of a message that are stored, beside `reply_options`."""
_REFUSED = ("files", "client_tools", "steer", "wait")


class StartOptions(MessageOptions, ScheduleOptions, total=False):
    """The options of `App.start`."""


class Schedules:
    """The schedules of an app, as records: `create`, `get`, `list`, `pause`, `resume` or `delete` one."""

    def __init__(self, storage: Storage, starter: Starter, due: Due, tasks: Tasks) -> None:
        self._table = storage.schedules
        self._tasks = storage.tasks
        self._starter = starter
        self._due = due
        self._put_off = PutOff()
        due.jobs["run"] = _Runs(storage, starter, tasks)
        due.jobs["schedule"] = self

    def watch(self) -> None:
        """Run what is due in this process from now on, as `segue serve` and `segue worker` do, until the app closes."""
        self._due.watch()

    def leave_to_others(self) -> None:
        """Run nothing here unless `watch` says so: this process ends soon."""
        self._due.begins_itself = False

    async def run_due(self) -> None:
        """Run everything that is due now, once: schedules, tasks that wait until now, and notifications."""
        await self._due.take()

    async def next_due(self) -> float | None:
        """When something is due after now, in Unix seconds; None where nothing is: for a clock of your own to go on."""
        return await self._due.next()

    async def create(self, message: str, options: Mapping[str, Any], *, prefix: str = "") -> Schedule:
        """Store a schedule, which this process runs as well while the app is open; `prefix` begins its id.

        Raises:
            InvalidMessage: the message cannot be sent, or not at these moments, or there are too many schedules.
            UnknownAgent, UnknownMode, MissingKey: nothing was stored.
            KeyUsed: the idempotency key made another schedule.
        """
        request, times = _request_of(message, options)
        named = sha256(request.key.key.encode()).hexdigest()[:12] if request.key else self._starter.new_id()
        schedule_id = f"{prefix}schedule-{named}"
        made = await self._made(schedule_id, request, times, await self._asked_at(schedule_id))
        await self._table.put(made, self._starter.quotas)
        self._due.wake()
        stored = await self.get(schedule_id)
        if request.key and not stored.is_as(made):
            raise KeyUsed(request.key.name)
        return stored

    async def keep(self, listed: Iterable[FileSchedule]) -> None:
        """Make, change and delete schedules, so that those of this app's agents file are as it lists them.

        One that is listed as before goes on, be it paused or not.

        Raises:
            InvalidMessage, UnknownAgent, UnknownMode, MissingKey: one of them cannot run; those before it were stored.
        """
        known = {each.schedule_id: each for each in await self._table.list(PREFIX) if ":" not in each.schedule_id}
        for each in listed:
            request, times = _request_of(each.message, each.options())
            made = await self._made(each.schedule_id, request, times, self._due.clock())
            await self._keep(known.pop(each.schedule_id, None), made)
        for removed in known.values():
            if removed.agents_file == self._starter.agents_file:
                await self._table.delete(removed.schedule_id)

    async def _keep(self, known: Schedule | None, made: Schedule) -> None:
        """Store a schedule of a file, in place of the one that it was before."""
        if known is None:
            await self._table.put(made, self._starter.quotas)
        elif not known.is_as(made):
            await self._table.replace(made)
        elif known.agents_file != made.agents_file:
            await self._table.move(made.schedule_id, made.agents_file)

    async def _made(self, schedule_id: str, request: Request, times: ScheduleOptions, asked_at: float) -> Schedule:
        """The schedule of a message that can be sent."""
        agent = await self._starter.check(request)
        kept = {name: getattr(request, name) for name in _KEPT if getattr(request, name)}
        return Schedule(
            schedule_id=schedule_id,
            message=request.message,
            options={**kept, "agent": agent.agent_id, "reply_options": request.reply_options.json()},
            agents_file=self._starter.agents_file,
            created_at=asked_at,
            created_by=actor(),
            **timing(times, asked_at),
        )

    async def _asked_at(self, schedule_id: str) -> float:
        """When a schedule was asked for first: a request that is sent again means the same moment."""
        try:
            return (await self.get(schedule_id)).created_at
        except UnknownSchedule:
            return self._due.clock()

    async def get(self, schedule_id: str) -> Schedule:
        """One schedule.

        Raises:
            UnknownSchedule.
        """
        return await self._table.get(schedule_id)

    async def list(self, prefix: str = "") -> Sequence[Schedule]:
        """The schedules whose ids begin so, those that run next first."""
        return await self._table.list(prefix)

    async def pause(self, schedule_id: str) -> Schedule:
        """Run a schedule no more until it is resumed.

        Raises:
            UnknownSchedule.
        """
        return await self._change(schedule_id, is_active=0)

    async def resume(self, schedule_id: str) -> Schedule:
        """Run a schedule again, from now on; what it missed while it was paused is left out. An active one stays.

        Raises:
            UnknownSchedule.
            InvalidMessage: it was to run once, and its moment has passed, or there are too many schedules.
        """
        found, now = await self.get(schedule_id), self._due.clock()
        if found.is_active:
            return found
        due = found.due if found.due is not None and found.due > now else None
        if due is None and found.every:
            due = following(found.every, found.timezone, now)
        if due is None:
            raise InvalidMessage(
                "Schedule {schedule} has no future runs: send its message again.", schedule=schedule_id
            )
        return await self._change(schedule_id, is_active=1, due=due, problem=None)

    async def _change(self, schedule_id: str, **changes: Any) -> Schedule:
        await self._table.change(replace(await self.get(schedule_id), **changes), self._starter.quotas)
        self._due.wake()
        return await self.get(schedule_id)

    async def delete(self, schedule_id: str) -> None:
        """Delete a schedule; its sessions stay.

        Raises:
            UnknownSchedule.
        """
        if not await self._table.delete(schedule_id):
            raise UnknownSchedule(schedule_id)

    # What is due.

    async def take(self, now: float) -> None:
        """Start the runs that are due, as far as their agents are here."""
        for schedule in await self._table.due(now):
            if self._starter.has_agent(schedule.agent_id) and not self._put_off.has(schedule.schedule_id, now):
                await self._take(schedule, now)

    async def _take(self, schedule: Schedule, now: float) -> None:
        run = ScheduledRun(schedule.schedule_id, schedule.due or 0.0, None)
        try:
            run = replace(run, next_due=schedule.after_run(now))
            last = await self._last_task(schedule)
            unfinished, is_own = (
                last is not None and last.status in OPEN,
                last is None or last.task_id == schedule.last_task,
            )
            step = step_of(schedule, now, unfinished, is_own, last.updated_at if last else 0.0)
            if step is Step.SKIP:
                why = "the last run is unfinished" if unfinished else "no process was running"
                await self._table.skip(run, word(why, _language(schedule)))
            elif step is Step.WAIT:
                self._put_off.put_off(schedule.schedule_id, now + WAIT_SECONDS)
            else:
                await self._start(schedule, run)
        except RunTaken:
            pass
        except (TaskUnfinished, ThreadBusy, TooManyTasks):
            self._put_off.put_off(schedule.schedule_id, now + WAIT_SECONDS)
        except DatabaseUnavailable:
            raise
        except SegueError as error:
            logger.warning("Schedule %s was not started: %s", schedule.schedule_id, error)
            self._put_off.put_off(schedule.schedule_id, now + RETRY_SECONDS)
            await self._table.report(run, error_text(error, _language(schedule)))
        except Exception:
            logger.exception("Schedule %s was not started", schedule.schedule_id)
            self._put_off.put_off(schedule.schedule_id, now + RETRY_SECONDS)

    async def _start(self, schedule: Schedule, run: ScheduledRun) -> None:
        options = {**schedule.options, "session_id": schedule.session_of_run()}
        options["reply_options"] = ReplyOptions.of(options.get("reply_options") or {})
        request = replace(Request.of(schedule.message, options), run=run)
        with acting(schedule.created_by or SEGUE):
            task, _ = await self._starter.start(request)
        logger.info("Task %s is a run of schedule %s.", task.task_id, schedule.schedule_id)

    async def _last_task(self, schedule: Schedule) -> Task | None:
        """The newest task of the schedule's session, or where each run has a session of its own, the last run."""
        if schedule.session_id:
            return await self._tasks.latest_of(schedule.session_id)
        try:
            return await self._tasks.get(schedule.last_task) if schedule.last_task else None
        except UnknownTask:
            return None


def _request_of(message: str, options: Mapping[str, Any]) -> tuple[Request, ScheduleOptions]:
    """A message for later, and its times."""
    times = {name: options[name] for name in ScheduleOptions.__annotations__ if name in options}
    about = {name: value for name, value in options.items() if name not in times and value is not None}
    if unfit := sorted(name for name in _REFUSED if about.get(name)):
        raise InvalidMessage("A scheduled message cannot have {name}: leave it out.", name=unfit[0])
    return Request.of(message, about), cast(ScheduleOptions, times)


def _language(schedule: Schedule) -> Language:
    """The language of its tasks, as far as that is known before one is begun."""
    return language_named(str(schedule.options.get("language", ""))) or language_of(schedule.message)


class _Runs:
    """Runs that ended with their process, resumed by whichever process runs schedules; not what a person paused."""

    def __init__(self, storage: Storage, starter: Starter, tasks: Tasks) -> None:
        self._table = storage.schedules
        self._starter = starter
        self._tasks = tasks
        self._put_off = PutOff()

    async def take(self, now: float) -> None:
        """Resume the runs that no process works on, as far as their agents are here."""
        runs = await self._table.unfinished_runs()
        for task in [each for each in await self._tasks.resumable() if each.task_id in runs]:
            if self._starter.has_agent(task.agent_id) and not self._put_off.has(task.task_id, now):
                self._put_off.put_off(task.task_id, now + RETRY_SECONDS)
                await self._resume(task)

    async def _resume(self, task: Task) -> None:
        if exceeds_takeovers(event.type for event in await self._tasks.events(task.task_id)):
            return
        try:
            await self._tasks.resume(task.task_id)
            logger.info("Task %s, a run of a schedule, is resumed: its process had ended.", task.task_id)
        except DatabaseUnavailable:
            raise
        except SegueError as error:  # another process was faster, or its version is not here
            logger.info("Task %s was not resumed: %s", task.task_id, error)
