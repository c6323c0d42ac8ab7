"""Runs of a recorded session, one fault at one call each, and what they find of its tools."""

import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from ..core.errors import ConfigurationError, SegueError
from ..core.records import Json
from ..core.tools import Tool
from ..rehearsal.cassette import Cassette, write_cassette
from . import evidence
from .child import DATABASE, JOURNAL, OUT
from .processes import Zygote
from .traps import read_journal
from .world import Comparison, Items, Worlds, described, difference, landed, settled

FAULTS = ("kill", "duplicate", "timeout", "network", "undo")
"""The faults by name: the process is killed around and in a call; a call is carried out again; its time is up before
its effect; its hosts refuse connections, or do not answer; and calls are undone."""
LANDING = 3.0
"""Seconds that an effect may take to arrive after its call."""
MOMENTS = 3
"""Lines of a call at which the process is killed."""


@dataclass(frozen=True)
class Finding:
    """What a tool does that is not safe; `repeat` is the command that shows it again, alone."""

    tool: str
    kind: str
    fault: str
    detail: str
    repeat: str


@dataclass
class Hunted:
    """The outcome: how many runs there were, and what they found."""

    runs: int = 0
    findings: list[Finding] = field(default_factory=list)
    left: int = 0
    """Runs that the budget left out."""

    @property
    def is_safe(self) -> bool:
        """Whether nothing but advice was found."""
        return all(finding.kind == "could_be_idempotent" for finding in self.findings)

    def json(self) -> Json:
        """{"runs", "left", "findings": [{"tool", "kind", "fault", "detail", "repeat"}]}."""
        return {"runs": self.runs, "left": self.left, "findings": [asdict(found) for found in self.findings]}


@dataclass(frozen=True)
class Planned:
    """A run: a fault at a call, such as pay#1."""

    label: str
    fault: str
    at: int = 0
    host: str = ""

    def __str__(self) -> str:
        return "/".join(filter(None, [self.label, self.fault, str(self.at or ""), self.host]))

    @property
    def tool(self) -> str:
        return self.label.partition("#")[0]


@dataclass
class Step:
    """A call of the undisturbed run, with the world before and after it."""

    label: str
    name: str
    before: Any
    after: Any = None
    landing: float = 0.0
    lines: int = 0
    hosts: Sequence[str] = ()
    result: Json = field(default_factory=dict)


@dataclass
class Run:
    """What a run left."""

    before: Any
    after: Any
    namespace: str
    journal: list[Json]
    calls: dict[str, Json]
    landing: float | None = None

    def of(self, moment: str, label: str) -> list[Json]:
        return [line for line in self.journal if line["moment"] == moment and line.get("label") == label]

    def outcome(self, label: str) -> Json | None:
        """The outcome of a call in the database."""
        name, _, number = label.partition("#")
        intents = [line for line in self.journal if line["moment"] == "intent" and line["name"] == name]
        key = intents[int(number) - 1]["key"] if len(intents) >= int(number) else ""
        return self.calls.get(key, {}).get("outcome")


