"""A task's status, its origin, its session's name, and moments as people and programs write them."""

import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from .errors import IllegalTransition, InvalidMessage

Moment = datetime | str | float
"""A datetime, Unix seconds, or a text: `18:00`, `2026-12-01 18:00`, or ISO 8601; by itself it has no zone."""

LAST: Final = 2.5e11
"""Unix seconds, in the year 9892: a later time cannot be shown."""
_TIME = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")
_LOCALTIME = Path("/etc/localtime")


def find_zone(name: str) -> tzinfo | None:
    """The zone of an IANA name, whatever its case; UTC needs no time-zone database."""
    if name.casefold() in {"utc", "gmt", "z"}:
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        known = {zone.casefold(): zone for zone in available_timezones()}
        return ZoneInfo(known[name.casefold()]) if name.casefold() in known else None


def zone_named(name: str) -> tzinfo:
    """The zone of a name.

    Raises:
        InvalidMessage: there is none.
    """
    if zone := find_zone(name.strip()):
        return zone
    raise InvalidMessage("There is no time zone '{name}': write an IANA name such as Asia/Shanghai.", name=name[:60])


@cache
def local_zone() -> str:
    """The name of this machine's zone: TZ, else what /etc/localtime links to, else UTC."""
    given = os.environ.get("TZ", "").removeprefix(":")
    linked = str(_LOCALTIME.resolve()).partition("/zoneinfo/")[2] if _LOCALTIME.is_symlink() else ""
    return next((name for name in (given, linked) if name and find_zone(name)), "UTC")


def moment_of(given: Moment, zone: tzinfo, now: float) -> float:
    """Unix seconds of a moment, read in a zone where it names none; a time of day is the next one.

    Raises:
        InvalidMessage: it is none.
    """
    if isinstance(given, int | float) and not isinstance(given, bool):
        seconds = float(min(given, LAST))
    elif isinstance(given, datetime):
        seconds = _seconds(given, zone)
    else:
        seconds = _seconds(_read(given, zone, now), zone)
    if not 0 <= seconds < LAST:
        raise _not_a_moment(given)
    return seconds


def _read(given: Any, zone: tzinfo, now: float) -> datetime:
    text = str(given).strip()
    if found := _TIME.fullmatch(text):
        today = datetime.fromtimestamp(now, zone).replace(tzinfo=None)
        at = today.replace(hour=int(found[1]), minute=int(found[2]), second=0, microsecond=0)
        return at if _seconds(at, zone) > now else at + timedelta(days=1)
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise _not_a_moment(given) from None


def _seconds(moment: datetime, zone: tzinfo) -> float:
    try:
        return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp()
    except (OverflowError, ValueError):
        raise _not_a_moment(moment) from None


def _not_a_moment(given: object) -> InvalidMessage:
    return InvalidMessage(
        "'{given}' is not a valid time: use 18:00, 2026-12-01 18:00, or one with a zone such as "
        "2026-12-01T18:00+01:00.",
        given=str(given)[:60],
    )


def written(seconds: float, zone: tzinfo) -> str:
    """A moment as people read it, in a zone: `2026-12-01 18:00 CET`."""
    return f"{datetime.fromtimestamp(seconds, zone):%Y-%m-%d %H:%M %Z}"


# What sends a message: a program, a person, or a conversation.

MessageOrigin = Literal[
    "python", "terminal", "page", "api", "chat_completions", "responses", "ag_ui", "a2a", "mcp", "conversation"
]
"""`api` is Segue's own HTTP API; `conversation` sends messages to its bot."""
PEOPLE: Final = ("page", "terminal")
"""The origins of what a person writes."""

FORK_MARK = "↳ "
"""What the title of a fork begins with."""


# Task statuses and their transitions.


class TaskStatus(StrEnum):
    """The status of a task."""

    PENDING = "pending"
    """Written down, not begun."""
    RUNNING = "running"
    """A process works on it."""
    WAITING = "waiting"
    """A person is asked."""
    PAUSING = "pausing"
    """A pause was requested; the runner stops at the next boundary."""
    PAUSED = "paused"
    """It stopped at a boundary and can be resumed."""
    DONE = "done"
    """It has its answer."""
    ERROR = "error"
    """It failed; it may be run again."""
    CANCELLED = "cancelled"
    """It was cancelled."""


_S = TaskStatus

TASK_TRANSITIONS: Mapping[TaskStatus, frozenset[TaskStatus]] = {
    _S.PENDING: frozenset({_S.RUNNING, _S.WAITING, _S.PAUSED, _S.CANCELLED, _S.ERROR}),
    # running to running is no change: a process resumes what a crash interrupted.
    _S.RUNNING: frozenset({_S.RUNNING, _S.WAITING, _S.PAUSING, _S.PAUSED, _S.DONE, _S.ERROR, _S.CANCELLED}),
    _S.WAITING: frozenset({_S.RUNNING, _S.PAUSED, _S.CANCELLED, _S.ERROR}),
    _S.PAUSING: frozenset({_S.PAUSED, _S.RUNNING, _S.WAITING, _S.DONE, _S.ERROR, _S.CANCELLED}),
    _S.PAUSED: frozenset({_S.RUNNING, _S.WAITING, _S.CANCELLED}),
    _S.ERROR: frozenset({_S.RUNNING, _S.WAITING, _S.PAUSED, _S.CANCELLED}),
    _S.DONE: frozenset(),
    _S.CANCELLED: frozenset(),
}

OPEN = frozenset({_S.PENDING, _S.RUNNING, _S.WAITING, _S.PAUSING, _S.PAUSED})
"""It has not come to an end: the thread takes no other message meanwhile."""
ACTIVE = frozenset({_S.PENDING, _S.RUNNING, _S.PAUSING})
"""A process works on it, unless it was interrupted."""
ENDED = frozenset({_S.DONE, _S.CANCELLED})
"""It goes nowhere from there."""


def next_status(old: str, new: str) -> TaskStatus:
    """Return the new status.

    Raises:
        IllegalTransition: the table does not allow it.
    """
    if TaskStatus(new) not in TASK_TRANSITIONS[TaskStatus(old)]:
        raise IllegalTransition(old, new)
    return TaskStatus(new)


_SESSION = re.compile(r"^[\w.:@-]{1,128}$")


def check_session(name: str) -> None:
    """Refuse a session's name that could not be written in a command or an address.

    Raises:
        InvalidMessage.
    """
    if not _SESSION.fullmatch(name):
        raise InvalidMessage(
            "The session name {name} cannot be used: write up to 128 letters, digits or . _ : @ -",
            name=repr(name[:40]),
        )
