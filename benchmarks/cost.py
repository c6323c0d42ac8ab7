"""What a round, a prompt, a task and a start cost, beside peers; writes costs.md and costs.svg beside this file."""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from costs.peers import PEERS
from costs.processes import Run, Worker, endpoint, requests_of, worker
from costs.report import Costs, write_report
from costs.startup import first_answer, first_answer_bare

HERE = Path(__file__).parent
ROUNDS = {0: 20, 10: 5, 100: 2}
"""How often each peer runs a task of so many calls; all in turn, so that a busy machine slows all of them alike."""
LONG = 1_000
LONG_PEERS = 200
"""Calls of the longest task: of the peers fewer, since their cost a call grows with the number."""
SEGUE = ("Segue json", "Segue native")
AT_ONCE = 200
TURNS = 500
"""Turns of a long session."""
PROMPT_CALLS = 20


def rounds(workers: Mapping[str, Worker]) -> dict[int, dict[str, list[Run]]]:
    """The runs of every peer by the number of calls."""
    found: dict[int, dict[str, list[Run]]] = {}
    for calls, times in ROUNDS.items():
        found[calls] = {peer: [] for peer in workers}
        for turn in range(times + 1):
            for peer, each in workers.items():
                run = each.run(f"{calls}-{turn}-{list(workers).index(peer)}", calls)
                if turn:  # the first one only warms up
                    found[calls][peer].append(run)
        show(f"{calls} calls", found[calls])
    return found


def long_tasks(workers: Mapping[str, Worker]) -> dict[str, Run]:
    """One long task of each peer, and of Segue in both protocols."""
    found = {}
    for place, (peer, each) in enumerate(workers.items()):
        if peer in SEGUE or not peer.startswith("Segue"):
            found[peer] = each.run(f"long-{place}", LONG if peer in SEGUE else LONG_PEERS)
            show("a long task", {peer: [found[peer]]})
    return found


def show(what: str, runs: Mapping[str, Sequence[Run]]) -> None:
    for peer, each in runs.items():
        print(f"{what}: {peer}: {median(run.seconds for run in each):.3f} s, {median(r.cpu for r in each):.3f} s CPU")
    sys.stdout.flush()


def prompts(url: str, workers: Mapping[str, Worker]) -> dict[str, Mapping[str, int]]:
    """Characters of the prompts of a task, by peer."""
    found = {}
    for place, (peer, each) in enumerate(workers.items()):
        if peer in SEGUE or not peer.startswith("Segue"):
            each.run(f"kept-{place}", PROMPT_CALLS)
            found[peer] = requests_of(url, f"kept-{place}-0")
    return found


def measure(url: str, folder: Path, short_tasks: int) -> Costs:
    """Everything, one peer a process."""
    with ExitStack() as stack:
        workers = {
            peer: stack.enter_context(worker(peer, url, folder / str(place))) for place, peer in enumerate(PEERS)
        }
        by_calls, sent = rounds(workers), prompts(url, workers)
        crowd = {peer: workers[peer].run(f"crowd-{peer[:5]}", 3, AT_ONCE, AT_ONCE) for peer in CROWD}
        show(f"{AT_ONCE} tasks", {peer: [run] for peer, run in crowd.items()})
        long = long_tasks(workers)
    with worker(SEGUE[0], url, folder / "short") as each:
        batches = [each.run(f"short-{n}", 0, short_tasks // 10, 8) for n in range(10)]
    show("short tasks", {SEGUE[0]: batches})
    starts = {
        "openai script": [first_answer_bare(url, f"bare-{n}") for n in range(5)],
        "segue chat --mode direct": [first_answer(url, folder, f"direct-{n}", "direct") for n in range(5)],
        "segue chat --mode react": [first_answer(url, folder, f"react-{n}", "react") for n in range(5)],
    }
    return Costs(
        by_calls=by_calls,
        prompts=sent,
        crowd=crowd,
        long={peer: (LONG if peer in SEGUE else LONG_PEERS, run) for peer, run in long.items()},
        short=(short_tasks, batches),
        starts=starts,
        plans=printed("plans", url, folder),
        turns=printed("turns", url, folder / "turns", str(TURNS)),
        shares=printed("shares", url, folder),
    )


def printed(module: str, url: str, folder: Path, *options: str) -> Any:
    """What a module of the benchmark prints, in a process of its own."""
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-m", f"costs.{module}", url, str(folder), *options]
    return json.loads(subprocess.run(command, cwd=HERE, stdout=subprocess.PIPE, check=True).stdout)


CROWD = ("create_agent + SQLite", "Segue json")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short-tasks", type=int, default=2_000, help="tasks over which the memory is watched")
    arguments = parser.parse_args()
    with endpoint() as url, tempfile.TemporaryDirectory(prefix="segue-bench-") as folder:
        costs = measure(url, Path(folder), arguments.short_tasks)
    print(write_report(costs, HERE))


if __name__ == "__main__":
    main()
