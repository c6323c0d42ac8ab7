"""Start children, kill them, have others go on; one folder a run."""

import contextlib
import json
import math
import os
import queue
import shutil
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from segue.testing.chaos.processes import Status, Zygote

from . import evidence, judge, power
from .judge import Finding

ROOT = Path(__file__).parents[2]
AHEAD = 600
"""Seconds by which clocks jump: less than a task may take."""
SHORT = 0.15
"""Seconds that a lease lives whose renewals fail: they are tried each 10 ms from 0.05 s on."""

T = TypeVar("T")
R = TypeVar("R")


def environment() -> dict[str, str]:
    """The environment without the settings of the person who runs the harness."""
    ours = ("OPENAI_", "SEGUE_", "LANGSMITH_", "LANGCHAIN_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**kept, "LANGSMITH_TRACING": "false"}


@dataclass(frozen=True)
class Run:
    """A scenario or a command, and its blows, one a child; the child after the last one is left in peace.

    'write:137', 'tool:a:before', 'model:2' and 'time:0.12' kill; 'power@write:40' kills and takes what was not synced;
    'pages:7' lets the disk be full after so many pages, and 'files:1' the folder of files after so many of those;
    'pause:12' asks for a pause after that event and 'pause@write:40' at that point; with 'leave:12' and 'leave@…'
    another process resumes; with 'unrenewed:40' so many renewals of leases fail; at 'jump+600@write:40' the clock
    jumps, and with 'killed-600@write:40' it was behind from the beginning. `where` is the kind of trouble, for the
    table.
    """

    scenario: str
    blows: tuple[str, ...]
    where: str = ""
    without: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "+".join((self.scenario, *self.blows))


def run_of(text: str) -> Run:
    """Read what `str(run)` wrote."""
    scenario, *blows = text.split("+")
    return Run(scenario, tuple(blows), "repeated")


@dataclass
class Outcome:
    """What came of a run. `ends` tells how each child ended that was not killed."""

    run: Run
    kills: int = 0
    unknowns: int = 0
    pauses: int = 0
    findings: list[Finding] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)

    def found(self, kind: str) -> int:
        return sum(finding.kind == kind for finding in self.findings)


@dataclass(frozen=True)
class Part:
    """A part of the measurement: of each kind of runs, one in so many."""

    number: int = 1
    parts: int = 1

    @classmethod
    def of(cls, text: str) -> Self:
        """The part that `3/8` names."""
        number, _, parts = text.partition("/")
        return cls(int(number), int(parts))

    def __str__(self) -> str:
        return "everything" if self.parts == 1 else f"part {self.number} of {self.parts}"


