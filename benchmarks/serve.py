"""A thousand clients follow fifty tasks for half a minute, and a tenth of them leaves half-way.

Each round runs Segue's service, then bare Starlette, which sends the frames that Segue sent at the pace that it sent
them, to the same clients: first to one client a task, then to all. What is compared is the servers' processor time, in
all and for each frame to a further client; errors and lost events are counted.
`python benchmarks/serve.py [ROUNDS] [CLIENTS]`; a round takes two and a half minutes.
"""

import asyncio
import itertools
import json
import os
import platform
import resource
import statistics
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import starlette
import uvicorn
from serving.clients import Client, start_request, stream_request
from serving.processes import Server, running
from serving.reading import recorded, sent_to

ROUNDS, CLIENTS, TASKS = 2, 1000, 50
STARTING, JOINING, HALF_WAY = 2.5, 5.0, 15.0
"""Seconds in which the tasks are started, in which the other clients come, after which a tenth leaves."""
MOST = 90.0
"""Seconds after which a run is given up."""
SEGUE, BARE = "with_segue", "bare"


@dataclass
class Clients:
    """The clients of one run: who started which task, and who follows which."""

    starters: list[Client]
    task_ids: list[str]
    watchers: list[Client]

    @property
    def all(self) -> list[tuple[str, Client]]:
        watched = [(self.task_ids[n % TASKS], client) for n, client in enumerate(self.watchers)]
        return [*zip(self.task_ids, self.starters, strict=True), *watched]


@dataclass
class Run:
    """What one run came to; memory is in kilobytes."""

    errors: Counter[str]
    missing: int
    left_behind: int
    frames: int
    first: list[float]
    cpu: float
    seconds: float
    before: int
    during: int
    after: int
    clients: int


async def measure(name: str, clients: int, folder: Path) -> Run:
    """Start a server, let the crowd come, and look at what it was sent."""
    async with running(name, folder) as server:
        before, cpu, began = server.kilobytes, server.cpu_seconds, asyncio.get_running_loop().time()
        crowd, during = await run_clients(server, clients)
        spent, seconds = server.cpu_seconds - cpu, asyncio.get_running_loop().time() - began
        memory = {"before": before, "during": during, "after": server.kilobytes}
        if name == SEGUE:
            await keep(server, crowd, folder)
    known: dict[str, Any] = json.loads((folder / "events.json").read_text(encoding="ascii"))
    return Run(**judge(crowd, known), cpu=spent, seconds=seconds, clients=clients, **memory)


