"""What a round, a prompt, a task and a start cost, beside peers; writes costs.md, costs.svg, costs.json."""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from costs.changes import BARE, PEER, SEGUE, STARTS, changes, read, watched, write
from costs.conversation import CALLS, RESULTS, TURNS_BEFORE
from costs.peers import PEERS, WHOLE
from costs.processes import TOOL, Run, Worker, endpoint, requests_of, worker
from costs.report import Costs, aims_table, write_report
from costs.startup import Start, first_answer

HERE = Path(__file__).parent
ROWS = HERE / "costs.json"
ROUNDS = {0: 20, 3: 20, 10: 5, 100: 2}
"""How often each peer runs a task of so many calls; all in turn, so that a busy machine slows all of them alike."""
TOOLS = ("async-20", "sync-1000", "sync-20")
"""The tools beside the usual one."""
TOOL_ROUNDS = {3: 10, 10: 4, 100: 1}
STORING = ("openai-agents + SQLite", PEER, WHOLE)
"""Who holds the long conversation."""
LONG = dict.fromkeys(SEGUE, (200, 1_000))
"""Calls of the longest tasks; of the other peers 200, since their cost a call grows with the number."""
AT_ONCE, CROWDS = 200, 2
TURNS = {PEER: (200,), "openai-agents + SQLite": (200,), "Segue native": (200, 500, 5_000)}
"""The turns of a long session that are measured, of the peers that store one: what a turn of the others costs grows."""
PROMPT_CALLS = 20
STARTED = (*list(PEERS)[:4], *STARTS)
QUICK = {0: 3, 3: 3, 10: 1}
QUICK_PEERS = (PEER, *SEGUE)

Runs = dict[int, dict[str, list[Run]]]


@contextmanager
def workers(url: str, folder: Path, tool: str = TOOL, peers: Iterable[str] = PEERS) -> Iterator[dict[str, Worker]]:
    """Some peers, each in a process of its own."""
    with ExitStack() as stack:
        yield {
            peer: stack.enter_context(worker(peer, url, folder / f"{tool}-{place}", tool))
            for place, peer in enumerate(peers)
        }


def in_turn(running: Mapping[str, Worker], calls: int, times: int, prefix: str = "") -> dict[str, list[Run]]:
    """So many tasks of each peer, in turn."""
    found: dict[str, list[Run]] = {peer: [] for peer in running}
    for turn in range(times):
        for place, (peer, each) in enumerate(running.items()):
            found[peer].append(each.run(f"{prefix}{calls}-{turn}-{place}", calls))
    return found


def rounds(running: Mapping[str, Worker], times: Mapping[int, int], prefix: str = "") -> Runs:
    """The runs of every peer by the number of calls."""
    warm_up(running, prefix)
    found = {}
    for calls, most in times.items():
        found[calls] = in_turn(running, calls, most, prefix)
        show(f"{prefix}{calls} calls", found[calls])
    return found


def warm_up(running: Mapping[str, Worker], prefix: str = "") -> None:
    in_turn(running, 3, 2, f"{prefix}warm-")


def long_tasks(running: Mapping[str, Worker]) -> list[tuple[str, int, Run]]:
    """A long task or two of each peer."""
    found = []
    for place, peer in enumerate(several(running)):
        for calls in LONG.get(peer, (200,)):
            found.append((peer, calls, running[peer].run(f"long-{place}-{calls}", calls)))
            show(f"{calls} calls", {peer: [found[-1][-1]]})
    return found


def several(running: Mapping[str, Worker]) -> list[str]:
    """The peers without the one that only differs in its tool."""
    return [peer for peer in running if "read-only" not in peer]


def crowds(running: Mapping[str, Worker]) -> dict[str, list[Run]]:
    """Many tasks of three calls at once."""
    found: dict[str, list[Run]] = {peer: [] for peer in several(running)}
    for turn in range(CROWDS):
        for place, (peer, runs) in enumerate(found.items()):
            runs.append(running[peer].run(f"crowd-{place}-{turn}", 3, AT_ONCE, AT_ONCE))
    show(f"{AT_ONCE} tasks", found)
    return found


def show(what: str, runs: Mapping[str, Sequence[Run]]) -> None:
    for peer, each in runs.items():
        print(f"{what}: {peer}: {median(run.seconds for run in each):.3f} s, {median(r.cpu for r in each):.3f} s CPU")
    sys.stdout.flush()


def prompts(url: str, running: Mapping[str, Worker]) -> dict[str, Mapping[str, int]]:
    """Characters of the prompts of a task, by peer."""
    found = {}
    for place, peer in enumerate(several(running)):
        running[peer].run(f"kept-{place}", PROMPT_CALLS)
        found[peer] = requests_of(url, f"kept-{place}-0")
    return found


