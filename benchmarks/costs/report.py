"""The table and the chart of what was measured."""

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

from .changes import BARE, PEER, SEGUE, STARTS, ratio, ratios
from .conversation import CALLS, KILLED_AT
from .processes import TOOL, Run
from .startup import Start

KB, MB = 1_000, 1_000_000


@dataclass(frozen=True)
class Costs:
    """What was measured: runs by tool, calls and peer, prompts by peer, and the rest by its name."""

    by_tool: Mapping[str, Mapping[int, Mapping[str, Sequence[Run]]]]
    prompts: Mapping[str, Mapping[str, int]]
    crowd: Mapping[str, Sequence[Run]]
    long: Sequence[tuple[str, int, Run]]
    starts: Mapping[str, Sequence[Start]]
    short: tuple[int, Sequence[Run]] = (0, ())
    plans: Mapping[str, Any] = field(default_factory=dict)
    turns: Mapping[str, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)
    shares: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    conversations: Mapping[str, tuple[Run, Mapping[str, int]]] = field(default_factory=dict)
    resumed: Mapping[str, Any] = field(default_factory=dict)

    @property
    def by_calls(self) -> Mapping[int, Mapping[str, Sequence[Run]]]:
        """The runs with the usual tool."""
        return self.by_tool[TOOL]


