"""Kills while a session is forked, exported, imported, recovered or pruned: that happens whole or not at all."""

import random
import shutil
import signal
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from . import disk, evidence, judge
from .evidence import Evidence, Rows
from .harness import Harness, Outcome, Run, Status, Zygote, report, told
from .judge import Finding
from .points import Written
from .scenarios import SCENARIOS, SESSION

DISKS = 12
"""How many full disks each command meets."""
BASE = SCENARIOS["turns"]
"""The session that there is before the command."""
COPY = "copy"
HERE, ELSEWHERE = "segue.db", "elsewhere.db"

Sessions = Mapping[str, Rows]
"""The rows of each session that a command is about."""


@dataclass(frozen=True)
class Command:
    """What is done to a finished session: in which database, and which sessions are looked at there."""

    what: str = ""
    database: str = HERE
    sessions: tuple[str, ...] = (SESSION, COPY)

    @property
    def where(self) -> str:
        return f"a kill in {self.what}"


COMMANDS: Mapping[str, Command] = {
    "fork": Command("a fork"),
    "copy": Command("an export and its import"),
    "import": Command("an import elsewhere", ELSEWHERE, (COPY,)),
    "transfer": Command("a copy to another database", ELSEWHERE, (SESSION,)),
    "recover": Command("a recovery", sessions=(SESSION,)),
    "prune": Command("a pruning", sessions=(SESSION,)),
}


@dataclass(frozen=True)
class Known:
    """What the undisturbed run of a command shows.

    `before` is the folder before it, `after` the one after it and another message to each session; `rows` are those
    right after the command, `points` its places to be killed at, and `pages` how many it adds to its database.
    """

    before: Path
    after: Path
    rows: Sessions
    points: tuple[str, ...]
    seconds: float
    pages: int


