"""A part of `python -m tests.crash.langgraph`, which is another one for each commit."""

from pathlib import Path

from tests.findings import no_findings

from .langgraph import measure
from .measurement import part_of_commit

KILLS, SEEDS = 10, 20
"""The whole has so many kills for each of so many seeds."""


def test_a_served_graph_that_is_killed_loses_and_repeats_nothing(tmp_path: Path) -> None:
    seed = part_of_commit(SEEDS).number
    rounds = measure(KILLS, seed, tmp_path)
    no_findings([f"{'+'.join(each.blows)}: {finding}" for each in rounds for finding in each.findings])
    assert sum(each.kills for each in rounds) >= KILLS
