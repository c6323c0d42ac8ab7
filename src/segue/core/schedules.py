"""Schedules: messages that are sent later, or again and again."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Literal, TypedDict

from cronsim import CronSim, CronSimError

from .errors import InvalidMessage, TaskError, listed
from .moments import Moment as GivenMoment
from .moments import local_zone, moment_of, zone_named
from .records import Json, Moment, Name, Record
from .row_validators import STORED_AS_JSON

GRACE = 60.0
"""Seconds after which a run counts as missed."""
Overlap = Literal["skip", "queue"]
Missed = Literal["once", "skip", "all"]


class RunTaken(TaskError):
    """Another process started this run, or the schedule was changed meanwhile."""

    def __init__(self, schedule_id: str) -> None:
        super().__init__("This run of schedule {schedule_id} was already started.", schedule_id=schedule_id)


class ScheduleOptions(TypedDict, total=False):
    """When a message is sent, in place of now."""

    at: GivenMoment
    """Once, at this moment: a datetime, Unix seconds, `18:00`, or ISO 8601."""
    every: str
    """Again and again: a cron expression such as `0 9 * * mon`."""
    timezone: str
    """The IANA zone of `at` and `every`; empty: this machine's."""
    overlap: Overlap
    """What becomes of a run while the last one is unfinished: it is skipped (the default), or it waits."""
    missed: Missed
    """What becomes of runs that no process was there for: one of them (the default), none, or all are made up for."""


@dataclass(frozen=True, kw_only=True)
class Schedule(Record):
    """A message that is sent at a moment, or by a cron expression (`every`).

    `options` are those of the message. Without a session each run has a new one. `due` is the next run, None where
    there is none; `problem` says why the last one was not started. `agents_file` is the file that its agent comes from.
    `created_by` is the actor who asked for it.
    """

    row_name = "schedule {schedule_id}"
    is_recoverable = False

    schedule_id: Name
    message: str
    options: Annotated[Json, STORED_AS_JSON]
    every: str | None
    timezone: str
    overlap: Overlap
    missed: Missed
    is_active: Literal[0, 1] = 1
    due: Moment | None
    last_task: str | None = None
    problem: str | None = None
    agents_file: str | None = None
    created_at: Moment = field(default=0.0)
    created_by: str | None = None

    @property
    def session_id(self) -> str:
        """The session of every run; empty where each has a new one."""
        return str(self.options.get("session_id") or "")

    @property
    def thread_id(self) -> str:
        """What the audit log calls it: its session, or what the names of its runs' sessions begin with."""
        return self.session_id or self.schedule_id

    @property
    def agent_id(self) -> str:
        return str(self.options.get("agent", ""))

    def session_of_run(self) -> str:
        """The session of the run that is due."""
        moment = datetime.fromtimestamp(self.due or 0.0, UTC)
        return self.session_id or f"{self.schedule_id}-{moment:%Y%m%dT%H%M%S}"

    def after_run(self, now: float) -> float | None:
        """When the run after the one that is due is; runs that were missed are made up for only where all are."""
        if self.every is None or self.due is None:
            return None
        return following(self.every, self.timezone, self.due if self.missed == "all" else max(self.due, now))

    def is_as(self, other: "Schedule") -> bool:
        """Whether both were asked for in the same words; the moment of one that has run is not known any more."""
        names = ("message", "options", "every", "timezone", "overlap", "missed")
        is_then = self.due in (None, other.due) or self.every is not None
        return is_then and all(getattr(self, name) == getattr(other, name) for name in names)

    def json(self) -> Json:
        """The public form."""
        about = {name: value for name, value in self.options.items() if name != "reply_options"}
        return {
            "schedule_id": self.schedule_id,
            "message": self.message,
            **{"session_id": None, **about},
            "every": self.every,
            "timezone": self.timezone,
            "overlap": self.overlap,
            "missed": self.missed,
            "active": bool(self.is_active),
            "next_run": self.due if self.is_active else None,
            "last_task": self.last_task,
            "problem": self.problem,
            "created_at": self.created_at,
        }


@dataclass(frozen=True)
class ScheduledRun:
    """The run of a schedule that was due at a moment, and when the next one is."""

    schedule_id: str
    due: float
    next_due: float | None


class Step(StrEnum):
    """What becomes of a run that is due."""

    RUN = "run"
    SKIP = "skip"
    WAIT = "wait"


def step_of(schedule: Schedule, now: float, unfinished: bool, is_own: bool, ready: float) -> Step:
    """What becomes of the run that is due: `unfinished` says whether its session's last task is.

    `is_own` if that is the last run, which ended at `ready`: a run that waited for it is not late.
    """
    due = schedule.due or 0.0
    if unfinished:
        made_up = schedule.missed == "all" and now - due > GRACE
        skips = is_own and schedule.overlap == "skip" and schedule.every is not None and not made_up
        return Step.SKIP if skips else Step.WAIT
    is_late = now - max(due, ready) > GRACE
    return Step.SKIP if is_late and schedule.missed == "skip" else Step.RUN


def following(every: str, timezone: str, after: float) -> float | None:
    """The first moment of a cron expression after another moment, None where there is none.

    Raises:
        InvalidMessage: it is no cron expression, or there is no such zone.
    """
    try:
        moment = next(CronSim(every, datetime.fromtimestamp(after, zone_named(timezone))), None)
    except CronSimError as error:
        raise _not_cron(every, str(error)) from error
    return moment.timestamp() if moment else None


def timing(options: ScheduleOptions, now: float) -> dict[str, Any]:
    """The fields of a schedule that say when it runs.

    Raises:
        InvalidMessage: a moment that has passed, an expression that is none or never fits, an unknown zone or choice.
    """
    at, every = options.get("at"), str(options.get("every") or "").strip()
    timezone = str(options.get("timezone") or "").strip() or local_zone()
    zone = zone_named(timezone)
    if (at is None) == (not every):
        raise InvalidMessage("Give either a time (at) or a cron expression (every).")
    for name, known in (("overlap", ("skip", "queue")), ("missed", ("once", "skip", "all"))):
        if (given := options.get(name) or known[0]) not in known:
            raise InvalidMessage(
                "The option {name} is '{given}': use {known}.", name=name, given=given, known=listed(known)
            )
    if at is not None:
        due: float | None = moment_of(at, zone, now)
        if due is not None and due <= now:
            raise InvalidMessage("The time {moment} has passed: give one in the future.", moment=at)
    else:
        due = _first(every, timezone, now)
    choices = {"overlap": options.get("overlap") or "skip", "missed": options.get("missed") or "once"}
    return {"every": every or None, "timezone": timezone, "due": due, **choices}


def _first(every: str, timezone: str, now: float) -> float:
    due = following(every, timezone, now) if len(every.split()) == len(_FIELDS) else None
    if due is None:
        raise _not_cron(every, "no moment fits" if len(every.split()) == len(_FIELDS) else "it has other fields")
    return due


_FIELDS = ("minute", "hour", "day", "month", "weekday")


def _not_cron(every: str, why: str) -> InvalidMessage:
    return InvalidMessage(
        "'{every}' is not a cron expression ({why}): use minute, hour, day, month and weekday, such as '0 9 * * mon'.",
        every=every[:100],
        why=why,
    )
