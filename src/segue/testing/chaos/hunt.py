"""The runs of one recorded session with one fault at one call each, their judge and their report."""

import json
import os
import random
import shlex
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import Any, Protocol, Self

from ...core.calls import Tool
from ...core.errors import ConfigurationError, MissingExtra
from ...core.records import Json
from ...prompts.catalogue import chaos_text
from ..cassette import Cassette, write_cassette
from ..rehearsal.report import environment
from ..rehearsal.simulate import replace_text
from . import evidence
from .child import JOURNAL, OUT
from .processes import REFUSED, Zygote, Zygotes
from .runs import Finding, Finished, Hunted, Run, distinct
from .traps import CHECKS, FAULTS, UNDISTURBED, WATCHED, Planned, Step, notes, planned, read_journal
from .world import Change, Comparison, Items, Worlds, is_same, landed, settled

# What a run shows of the tool whose call had the fault.

NOTHING = Change()


class CarryOut(Protocol):
    """Carries a run out.

    With `check` it measures when an effect lands after the check's answer; with `again` the call that was interrupted
    is made again at the end.
    """

    def __call__(self, planned: Planned, *, check: bool = False, again: bool = False) -> Run: ...


class Judge:
    """Compares what runs left with undisturbed ones in which the same calls counted as interrupted."""

    def __init__(self, tools: Mapping[str, Tool], carry_out: CarryOut, command: str) -> None:
        self._tools = tools
        self._carry_out = carry_out
        self._command = command
        self._comparison = Comparison()
        self._undisturbed: list[Run] = []
        self._unknown: dict[str, Run] = {}
        self._is_broken = False
        self._idle: set[str] = set()
        self._lock = threading.RLock()

    def learn(self, undisturbed: Run) -> None:
        """Have another undisturbed run, which shows what differs by itself."""
        self._undisturbed.append(undisturbed)
        self._comparison.learn(self._undisturbed[0].snapshot, undisturbed.snapshot)

    def of_step(self, step: Step, namespace: str, journal: list[Json]) -> Iterator[Finding]:
        """What an undisturbed call shows."""
        items = self._comparison.items
        change = Change.between(items(step.before, namespace), items(step.after, namespace))
        run = Planned(step.label, "none")
        if not change or step.name not in self._tools:
            return
        if self._tools[step.name].read_only:
            yield self._finding(run, "writes_although_read_only", "read_only_writes", change, journal)
        if error := evidence.error_in(step.result):
            sentence = _failing(step.result)
            yield self._finding(run, "hidden_effect", sentence, change, journal, error=repr(error))

    def without_effect(self, steps: Sequence[Step], journal: list[Json]) -> Iterator[Finding]:
        """The tools that report success, and none of whose calls changed the world."""
        effects = [step for step in steps if step.name in self._tools and not self._tools[step.name].read_only]
        changing = {step.name for step in effects if not is_same(step.before, step.after)}
        for step in effects:
            if step.name not in changing and "success" in step.result and not evidence.error_in(step.result):
                self._idle.add(step.name)
                run, said = Planned(step.label, "none"), json.dumps(step.result["success"], ensure_ascii=False)[:200]
                yield self._finding(run, "no_effect", "changed_no_world", NOTHING, journal, said=said)

    def of_run(self, planned: Planned, run: Run) -> Iterator[Finding]:
        """What the run shows."""
        yield from self.invariant(planned, run)
        tool, change = self._tools[planned.tool], self._differs(planned.label, run)
        repeated = len(run.of("run", planned.label)) > 1
        if planned.fault == "hang":
            if tool.timeout is None and any(line["hung"] for line in run.of("ran", planned.label)):
                yield self._finding(planned, "no_timeout", "waits_forever", NOTHING, run.journal)
            yield from self._hidden(planned, run)
        elif planned.fault == "duplicate":
            yield from self._duplicated(planned, run, change)
        elif planned.fault == "workers":
            if change:
                yield self._finding(planned, "not_idempotent", "ran_at_once", change, run.journal)
        elif planned.fault in ("timeout", "slow", "refuse", "reset", "disk", "exception"):
            yield from self._hidden(planned, run)
        elif planned.fault == "kill-after-outcome" and self._is_effect(planned.label, change.missing):
            yield self._finding(planned, "no_effect", "effect_is_lost", change, run.journal)
        elif planned.fault.startswith("kill") and self._is_left(planned.label, run, change):
            yield from self._left(planned, run, change)
        elif change and (repeated or (change.missing and run.of("check", planned.label))):
            yield from self._repeated(planned, run, change)
        elif change:
            yield self._finding(planned, "invariant", "differs_after_kill", change, run.journal)
        if planned.fault.startswith(("kill", "check", "clock")) and not change:
            yield from self._results(planned, run)

    def invariant(self, planned: Planned, run: Run) -> Iterator[Finding]:
        """What the world's own check says, unless it says so of every run."""
        if not self._is_broken and (said := run.world.check(run.before, run.after, run.effects)):
            yield self._finding(planned, "invariant", "broken", NOTHING, run.journal, said=said)

    def undisturbed(self, steps: Sequence[Step], first: Run, again: Run) -> Iterator[Finding]:
        """What the world's own check says without a fault: it is the call's after which the invariant was broken."""
        label = _breaking(steps, first) if again.world.check(again.before, again.after, again.effects) else ""
        yield from self.invariant(Planned(label, "none"), again)
        self._is_broken = bool(label)

    def undone(self, planned: Planned, step: Step, first: str, undo: tuple[Any, Any], run: Run) -> Iterator[Finding]:
        """Compare what an undo changed, from one snapshot to the other, with what its call did in another namespace."""
        items = self._comparison.items
        before, after = items(step.before, first), items(step.after, first)
        left, undone = (items(world, run.namespace) for world in undo)
        lacks = ((before - after) - (undone - left)) + ((left - undone) - (after - before))
        has = ((after - before) - (left - undone)) + ((undone - left) - (before - after))
        if lacks or has:
            yield self._finding(planned, "undo_incomplete", "undo_leaves", Change.of(lacks, has), run.journal)

    def _differs(self, label: str, run: Run) -> Change:
        """How the world is not as it should be; more undisturbed runs show whether it varies by itself."""
        with self._lock:
            change = self._change(label, run)
            while change and len(self._undisturbed) < UNDISTURBED:
                self.learn(self._carry_out(Planned("", "")))
                change = self._change(label, run)
            return change

    def _change(self, label: str, run: Run) -> Change:
        """What the world lacks, and what it has besides; of a flagged call either is right."""
        found, expected = self._items(run), self._items(self._undisturbed[-1])
        if not run.is_unknown(label):
            return Change.between(expected, found)
        without = self._items(self._without(label))
        return Change.of((expected & without) - found, found - (expected | without))

    def _items(self, run: Run) -> Items:
        return self._comparison.items(*run.snapshot)

    def _without(self, label: str) -> Run:
        """The run in which the call counts as interrupted."""
        with self._lock:
            if label not in self._unknown:
                self._unknown[label] = self._carry_out(Planned(label, "unknown"))
            return self._unknown[label]

    def _is_effect(self, label: str, rows: Sequence[tuple[str, str, int]]) -> bool:
        """Whether some of the rows are where the call's effect is."""
        effect = Change.between(self._items(self._without(label)), self._items(self._undisturbed[-1]))
        paths = {path for path, _, _ in (*effect.missing, *effect.extra)}
        return bool(rows) and not paths.isdisjoint(path for path, _, _ in rows)

    def _is_left(self, label: str, run: Run, change: Change) -> bool:
        """Whether what is there besides is neither the effect nor a part of it."""
        fails = bool(evidence.error_in(run.outcome(label)))
        is_whole = not change.missing or fails
        return bool(change.extra) and is_whole and not self._is_effect(label, change.extra)

    def _left(self, planned: Planned, run: Run, change: Change) -> Iterator[Finding]:
        """What a killed call left, with the error of the call where it is made again."""
        error = evidence.error_in(run.outcome(planned.label))
        if run.is_unknown(planned.label):
            again = self._carry_out(planned, again=True).of("again", planned.label)
            error = evidence.error_in(again[-1]["result"]) if again else ""
        sentence = "left_and_fails" if error else "left_after_kill"
        yield self._finding(planned, "left_behind", sentence, change, run.journal, error=repr(error))

    def _duplicated(self, planned: Planned, run: Run, change: Change) -> Iterator[Finding]:
        tool, values = self._tools[planned.tool], run.of("value", planned.label)
        seen = json.dumps(run.after, ensure_ascii=False)
        left = [line["left"][0] for line in values if line["left"] and Path(line["left"][0]).name not in seen]
        if len(left) > 1 and len(left) == len(values):
            about = {"n": len(left), "file": left[0]}
            yield self._finding(planned, "left_behind", "left_files", NOTHING, run.journal, **about)
        if tool.idempotent and change:
            yield self._finding(planned, "not_idempotent", "ran_twice", change, run.journal)
        elif tool.idempotent:
            yield from self._results(planned, run)
        elif (
            not left
            and planned.tool not in self._idle
            and not change
            and len(values) > 1
            and "success" in (run.outcome(planned.label) or {})
        ):
            count = len(values) - 1
            yield self._finding(planned, "could_be_idempotent", "changed_nothing", NOTHING, run.journal, n=count)

    def _repeated(self, planned: Planned, run: Run, change: Change) -> Iterator[Finding]:
        checks = run.of("check", planned.label)
        if checks and planned.fault in CHECKS:
            answer = json.dumps(checks[0]["answer"], ensure_ascii=False)
            kind = "not_idempotent" if checks[0]["answer"] is None else "check_too_early"
            sentence = "check_not_done" if "NOT_DONE" in answer else "check_answers"
            yield self._finding(planned, kind, sentence, change, run.journal, answer=answer)
        elif checks:
            late = self._carry_out(planned, check=True).landing
            said = checks[0]["answer"]
            kind = "not_idempotent" if said is None else "check_too_early"
            sentence, landed_late = ("check_answers", "check_answers_late")
            if "NOT_DONE" in str(said):
                sentence, landed_late = ("check_not_done", "check_not_done_late")
            slots = {"answer": json.dumps(said, ensure_ascii=False), "seconds": f"{late or 0:.1f}"}
            yield self._finding(planned, kind, landed_late if late else sentence, change, run.journal, **slots)
        elif self._tools[planned.tool].idempotent:
            yield self._finding(planned, "not_idempotent", "ran_again", change, run.journal)

    def _results(self, planned: Planned, run: Run) -> Iterator[Finding]:
        values = [line["value"] for line in run.of("value", planned.label)]
        checks = [line["answer"] for line in run.of("check", planned.label) if line["answer"] is not None]
        again = [*values[1:], *(answer for answer in checks if "NOT_DONE" not in str(answer))]
        if values and any(value != values[0] for value in again):
            other = next(value for value in again if value != values[0])
            first, second = (json.dumps(value, ensure_ascii=False)[:200] for value in (values[0], other))
            about = {"first": first, "second": second}
            yield self._finding(planned, "result_differs", "returned_another", NOTHING, run.journal, **about)

    def _hidden(self, planned: Planned, run: Run) -> Iterator[Finding]:
        """A call that counts as failed, though the world changed as it would have."""
        outcome, tool = run.outcome(planned.label) or {}, self._tools[planned.tool]
        error = evidence.error_in(outcome)
        if not error:
            return
        if planned.fault in ("timeout", "slow", "hang", "reset") and tool.idempotent:
            return
        without = self._items(self._without(planned.label))
        change, whole = (
            Change.between(without, self._items(run)),
            Change.between(without, self._items(self._undisturbed[-1])),
        )
        if change and not (change.is_hollow and not whole.is_hollow):  # an empty file without what belongs into it
            yield self._finding(planned, "hidden_effect", _failing(outcome), change, run.journal, error=repr(error))

    def _finding(
        self, planned: Planned, kind: str, sentence: str, change: Change, journal: Any, **slots: object
    ) -> Finding:
        run = str(planned)
        repeat = f"{self._command} --repeat {shlex.quote(run)}"
        return Finding(planned.tool, kind, planned.fault, run, sentence, slots, change, tuple(journal), repeat)


