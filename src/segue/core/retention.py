"""How long snapshots are kept."""

import re
from dataclasses import dataclass
from typing import Self

from .errors import ConfigurationError

_UNITS = {"m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_AGE = re.compile(r"(\d{1,6})([mhdw])")
_COUNT = re.compile(r"\d{1,6}")


@dataclass(frozen=True)
class Retention:
    """Keeps the snapshots of the last `seconds`, and the `last` newest ones of each session; None keeps none by itself.

    What is older is merged into the oldest one that is kept.
    """

    seconds: float | None = None
    last: int | None = None

    @classmethod
    def of(cls, given: "Retention | str | int") -> Self:
        """Read "30d" (m, h, d or w), a number of snapshots, or both, "30d,100".

        Raises:
            ConfigurationError: it is neither.
        """
        if isinstance(given, Retention):
            return cls(given.seconds, given.last)
        seconds, last = None, None
        for part in str(given).replace(" ", "").split(","):
            if age := _AGE.fullmatch(part):
                seconds = int(age[1]) * _UNITS[age[2]]
            elif _COUNT.fullmatch(part) and int(part) > 0:
                last = int(part)
            else:
                raise ConfigurationError(
                    "The retention {given} is not valid: write an age such as 30d (m, h, d or w), or a number of "
                    "snapshots above 0.",
                    given=repr(given),
                )
        return cls(seconds, last)


@dataclass(frozen=True)
class Pruned:
    """What a pruning did: how many snapshots it removed, from how many sessions, and the sessions that were busy."""

    snapshots: int = 0
    sessions: int = 0
    busy: tuple[str, ...] = ()