async def run_clients(server: Server, clients: int) -> tuple[Clients, int]:
    """Let everybody come, leave or stay; also returns the server's memory when all are there."""
    now = asyncio.get_running_loop().time
    began = now()

    async def come(client: Client, at: float, leave: bool = False) -> None:
        await asyncio.sleep(began + at - now())
        await client.follow(server.port, began + HALF_WAY if leave else None)

    starters = [Client(start_request(f"plan number {n}"), recording=True) for n in range(TASKS)]
    follows = [asyncio.create_task(come(client, STARTING * n / TASKS)) for n, client in enumerate(starters)]
    task_ids = [await client.task_id() for client in starters]
    watchers = [Client(stream_request(task_ids[n % TASKS])) for n in range(clients - TASKS)]
    for n, client in enumerate(watchers):
        leaves = n % 9 == 0 and n < 9 * (clients // 10)
        follows.append(asyncio.create_task(come(client, STARTING + JOINING * n / len(watchers), leaves)))
    await asyncio.sleep(began + HALF_WAY - 1 - now())
    during = server.kilobytes
    async with asyncio.timeout(MOST):
        await asyncio.gather(*follows)
    return Clients(starters, task_ids, watchers), during


async def keep(server: Server, crowd: Clients, folder: Path) -> None:
    """Keep what the tasks' first clients were sent, and what the service knows of the tasks."""
    frames = {task_id: recorded(client) for task_id, client in zip(crowd.task_ids, crowd.starters, strict=True)}
    (folder / "recording.json").write_text(json.dumps(frames), encoding="ascii")
    known = {}
    for task_id in crowd.task_ids:
        trace = await server.json(f"/api/tasks/{task_id}")
        known[task_id] = {"status": trace["task"]["status"], "seqs": [event["seq"] for event in trace["events"]]}
    (folder / "events.json").write_text(json.dumps(known), encoding="ascii")


def judge(crowd: Clients, known: dict[str, Any]) -> dict[str, Any]:
    """Who stayed has every durable event and one `done`; who left has a beginning."""
    errors, missing, frames = Counter[str](), 0, 0
    for task_id, client in crowd.all:
        sent = sent_to(client)
        frames += len(sent.frames)
        if client.error or sent.status != 200 or (not client.left and not (sent.whole and sent.done == 1)):
            errors[client.error or f"status {sent.status}, whole: {sent.whole}, done: {sent.done}"] += 1
        wanted = known[task_id]["seqs"]
        wanted = wanted[: len(sent.seqs)] if client.left else wanted
        missing += sum((Counter(wanted) - Counter(sent.seqs)).values())
        if sent.seqs != wanted:
            errors["not the events of its task, each once and in order"] += 1
    left_behind = sum(task["status"] != "done" for task in known.values())
    first = [client.first for _, client in crowd.all if client.first is not None]
    return {"errors": errors, "missing": missing, "left_behind": left_behind, "frames": frames, "first": first}


HEAD = ("", "errors", "missing", "behind", "frames", "p50 ms", "p99 ms", "CPU s", "µs/frame", "kB/client", "MB", "s")
ROW = "{:18}{:>7}{:>8}{:>7}{:>8}{:>8}{:>8}{:>7}{:>9}{:>10}{:>12}{:>6}"


def summary_of(name: str, run: Run) -> str:
    """A run as a row of the table."""
    cuts = statistics.quantiles(run.first, n=100)
    return ROW.format(
        f"{name} {run.clients}",
        run.errors.total(),
        run.missing,
        run.left_behind,
        run.frames,
        f"{cuts[49] * 1000:.1f}",
        f"{cuts[98] * 1000:.1f}",
        f"{run.cpu:.2f}",
        f"{run.cpu / run.frames * 1e6:.0f}",
        f"{(run.during - run.before) / run.clients:.0f}",
        f"{run.before // 1024}-{run.during // 1024}-{run.after // 1024}",
        f"{run.seconds:.0f}",
    )


def compared(runs: dict[tuple[str, int], list[Run]], clients: int) -> str:
    """Segue's processor time by bare Starlette's: in all, and for what clients cost that come to tasks that run."""
    spent = {key: statistics.median(run.cpu for run in of) for key, of in runs.items()}
    sent = {key: statistics.median(run.frames for run in of) for key, of in runs.items()}
    whole = {name: spent[name, clients] / sent[name, clients] for name in (SEGUE, BARE)}
    more = {
        name: (spent[name, clients] - spent[name, TASKS]) / (sent[name, clients] - sent[name, TASKS])
        for name in (SEGUE, BARE)
    }
    lines = [
        f"{what:38}{of[SEGUE] * 1e6:6.0f} / {of[BARE] * 1e6:4.0f} µs a frame: {of[SEGUE] / of[BARE]:.2f}"
        for what, of in (("all, the tasks' own work with it", whole), ("each further client of a running task", more))
    ]
    return "\n".join(lines)


async def main(rounds: int, clients: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4 * clients + 200)), hard))
    versions = f"Python {platform.python_version()}, uvicorn {uvicorn.__version__}, Starlette {starlette.__version__}"
    print(f"{TASKS} tasks; {versions}, {os.cpu_count()} processors\n{ROW.format(*HEAD)}")
    runs: dict[tuple[str, int], list[Run]] = {(name, n): [] for n in (TASKS, clients) for name in (SEGUE, BARE)}
    with tempfile.TemporaryDirectory() as path:
        for number, (name, n) in itertools.product(range(rounds), runs):
            folder = Path(path) / f"{number}-{n}"
            folder.mkdir(exist_ok=True)
            run = await measure(name, n, folder)
            runs[name, n].append(run)
            print(summary_of(name, run), flush=True)
            for error, times in run.errors.items():
                print(f"    {times} × {error}")
    print(compared(runs, clients))
    if any(run.errors or run.missing or run.left_behind for of in runs.values() for run in of):
        raise SystemExit("Something was lost: see above.")


if __name__ == "__main__":
    numbers = [int(text) for text in sys.argv[1:3]]
    asyncio.run(main(*(numbers + [ROUNDS, CLIENTS][len(numbers) :])))
