"""A task's status, its origin, its session's name, and moments as people and programs write them."""

import os
import re
import unicodedata
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, get_args
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
    """Unix seconds of a moment, read in a zone where it names none; a time of day is the next one."""
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


def format_time(seconds: float, zone: tzinfo) -> str:
    """A moment as people read it, in a zone: `2026-12-01 18:00 CET`."""
    return f"{datetime.fromtimestamp(seconds, zone):%Y-%m-%d %H:%M %Z}"


Language = Literal["zh", "en"]
"""The languages of Segue's own texts, each with a catalogue in `prompts/locales`.

The model is asked to answer in whichever the person writes.
"""
LanguageChoice = Literal["", Language]
"""A language that may be chosen; empty: that of the message."""
LANGUAGES: Final[tuple[Language, ...]] = get_args(Language)

# What sends a message: a program, a person, or a conversation.

MessageOrigin = Literal[
    "python",
    "terminal",
    "page",
    "api",
    "chat_completions",
    "responses",
    "ag_ui",
    "a2a",
    "mcp",
    "langgraph",
    "conversation",
    "agent",
]
"""`api` is Segue's own HTTP API; `conversation` sends messages to its bot, `agent` to one that is its tool."""
PEOPLE: Final = ("page", "terminal")
"""The origins of what a person writes."""
_OTHER_AGENTS: Final = ("a2a", "agent", "mcp", "conversation")
ANYBODY: Final = "default"
"""The user of a message that names none."""


def is_known_user(origin: MessageOrigin, user_id: str) -> bool:
    """Whether a message tells who its user is: a program that names no user may speak for many."""
    return origin in PEOPLE or user_id.rpartition(":")[2] != ANYBODY


def is_own_message(origin: MessageOrigin) -> bool:
    """Whether its user wrote a message, and no agent for them."""
    return origin not in _OTHER_AGENTS


TITLE_COLUMNS: Final = 60
"""The width of a title that is made from a message, in which a Chinese character has two columns."""


def title_of(message: str) -> str:
    """A message as a title: in one line, and cut at a word, or at a character of a text without spaces."""
    line = " ".join(message.split())
    used = 0
    for place, char in enumerate(line):
        used += 2 if unicodedata.east_asian_width(char) in "WF" else 1
        if used > TITLE_COLUMNS:
            kept = line[:place]
            word = kept if char == " " else kept.rpartition(" ")[0]
            return (word if 3 * len(word) > len(kept) else kept).rstrip(" ,.;:!?，。；：！？、") + "…"
    return line


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
"""A process works on it, unless it was interrupted.

An index and a trigger in `checkpoints/postgres/state.py` are made of these: other ones need a script there.
"""
ENDED = frozenset({_S.DONE, _S.CANCELLED})
"""It goes nowhere from there."""


def next_status(old: str, new: str) -> TaskStatus:
    """Return the new status."""
    if TaskStatus(new) not in TASK_TRANSITIONS[TaskStatus(old)]:
        raise IllegalTransition(old, new)
    return TaskStatus(new)


NAME_CHARACTER: Final = r"[\w.:@-]"
NAME: Final = rf"^{NAME_CHARACTER}+$"
"""What sessions and users may be called."""
MOST_SESSION: Final = 128
"""Characters of a session's name as it is stored."""
MOST_TENANT: Final = 32
TENANT_NAME: Final = rf"[A-Za-z0-9_-]{{1,{MOST_TENANT}}}"
"""The pattern of a tenant's name, and of the names of persons and roles."""
LONGEST_NAME: Final = MOST_SESSION - MOST_TENANT - 1
"""Characters of a name that a client gives: with a tenant's and a colon in front it is not too long to be stored."""


def check_session(name: str) -> None:
    """Refuse a session's name that could not be written in a command or an address."""
    if len(name) > MOST_SESSION or not re.fullmatch(NAME, name):
        raise InvalidMessage(
            "The session name {name} cannot be used: write up to {most} letters, digits or . _ : @ -",
            name=repr(name[:40]),
            most=MOST_SESSION,
        )
