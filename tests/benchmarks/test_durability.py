"""The judges of `make durability` fail an adapter that is broken in each row."""

import pytest

from benchmarks.durability.bench import Bench
from benchmarks.durability.rows import ROWS
from tests.cases import cases

FOUND = {
    "deaths": "repeats 3 of 3 effects",
    "approvals": "runs pay without approval",
    "faults": "with wrong answers",
    "messages": "lost",
    "stuck": "the same call: more than",
    "streams": "the text repeats a part",
    "growth": "kB",
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