class Harness:
    """Runs of scenarios, and the undisturbed ones that they are compared with."""

    def __init__(self, folder: Path, workers: int = 2, part: Part = Part()) -> None:
        self._folder = folder
        self._part = part
        self._zygotes: queue.Queue[Zygote] = queue.Queue()
        self._opened = contextlib.ExitStack()
        self._workers = workers
        self._references: dict[tuple[str, frozenset[str]], Path] = {}
        self._lock = threading.Lock()
        self._numbers = iter(range(1, 10**9))

    def __enter__(self) -> Self:
        for _ in range(self._workers):
            self._zygotes.put(self._opened.enter_context(Zygote("tests.crash.zygote", ROOT, environment())))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._opened.close()

    @contextlib.contextmanager
    def zygote(self) -> Iterator[Zygote]:
        """One that nobody else talks to."""
        taken = self._zygotes.get()
        try:
            yield taken
        finally:
            self._zygotes.put(taken)

    def each(self, work: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """Do the work for each item, as many at a time as there are zygotes."""
        with ThreadPoolExecutor(self._workers) as pool:
            return list(pool.map(work, items))

    def share(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """As `each`, for the items of this part."""
        return self.each(work, items[self._part.number - 1 :: self._part.parts])

    def count(self, whole: int) -> int:
        """How many of so many are this part's."""
        return math.ceil(whole / self._part.parts)

    def new_folder(self, name: str) -> Path:
        with self._lock:
            folder = self._folder / f"{next(self._numbers):05d}-{name}"
        folder.mkdir(parents=True)
        return folder

    def reference(self, scenario: str, unknown: frozenset[str] = frozenset()) -> Path:
        """The folder of an undisturbed run in which these calls counted as interrupted.

        Raises:
            RuntimeError: the undisturbed run fails.
        """
        key = (scenario, unknown)
        with self._lock:
            known = self._references.get(key)
        if known is not None:
            return known
        folder = self.new_folder(f"undisturbed-{scenario}")
        with self.zygote() as zygote:
            status = zygote.run(orders(scenario, folder, unknown=sorted(unknown)))
        if status != 0 or report(folder)["error"]:
            raise RuntimeError(f"the undisturbed run of {scenario} fails: {told(folder, status)}")
        with self._lock:
            return self._references.setdefault(key, folder)

    def play(self, run: Run) -> Outcome:
        """Run the children one after the other, then judge what they left."""
        folder = self.new_folder(run.scenario)
        outcome = Outcome(run)
        interruptions = 0
        with self.zygote() as zygote:
            for blow in (*run.blows, ""):
                status = _suffer(zygote, run, folder, blow)
                if status == -signal.SIGKILL:
                    outcome.kills += 1
                    interruptions += 1
                else:
                    end = told(folder, status)
                    interruptions += end != "well"
                    outcome.ends.append(end)
        if outcome.ends[-1] == "well":
            self.compare(outcome, folder, interruptions)
        else:
            outcome.findings.append(Finding("end", f"it does not go on: {outcome.ends[-1]}"))
        if not outcome.findings:
            shutil.rmtree(folder, ignore_errors=True)
        return outcome

    def compare(self, outcome: Outcome, folder: Path, interruptions: int) -> None:
        """Judge what a run left by the undisturbed one in which the same calls counted as interrupted."""
        left = evidence.read(folder)
        unknown = evidence.unknown_labels(left)
        outcome.unknowns = len(unknown)
        outcome.pauses = sum(event["type"] == "paused" for log in left.events.values() for event in log)
        same = evidence.read(self.reference(outcome.run.scenario, unknown))
        undisturbed = evidence.read(self.reference(outcome.run.scenario))
        outcome.findings += judge.judge(left, same, undisturbed, interruptions)


def _suffer(zygote: Zygote, run: Run, folder: Path, blow: str) -> Status:
    """Run one child under the orders that the blow stands for."""
    given = _ordered(blow)
    kind, _, value = blow.partition(":")
    kill_after = float(value) if kind == "time" else None
    status = zygote.run(orders(run.scenario, folder, without=list(run.without), **given), kill_after)
    if given.get("power"):
        power.cut(folder)
    return status


def _ordered(blow: str) -> dict[str, Any]:
    verb, _, point = blow.partition("@")
    if point:
        return _ordered_at(verb, point)
    kind, _, value = blow.partition(":")
    match kind:
        case "" | "time":
            return {}
        case "pages":
            return {"pages": int(value)}
        case "files":
            return {"full_after": int(value)}
        case "pause" | "leave":
            return {"pause_after": [int(value)], "leave": kind == "leave"}
        case "unrenewed":
            return {"unrenewed": int(value), "ttl": SHORT}
    return {"at": {blow: "kill"}}


def _ordered_at(verb: str, point: str) -> dict[str, Any]:
    if verb == "power":
        return {"at": {point: "kill"}, "power": True}
    if verb.startswith("jump"):
        return {"at": {point: verb.removeprefix("jump")}}
    if verb.startswith("killed"):
        return {"at": {point: "kill"}, "ahead": float(verb.removeprefix("killed"))}
    return {"at": {point: "pause"}, "leave": verb == "leave"}


def orders(scenario: str, folder: Path, **more: Any) -> dict[str, Any]:
    """What a child is told; see `child.Orders`."""
    return {"scenario": scenario, "folder": str(folder), **more}


def report(folder: Path) -> dict[str, Any]:
    """What the last child to end by itself said."""
    found: dict[str, Any] = json.loads(Path(folder, "out.json").read_text(encoding="utf-8"))
    return found


def told(folder: Path, status: Status) -> str:
    """How a child ended, in a line; 'well' where all went well."""
    if status == 0:
        error = report(folder)["error"]
        return f"{error['type']}: {error['message']}" if error else "well"
    log = Path(folder, "log.txt").read_text(encoding="utf-8", errors="replace") if status == 1 else ""
    return f"status {status} {log.strip().rpartition(chr(10))[2]}".strip()