def _failing(outcome: Json) -> str:
    """The sentence about a call that says it failed, and has an effect."""
    return "fails_with_effect" if "error" in outcome else "returns_error_with_effect"


def _breaking(steps: Sequence[Step], run: Run) -> str:
    """The last call before which the invariant held, and after which it did not; else the last one."""
    found, was_broken = steps[-1].label, bool(run.world.check(run.before, run.before, []))
    for number, step in enumerate(steps, start=1):
        is_broken = bool(run.world.check(run.before, step.after, run.effects[:number]))
        found = step.label if is_broken and not was_broken else found
        was_broken = is_broken
    return found


# The runs of one recorded session, with one fault at one call each.

MEMORY = "/dev/shm"
"""Where runs are kept that nobody looks at: what a killed process has written stays there, too."""
CHILDREN = 4
"""Processes of a run at most: each but the last one is killed."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class HuntOptions:
    """How a session is hunted.

    `faults` are some of FAULTS, `repeat` is the one run that is carried out. No run but the first begins after `until`,
    a monotonic time. The `seed` chooses moments and the order; `jobs` runs go on at once; the hosts `refused` are never
    reached. What an earlier hunt with the same `digest` found is kept, unless this one is `fresh`.
    """

    faults: Sequence[str] = FAULTS
    repeat: str = ""
    until: float = float("inf")
    seed: int = 0
    jobs: int = 1
    refused: Sequence[str] = ()
    digest: str = ""
    fresh: bool = False


class Hunt:
    """Carries out the runs of one recorded session."""

    def __init__(
        self,
        cassette: Cassette,
        tools: Mapping[str, Tool],
        agents: str,
        worlds: Worlds,
        folder: Path,
        command: str,
        zygotes: Zygotes,
        options: HuntOptions,
    ) -> None:
        self._tools = tools
        self._agents = str(Path(agents).resolve())
        self._worlds = worlds
        self._zygotes = zygotes
        self._options = options
        self._folder = folder.resolve() / cassette.session / ("repeated" if options.repeat else "runs")
        self._finished = Finished(self._folder, options.digest, fresh=options.fresh or bool(options.repeat))
        self._judge = Judge(tools, self._carried_out, command)
        self._steps: dict[str, Step] = {}
        self._landing = 0.0
        self._begun = False
        self._lock = threading.Lock()
        self._number = max([int(file.name[:4]) for file in self._folder.iterdir() if file.is_dir()], default=0)
        self._cassette = self._folder / "session.cassette.yaml"
        write_cassette(cassette, self._cassette)

    def __enter__(self) -> Self:
        self._memory = TemporaryDirectory(prefix="segue-chaos-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None)
        self._runs = self._folder if self._options.repeat else Path(self._memory.name)
        return self

    def __exit__(self, *error: Any) -> None:
        self._memory.cleanup()

    @property
    def known(self) -> int:
        """How many runs an earlier hunt has finished."""
        return len(self._finished.runs)

    def run(self, on_progress: Progress = lambda done, of: None) -> Hunted:
        """Carry out the runs that the faults need, or the one that is repeated."""
        on_progress(0, 1)
        options = self._options
        try:
            first = [*self._undisturbed()]
        except RunFailed as error:
            raise ConfigurationError("The run without faults failed: {error}", error=error) from error
        plan = planned([*self._steps.values()], self._tools, options.faults, options.seed)
        if options.repeat:
            first = [finding for finding in first if finding.run == options.repeat]
            named = Planned.read(options.repeat)  # its moment may be another one of the same fault, by chance
            plan = [named] if any((run.label, run.fault) == (named.label, named.fault) for run in plan) else []
            if not plan and not first:
                raise ConfigurationError(
                    "There is no run '{name}': use the name in a finding's command.", name=options.repeat
                )
        hunted = Hunted(2, seed=options.seed, notes=notes([*self._steps.values()], self._tools, options.faults))
        hunted.resumed = sum(str(run) in self._finished.runs for run in plan)
        left = [run for run in plan if str(run) not in self._finished.runs]
        random.Random(options.seed).shuffle(left)
        hunted.runs += (done := len(plan) - len(left))
        with ThreadPoolExecutor(options.jobs) as pool, self._ended_at_once(pool):
            for run, why in zip(left, pool.map(self._one, left), strict=True):
                on_progress(done := done + 1, len(plan))
                if why is None:
                    hunted.left.append(str(run))
                else:
                    hunted.runs += 1
                    hunted.failed |= {str(run): why} if why else {}
        found = [finding for run in plan for finding in self._finished.runs.get(str(run), ())]
        hunted.findings = distinct([*first, *found])
        return hunted

    @contextmanager
    def _ended_at_once(self, pool: ThreadPoolExecutor) -> Iterator[None]:
        """After an error, or Ctrl-C, end the runs that go on."""
        try:
            yield
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            self._zygotes.kill()
            raise

    def _one(self, run: Planned) -> str | None:
        """Carry out a run and keep what it shows; returns why it failed, or None where there is no time for it."""
        if time.monotonic() > self._options.until and self._begun:
            return None
        self._begun = True
        try:
            found = [*(self._undone(run) if run.fault == "undo" else self._judge.of_run(run, self._carried_out(run)))]
        except RunFailed as error:
            return str(error)
        with self._lock:
            self._finished.add(str(run), found)
        return ""

    # Runs

    @contextmanager
    def _prepared(self, name: str, orders: Mapping[str, Any]) -> Iterator[tuple[Zygote, Any, str, dict[str, Any]]]:
        """A process to fork from, the world of a run with its namespace, and the orders of its children."""
        with self._lock:
            self._number += 1
            number = self._number
        namespace = f"chaos{token_hex(6)}"
        folder = self._runs / f"{number:04d}-{name.replace('/', '-').replace('#', '.').replace(':', '.')}"
        folder.mkdir()
        about: dict[str, Any] = {"folder": str(folder), "cassette": str(self._cassette), "agents": self._agents}
        with self._zygotes.taken() as zygote:
            world = self._worlds.of(namespace)
            environment = self._worlds.environment(world, namespace)
            about |= {"environment": environment, "refused": [*self._options.refused]}
            yield zygote, world, namespace, {**about, **orders}
        if not self._options.repeat:
            shutil.rmtree(folder, ignore_errors=True)

    def _undisturbed(self) -> Iterator[Finding]:
        """Learn what each call does, and what differs between runs by itself; returns what that shows."""
        with self._prepared("undisturbed", {"steps": True}) as (zygote, world, namespace, orders):
            folder, before = Path(orders["folder"]), world.snapshot()
            pid = zygote.fork(orders)
            while (status := zygote.wait(pid, 120)) == "stopped":
                self._step(world, read_journal(folder / JOURNAL)[-1])
                os.kill(pid, signal.SIGCONT)
            self._check_refused(folder, status)
            if status != 0:
                raise ConfigurationError("The run without faults failed: {error}", error=_log(folder))
            self._landing = max((step.landing for step in self._steps.values()), default=0.0)
            whole = Run.read(folder, world, namespace, before, settled(world, self._wait))
        self._namespace = namespace
        for line in whole.journal:
            if line["moment"] == "ran":
                step = self._steps[line["label"]]
                step.lines, step.calling = line["lines"], line["calling"]
                step.hosts, step.writes = line["hosts"], line["writes"]
        self._watch_lines()
        self._judge.learn(whole)
        self._judge.learn(again := self._carried_out(Planned("", "")))
        for step in self._steps.values():
            yield from self._judge.of_step(step, namespace, [*whole.journal])
        yield from self._judge.without_effect([*self._steps.values()], [*whole.journal])
        yield from self._judge.undisturbed([*self._steps.values()], whole, again)

    @property
    def _wait(self) -> float:
        return self._landing + 0.2 if self._landing > 0.1 else 0.0

    def _step(self, world: Any, line: Json) -> None:
        label = line["label"]
        if line["moment"] == "start":
            self._steps[label] = Step(label, line["name"], settled(world))
        else:
            step, tool = self._steps[label], self._tools.get(line["label"].partition("#")[0])
            found = landed(world, step.before, 0.0 if tool is None or tool.read_only else world.landing)
            step.after, step.landing, step.result = found.snapshot, found.seconds, line["result"]

    def _watch_lines(self) -> None:
        """Learn before which lines of each call the world has changed."""
        with self._prepared("lines", {"lines": WATCHED}) as (zygote, world, _, orders):
            pid, label, line, last = zygote.fork(orders), "", 0, None
            while zygote.wait(pid, 120) == "stopped":
                with _continued(pid, after=1.0):  # the world may wait for what the call has locked
                    now = world.snapshot()
                running = [each for each in read_journal(Path(orders["folder"], JOURNAL)) if each["moment"] == "run"]
                label, line = running[-1]["label"], line + 1 if running[-1]["label"] == label else 1
                if line > 1 and not is_same(now, last):
                    self._steps[label].changes.append(line)
                last = now
                os.kill(pid, signal.SIGCONT)

    def _carried_out(self, planned: Planned, *, check: bool = False, again: bool = False) -> Run:
        """Run children until one comes to the end of the session."""
        name = str(planned) or "undisturbed"
        with self._prepared(name, {**asdict(planned), "again": again}) as (zygote, world, namespace, orders):
            folder, before, landing = Path(orders["folder"]), world.snapshot(), None
            for _ in range(CHILDREN):
                pid = zygote.fork(orders)
                while (status := zygote.wait(pid)) == "stopped":
                    landing = _landing(world)
                    os.kill(pid, signal.SIGCONT)
                self._check_refused(folder, status)
                if check and status == -signal.SIGKILL:
                    orders["fault"] = "check-landing"
                if status == 0:
                    break
            if not (folder / OUT).exists():
                raise RunFailed(f"status {status}: {_log(folder)}")
            return Run.read(folder, world, namespace, before, settled(world, self._wait), landing)

    def _undone(self, run: Planned) -> Iterator[Finding]:
        """Undo everything that can be, and judge each undo of this tool."""
        left = [step for step in self._steps.values() if self._can_undo(step)]
        compared: list[tuple[Step, tuple[Any, Any]]] = []
        with self._prepared(str(run), {"undo": True}) as (zygote, world, namespace, orders):
            folder, first, before = Path(orders["folder"]), world.snapshot(), None
            pid = zygote.fork(orders)
            while (status := zygote.wait(pid)) == "stopped":
                moment, now = read_journal(folder / JOURNAL)[-1]["moment"], settled(world, self._wait)
                if moment == "undo":
                    before = now
                elif (step := left.pop()).label == run.label:
                    compared.append((step, (before, now)))
                os.kill(pid, signal.SIGCONT)
            self._check_refused(folder, status)
            made = Run.read(folder, world, namespace, first, settled(world, self._wait))
        for step, undo in compared:
            yield from self._judge.undone(run, step, self._namespace, undo, made)

    def _can_undo(self, step: Step) -> bool:
        return getattr(self._tools.get(step.name), "undo", None) is not None and "success" in step.result

    def _check_refused(self, folder: Path, status: int | str) -> None:
        if status == REFUSED:
            line = read_journal(folder / JOURNAL)[-1]
            raise ConfigurationError(
                "The session tried to connect to {host}, which is refused. No connection was made: use the "
                "agents file of a staging system.",
                host=line["host"],
            )


@contextmanager
def _continued(pid: int, after: float) -> Iterator[None]:
    """Continue a stopped process after so many seconds."""
    timer = threading.Timer(after, os.kill, (pid, signal.SIGCONT))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class RunFailed(Exception):
    """A run that does not come to its end."""


def _landing(world: Any) -> float:
    """How many seconds it takes until an effect lands; 0 where there is none."""
    began, now = time.monotonic(), world.snapshot()
    found = landed(world, now, world.landing)
    if found.seconds:
        return found.seconds
    return 0.0 if is_same(found.snapshot, now) else time.monotonic() - began


def _log(folder: Path) -> str:
    return (folder / "log.txt").read_text(encoding="utf-8", errors="replace")[-800:]


# A hunt's report: JSON, Markdown, and one page of HTML that loads nothing.

TEMPLATES = Path(__file__).parent / "templates"
_LEFT_OUT = ("moment", "at", "label", "name", "key", "lines", "hosts", "hung", "writes", "left")


def write_report(made: Hunted, folder: Path, language: str = "en") -> list[Path]:
    """Write chaos.json, chaos.md and chaos.html into a folder; returns their paths.

    Without the templates' library it is chaos.json alone.
    """
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"chaos.json": json.dumps(made.json(), ensure_ascii=False, indent=2) + "\n"}
    try:
        texts |= {name: _rendered(f"{name}.j2", made, language) for name in ("chaos.md", "chaos.html")}
    except MissingExtra:
        for name in ("chaos.md", "chaos.html"):  # those of an earlier hunt
            Path(folder, name).unlink(missing_ok=True)
    return [replace_text(folder / name, text) for name, text in texts.items()]


def _rendered(template: str, made: Hunted, language: str) -> str:
    say = partial(_said, language)
    shared = {"made": made, "say": say, "language": language, "trace": partial(_trace, language=language)}
    return environment(TEMPLATES).get_template(template).render(**shared)


def _said(language: str, name: str, /, **slots: object) -> str:
    return chaos_text(name, language, **slots)


def _trace(found: Finding, language: str) -> Iterator[Json]:
    """The lines of the run's journal: {"seconds", "call", "what", "about"}."""
    began = found.trace[0]["at"] if found.trace else 0.0
    for line in found.trace:
        key = f"moment_{line['moment']}"
        about = {name: value for name, value in line.items() if name not in _LEFT_OUT}
        yield {
            "seconds": f"{line['at'] - began:.2f}",
            "call": line.get("label") or line.get("name") or "",
            "what": chaos_text(key, language) if key in chaos_text else line["moment"],
            "about": json.dumps(about, ensure_ascii=False) if about else "",
        }
