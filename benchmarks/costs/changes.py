"""What costs more than when it was last committed, by the ratio to a peer of the same run."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from .processes import Run
from .startup import Start

SLOWER = 0.15
"""So much more than the committed ratio is named."""
BARE, PEER = "openai loop", "create_agent + SQLite"
SEGUE = ("Segue json", "Segue native")
STARTS = ("segue chat --mode direct", "segue chat --mode react")


def ratios(runs: Sequence[Any], beside: Sequence[Any], name: str) -> list[float]:
    """The ratios of the runs that stood side by side."""
    return [getattr(run, name) / getattr(other, name) for run, other in zip(runs, beside, strict=True)]


def ratio(runs: Sequence[Any], beside: Sequence[Any], name: str) -> float:
    """The median of the ratios of the runs that stood side by side."""
    return median(ratios(runs, beside, name))


def watched(
    by_calls: Mapping[int, Mapping[str, Sequence[Run]]], starts: Mapping[str, Sequence[Start]]
) -> dict[str, float]:
    """The rows that are compared with those of the last commit."""
    found = {}
    for calls, runs in by_calls.items():
        what, name = (f"CPU of a task of {calls} calls", "cpu") if calls else ("CPU until the first token", "first_cpu")
        for peer in SEGUE:
            found[f"{what}, {peer} × {PEER}"] = ratio(runs[peer], runs[PEER], name)
    for what in STARTS:
        found[f"CPU of a start, {what} × {BARE}"] = ratio(starts[what], starts[BARE], "cpu")
    return found


def changes(measured: Mapping[str, float], committed: Mapping[str, float]) -> Iterable[str]:
    """A line for each row; one that costs more than before by over 15 % begins with SLOWER."""
    for row, value in measured.items():
        if not (before := committed.get(row)):
            yield f"new     {row}: {value:.2f}"
            continue
        change = value / before - 1
        word = "SLOWER" if change > SLOWER else "faster" if change < -SLOWER else "same"
        yield f"{word:7} {row}: {value:.2f}, {before:.2f} when last committed ({change:+.0%})"


def read(file: Path) -> dict[str, float]:
    """The committed rows; none where there is no file."""
    rows: dict[str, float] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return rows


def write(rows: Mapping[str, float], file: Path) -> None:
    rounded = {row: round(value, 3) for row, value in rows.items()}
    file.write_text(json.dumps(rounded, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
