"""Many tasks with effects at a time, beside readers of the same process or of another one."""

import contextlib
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import evidence, judge
from .harness import Harness
from .races import Worker

SESSIONS = 10
"""Tasks at a time, each on a thread of its own."""
READERS = 3


@dataclass(frozen=True)
class Loaded:
    """What came of the tasks. `ends` counts how they ended; `failed` are the errors of readers."""

    ends: Counter[str]
    reads: int
    failed: list[str]
    lost: list[str]

    def __add__(self, other: "Loaded") -> "Loaded":
        return Loaded(
            self.ends + other.ends, self.reads + other.reads, self.failed + other.failed, self.lost + other.lost
        )

    def broken(self) -> list[str]:
        ends = [f"{count} tasks ended as {end}" for end, count in self.ends.items() if end != "done"]
        return [*ends, *self.failed, *self.lost, *([] if self.reads else ["nothing was read"])]


def measure(harness: Harness, rounds: int, *, elsewhere: bool = False) -> Loaded:
    """Run so many rounds of tasks; with `elsewhere` another process reads."""
    folder = harness.new_folder("load")
    ended: dict[str, str] = {}
    reads, failed = 0, []
    with harness.zygote() as zygote, contextlib.ExitStack() as opened:
        writer = Worker(opened, zygote, folder, "A", ())
        ended |= _round(writer, 0, readers=0)["ends"]
        sessions = [*_asked(0).values()]
        done = folder / "done"
        if elsewhere:
            reader = Worker(opened, zygote, folder, "B", ())
            reader.tell({"until": str(done), "sessions": sessions, "readers": READERS})
        for number in range(1, rounds + 1):
            heard = _round(writer, number, readers=0 if elsewhere else READERS)
            ended |= heard["ends"]
            reads += heard["reads"]
            failed += heard["failed"]
        done.touch()
        if elsewhere:
            heard = reader.hear()
            reads += heard["reads"]
            failed += heard["failed"]
        writer.tell({"histories": sessions})
        Path(folder, "history.json").write_text(json.dumps(writer.hear()["histories"]), encoding="utf-8")
    return Loaded(Counter(ended.values()), reads, failed, judge.lost_updates(evidence.read(folder), ended))


def _asked(number: int) -> dict[str, str]:
    """The label of each task of a round, and its session."""
    return {f"{number * SESSIONS + place}A": f"load-{place}" for place in range(SESSIONS)}


def _round(writer: Worker, number: int, readers: int) -> dict[str, Any]:
    writer.tell({"asked": _asked(number), "readers": readers})
    return writer.hear()
