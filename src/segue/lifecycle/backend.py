"""What an engine runs on: in memory, or an app's database."""

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ..core.events import Event
from ..core.lifecycle import EngineState
from .run_state import Mirror

Arrived = Callable[[list[Event]], bool]
"""Takes in what happened; says whether the engine has something to tell of it."""


@dataclass(frozen=True)
class Begin:
    """A new goal."""

    text: str


@dataclass(frozen=True)
class Restore:
    """What an earlier engine left, and the phase that it stood in."""

    mirror: Mirror
    phase: EngineState


@dataclass(frozen=True)
class GoOn:
    """The run that stands here goes on, with a person's answer where it waits for one."""

    answer: Any = None


Given = Begin | Restore | GoOn


class Track(Protocol):
    """One run after the other; `standing` says that the last one can go on, `question` what it waits for."""

    standing: bool
    question: Mapping[str, Any] | None

    @property
    def place(self) -> Mapping[str, str]:
        """Where another process finds the run; empty where it cannot."""
        ...

    def stretch(self, given: Given, arrived: Arrived) -> AsyncGenerator[None, None]:
        """Run until the end or a boundary, and yield after each step; what happened goes to `arrived` first.

        Closed in the middle it drains: what is under way comes to its boundary, and is still told to `arrived`.
        """
        ...

    def drain(self) -> None:
        """Have the run stop at its next boundary."""
        ...

    def forget(self) -> None:
        """Let go of the run: the next one begins anew."""
        ...

    def attach(self, snapshot: Mapping[str, Any]) -> None:
        """Take over the run that a snapshot names, where it is kept somewhere."""
        ...

    async def recall(self) -> tuple[Mirror, EngineState] | None:
        """The run as it is kept, and the phase that it is in; None where only the engine knows it."""
        ...

    async def close(self) -> None:
        """Let go of what was opened for the runs."""
        ...
