"""What a turn adds to the storage, early and late in a session."""

from benchmarks.durability.bench import Bench, Cell, Row

TURNS = (10, 100, 1_000)
BEFORE = 5
"""The turns over which the growth at a turn is counted."""


def judge(bench: Bench) -> Cell:
    marks = [mark for turn in TURNS for mark in (turn - BEFORE, turn)]
    with bench.works() as work:
        ended = bench.first.do("turns", work(), marks=marks, skipped=(TURNS[1], TURNS[2] - 2 * BEFORE))
    if ended.error:
        return Cell(False, ended.error)
    stored = {int(turn): size for turn, size in ended.more.items()}
    return cell([(stored[turn] - stored[turn - BEFORE]) / BEFORE / 1_000 for turn in TURNS])


def cell(added: list[float]) -> Cell:
    """Flat is what a late turn adds, if it is at most three times what an early one does, or less than a page."""
    return Cell(added[-1] <= max(3 * added[0], 4), f"{', '.join(_rounded(each) for each in added)} kB")


def _rounded(value: float) -> str:
    return f"{float(f'{value:.1g}'):,.0f}" if value >= 1 else "under 1"


ROW = Row(
    "growth",
    "Storage",
    f"What a turn adds to the bytes stored, at turns {', '.join(f'{turn:,}' for turn in TURNS)}.",
    "Whether a long conversation fills the disk ever faster.",
    judge,
)
