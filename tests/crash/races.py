"""Two processes that send a message to one thread at the same instant, a thousand times."""

import contextlib
import json
import os
import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import evidence, judge
from .harness import Harness, Zygote
from .scenarios import Turn, deposit, one

TURNS = 20
"""Races on one thread, before the next one is taken."""
WAIT = 30.0
"""Seconds that a message which may wait stands in line."""
_MESSAGE = re.compile(r"^pay (\d+[AB])$")


@dataclass
class Raced:
    """What came of the races. `ends` counts how the messages ended: done, or the name of what refused them."""

    races: int
    ends: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)

    def __add__(self, other: "Raced") -> "Raced":
        return Raced(self.races + other.races, self.ends + other.ends, self.lost + other.lost)


def race_turn(message: str) -> Turn | None:
    """How a message of a race is answered: with one payment."""
    found = _MESSAGE.match(message)
    return Turn(message, "react", one(deposit(found[1]))) if found else None


def measure(harness: Harness, races: int, *, wait: bool = False, without: Sequence[str] = ()) -> Raced:
    """Race, then compare what the workers were told with what is there."""
    folder = harness.new_folder("races")
    ended: dict[str, str] = {}
    with harness.zygote() as zygote, contextlib.ExitStack() as opened:
        workers = {name: Worker(opened, zygote, folder, name, without) for name in ("A", "B")}
        for number in range(races):
            at = time.time() + 0.002
            for name, worker in workers.items():
                request = {"session": f"race-{number // TURNS}", "message": f"pay {number}{name}"}
                worker.tell({**request, "at": at, "wait": WAIT if wait else 0.0})
            ended |= {f"{number}{name}": worker.hear()["end"] for name, worker in workers.items()}
        sessions = [f"race-{number}" for number in range((races - 1) // TURNS + 1)]
        workers["A"].tell({"histories": sessions})
        Path(folder, "history.json").write_text(json.dumps(workers["A"].hear()["histories"]), encoding="utf-8")
    return Raced(races, Counter(ended.values()), judge.lost_updates(evidence.read(folder), ended))


class Worker:
    """One end of the talk with a racing process."""

    def __init__(self, opened: contextlib.ExitStack, zygote: Zygote, folder: Path, name: str, without: Sequence[str]):
        self._log = folder / "log.txt"
        letterbox = folder / name
        pipes = [Path(f"{letterbox}.{way}") for way in ("in", "out")]
        for pipe in pipes:
            os.mkfifo(pipe)
        pid = zygote.fork({"folder": str(folder), "letterbox": str(letterbox), "without": list(without)})
        opened.callback(zygote.wait, pid)
        self._out = opened.enter_context(pipes[0].open("w", encoding="utf-8", buffering=1))
        self._in = opened.enter_context(pipes[1].open(encoding="utf-8"))

    def tell(self, request: dict[str, Any]) -> None:
        self._out.write(json.dumps(request) + "\n")

    def hear(self) -> dict[str, Any]:
        """The answer to what it was told.

        Raises:
            RuntimeError: it has ended, with what it wrote to its log.
        """
        if not (line := self._in.readline()):
            raise RuntimeError(f"A process that races has ended:\n{self._log.read_text(encoding='utf-8')}")
        heard: dict[str, Any] = json.loads(line)
        return heard