def measure(harness: Harness, seed: int, every: int = 1, at_random: int = 5) -> list[Outcome]:
    """Kill each command at every boundary between writes, or at every so many, and a few times at random."""
    chance = random.Random(seed)
    known = dict(zip(COMMANDS, harness.each(lambda name: learn(harness, name), COMMANDS), strict=True))
    runs = []
    for name, found in known.items():
        times = [f"time:{chance.uniform(0, found.seconds):.4f}" for _ in range(at_random)]
        points = found.points[::-every][::-1]
        full = [f"pages:{pages}" for pages in range(0, found.pages + 1, max(1, found.pages * every // DISKS))]
        runs += [Run(name, (blow,), COMMANDS[name].where) for blow in (*points, *times)]
        runs += [Run(name, (blow,), f"a full disk in {COMMANDS[name].what}") for blow in full]
    return harness.share(lambda run: play(harness, run, known[run.scenario]), runs)


def learn(harness: Harness, name: str) -> Known:
    """Carry a command out undisturbed.

    Raises:
        RuntimeError: that fails, or the session is not what it was.
    """
    command, before = COMMANDS[name], harness.new_folder(f"before-{name}")
    base = harness.reference(BASE.name)
    for file in (HERE, "effects.jsonl"):
        shutil.copy(base / file, before / file)
    with harness.zygote() as zygote:
        if name == "import":
            _must(zygote, before, "export")
        if name == "recover":
            _damage(before / HERE)
        after = copied(harness, before, f"undisturbed-{name}")
        _must(zygote, after, name)
        said, rows, pages = report(after), _rows(after, command), evidence.pages(after / command.database)
        _must(zygote, after, name, after=True)
    was = evidence.read(base).history[SESSION]
    for session, holds in evidence.read(after, command.database).history.items():
        if [message["content"] for message in holds][: len(was)] != [message["content"] for message in was]:
            raise RuntimeError(f"after {name}, session {session} holds {holds}, not {was}")
    more = pages - evidence.pages(before / command.database)
    return Known(before, after, rows, (*boundaries(said["written"]), "done"), said["seconds"], max(0, more))


def boundaries(written: Written) -> Iterator[str]:
    """The points at writes; of many alike the first and the last."""
    for place, write in enumerate(written):
        if not (write in written[max(0, place - 1) : place] and write in written[place + 1 : place + 2]):
            yield f"write:{place + 1}"


def play(harness: Harness, run: Run, known: Known | None = None) -> Outcome:
    """Kill the command and look at what it left; then have it done again, and each session take another message."""
    known = known or learn(harness, run.scenario)
    command, folder = COMMANDS[run.scenario], copied(harness, known.before, run.scenario)
    outcome = Outcome(run)
    with harness.zygote() as zygote:
        status = errand(zygote, folder, run.scenario, run.blows[0])
        outcome.kills += status == -signal.SIGKILL
        if status != -signal.SIGKILL:
            outcome.ends.append(told(folder, status))
        outcome.findings += _half(_rows(known.before, command), _rows(folder, command), known.rows)
        outcome.ends.append(told(folder, errand(zygote, folder, run.scenario, after=True)))
    allowed = [end for end in outcome.ends[:-1] if run.blows[0].startswith("pages:") and disk.is_named(end)]
    failed = [end for end in outcome.ends if end not in ("well", *allowed)]
    outcome.findings += [Finding("end", f"it fails: {end}") for end in failed]
    if not outcome.findings:
        outcome.findings += _judged(folder, known.after, command)
    if not outcome.findings:
        shutil.rmtree(folder, ignore_errors=True)
    return outcome


def copied(harness: Harness, before: Path, name: str) -> Path:
    return Path(shutil.copytree(before, harness.new_folder(name), dirs_exist_ok=True))


def _must(zygote: Zygote, folder: Path, name: str, *, after: bool = False) -> None:
    end = told(folder, errand(zygote, folder, name, after=after))
    if end != "well":
        raise RuntimeError(f"the undisturbed {name} fails: {end}")


def errand(zygote: Zygote, folder: Path, name: str, blow: str = "", *, after: bool = False) -> Status:
    """Run a child that does the command, or with `after` looks after it."""
    command = COMMANDS.get(name, Command())
    orders = {"errand": name, "folder": str(folder), "database": command.database, "sessions": command.sessions}
    kind, _, value = blow.partition(":")
    if kind == "time":
        return zygote.run({**orders, "after": after}, float(value))
    if kind == "pages":
        return zygote.run({**orders, "after": after, "pages": int(value)})
    return zygote.run({**orders, "after": after, "at": {blow: "kill"}})


def _damage(database: Path) -> None:
    """Make the two newest states of the session unreadable, and a result of its first turn."""
    halved = "UPDATE checkpoints SET checkpoint = substr(checkpoint, 1, length(checkpoint) / 2) WHERE checkpoint_id IN"
    newest = "SELECT checkpoint_id FROM checkpoints WHERE checkpoint_ns = '' ORDER BY checkpoint_id DESC LIMIT 2"
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(f"{halved} ({newest})")
        connection.execute("""UPDATE tasks SET result = '{"answer": ' WHERE position = 1""")


def _rows(folder: Path, command: Command) -> dict[str, Rows]:
    return {session: evidence.rows_of(folder / command.database, session) for session in command.sessions}


def _half(before: Sessions, now: Sessions, whole: Sessions) -> Iterator[Finding]:
    """What is neither as it was nor as the command makes it."""
    for session, rows in now.items():
        changed = evidence.changed(before[session], rows)
        if changed and session == SESSION and COPY in now:
            yield Finding("end", f"the session that is only read has changed: {', '.join(changed)}")
        there, wanted = ({table: len(found) for table, found in of.items()} for of in (rows, whole[session]))
        if changed and there != wanted:
            yield Finding("end", f"of session '{session}' there are so many rows: {there}, not {wanted}")


def _judged(folder: Path, undisturbed: Path, command: Command) -> Iterator[Finding]:
    run, same = (evidence.read(place, command.database) for place in (folder, undisturbed))
    for session in command.sessions:
        expected = _of(same, session)
        yield from judge.judge(_of(run, session), expected, expected, interruptions=0)


def _of(run: Evidence, session: str) -> Evidence:
    """What of a run belongs to a session; the effects are everybody's."""
    tasks = [task for task in run.tasks if task["thread_id"] == session]
    events = {task["task_id"]: run.events[task["task_id"]] for task in tasks}
    calls = [call for call in run.calls if call["thread_id"] == session]
    return Evidence(run.effects, tasks, events, calls, {session: run.history[session]})
