"""One peer in a process of its own.

`python -m costs.worker PEER URL FOLDER TOOL` answers a line of JSON with another.
"""

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

from .peers import PEERS, UNTRIMMED, WHOLE, Ask, page_tool, random_text, segue

EARLIER = 31_000
"""Characters of a message in a long conversation."""


class CountingLoop(asyncio.SelectorEventLoop):
    """An event loop that counts its turns, and how often another thread hands something back to it."""

    turns = hops = 0

    def _run_once(self) -> None:
        self.turns += 1
        super()._run_once()  # type: ignore[misc]

    def call_soon_threadsafe(self, *arguments: Any, **options: Any) -> asyncio.Handle:
        self.hops += 1
        return super().call_soon_threadsafe(*arguments, **options)


async def serve(name: str, url: str, folder: Path, tool: str) -> None:
    """Carry out the runs that are asked for on stdin."""
    peer = segue("native", **UNTRIMMED) if name == WHOLE else PEERS[name]
    async with peer(url, folder, page_tool(tool)) as ask:
        print("ready", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            print(json.dumps(await run(ask, folder, **json.loads(line))), flush=True)


async def run(
    ask: Ask, folder: Path, kind: str, calls: int, name: str, tasks: int, at_once: int, earlier: int
) -> dict[str, Any]:
    """Run `tasks` tasks, `at_once` at a time, and say what they took.

    The first one has so many `earlier` turns, which only count in what is stored.
    """
    loop: Any = asyncio.get_running_loop()
    turns, hops, room, took = loop.turns, loop.hops, asyncio.Semaphore(at_once), []
    bytes_before = stored(folder)
    await converse(ask, f"{name}-0", earlier)
    cpu, start = time.process_time(), time.perf_counter()

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
        "turns": loop.turns - turns,
        "hops": loop.hops - hops,
        "stored": stored(folder) - bytes_before,
        "resident": resident(),
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


async def converse(ask: Ask, session: str, turns: int) -> None:
    """So many turns of a session, with long messages and short answers."""
    for turn in range(turns):
        async for _ in ask(f"{random_text(turn, EARLIER)} [bench native 0 {session}-early-{turn}]", session):
            pass


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
    with asyncio.Runner(loop_factory=CountingLoop) as runner:
        runner.run(serve(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4]))
