"""The runs of one recorded session, with one fault at one call each."""

import os
import random
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import Any, Self

from ..core.errors import ConfigurationError
from ..core.records import Json
from ..core.tools import Tool
from ..rehearsal.cassette import Cassette, write_cassette
from .child import JOURNAL, OUT
from .findings import Finding, Hunted, distinct
from .finished import Finished
from .hosts import REFUSED
from .judge import Judge
from .plan import FAULTS, WATCHED, Planned, Step, notes, planned
from .processes import Zygote, Zygotes
from .runs import Run
from .traps import read_journal
from .world import Worlds, is_same, landed, settled

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
        """Carry out the runs that the faults need, or the one that is repeated.

        Raises:
            ConfigurationError: the undisturbed run fails, no run is called so, or a tool reaches for a refused host.
        """
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
        self._carry_out_all(plan, hunted, on_progress)
        found = [finding for run in plan for finding in self._finished.runs.get(str(run), ())]
        hunted.findings = distinct([*first, *found])
        return hunted

    def _carry_out_all(self, plan: Sequence[Planned], hunted: Hunted, on_progress: Progress) -> None:
        """Carry out what is not finished, in an order that the seed decides."""
        left = [run for run in plan if str(run) not in self._finished.runs]
        random.Random(self._options.seed).shuffle(left)
        hunted.runs += (done := len(plan) - len(left))
        with ThreadPoolExecutor(self._options.jobs) as pool, self._ended_at_once(pool):
            for run, why in zip(left, pool.map(self._one, left), strict=True):
                on_progress(done := done + 1, len(plan))
                if why is None:
                    hunted.left.append(str(run))
                else:
                    hunted.runs += 1
                    hunted.failed |= {str(run): why} if why else {}

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

    def _carried_out(self, planned: Planned, *, check: bool = False) -> Run:
        """Run children until one comes to the end of the session."""
        name = str(planned) or "undisturbed"
        with self._prepared(name, asdict(planned)) as (zygote, world, namespace, orders):
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
