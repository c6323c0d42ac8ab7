"""The clock of a process, moved: what Python code sees as the time and the date."""

from datetime import UTC, datetime, timedelta
from importlib.util import find_spec

HOURS = {"clock-forward": 25, "clock-back": -25}
"""The faults, and by how many hours they move the clock: the date is another one, too."""


def can_move() -> bool:
    """Whether the library that moves it is installed."""
    return find_spec("time_machine") is not None


def move(hours: int) -> None:
    """From now on, this process sees a time that is so many hours later; monotonic clocks go on."""
    from time_machine import travel

    travel(datetime.now(UTC) + timedelta(hours=hours), tick=True).start()
