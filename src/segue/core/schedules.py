"""Schedules: messages that are sent later or repeatedly, and deadlines of approvals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, Self, TypedDict

from cronsim import CronSim, CronSimError
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from .agents import Items, first_fault, list_tables, load_table
from .approval import MOST_APPROVALS
from .bounds import MOST_SECONDS
from .errors import ConfigurationError, InvalidMessage, TaskError, listed
from .message import MemoryPaths
from .records import STORED_AS_JSON, Json, Moment, Name, Record
from .task import ANYBODY, local_zone, moment_of, zone_named
from .task import Moment as GivenMoment
from .timeline import Retention

# Settings of approvals: who gives them, when receivers are reminded, and what becomes of one that nobody gives.

EXPIRY: Final = "segue:expiry"
"""In place of a receiver: what an approval that expired is for. No configured receiver can have this name."""
LaterKind = Literal["reminder", "escalation", "expiry"]
LATER: Final[Sequence[LaterKind]] = ("reminder", "escalation", "expiry")
"""What is due some time after a task asked for an approval, unless it was answered."""


def _seconds(given: Any) -> Any:
    """The seconds of an age such as 30m, 4h or 2d; a number stays."""
    if not isinstance(given, str):
        return given
    try:
        seconds = Retention.of(given).seconds
    except ConfigurationError:
        seconds = None
    if seconds is None:
        raise ValueError("write a time such as 30m, 4h or 2d")
    return seconds


Time = Annotated[float, BeforeValidator(_seconds), Field(gt=0, le=MOST_SECONDS)]
"""Seconds, or a text such as 4h."""


class ApprovalSettings(BaseModel):
    """Who approves calls, where their tools do not say, and what happens while an approval waits.

    The times are counted from the question.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    approvers: Items[str] = ()
    """The roles that may approve; empty: everybody may."""
    approvals: int | None = Field(default=None, ge=1, le=MOST_APPROVALS)
    """How many different people must approve a call; None: one."""
    not_by_asker: bool = False
    """People cannot approve the calls of tasks that they asked for."""
    auto_approve_conversations: bool = False
    """Conversations and rehearsals with `approvals = "approve"` may run tools that need approval without a question."""
    remind_after: Time | None = None
    """When the receivers that were notified of it are reminded: seconds, or a text such as `4h`."""
    escalate_after: Time | None = None
    """When the receivers in `escalate_to` are notified."""
    escalate_to: Items[str] = ()
    """The names of receivers."""
    expire_after: Time | None = None
    """When the approval expires."""
    on_expiry: Literal["wait", "reject", "cancel"] = "wait"
    """What happens on expiry: the task continues to wait, its calls are rejected, or it is cancelled."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.escalate_after is None) != (not self.escalate_to):
            raise ValueError("escalate_after and escalate_to go together")
        if self.on_expiry != "wait" and self.expire_after is None:
            raise ValueError("on_expiry goes with expire_after")
        return self


def load_deadlines(path: str | Path) -> ApprovalSettings | None:
    """Read the table `[approvals]` of an agents file; None where it has none."""
    return load_table(path, "approvals", ApprovalSettings)


# Schedules: messages that are sent later, or again and again.

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
    json_names: ClassVar[Mapping[str, str]] = {"active": "is_active", "next_run": "due"}

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
    """The first moment of a cron expression after another moment, None where there is none."""
    try:
        moment = next(CronSim(every, datetime.fromtimestamp(after, zone_named(timezone))), None)
    except CronSimError as error:
        raise _not_cron(every, str(error)) from error
    return moment.timestamp() if moment else None


def timing(options: ScheduleOptions, now: float) -> dict[str, Any]:
    """The fields of a schedule that say when it runs."""
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
        has_all_fields = len(every.split()) == len(_FIELDS)
        due = following(every, timezone, now) if has_all_fields else None
        if due is None:
            raise _not_cron(every, "no moment fits" if has_all_fields else "it has other fields")
    choices = {"overlap": options.get("overlap") or "skip", "missed": options.get("missed") or "once"}
    return {"every": every or None, "timezone": timezone, "due": due, **choices}


_FIELDS = ("minute", "hour", "day", "month", "weekday")


def _not_cron(every: str, why: str) -> InvalidMessage:
    return InvalidMessage(
        "'{every}' is not a cron expression ({why}): use minute, hour, day, month and weekday, such as '0 9 * * mon'.",
        every=every[:100],
        why=why,
    )


# Schedules that an agents file has: made, changed and removed with it.

PREFIX = "file-"
"""Begins the ids of these schedules."""


class FileSchedule(BaseModel):
    """A message that is sent again and again, as a `[[schedule]]` table says."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    name: str = Field(pattern=r"^[\w.-]+$", max_length=64)
    """Its name in the file: the schedule's id is `file-NAME`."""
    message: str = Field(min_length=1)
    """What is sent."""
    every: str
    """When: a cron expression such as `0 9 * * mon`."""
    timezone: str = "UTC"
    """The IANA zone of `every`."""
    agent: str = ""
    """The agent that it is sent to; by default that of a message that names none."""
    mode: str = ""
    """The mode; by default the agent's own."""
    session_id: str = ""
    """The session of every run; without it each has a new one."""
    user_id: str = ANYBODY
    """Whose tasks the runs are."""
    language: str = ""
    """The language of the runs: en or zh; by default that of the message."""
    memory_files: MemoryPaths = {}
    """The paths of memory files by their names, for a flow to read."""
    remember: bool = True
    """Whether its prompts have what the user said of themselves."""
    overlap: Overlap = "skip"
    """What happens to a run while the last one is unfinished: `skip` or `queue`."""
    missed: Missed = "once"
    """Which runs missed while no process was running are run: `once` (one of them), `skip` (none) or `all`."""

    @property
    def schedule_id(self) -> str:
        return PREFIX + self.name

    def options(self) -> dict[str, Any]:
        """The options of the message and its times, as `App.start` takes them."""
        return {
            name: value
            for name, value in self.model_dump(exclude={"name", "message"}).items()
            if value or value is False
        }


def load_schedules(path: str | Path) -> list[FileSchedule]:
    """Read the `[[schedule]]` tables of an agents file."""
    found = [_schedule_of(table, path) for table in list_tables(path, "schedule")]
    names = [each.name for each in found]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ConfigurationError(
            "The agents file {file} has more than one schedule '{name}': rename one.", file=path, name=min(twice)
        )
    return found


def _schedule_of(table: Mapping[str, Any], path: str | Path) -> FileSchedule:
    try:
        return FileSchedule.model_validate(table)
    except ValidationError as error:
        where, reason = first_fault(error)
        raise ConfigurationError(
            "The schedule '{name}' in {file}: {where}{reason}.",
            name=table.get("name", "?"),
            file=path,
            where=where,
            reason=reason,
        ) from None
