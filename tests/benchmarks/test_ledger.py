"""The benchmark of the ledger for LangGraph's graphs, at a few of its deaths."""

import re
import subprocess
import sys

import pytest

from tests.reference.blocks import ROOT


def rows(table: str) -> dict[str, list[int]]:
    """What became of the deaths: [deaths, repeated, missing, unknown, as undisturbed]."""
    found = re.findall(r"^\| ([^|]+) \|((?: \d+ \|){5})$", table, re.MULTILINE)
    return {name: [int(number) for number in re.findall(r"\d+", cells)] for name, cells in found}


@pytest.mark.slow
def test_killed_agent_with_a_ledger_repeats_nothing() -> None:
    command = [sys.executable, "-m", "benchmarks.ledger", "7"]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    _, ledger, checked = rows(ended.stdout).values()
    assert ledger[1:3] == [0, 0]
    assert checked == [checked[0], 0, 0, 0, checked[0]]


def test_guide_has_the_whole_measurement() -> None:
    plain, ledger, checked = rows((ROOT / "docs/guides/keep-your-graph.md").read_text(encoding="utf-8")).values()
    assert plain[1] > 0
    assert ledger == [ledger[0], 0, 0, ledger[0] - ledger[4], ledger[4]]
    assert checked == [checked[0], 0, 0, 0, checked[0]]
