"""Which runs a hunt needs: one fault at one call each."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from ..core.records import Json
from ..core.tools import Tool
from .clock import HOURS, can_move
from .faulty_check import has_check
from .traps import REPEATS
from .world import is_same

FAULTS = ("kill", "duplicate", "workers", "timeout", "network", "disk", "exception", "check", "clock", "undo")
"""The faults by name: the process is killed around and in a call; a call is carried out again, or by two workers at
once; its time is up before its effect; its hosts refuse connections, do not answer, or lose the answer; the disk is
full; what it calls after its effect raises an exception; its check fails, hangs, or answers from before the effect; the
clock has moved when it is resumed; and calls are undone."""
CHECKS = ("check-fails", "check-hangs", "check-stale")
AFTER_CALL = ("kill-after-call", *CHECKS, *HOURS)
"""Faults that begin with a kill after the call, before its outcome is stored."""
MOMENTS = 3
"""Lines of a call at which the process is killed."""
WATCHED = 60
"""Lines of a call before which the world is looked at, to find those that change it."""
HOSTS = 3
"""Hosts of a call whose connections are refused."""
UNDISTURBED = 4
"""Undisturbed runs at most: they show what differs by itself."""


@dataclass(frozen=True)
class Planned:
    """A run: a fault at a call, such as pay#1."""

    label: str
    fault: str
    at: int = 0
    host: str = ""

    def __str__(self) -> str:
        name = self.tool if self.fault == "none" else self.label
        return "/".join(filter(None, [name, self.fault, str(self.at or ""), self.host]))

    @classmethod
    def read(cls, name: str) -> Self:
        """The run of this name."""
        label, _, rest = name.partition("/")
        fault, _, rest = rest.partition("/")
        at, _, host = rest.partition("/")
        return cls(label, fault, int(at), host) if at.isdecimal() else cls(label, fault, 0, rest)

    @property
    def tool(self) -> str:
        return self.label.partition("#")[0]


@dataclass
class Step:
    """A call of the undisturbed run, with the world before and after it."""

    label: str
    name: str
    before: Any = None
    after: Any = None
    landing: float = 0.0
    lines: int = 0
    changes: list[int] = field(default_factory=list)
    """Lines before which the world was another than before the previous line."""
    calling: Sequence[int] = ()
    """Lines of the tool itself that call something which may fail."""
    hosts: Sequence[str] = ()
    writes: bool = False
    """Whether the call opened a file for writing."""
    result: Json = field(default_factory=dict)


def planned(steps: Sequence[Step], tools: Mapping[str, Tool], faults: Sequence[str], seed: int = 0) -> list[Planned]:
    """The runs of these calls. The seed chooses the lines at which processes are killed."""
    return [run for step in steps if step.name in tools for run in _of_step(step, tools[step.name], faults, seed)]


def notes(steps: Sequence[Step], tools: Mapping[str, Tool], faults: Sequence[str]) -> dict[str, list[str]]:
    """What cannot be tried: the ids of sentences, with the tools that they are about."""
    effects = [step for step in steps if step.name in tools and not tools[step.name].read_only]
    changing = {step.name for step in effects if not is_same(step.before, step.after)}
    found = {
        "note_lines": {step.name: None for step in effects if not step.lines},
        "note_unchanged": {s.name: None for s in effects if s.name not in changing and "success" in s.result},
    }
    if "clock" in faults and not can_move():
        found["note_clock"] = {step.name: None for step in effects}
    return {name: [*about] for name, about in found.items() if about}


def _of_step(step: Step, tool: Tool, faults: Sequence[str], seed: int) -> Iterator[Planned]:
    if "duplicate" in faults and not tool.read_only:
        yield Planned(step.label, "duplicate")
    if "undo" in faults and getattr(tool, "undo", None) is not None:
        yield Planned(step.label, "undo")
    if "network" in faults and step.hosts:
        yield from (Planned(step.label, "refuse", host=host) for host in step.hosts[:HOSTS])
        yield Planned(step.label, "hang")
    if not tool.read_only:
        yield from _of_effect(step, tool, faults, random.Random(f"{seed}/{step.label}"))


def _of_effect(step: Step, tool: Tool, faults: Sequence[str], chance: random.Random) -> Iterator[Planned]:
    if "kill" in faults:
        yield from (Planned(step.label, f"kill-{at}") for at in ("before-intent", "before-call", "after-call"))
        yield from (Planned(step.label, "kill-line", at) for at in _lines(step, chance))
    if "timeout" in faults and getattr(tool, "synchronous", False) and step.lines > 1:
        yield Planned(step.label, "timeout", step.lines)
    elif "timeout" in faults and step.hosts:
        yield Planned(step.label, "slow")
    if "network" in faults and step.hosts:
        yield Planned(step.label, "reset")
    if "workers" in faults and tool.idempotent and step.changes:
        yield Planned(step.label, "workers", step.changes[0] - 1)
    if "disk" in faults and step.writes:
        yield from (Planned(step.label, "disk", line) for line in (1, *step.changes[:1]))
    if "exception" in faults and not tool.idempotent and step.changes:
        yield from [Planned(step.label, "exception", n) for n in step.calling if n >= step.changes[0]][:1]
    if "check" in faults and has_check(tool):
        yield from (Planned(step.label, fault) for fault in CHECKS)
    if "clock" in faults and (tool.idempotent or has_check(tool)) and can_move():
        yield from (Planned(step.label, fault) for fault in HOURS)


def _lines(step: Step, chance: random.Random) -> list[int]:
    """At most MOMENTS of the lines after the first: the last one, and by chance those that the world changes before."""
    if step.lines < 2:
        return []
    others = [line for line in step.changes if line < step.lines] or range(2, step.lines)
    return sorted({step.lines, *chance.sample(others, min(MOMENTS - 1, len(others)))})


def most_effects(calls: Sequence[str], tools: Mapping[str, Tool], faults: Sequence[str], repeat: str = "") -> int:
    """How many effects the runs of a session with these calls, or the one that is repeated, may have at most.

    Each run makes all calls of the session again; the one that has the fault is made once more, or up to REPEATS times.
    """
    with_effect = [name for name in calls if name in tools and not tools[name].read_only]
    if not with_effect:
        return 0
    hosts = [str(number) for number in range(HOSTS)]
    numbers = [calls[:place].count(name) + 1 for place, name in enumerate(calls)]
    steps = [
        Step(f"{name}#{number}", name, lines=MOMENTS + 2, changes=[2, 3, 4], calling=[4], hosts=hosts, writes=True)
        for name, number in zip(calls, numbers, strict=True)
    ]
    runs = planned(steps, tools, faults)
    if repeat:
        runs = [run for run in runs if repeat.startswith(f"{run.label}/{run.fault}")][:1]
    compared = len({run.label for run in runs}) + sum(run.fault.startswith("kill") for run in runs)
    again = sum(len(with_effect) if run.fault == "undo" else _again(run, tools[run.tool]) for run in runs)
    return len(with_effect) * (len(runs) + UNDISTURBED + 1 + compared) + again


def _again(run: Planned, tool: Tool) -> int:
    if tool.read_only:
        return 0
    return REPEATS if run.fault == "duplicate" and not tool.idempotent else 1
