"""What storing a task costs on PostgreSQL beside SQLite, one task at a time and sixteen at once.

A task is one tool call of the offline planner, in mode react. Both databases are on the same disk; the server is one of
its own, on this machine, and syncs.
`python -m benchmarks.storage [ROUNDS] [TASKS]`; a round takes about a minute.
"""

import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import segue
from tests.postgres import started

ROUNDS, TASKS = 3, 48
AT_ONCE = (1, 16)
MESSAGE = "What is 6 * 7?"


async def seconds_a_task(database: str, at_once: int, tasks: int) -> float:
    """Carry out tasks of as many sessions, so many at once; after a first one, which warms up."""
    async with segue.open(database) as app:
        gate = asyncio.Semaphore(at_once)

        async def one(number: int) -> None:
            async with gate:
                result = await app.ask(MESSAGE, session_id=f"s{at_once}-{number}-{time.time_ns()}", mode="react")
                assert "42" in result["answer"], result

        await one(0)
        began = time.perf_counter()
        await asyncio.gather(*(one(number) for number in range(tasks)))
        return (time.perf_counter() - began) / tasks


def main(rounds: int = ROUNDS, tasks: int = TASKS) -> None:
    found: dict[tuple[str, int], list[float]] = {}
    with tempfile.TemporaryDirectory() as folder, started(durable=True) as cluster, cluster.database() as url:
        for _ in range(rounds):
            for name, database in (("SQLite", str(Path(folder, "segue.db"))), ("PostgreSQL", url)):
                for at_once in AT_ONCE:
                    seconds = asyncio.run(seconds_a_task(database, at_once, tasks))
                    found.setdefault((name, at_once), []).append(seconds)
    middle = {key: 1000 * statistics.median(values) for key, values in found.items()}
    print(f"{rounds} rounds of {tasks} tasks; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors\n")
    print("| tasks at once | SQLite, ms a task | PostgreSQL, ms a task | ratio |\n| --: | --: | --: | --: |")
    for at_once in AT_ONCE:
        sqlite, postgres = middle["SQLite", at_once], middle["PostgreSQL", at_once]
        print(f"| {at_once} | {sqlite:.0f} | {postgres:.0f} | {postgres / sqlite:.1f} × |")


if __name__ == "__main__":
    os.environ.update(SEGUE_DISPATCH="never", OPENAI_API_KEY="", OPENAI_BASE_URL="")
    main(*map(int, sys.argv[1:]))
