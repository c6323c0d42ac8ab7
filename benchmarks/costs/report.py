"""The table and the chart of what was measured."""

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from .processes import Run
from .startup import Start

BARE, PEER = "openai loop", "create_agent + SQLite"
KB, MB = 1_000, 1_000_000


@dataclass(frozen=True)
class Costs:
    """What was measured: runs by calls and peer, prompts by peer, and the rest by its name."""

    by_calls: Mapping[int, Mapping[str, Sequence[Run]]]
    prompts: Mapping[str, Mapping[str, int]]
    crowd: Mapping[str, Run]
    long: Mapping[str, tuple[int, Run]]
    short: tuple[int, Sequence[Run]]
    starts: Mapping[str, Sequence[Start]]
    plans: Mapping[str, Any]
    turns: Mapping[str, float]
    shares: Mapping[str, Mapping[str, float]]


def write_report(costs: Costs, folder: Path) -> str:
    """Write costs.md and costs.svg; returns the text."""
    busy = os.getloadavg()[2] / (os.cpu_count() or 1)
    where = f"Python {platform.python_version()}, {datetime.now(UTC):%Y-%m-%d}, {busy:.1f} processes a processor"
    parts = [
        "# Costs",
        f"Written by `make bench`: {where}. Every peer runs the same task against the same endpoint without latency, "
        "in turn, each in a process of its own; a call is one request to the model and, but for the last, one run of "
        "an asynchronous tool whose result has 1,000 characters. `wall` and `CPU` are medians in ms a call; `×` are "
        "the medians of the ratios of the runs that stood side by side.",
        rounds_table(costs, 10, PEER),
        rounds_table(costs, 100, BARE),
        long_table(costs),
        first_table(costs),
        prompts_table(costs),
        others(costs),
        shares_table(costs),
        "![CPU a call over the number of calls](costs.svg)",
    ]
    text = "\n\n".join(parts) + "\n"
    (folder / "costs.md").write_text(text, encoding="utf-8")
    draw(costs, folder / "costs.svg")
    return text


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---", *("--:" for _ in head[1:])], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def per_call(runs: Sequence[Run], calls: int, name: str) -> float:
    """Median milliseconds a model call."""
    return median(getattr(run, name) for run in runs) * 1000 / (calls + 1)


def ratio(runs: Sequence[Run], beside: Sequence[Run], name: str) -> str:
    pairs = zip(runs, beside, strict=True)
    return f"{median(getattr(run, name) / getattr(other, name) for run, other in pairs):.2f}"


def rounds_table(costs: Costs, calls: int, beside: str) -> str:
    runs = costs.by_calls[calls]
    head = [f"{calls} calls", "wall", "CPU", f"wall × {beside}", f"CPU × {beside}", "stored, kB", "memory, MB"]
    rows = [
        [
            peer,
            f"{per_call(each, calls, 'seconds'):.1f}",
            f"{per_call(each, calls, 'cpu'):.1f}",
            ratio(each, runs[beside], "seconds"),
            ratio(each, runs[beside], "cpu"),
            f"{median(run.stored for run in each) / KB:.0f}",
            f"{each[-1].resident / MB:.0f}",
        ]
        for peer, each in runs.items()
    ]
    return table(head, rows)


def long_table(costs: Costs) -> str:
    head = ["one long task", "calls", "wall", "CPU", "CPU × its own at 10", "stored, kB", "peak memory, MB"]
    rows = [
        [
            peer,
            f"{calls:,}",
            f"{run.seconds * 1000 / calls:.1f}",
            f"{run.cpu * 1000 / calls:.1f}",
            f"{run.cpu * 1000 / calls / per_call(costs.by_calls[10][peer], 10, 'cpu'):.2f}",
            f"{run.stored / KB:,.0f}",
            f"{run.peak / MB:.0f}",
        ]
        for peer, (calls, run) in costs.long.items()
    ]
    return table(head, rows)


def first_table(costs: Costs) -> str:
    runs = costs.by_calls[0]
    rows = [
        [
            peer,
            f"{median(run.first for run in each) * 1000:.1f}",
            ratio(each, runs[BARE], "first"),
            f"{median(run.first_cpu for run in each) * 1000:.1f}",
            ratio(each, runs[BARE], "first_cpu"),
        ]
        for peer, each in runs.items()
    ]
    return table(["first token of an answer", "wall, ms", f"× {BARE}", "CPU, ms", f"× {BARE}"], rows)


def prompts_table(costs: Costs) -> str:
    head = ["characters sent in 20 calls", "all", "messages", "not in the prefix", "prefix", "all × create_agent"]
    rows = [
        [
            peer,
            f"{sent['sent']:,}",
            f"{sent['messages']:,}",
            f"{sent['fresh']:,}",
            f"{1 - sent['fresh'] / sent['messages']:.0%}",
            f"{sent['sent'] / costs.prompts[PEER]['sent']:.2f}",
        ]
        for peer, sent in costs.prompts.items()
    ]
    return table(head, rows)


def others(costs: Costs) -> str:
    """What has no peer in most rows."""
    tasks, batches = costs.short
    plans = costs.plans
    rows = [
        *(
            [f"200 tasks of 3 calls at once, {peer}", f"{200 / run.seconds:.1f} tasks/s, the slowest {run.worst:.1f} s"]
            for peer, run in costs.crowd.items()
        ),
        [
            f"memory over {tasks:,} short tasks",
            f"{batches[0].resident / MB:.0f} MB after a tenth, {batches[-1].resident / MB:.0f} MB at the end",
        ],
        *(
            [
                f"first answer in a new process, {name}",
                f"{median(start.wall for start in each):.2f} s, {median(start.cpu for start in each):.2f} s CPU",
            ]
            for name, each in costs.starts.items()
        ),
        *([f"a turn, the session's number {turn}", f"{cpu:.0f} ms CPU"] for turn, cpu in costs.turns.items()),
        *(
            [f"a plan's {n} independent steps beside one", f"× {seconds / plans['seconds']['1']:.2f}"]
            for n, seconds in plans["seconds"].items()
            if n != "1"
        ),
        ["from a step's end to its event, the latest", f"{max(plans['lags']) * 1000:.0f} ms"],
    ]
    return table(["further", ""], rows)


def shares_table(costs: Costs) -> str:
    """Where the time goes, beside the targets."""
    head = ["where Segue's time goes", *costs.shares]
    groups = next(iter(costs.shares.values()))
    return table(head, [[group, *(f"{each[group]:.0%}" for each in costs.shares.values())] for group in groups])


def draw(costs: Costs, file: Path) -> None:
    """CPU time a call over the number of calls, by peer."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for peer in costs.by_calls[10]:
        points = [(calls, per_call(costs.by_calls[calls][peer], calls, "cpu")) for calls in (10, 100)]
        if peer in costs.long:
            calls, run = costs.long[peer]
            points.append((calls, run.cpu * 1000 / calls))
        axes.plot(*zip(*points, strict=True), marker="o", label=peer)
    axes.set(xscale="log", yscale="log", xlabel="calls in the task", ylabel="CPU, ms a call")
    axes.legend(fontsize="small")
    figure.savefig(file, metadata={"Date": None})