def starts(url: str, folder: Path, times: int, what: Sequence[str]) -> dict[str, list[Start]]:
    """New processes until their first answer, in turn."""
    found: dict[str, list[Start]] = {each: [] for each in what}
    for turn in range(times):
        for each, runs in found.items():
            runs.append(first_answer(each, url, folder / "starts", f"start-{turn}-{len(each)}"))
    return found


def measure_aims(url: str, folder: Path, peers: Sequence[str], started: Sequence[str]) -> Costs:
    """What the first table has, but for the turns of long sessions, one peer a process."""
    with workers(url, folder, peers=peers) as running:
        return Costs(
            by_tool={TOOL: rounds(running, ROUNDS)},
            prompts=prompts(url, running),
            crowd=crowds(running),
            long=long_tasks(running),
            starts=starts(url, folder, 5, started),
        )


def measure(url: str, folder: Path, short_tasks: int) -> Costs:
    """Everything, one peer a process."""
    first = measure_aims(url, folder, [*PEERS], STARTED)
    by_tool = {**first.by_tool}
    for tool in TOOLS:
        with workers(url, folder, tool, [peer for peer in PEERS if peer != SEGUE[0]]) as running:
            by_tool[tool] = rounds(running, TOOL_ROUNDS, f"{tool}-")
    with worker(SEGUE[0], url, folder / "short") as each:
        batches = [each.run(f"short-{n}", 0, short_tasks // 10, 8) for n in range(10)]
    show("short tasks", {SEGUE[0]: batches})
    return replace(
        first,
        by_tool=by_tool,
        short=(short_tasks, batches),
        plans=printed("plans", url, folder),
        turns={
            peer: printed("turns", peer, url, folder / "turns" / peer, *map(str, marks))
            for peer, marks in TURNS.items()
        },
        shares=printed("shares", url, folder),
        conversations=conversations(url, folder),
        resumed=printed("conversation", url, folder / "resumed"),
    )


def conversations(url: str, folder: Path) -> dict[str, tuple[Run, Mapping[str, int]]]:
    """A turn of a hundred calls that each send a long conversation."""
    found = {}
    for place, peer in enumerate(STORING):
        with worker(peer, url, folder / f"conversation-{place}", RESULTS) as each:
            run = each.run(f"kept-whole-{place}", CALLS, earlier=TURNS_BEFORE)
            found[peer] = (run, requests_of(url, f"kept-whole-{place}-0"))
            show("a long conversation", {peer: [run]})
    return found


def printed(module: str, *options: str | Path) -> Any:
    """What a module of the benchmark prints, in a process of its own."""
    for folder in options:
        if isinstance(folder, Path):
            folder.mkdir(parents=True, exist_ok=True)
    start, command = time.monotonic(), [sys.executable, "-m", f"costs.{module}", *map(str, options)]
    found = json.loads(subprocess.run(command, cwd=HERE, stdout=subprocess.PIPE, check=True).stdout)
    print(f"{module}: {time.monotonic() - start:.0f} s", flush=True)
    return found


def quick(url: str, folder: Path, seconds: float) -> dict[str, float]:
    """The watched rows, from as many rounds as there is time for."""
    end = time.monotonic() + seconds
    by_calls: Runs = {calls: {peer: [] for peer in QUICK_PEERS} for calls in QUICK}
    begun: dict[str, list[Start]] = {what: [] for what in (BARE, *STARTS)}
    with workers(url, folder, peers=QUICK_PEERS) as running:
        warm_up(running)
        turn = 0
        while not turn or time.monotonic() < end:
            for calls, times in QUICK.items():
                for peer, runs in in_turn(running, calls, times, f"quick-{turn}-").items():
                    by_calls[calls][peer] += runs
            for what, each in starts(url, folder, 1, (BARE, *STARTS)).items():
                begun[what] += each
            turn += 1
    return watched(by_calls, begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short-tasks", type=int, default=2_000, help="tasks over which the memory is watched")
    parser.add_argument("--aims", action="store_true", help="only print the first table, in six minutes")
    parser.add_argument("--quick", type=float, metavar="SECONDS", help="only compare some rows with costs.json")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # so that the processes of the benchmark end, too
    with endpoint() as url, tempfile.TemporaryDirectory(prefix="segue-bench-") as folder:
        if arguments.aims:
            print(aims_table(measure_aims(url, Path(folder), QUICK_PEERS, (PEER, *STARTS))))
            return
        if arguments.quick:
            rows = quick(url, Path(folder), arguments.quick)
        else:
            costs = measure(url, Path(folder), arguments.short_tasks)
            rows = watched(costs.by_tool[TOOL], costs.starts)
            print(write_report(costs, HERE))
    print(*changes(rows, read(ROWS)), sep="\n")
    if not arguments.quick:
        write(rows, ROWS)


if __name__ == "__main__":
    main()
