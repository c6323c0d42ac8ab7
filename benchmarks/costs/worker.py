"""One peer in a process of its own: `python -m costs.worker PEER URL FOLDER` answers a line of JSON with another."""

import asyncio
import contextlib
import json
import resource
import sqlite3
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from .peers import PEERS, Ask


async def serve(name: str, url: str, folder: Path) -> None:
    """Carry out the runs that are asked for on stdin."""
    async with PEERS[name](url, folder) as ask:
        print("ready", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            print(json.dumps(await run(ask, folder, **json.loads(line))), flush=True)


async def run(ask: Ask, folder: Path, kind: str, calls: int, name: str, tasks: int, at_once: int) -> dict[str, Any]:
    """Run `tasks` tasks, `at_once` at a time, and say what they took."""
    bytes_before, cpu, start = stored(folder), time.process_time(), time.perf_counter()
    room, took = asyncio.Semaphore(at_once), []

    async def one(number: int) -> None:
        async with room:
            session = f"{name}-{number}"
            took.append(await timed(ask(f"Read the handbook. [bench {kind} {calls} {session}]", session)))

    await asyncio.gather(*(one(number) for number in range(tasks)))
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    return {
        "seconds": seconds,
        "cpu": cpu,
        "first": min(first for first, _, _ in took),
        "first_cpu": min(cpu for _, cpu, _ in took),
        "worst": max(whole for _, _, whole in took),
        "stored": stored(folder) - bytes_before,
        "resident": resident(),
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


async def timed(pieces: AsyncIterator[str]) -> tuple[float, float, float]:
    """Seconds until the first piece of the answer, by the clock and of the process's CPU, and until its end."""
    start, cpu, first, first_cpu, text = time.perf_counter(), time.process_time(), 0.0, 0.0, ""
    async for piece in pieces:
        if not first:
            first, first_cpu = time.perf_counter() - start, time.process_time() - cpu
        text += piece
    if not text.endswith("the handbook."):
        raise RuntimeError(f"the answer is {text!r}")
    return first, first_cpu, time.perf_counter() - start


def stored(folder: Path) -> int:
    """Bytes of the databases, their logs written back."""
    for file in folder.glob("*.db"):
        with contextlib.closing(sqlite3.connect(file)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return sum(file.stat().st_size for file in folder.glob("*.db*"))


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
