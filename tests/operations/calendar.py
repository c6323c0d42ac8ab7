"""The month that is simulated: its days, what happens on them, and the clock that its processes share."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal
from zoneinfo import ZoneInfo

ZONE = "Europe/Berlin"
"""On the 29th of the month its clocks are set forward."""
BERLIN = ZoneInfo(ZONE)
YEAR, MONTH = 2026, 3
MONDAYS = (2, 9, 16, 23, 30)
LOOKS = (8, 11, 16, 20)
"""The hours at which a person looks into the inbox."""
DOWN = 12
"""The day on which the receiver of notifications answers with an error."""

Approval = Literal["in time", "reminded", "expired", "never", "rejected"]
APPROVALS: Mapping[int, Approval] = {
    **dict.fromkeys((2, 5, 11, 19), "in time"),
    **dict.fromkeys((4, 10, 18), "reminded"),
    **dict.fromkeys((7, 14, 24), "expired"),
    **dict.fromkeys((9, 16, 26), "never"),
    **dict.fromkeys((12, 25), "rejected"),
}
"""The days of payments, and how a person answers: at 11:00, at 16:00 after the reminder, on the next day, or never."""
Raise = Literal["raised", "cancelled", "tomorrow", "never"]
LIMITS: Mapping[int, Raise] = {6: "raised", 13: "cancelled", 17: "tomorrow", 20: "raised", 31: "never"}
"""The days on which a limit of spending is reached, and what a person does then."""
COSTLY_TASK, COSTLY_DAY = (6, 13, 31), (17, 20)
"""The days on which one task reaches its own limit, and those on which several reach the day's."""


def moment(day: int, hour: int = 0) -> float:
    """Unix seconds of an hour of the month, by the zone's clocks; the day after the last one is there, too."""
    return (datetime(YEAR, MONTH, 1, hour, tzinfo=BERLIN) + timedelta(days=day - 1)).timestamp()


BEGIN, END = moment(1), moment(32)


def day_of(seconds: float) -> int:
    """The day of the month; 32 after its end."""
    return 32 if seconds >= END else datetime.fromtimestamp(seconds, BERLIN).day


def day_of_run(session_id: str) -> int:
    """The day of a schedule's run, whose session is named after its moment."""
    return day_of(datetime.strptime(session_id[-15:] + "+0000", "%Y%m%dT%H%M%S%z").timestamp())


def next_look(now: float) -> float:
    """When a person looks into the inbox after a moment."""
    today = day_of(now)
    return min(look for day in (today, today + 1) for hour in LOOKS if (look := moment(day, hour)) > now)


def payment_answer(day: int, now: float) -> str | None:
    """What a person says at a moment to the payment of a day; None: nothing yet."""
    how = APPROVALS[day]
    since = {"in time": moment(day, 11), "rejected": moment(day, 11), "reminded": moment(day, 16)}
    due = {**since, "expired": moment(day + 1, 16)}.get(how, END + 1)
    return None if now < due else "reject" if how == "rejected" else "approve"


def limit_answer(day: int, now: float) -> str | None:
    """What a person does at a moment about a limit that a task of a day reached: raise, cancel, resume, or nothing."""
    due: Mapping[Raise, tuple[float, str]] = {
        "raised": (moment(day, 11), "raise"),
        "cancelled": (moment(day, 20), "cancel"),
        "tomorrow": (moment(day + 1, 8), "resume"),
        "never": (END + 1, ""),
    }
    since, what = due[LIMITS.get(day, "raised")]
    if what == "resume" and now > since:  # there was no room on the next day, either
        what = "raise"
    return what if now >= since else None


class SharedClock:
    """A clock in a file, which whoever runs the month moves on."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "clock"

    def __call__(self) -> float:
        return float(self._file.read_text())

    def move(self, to: float) -> None:
        """Set it; a process that is killed meanwhile leaves the old time or the new one."""
        new = self._file.with_suffix(".new")
        new.write_text(repr(to))
        os.replace(new, self._file)


@dataclass(frozen=True)
class Blow:
    """A kill on a day: at the so-manieth request to the model, point of a tool, or statement that writes.

    Where the day has not so many, it comes at the day's end, between two moments.
    """

    day: int
    kind: Literal["model", "tool", "write"]
    number: int

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))