class Hunt:
    """Plans and judges the runs of one recorded session."""

    def __init__(
        self, cassette: Cassette, tools: Mapping[str, Tool], agents: str, worlds: Worlds, folder: Path, command: str
    ) -> None:
        self._tools = tools
        self._agents = str(Path(agents).resolve())
        self._worlds = worlds
        self._folder = folder.resolve() / cassette.session
        self._command = command
        self._comparison = Comparison()
        self._steps: dict[str, Step] = {}
        self._unknown: dict[str, Items] = {}
        self._number = 0
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        self._cassette = self._folder / "session.cassette.yaml"
        write_cassette(cassette, self._cassette)

    def __enter__(self) -> Self:
        self._opened = ExitStack()
        self._zygote = self._opened.enter_context(Zygote("segue.chaos", Path.cwd(), os.environ))
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def run(
        self,
        faults: Sequence[str] = FAULTS,
        repeat: str = "",
        budget: float = float("inf"),
        on_progress: Callable[[int, int], None] = lambda done, of: None,
    ) -> Hunted:
        """Carry out the runs that the faults need, or the one that is repeated.

        Raises:
            ConfigurationError: the undisturbed run fails, or no run is called so.
        """
        until, hunted = time.monotonic() + budget, Hunted()
        found = [*self._undisturbed()]
        plan = [*self._planned(faults)]
        if repeat:
            found = [finding for finding in found if f"{finding.tool}/{finding.fault}" == repeat]
            plan = [run for run in plan if str(run) == repeat]
            if not plan and not found:
                raise ConfigurationError("No run is called '{name}': take one from a finding's command.", name=repeat)
        hunted.runs = 2
        for done, planned in enumerate(plan):
            on_progress(done, len(plan))
            if time.monotonic() > until:
                hunted.left = len(plan) - done
                break
            found += self._judged(planned)
            hunted.runs += 1
        on_progress(len(plan), len(plan))
        hunted.findings = _distinct(found)
        return hunted

    # Runs

    def _orders(self, name: str, **more: Any) -> tuple[Any, str, dict[str, Any]]:
        self._number += 1
        namespace = f"chaos{os.getpid()}x{self._number}"
        world = self._worlds.of(namespace)
        folder = self._folder / f"{self._number:03d}-{name.replace('/', '-').replace('#', '.').replace(':', '.')}"
        folder.mkdir()
        environment = self._worlds.environment(world, namespace)
        orders = {"folder": str(folder), "cassette": str(self._cassette), "agents": self._agents}
        return world, namespace, {**orders, "environment": environment, **more}

    def _undisturbed(self) -> Iterator[Finding]:
        """Learn what each call does, and what differs between runs by itself; returns what that shows."""
        world, namespace, orders = self._orders("undisturbed", steps=True)
        folder, first = Path(orders["folder"]), world.snapshot()
        pid = self._zygote.fork(orders)
        while (status := self._zygote.wait(pid, 120)) == "stopped":
            self._step(world, read_journal(folder / JOURNAL)[-1])
            os.kill(pid, signal.SIGCONT)
        if status != 0:
            raise ConfigurationError(
                "The undisturbed run fails: {error}", error=(folder / "log.txt").read_text(encoding="utf-8")[-800:]
            )
        self._landing = max((step.landing for step in self._steps.values()), default=0.0)
        whole = settled(world, self._wait)
        for line in read_journal(folder / JOURNAL):
            if line["moment"] == "ran":
                self._steps[line["label"]].lines, self._steps[line["label"]].hosts = line["lines"], line["hosts"]
        again = self._carried_out(Planned("", ""))
        self._comparison.learn(whole, again.after)
        self._first, self._reference = first, self._comparison.items(again.after, again.namespace)
        for step in self._steps.values():
            yield from self._of_step(step, namespace)
        yield from self._invariant(Planned("", "none"), again)

    @property
    def _wait(self) -> float:
        return self._landing + 0.2 if self._landing > 0.1 else 0.0

    def _step(self, world: Any, line: Json) -> None:
        label = line["label"]
        if line["moment"] == "start":
            self._steps[label] = Step(label, line["name"], settled(world))
        else:
            step, tool = self._steps[label], self._tools.get(line["label"].partition("#")[0])
            found = landed(world, step.before, 0.0 if tool is None or tool.read_only else LANDING)
            step.after, step.landing, step.result = found.snapshot, found.seconds, line["result"]

    def _of_step(self, step: Step, namespace: str) -> Iterator[Finding]:
        missing, extra = difference(
            self._comparison.items(step.before, namespace), self._comparison.items(step.after, namespace)
        )
        run = Planned(step.label, "none")
        if not missing and not extra:
            return
        if self._tools[step.name].read_only:
            yield self._finding(run, "writes_although_read_only", f"It ran, and {described(missing, extra)}.")
        if "error" in step.result and not evidence.is_unknown(step.result):
            yield self._finding(
                run, "hidden_effect", f"It fails with {step.result['error']!r}, and {described(missing, extra)}."
            )

    def _planned(self, faults: Sequence[str]) -> Iterator[Planned]:
        for step in self._steps.values():
            tool = self._tools[step.name]
            if "duplicate" in faults:
                yield Planned(step.label, "duplicate")
            if "undo" in faults and getattr(tool, "undo", None) is not None:
                yield Planned(step.label, "undo")
            if "network" in faults:
                for host in step.hosts:
                    yield Planned(step.label, "refuse", host=host)
                if step.hosts:
                    yield Planned(step.label, "hang")
            if tool.read_only:
                continue
            if "kill" in faults:
                yield from (Planned(step.label, f"kill-{at}") for at in ("before-intent", "before-call", "after-call"))
                yield from (Planned(step.label, "kill-line", at) for at in _spread(step.lines, MOMENTS))
            if "timeout" in faults and getattr(tool, "synchronous", False):
                yield from (Planned(step.label, "timeout", at) for at in _spread(step.lines, 1))

    def _carried_out(self, planned: Planned, *, check: bool = False) -> Run:
        """Run children until one comes to the end of the session."""
        orders = asdict(planned)
        world, namespace, orders = self._orders(str(planned) or "undisturbed", **orders)
        folder, before, landing = Path(orders["folder"]), world.snapshot(), None
        for _ in range(4):
            pid = self._zygote.fork(orders)
            while (status := self._zygote.wait(pid)) == "stopped":
                began, now = time.monotonic(), world.snapshot()
                found = landed(world, now, LANDING)
                landing = found.seconds if found.seconds else time.monotonic() - began if found.snapshot != now else 0.0
                os.kill(pid, signal.SIGCONT)
            if check and status == -signal.SIGKILL:
                orders = {**orders, "fault": "check-landing"}
            if status == 0:
                break
        after = settled(world, self._wait)
        run = Run(before, after, namespace, read_journal(folder / JOURNAL), evidence.calls(folder / DATABASE), landing)
        if not (folder / OUT).exists():
            log = (folder / "log.txt").read_text(encoding="utf-8", errors="replace")[-600:]
            raise SegueError("The run {run} does not come to its end: {log}", run=str(planned), log=log)
        return run

    # Judging

    def _judged(self, planned: Planned) -> Iterator[Finding]:
        if planned.fault == "undo":
            yield from self._undone(planned)
            return
        run, tool = self._carried_out(planned), self._tools[planned.tool]
        missing, extra = self._differs(planned.label, run)
        repeated = len(run.of("run", planned.label)) > 1
        yield from self._invariant(planned, run)
        if planned.fault == "hang":
            if tool.timeout is None and any(line["hung"] for line in run.of("ran", planned.label)):
                yield self._finding(planned, "no_timeout", "Its connection waits for an answer without a time-out.")
        elif planned.fault == "duplicate":
            yield from self._duplicated(planned, run, missing, extra)
        elif planned.fault in ("timeout", "refuse"):
            yield from self._hidden(planned, run)
        elif ((missing or extra) and repeated) or (missing and run.of("check", planned.label)):
            yield from self._repeated(planned, run, described(missing, extra))
        if planned.fault.startswith("kill") and not missing and not extra:
            yield from self._results(planned, run)

    def _differs(self, label: str, run: Run) -> tuple[Items, Items]:
        """What the world lacks, and what it has besides; of a flagged call either is right."""
        found = self._comparison.items(run.after, run.namespace)
        if not evidence.is_unknown(run.outcome(label)):
            return difference(self._reference, found)
        if label not in self._unknown:
            without = self._carried_out(Planned(label, "unknown"))
            self._unknown[label] = self._comparison.items(without.after, without.namespace)
        return (self._reference & self._unknown[label]) - found, found - (self._reference | self._unknown[label])

    def _duplicated(self, planned: Planned, run: Run, missing: Items, extra: Items) -> Iterator[Finding]:
        tool, values = self._tools[planned.tool], run.of("value", planned.label)
        changed = bool(missing or extra)
        if tool.read_only:
            return
        if tool.idempotent and changed:
            yield self._finding(planned, "not_idempotent", f"It ran twice, and {described(missing, extra)}.")
        elif tool.idempotent:
            yield from self._results(planned, run)
        elif not changed and len(values) > 1 and "success" in (run.outcome(planned.label) or {}):
            count = len(values) - 1
            yield self._finding(
                planned, "could_be_idempotent", f"{count} of {count} repetitions changed nothing: mark it idempotent."
            )

    def _repeated(self, planned: Planned, run: Run, change: str) -> Iterator[Finding]:
        checks = run.of("check", planned.label)
        if checks:
            measured = self._carried_out(planned, check=True)
            late = f", while the effect lands {measured.landing:.1f} s later" if measured.landing else ""
            said = checks[0]["answer"]
            what = "says not done" if "NOT_DONE" in str(said) else f"answers {json.dumps(said, ensure_ascii=False)}"
            kind = "not_idempotent" if said is None else "check_too_early"
            yield self._finding(planned, kind, f"Its check {what}{late}: {change}.")
        elif self._tools[planned.tool].idempotent:
            yield self._finding(planned, "not_idempotent", f"It ran again after the process was killed, and {change}.")

    def _results(self, planned: Planned, run: Run) -> Iterator[Finding]:
        values = [line["value"] for line in run.of("value", planned.label)]
        checks = [line["answer"] for line in run.of("check", planned.label) if line["answer"] is not None]
        again = [*values[1:], *(answer for answer in checks if "NOT_DONE" not in str(answer))]
        if values and any(value != values[0] for value in again):
            other = next(value for value in again if value != values[0])
            first, second = (json.dumps(value, ensure_ascii=False)[:200] for value in (values[0], other))
            yield self._finding(planned, "result_differs", f"It returned {first}, and for the same call {second}.")

    def _hidden(self, planned: Planned, run: Run) -> Iterator[Finding]:
        """A call that counts as failed, though the world changed as it would have."""
        outcome, tool = run.outcome(planned.label) or {}, self._tools[planned.tool]
        if "error" not in outcome or evidence.is_unknown(outcome):
            return
        if planned.fault == "timeout" and tool.idempotent:
            return
        without = Run(run.before, run.after, run.namespace, run.journal, run.calls)
        if planned.label not in self._unknown:
            bare = self._carried_out(Planned(planned.label, "unknown"))
            self._unknown[planned.label] = self._comparison.items(bare.after, bare.namespace)
        found = self._comparison.items(without.after, run.namespace)
        missing, extra = difference(self._unknown[planned.label], found)
        if missing or extra:
            yield self._finding(
                planned, "hidden_effect", f"It fails with {outcome['error']!r}, and {described(missing, extra)}."
            )

    def _undone(self, planned: Planned) -> Iterator[Finding]:
        """Undo everything that can be, and compare what each undo of this tool changes with what its call did."""
        world, namespace, orders = self._orders(str(planned), undo=True)
        folder, left = Path(orders["folder"]), [s for s in self._steps.values() if self._can_undo(s)]
        pid, before = self._zygote.fork(orders), None
        while self._zygote.wait(pid) == "stopped":
            moment, now = read_journal(folder / JOURNAL)[-1]["moment"], settled(world, self._wait)
            if moment == "undo":
                before = now
            elif (step := left.pop()).label == planned.label:
                yield from self._compared_undo(planned, step, before, now, namespace)
            os.kill(pid, signal.SIGCONT)

    def _can_undo(self, step: Step) -> bool:
        return getattr(self._tools[step.name], "undo", None) is not None and "success" in step.result

    def _compared_undo(
        self, planned: Planned, step: Step, before: Any, after: Any, namespace: str
    ) -> Iterator[Finding]:
        items = self._comparison.items
        done = difference(items(step.before), items(step.after))
        undone = difference(items(before, namespace), items(after, namespace))
        missing, extra = done[0] - undone[1], done[1] - undone[0]
        added, taken = undone[1] - done[0], undone[0] - done[1]
        if missing or extra or added or taken:
            yield self._finding(
                planned, "undo_incomplete", f"After its undo {described(missing + taken, extra + added)}."
            )

    def _invariant(self, planned: Planned, run: Run) -> Iterator[Finding]:
        world = self._worlds.build
        check = getattr(world, "check", None)
        if check is None:
            return
        instance = world(namespace=run.namespace) if self._worlds.takes_namespace else world()
        effects = [line for line in run.journal if line["moment"] == "start"]
        given = [{"tool": line["name"], "arguments": line["arguments"]} for line in effects]
        if said := instance.check(run.before, run.after, given):
            yield self._finding(planned, "invariant", str(said))

    def _finding(self, planned: Planned, kind: str, detail: str) -> Finding:
        return Finding(planned.tool, kind, planned.fault, detail, f"{self._command} --repeat '{_name(planned)}'")


def _name(planned: Planned) -> str:
    return f"{planned.tool}/none" if planned.fault == "none" else str(planned)


def _spread(count: int, most: int) -> list[int]:
    """At most so many of the lines after the first, the last one among them."""
    if count < 2:
        return []
    places = {2 + round((count - 2) * part / max(most - 1, 1)) for part in range(most)} if most > 1 else {count}
    return sorted(places)


def _distinct(found: Sequence[Finding]) -> list[Finding]:
    """One finding of each kind for each tool, the first."""
    return [*{(finding.tool, finding.kind): finding for finding in reversed(found)}.values()][::-1]