def write_report(costs: Costs, folder: Path) -> str:
    """Write costs.md and costs.svg; returns the text."""
    busy = os.getloadavg()[2] / (os.cpu_count() or 1)
    where = f"Python {platform.python_version()}, {datetime.now(UTC):%Y-%m-%d}, {busy:.1f} processes a processor"
    parts = [
        "# Costs",
        f"Written by `make bench`: {where}. Every peer runs the same task against the same endpoint without latency, "
        "in turn, each in a process of its own; a call is one request to the model and, but for the last, one run of "
        "an asynchronous tool whose result has 1,000 characters. `wall` and `CPU` are medians in ms a call; `×` are "
        "the medians of the ratios of the runs that stood side by side. A thread hop is a result that another thread "
        "hands to the event loop.",
        aims_table(costs),
        rounds_table(costs, 3, PEER),
        rounds_table(costs, 10, PEER),
        rounds_table(costs, 100, BARE),
        tools_table(costs),
        long_table(costs),
        crowd_table(costs),
        first_table(costs),
        starts_table(costs),
        turns_table(costs),
        conversation_table(costs),
        resumption(costs),
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


def middle(runs: Sequence[Any], name: str) -> float:
    return median(getattr(run, name) for run in runs)


class Aim(NamedTuple):
    """A row of the first table: its values, those of the pairs where it is a ratio, with json and with native."""

    what: str
    means: str
    most: Sequence[float]
    values: Sequence[Sequence[float]]
    at_least: bool = False


def aims_table(costs: Costs) -> str:
    """What is aimed at, for both protocols."""
    rows = [
        [aim.what, aim.means, *(f"{most:g}" for most in aim.most), *map(interval, aim.values), verdict(aim)]
        for aim in aims(costs)
    ]
    head = ["", "what it means to a person", "aim, json", "aim, native", *SEGUE, ""]
    return (
        "The medians of the pairs, and in brackets the middle half of them; a row without brackets is one number.\n\n"
        + table(head, rows)
    )


def interval(values: Sequence[float]) -> str:
    """The median, and between which values the middle half lies."""
    if not values:
        return "–"
    if len(values) == 1:
        return f"{values[0]:.3g}"
    low, _, high = quantiles(values, n=4, method="inclusive")
    return f"{median(values):.2f} ({low:.2f}–{high:.2f})"


def verdict(aim: Aim) -> str:
    """Whether each protocol reaches the aim."""
    reached = [
        name.removeprefix("Segue ")
        for name, values, most in zip(SEGUE, aim.values, aim.most, strict=True)
        if values and (median(values) >= most if aim.at_least else median(values) <= most)
    ]
    measured = sum(map(bool, aim.values))
    return "reached" if len(reached) == measured else f"reached with {reached[0]}" if reached else "missed"


def aims(costs: Costs) -> Sequence[Aim]:
    runs, long = costs.by_calls, {(peer, calls): run for peer, calls, run in costs.long}
    most = max(calls for _, calls in long)

    def beside(calls: int, name: str = "cpu") -> list[list[float]]:
        return [ratios(runs[calls][peer], runs[calls][PEER], name) for peer in SEGUE]

    def growth(peer: str) -> list[float]:
        return [long[peer, most].cpu * 1000 / most / per_call(runs[10][peer], 10, "cpu")]

    def resident(peer: str) -> float:
        return runs[100][peer][-1].resident

    turns = list(costs.turns.get(SEGUE[1], {}).items())[1:]
    return [
        Aim(f"CPU of a task of 3 calls × {PEER}", "what a server pays for a short task", (1.25, 1.1), beside(3)),
        Aim(f"CPU of a task of 10 calls × {PEER}", "… for a usual one", (1, 1), beside(10)),
        Aim(f"CPU of a task of 100 calls × {PEER}", "… for a long one", (0.5, 0.5), beside(100)),
        Aim(
            f"tasks a second, 200 of 3 calls side by side × {PEER}",
            "how many people a process serves at once",
            (1, 1),
            [ratios(costs.crowd[PEER], costs.crowd[peer], "seconds") for peer in SEGUE],
            at_least=True,
        ),
        Aim(
            f"CPU until the first token × {PEER}",
            "what a person waits for beyond the model's own time",
            (1.5, 1.5),
            beside(0, "first_cpu"),
        ),
        Aim(
            f"time until the first answer of a new process, `segue chat` × {PEER}",
            "how long a command in a terminal takes to begin",
            (1, 1),
            [ratios(costs.starts[STARTS[1]], costs.starts[PEER], "wall"), []],
        ),
        Aim(
            f"memory after tasks of up to 100 calls × {PEER}",
            "how many processes fit on a machine",
            (1.05, 1.05),
            [[resident(peer) / resident(PEER)] for peer in SEGUE],
        ),
        Aim(
            "MB stored by 200 calls with results of 1 kB",
            "how fast the disk fills",
            (2.5, 2.5),
            [[long[peer, 200].stored / MB] for peer in SEGUE],
        ),
        Aim(
            f"CPU of a call of a task of {most:,} × one of 10",
            "whether a very long task slows down",
            (1.2, 1.2),
            [growth(peer) for peer in SEGUE],
        ),
        *(
            Aim(
                f"CPU of turn {int(turn):,} of a session × turn 5",
                "whether a long conversation slows down",
                (1.2, 1.2),
                [[], [each["ratio"]]],
            )
            for turn, each in turns
        ),
        Aim(
            f"characters sent in 20 calls × {PEER}",
            "what the model's tokens cost",
            (1, 1),
            [[costs.prompts[peer]["sent"] / costs.prompts[PEER]["sent"]] for peer in SEGUE],
        ),
    ]


def crowd_ratio(costs: Costs, peer: str) -> float:
    return ratio(costs.crowd[peer], costs.crowd[PEER], "seconds")


def rounds_table(costs: Costs, calls: int, beside: str) -> str:
    runs = costs.by_calls[calls]
    head = [f"{calls} calls", "wall", "CPU", "CPU, ms a task", f"wall × {beside}", f"CPU × {beside}"]
    rows = [
        [
            peer,
            f"{per_call(each, calls, 'seconds'):.1f}",
            f"{per_call(each, calls, 'cpu'):.1f}",
            f"{middle(each, 'cpu') * 1000:.0f}",
            f"{ratio(each, runs[beside], 'seconds'):.2f}",
            f"{ratio(each, runs[beside], 'cpu'):.2f}",
            f"{middle(each, 'hops') / (calls + 1):.1f}",
            f"{middle(each, 'turns') / (calls + 1):.0f}",
            f"{middle(each, 'stored') / KB:.0f}",
            f"{each[-1].resident / MB:.0f}",
        ]
        for peer, each in runs.items()
    ]
    return table([*head, "thread hops a call", "loop turns a call", "stored, kB", "memory, MB"], rows)


def tools_table(costs: Costs) -> str:
    """The CPU beside the peer's, by what the tool is."""
    counts = (3, 10, 100)
    head = [f"CPU × {PEER}, {' / '.join(map(str, counts))} calls", *(tool.replace("-", ", ") for tool in costs.by_tool)]
    rows = [
        [
            peer,
            *(
                " / ".join(f"{ratio(by_calls[n][peer], by_calls[n][PEER], 'cpu'):.2f}" for n in counts)
                if peer in by_calls[3]
                else "–"
                for by_calls in costs.by_tool.values()
            ),
        ]
        for peer in costs.by_calls[3]
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
        for peer, calls, run in costs.long
    ]
    return table(head, rows)


def crowd_table(costs: Costs) -> str:
    head = [
        "200 tasks of 3 calls at once",
        "tasks/s",
        f"time × {PEER}",
        "CPU, ms a task",
        "the slowest, s",
        "memory, MB",
    ]
    rows = [
        [
            peer,
            f"{200 / middle(runs, 'seconds'):.1f}",
            f"{crowd_ratio(costs, peer):.2f}",
            f"{middle(runs, 'cpu') * 1000 / 200:.1f}",
            f"{middle(runs, 'worst'):.1f}",
            f"{runs[-1].resident / MB:.0f}",
        ]
        for peer, runs in costs.crowd.items()
    ]
    return table(head, rows)


def first_table(costs: Costs) -> str:
    runs = costs.by_calls[0]
    rows = [
        [
            peer,
            f"{middle(each, 'first') * 1000:.1f}",
            f"{ratio(each, runs[BARE], 'first'):.2f}",
            f"{ratio(each, runs[PEER], 'first'):.2f}",
            f"{middle(each, 'first_cpu') * 1000:.1f}",
            f"{ratio(each, runs[BARE], 'first_cpu'):.2f}",
            f"{ratio(each, runs[PEER], 'first_cpu'):.2f}",
        ]
        for peer, each in runs.items()
    ]
    beside = [f"× {BARE}", f"× {PEER}"]
    return table(["first token of an answer", "wall, ms", *beside, "CPU, ms", *beside], rows)


def starts_table(costs: Costs) -> str:
    rows = [[what, f"{middle(each, 'wall'):.2f}", f"{middle(each, 'cpu'):.2f}"] for what, each in costs.starts.items()]
    return table(["first answer of a new process", "wall, s", "CPU, s"], rows)


def turns_table(costs: Costs) -> str:
    rows = [
        [peer, f"{int(turn):,}", f"{each['cpu']:.0f}", f"{each['ratio']:.2f}"]
        for peer, found in costs.turns.items()
        for turn, each in found.items()
    ]
    return table(["a turn without calls", "its number in the session", "CPU, ms", "× turn 5"], rows)


def conversation_table(costs: Costs) -> str:
    head = [
        "a turn of 100 calls in a long conversation",
        "wall, s",
        "CPU, s",
        "sent, MB",
        "stored, MB",
        "peak memory, MB",
    ]
    rows = [
        [
            peer,
            f"{run.seconds:.1f}",
            f"{run.cpu:.1f}",
            f"{sent['sent'] / MB:.0f}",
            f"{run.stored / MB:.1f}",
            f"{run.peak / MB:.0f}",
        ]
        for peer, (run, sent) in costs.conversations.items()
    ]
    return table(head, rows)


def resumption(costs: Costs) -> str:
    """The end of the same turn after its process was killed."""
    found = costs.resumed
    return (
        "The conversation has 837,000 characters (209,000 tokens of four), each result 5,000 that hardly compress; "
        f"each call sends all of it. Killed with −9 when call {KILLED_AT} of {CALLS} was due, Segue had stored "
        f"{found['stored_before'] / MB:.1f} MB. A new process made its first call {found['first']:.1f} s after it "
        f"began to open the database (CPU {found['first_cpu']:.1f} s), and ended the turn after "
        f"{found['seconds']:.1f} s (CPU {found['cpu']:.1f} s), {found['status']}: {found['calls']} calls were made and "
        f"{found['repeated']} of them repeated, with {found['requests']['requests']} requests to the model, "
        f"{found['stored'] / MB:.1f} MB stored and {found['peak'] / MB:.0f} MB of peak memory."
    )


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
        [
            f"memory over {tasks:,} short tasks",
            f"{batches[0].resident / MB:.0f} MB after a tenth, {batches[-1].resident / MB:.0f} MB at the end",
        ],
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
    counts = [calls for calls in costs.by_calls if calls]
    for peer in costs.by_calls[10]:
        points = [(calls, per_call(costs.by_calls[calls][peer], calls, "cpu")) for calls in counts]
        points += [(calls, run.cpu * 1000 / calls) for name, calls, run in costs.long if name == peer]
        axes.plot(*zip(*points, strict=True), marker="o", label=peer)
    axes.set(xscale="log", yscale="log", xlabel="calls in the task", ylabel="CPU, ms a call")
    axes.legend(fontsize="small")
    figure.savefig(file, metadata={"Date": None})
