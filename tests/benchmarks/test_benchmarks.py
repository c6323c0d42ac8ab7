"""The pure parts of `make bench`: what is compared, and what the endpoint answers."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.costs.changes import BARE, PEER, SEGUE, STARTS, changes, read, watched, write
from benchmarks.costs.endpoint import chunks
from benchmarks.costs.processes import Run
from benchmarks.costs.startup import Start
from benchmarks.durability import __main__ as durability
from benchmarks.durability import host
from benchmarks.durability.bench import Bench
from benchmarks.durability.rows import ROWS
from tests.cases import cases
from tests.reference.blocks import ROOT


def a_run(cpu: float) -> Run:
    return Run(seconds=1, cpu=cpu, first=1, first_cpu=cpu, worst=1, turns=1, hops=1, stored=0, resident=0, peak=0)


def replied(content: str, *results: str) -> list[dict[str, Any]]:
    """The deltas of the reply to a message, after some results."""
    messages = [{"role": "user", "content": content}, *({"role": "tool", "content": result} for result in results)]
    *found, done = chunks(json.dumps({"messages": messages}).encode())
    assert done == "[DONE]"
    return [choice["delta"] for chunk in map(json.loads, found) for choice in chunk["choices"]]


def test_rows_are_medians_of_the_ratios_of_pairs() -> None:
    runs = {SEGUE[0]: [a_run(2), a_run(9), a_run(30)], SEGUE[1]: [a_run(1)] * 3, PEER: [a_run(1), a_run(3), a_run(5)]}
    begun = {BARE: [Start(1, 0.5)], STARTS[0]: [Start(1, 1)], STARTS[1]: [Start(1, 2)]}
    rows = watched(dict.fromkeys((0, 3, 10), runs), begun)
    assert rows[f"CPU of a task of 3 calls, {SEGUE[0]} × {PEER}"] == 3
    assert rows[f"CPU until the first token, {SEGUE[1]} × {PEER}"] == pytest.approx(1 / 3)
    assert rows[f"CPU of a start, {STARTS[1]} × {BARE}"] == 4


@cases(
    "before, now, word",
    [(1.0, 1.16, "SLOWER"), (1.0, 1.14, "same"), (1.0, 0.86, "same"), (1.0, 0.84, "faster"), (None, 2.0, "new")],
)
def test_over_15_percent_more_is_named(before: float | None, now: float, word: str) -> None:
    (line,) = changes({"a row": now}, {} if before is None else {"a row": before, "another": 1.0})
    assert line.startswith(f"{word} ") and "a row" in line and f"{now:.2f}" in line


def test_rows_are_read_as_written(tmp_path: Path) -> None:
    assert read(tmp_path / "costs.json") == {}
    write({"a × b": 1.23456}, tmp_path / "costs.json")
    assert read(tmp_path / "costs.json") == {"a × b": 1.235}


def test_the_newest_message_says_what_to_answer() -> None:
    assert "tool_calls" in str(replied("before [bench native 0 old] now [bench native 1 newest]"))
    assert "handbook" in "".join(each.get("content") or "" for each in replied("[bench native 1 newest]"))


def test_of_a_whole_conversation_the_results_are_counted() -> None:
    for _ in range(2):  # the same request again is answered alike
        arguments = [
            each["tool_calls"][0]["function"]["arguments"] for each in replied("[bench native 3 whole]", "a")[:-1]
        ]
        assert json.loads("".join(arguments)) == {"number": 2}


# The judges of `make durability` fail an adapter that is broken in each row.


FOUND = {
    "deaths": "repeats 3 of 3 effects",
    "approvals": "runs pay without approval",
    "faults": "with wrong answers",
    "messages": "lost",
    "stuck": "the same call: more than",
    "streams": "the text repeats a part",
    "growth": "under 1, 8, 90 kB",
    "sessions": "the second turn is lost",
}


@pytest.mark.slow
@cases("name", list(FOUND))
def test_a_judge_fails_an_adapter_that_is_broken_in_its_row(name: str) -> None:
    (row,) = (row for row in ROWS if row.name == name)
    with Bench("tests.benchmarks.broken") as bench:
        cell = row.judge(bench)
    assert not cell.held and FOUND[name] in cell.text, cell


def test_every_row_has_a_broken_adapter() -> None:
    assert [row.name for row in ROWS] == list(FOUND)


@pytest.mark.slow
def test_a_process_that_rests_hangs_and_one_that_is_busy_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "MANY_LOOKS", 10)
    with Bench("tests.benchmarks.broken") as bench, bench.works() as work:
        assert bench.first.do("stall", work()).error == host.HANGS
        assert bench.first.do("spin", work()).more == "done"


@pytest.mark.slow
def test_a_process_that_never_rests_hangs_by_the_time_of_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "CPU_SECONDS", 1)
    with Bench("tests.benchmarks.broken") as bench, bench.works() as work:
        assert bench.first.do("spin", work()).error == host.HANGS


def test_the_page_has_the_table_that_was_measured() -> None:
    page = (ROOT / "docs/durability.md").read_text(encoding="utf-8")
    assert durability.TABLE.read_text(encoding="utf-8") in page


# The benchmark of the ledger for LangGraph's graphs, at a few of its deaths.


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
