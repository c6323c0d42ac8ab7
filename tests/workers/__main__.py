"""Measure workers: the tables of docs/scaling.md. `python -m tests.workers [PART …]` runs some parts only."""

import asyncio
import os
import platform
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.postgres import Cluster, started

from . import measurements
from .fleet import Fleet, endpoint, fleet
from .judge import Verdict
from .measurements import Spread
from .rollout import rollout

TASKS, RACES, ROUNDS = 1000, 1000, 50


@contextmanager
def fresh(cluster: Cluster, environ: Mapping[str, str], concurrency: int = 4) -> Iterator[tuple[str, Fleet]]:
    """A database and a fleet without workers."""
    with (
        tempfile.TemporaryDirectory(prefix="segue-workers-") as folder,
        cluster.database() as url,
        fleet(url, Path(folder), environ, concurrency) as workers,
    ):
        yield url, workers


def say(*cells: object) -> None:
    sys.stdout.write("| " + " | ".join(str(cell) for cell in cells) + " |\n")
    sys.stdout.flush()


def say_verdict(name: str, verdict: Verdict, *more: object) -> None:
    counts = (len(found) for found in (verdict.lost, verdict.repeated, verdict.stuck, verdict.gaps))
    say(name, f"{verdict.done} of {verdict.tasks}", *counts, verdict.unknown, *more)
    for fault in verdict.faults[:20]:
        say("", fault)


def said(spread: Spread) -> str:
    return f"p50 {spread.p50} ms, p99 {spread.p99} ms, longest {spread.most} ms"


def chaos(cluster: Cluster, environ: Mapping[str, str]) -> None:
    with fresh(cluster, environ) as (url, workers):
        found = asyncio.run(measurements.chaos(url, workers, cluster.restart, tasks=TASKS))
    say("", "done", "lost", "repeated", "stuck", "gaps", "unknown", "")
    disturbed = f"{found.kills} kills, {found.restarts} restarts, {found.seconds:.0f} s"
    say_verdict("killed", found.verdict, disturbed)
    say("take-over", len(found.takeovers), said(Spread.of(found.takeovers)))


def freeze(cluster: Cluster, environ: Mapping[str, str]) -> None:
    with fresh(cluster, environ) as (url, workers):
        found = asyncio.run(measurements.freeze(url, workers, tasks=8))
    say_verdict("frozen", found.verdict, f"{found.frozen} frozen, late writes: {sum(found.late_writes.values())}")
    say("take-over", len(found.takeovers), said(Spread.of(found.takeovers)))


def throughput(cluster: Cluster, environ: Mapping[str, str]) -> None:
    say("workers", "tasks a second", "s in workers", "s in PostgreSQL", "s elsewhere and idle")
    for count in (1, 2, 4):
        with fresh(cluster, environ, 8) as (url, workers):
            found = asyncio.run(measurements.throughput(url, workers, cluster.pid, tasks=200, count=count))
        say(found.workers, found.tasks_a_second, found.in_workers, found.in_postgres, found.elsewhere)


def latency(cluster: Cluster, environ: Mapping[str, str]) -> None:
    with fresh(cluster, environ) as (url, workers):
        found = asyncio.run(measurements.latency(url, workers, rounds=ROUNDS))
    say("dispatch", said(found.dispatch))
    say("begun", said(found.begun))
    say("next task of a session", said(found.following))


def races(cluster: Cluster, environ: Mapping[str, str]) -> None:
    for wait in (0.0, 30.0):
        with fresh(cluster, environ) as (url, workers):
            found = asyncio.run(measurements.races(url, workers, count=RACES, wait=wait))
        say(f"races, wait {wait:g}", dict(found.ends), f"lost updates: {len(found.lost)}", *found.lost[:5])


def roll_out(cluster: Cluster, environ: Mapping[str, str]) -> None:
    with tempfile.TemporaryDirectory() as folder, fresh(cluster, environ) as (url, workers):
        found = asyncio.run(rollout(url, workers, Path(folder), tasks=TASKS, approvals=TASKS // 10))
    carried = f"carried over: {len(found.carried_over)}"
    say_verdict(
        "rolled out and back", found.verdict, f"{found.kills} kills, wrong version: {len(found.wrong)}", carried
    )


PARTS = {
    "latency": latency,
    "throughput": throughput,
    "freeze": freeze,
    "races": races,
    "rollout": roll_out,
    "chaos": chaos,
}


def main(names: list[str]) -> None:
    with endpoint() as environ, started(durable=True) as cluster:
        os.environ.update(environ)
        say(platform.machine(), f"{os.cpu_count()} processors", f"load {os.getloadavg()[0]:.1f}")
        for name in sorted(names or PARTS, key=[*PARTS].index):  # chaos comes last: it restarts the server
            PARTS[name](cluster, environ)


if __name__ == "__main__":
    main(sys.argv[1:])
