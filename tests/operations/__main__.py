"""A simulated month with two kills a day: `python -m tests.operations`, or `make month`."""

import argparse
import asyncio
import base64
import os
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from segue.testing.chaos.processes import Zygote
from segue.testing.chaos.traps import read_journal
from tests.cli.process import CommandProcess
from tests.crash.harness import ROOT, environment
from tests.operations.account import Month
from tests.operations.calendar import BEGIN, BERLIN, Blow, SharedClock, moment
from tests.operations.outside import Endpoint, status_of
from tests.operations.process import DayTraps, opened
from tests.postgres import started
from tests.receivers import HttpReceiver

SECRET = "whsec_" + base64.b64encode(bytes(32)).decode()
MOST = {"model": 5, "tool": 4, "write": 60}
"""How far into its day a kill of each kind comes at most."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.operations", description=__doc__)
    parser.add_argument("--seed", type=int, default=35, help="where the kills are")
    parser.add_argument("--postgres", action="store_true", help="on a PostgreSQL server of its own, not in SQLite")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="segue-month-"))
    os.environ["HOOK_SECRET"] = SECRET
    with ExitStack() as stack:
        database = stack.enter_context(started()).url() if given.postgres else ""
        found = [*differences(folder, given.seed, database=database)]
    if found:
        sys.stdout.write("\n".join(["What differs:", *found, f"What the month left is in {folder}.", ""]))
        return 1
    sys.stdout.write("The account of the month is exact.\n")
    shutil.rmtree(folder)
    return 0


def differences(folder: Path, seed: int = 35, last: int = 31, database: str = "") -> Iterator[str]:
    """Live through a month in a folder, until a last day, and say what differs then."""
    clock = SharedClock(folder)
    clock.move(BEGIN)
    database = database or str(folder / "segue.db")
    with Endpoint(clock) as endpoint, HttpReceiver(later=lambda: status_of(clock)) as receiver:
        orders = {
            **{"folder": str(folder), "database": database},
            **{"endpoint": endpoint.base_url, "hook": receiver.url, "blow": None, "last": last},
        }
        live_through(orders, endpoint, two_a_day([*MOST], seed, last))
        yield from (f"the endpoint: {fault}" for fault in endpoint.faults)
        month = asyncio.run(read_month(orders, clock))
        yield from month.differences(read_journal(folder / "books.jsonl"), endpoint.served, receiver)
    yield from refused_by_commands(database, folder)


def two_a_day(kinds: Sequence[Any], seed: int, last: int) -> list[Blow]:
    """Two kills for each day, the same in every run of a seed."""
    rng, days = random.Random(seed), range(1, last + 1)
    return [Blow(day, kind, rng.randint(1, MOST[kind])) for day in days for kind in rng.sample([*kinds], 2)]


def live_through(orders: Mapping[str, Any], endpoint: Endpoint, blows: list[Blow]) -> None:
    """Let one process after the other run the month on, each until its blow."""
    with Zygote("tests.operations.zygote", ROOT, {**environment(), "HOOK_SECRET": SECRET}) as zygote:
        while True:
            blow = blows[0] if blows else None
            endpoint.arm(None, 0)
            pid = zygote.fork({**orders, "blow": blow.to_dict() if blow else None})
            endpoint.arm(blow, pid)
            status = zygote.wait(pid)
            if status == 0 and not blows:
                return
            if status != -signal.SIGKILL:
                raise SystemExit(f"A process ended with {status}:\n{Path(orders['folder'], 'log.txt').read_text()}")
            blows.pop(0)


async def read_month(orders: Mapping[str, Any], clock: SharedClock) -> Month:
    """Read Segue's account, as another process does."""
    last: int = orders["last"]
    async with opened(orders, DayTraps(None, clock), clock) as app:
        tasks = await app.tasks.list(limit=1000)
        return Month(
            traces=[await app.tasks.trace(task.task_id) for task in reversed(tasks)],
            inbox=[task.task_id for task in await app.tasks.waiting()],
            report=await app.tasks.usage_report(last, BERLIN, now=moment(last, 23)),
            days={day: await app.tasks.usage_report(1, BERLIN, now=moment(day, 23)) for day in range(1, last + 1)},
            undelivered=await app.notifications.list(),
        )


def refused_by_commands(database: str, folder: Path) -> Iterator[str]:
    """What a person would look with finds nothing."""
    for arguments in (("audit", "--verify"), ("doctor",)):
        command = CommandProcess((*arguments, "--db", database), folder, {"PATH": ""}, out="out", err="err")
        status, said = command.wait(60), (folder / "out").read_text() + (folder / "err").read_text()
        if status or "✗" in said:
            yield f"segue {' '.join(arguments)} ends with {status}: {said}"


if __name__ == "__main__":
    sys.exit(main())
