"""The numbers that the README and the guides quote are those of the measurements."""

import json
import re

from .blocks import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
RELIABILITY = (ROOT / "docs/reliability.md").read_text(encoding="utf-8")
COSTS = (ROOT / "benchmarks/costs.md").read_text(encoding="utf-8")
RATIOS = json.loads((ROOT / "benchmarks/costs.json").read_text(encoding="utf-8"))


def cells(text: str, row: str) -> list[str]:
    """What is in a table's row after its first cell."""
    (found,) = re.findall(rf"^\| {re.escape(row)} \| (.*) \|$", text, re.MULTILINE)
    return [cell.strip() for cell in found.split("|")]


def test_the_readmes_crashes_are_those_of_make_crash() -> None:
    measured = {
        "`kill -9`, at a write to the database or at a random time": ["**all**"],
        "simulated power cut: writes that were not synced are discarded": ["a power cut"],
        "pause on request, after each stored event or at a write to the database": [
            "a pause after an event",
            "a pause at a write",
        ],
        "full disk": ["a full disk"],
    }
    for row, sources in measured.items():
        tables = [cells(RELIABILITY, source) for source in sources]
        runs, *faults = cells(README, row)
        assert int(runs.replace(",", "")) == sum(int(table[0]) for table in tables)
        lost, duplicated, wrong = (sum(int(table[place]) for table in tables) for place in (2, 3, 5))
        assert faults == [str(lost), str(duplicated), str(wrong)]


def test_the_readmes_races_are_those_of_make_crash() -> None:
    races = [cells(RELIABILITY, row) for row in ("the second is refused", "the second waits in the queue")]
    assert f"In {sum(int(race[0]) for race in races):,} runs in which two processes" in README
    assert {race[3] for race in races} == {"0"}


def test_the_readmes_costs_are_those_of_make_bench() -> None:
    rows = {
        "with 3 tool calls": "of a task of 3 calls",
        "with 10 tool calls": "of a task of 10 calls",
        "with 100 tool calls": "of a task of 100 calls",
        "without tool calls, until the first token": "until the first token",
    }
    for row, what in rows.items():
        assert cells(README, row) == [f"{RATIOS[f'CPU {what}, Segue native × create_agent + SQLite']:.2f} ×"]


def test_the_prompts_are_those_of_make_bench() -> None:
    sent = COSTS[COSTS.index("| characters sent in 20 calls | all") :]
    json, native = (cells(sent, row) for row in ("Segue json", "Segue native"))
    more = [round(100 * (float(row[-1]) - 1)) for row in (native, json)]
    assert f"Segue sends {more[0]} % more characters" in README
    assert f"if it uses `native`, and {more[1]} % more with `json`" in README
    guide = (ROOT / "docs/guides/models.md").read_text(encoding="utf-8")
    for row, measured in (('`protocol="json"`', json), ('`protocol="native"`', native)):
        assert cells(guide, row) == [f"{round(int(measured[0].replace(',', '')), -3):,}", f"{measured[3][:-1]} %"]
