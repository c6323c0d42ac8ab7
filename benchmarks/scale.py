"""What the commands over many sessions and over a long one take, and how that grows when there are twice as many.

It builds its own SQLite databases: sessions of one turn, forks of the first; and one session of many turns. A turn is
one tool call of the offline planner, in mode react, which leaves 15 checkpoints.
`python -m benchmarks.scale [SESSIONS] [TURNS]`, which are measured, and twice as many. Commands run in this process, so
that its start is not in the figures.
"""

import asyncio
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from typer.testing import CliRunner

import segue
from segue.cli import app as cli

SESSIONS, TURNS, ROUNDS = 5_000, 1_200, 3
MESSAGE = "What is 6 * 7?"
MANY: Sequence[tuple[str, ...]] = (("sessions",), ("doctor",), ("prune", "--keep", "30d"))
LONG: Sequence[tuple[str, ...]] = (
    ("timeline", "s"),
    ("timeline", "s", "--limit", "1000000"),
    ("doctor",),
    ("prune", "--keep", "30d"),
    ("prune", "--last", "100"),
    ("fork", "s", "--to", "copy"),
)
CHANGING = ("fork", "prune")
"""These run on a copy of the database."""

Seconds = tuple[float, float]
"""Of the clock, and of the processor."""


async def add_sessions(database: Path, first: int, last: int) -> None:
    """Fork session 0, which is written first, so that there are as many sessions as `last`."""
    async with segue.open(database) as app:
        if first == 0:
            await app.ask(MESSAGE, session_id="s0", mode="react")
        (newest,) = await app.sessions.snapshots("s0", limit=1)
        for number in range(max(first, 1), last):
            await app.rewind.fork("s0", newest.checkpoint_id, session_id=f"s{number}")


async def add_turns(database: Path, first: int, last: int) -> None:
    """Continue session `s`, so that it has as many turns as `last`."""
    async with segue.open(database) as app:
        for _ in range(first, last):
            result = await app.ask(MESSAGE, session_id="s", mode="react")
            assert "42" in result["answer"], result


def measured(database: Path, command: Sequence[str]) -> Seconds:
    """The middle of some rounds, or the only one of a command that changes the database."""
    rounds = [_once(database, command) for _ in range(1 if command[0] in CHANGING else ROUNDS)]
    clock, processor = zip(*rounds, strict=True)
    return statistics.median(clock), statistics.median(processor)


def _once(database: Path, command: Sequence[str]) -> Seconds:
    used = database.with_suffix(".copy") if command[0] in CHANGING else database
    if used is not database:
        shutil.copyfile(database, used)
    began, worked = time.perf_counter(), time.process_time()
    result = CliRunner().invoke(cli, [*command, "--db", str(used)])
    taken = time.perf_counter() - began, time.process_time() - worked
    assert result.exit_code == 0, result.output
    if used is not database:
        for file in used.parent.glob(f"{used.name}*"):
            file.unlink()
    return taken


def print_row(what: str, command: Sequence[str], small: Seconds, large: Seconds) -> None:
    seconds = " | ".join(f"{clock:.2f} ({processor:.2f})" for clock, processor in (small, large))
    print(f"| {what} | `segue {' '.join(command)}` | {seconds} | {large[1] / small[1]:.1f} × |", flush=True)


def main(sessions: int = SESSIONS, turns: int = TURNS) -> None:
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors; seconds, in brackets of the processor\n")
    print("| of | command | as many | twice as many | ratio |\n| --- | --- | --: | --: | --: |")
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        for add, count, what, commands in (
            (add_sessions, sessions, f"{sessions:,} sessions", MANY),
            (add_turns, turns, f"{turns:,} turns", LONG),
        ):
            small, large = Path(folder, "small.db"), Path(folder, "large.db")
            asyncio.run(add(small, 0, count))
            shutil.copyfile(small, large)
            asyncio.run(add(large, count, 2 * count))
            for command in commands:
                if command[0] not in CHANGING:
                    _once(small, command)  # imports
                print_row(what, command, measured(small, command), measured(large, command))
            small.unlink()
            large.unlink()


if __name__ == "__main__":
    os.environ.update(SEGUE_DISPATCH="never", OPENAI_API_KEY="", OPENAI_BASE_URL="")
    main(*map(int, sys.argv[1:]))
