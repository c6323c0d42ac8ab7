"""A twelfth of `make crash`, which successive commits take in turn, and what the whole of it stands on."""

from collections.abc import Iterator

import pytest

from tests.findings import no_findings

from . import report, stale
from .harness import Harness, Run
from .measurement import Measured, measure, part_of_commit
from .points import AFTER_MEMORY, known_places
from .scenarios import SCENARIOS

PARTS = 12
KILLS, RACES = 300, 1000
"""As in `make crash`."""


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    with Harness(tmp_path_factory.mktemp("crash"), part=part_of_commit(PARTS)) as opened:
        yield opened


def test_a_part_of_the_measurement_finds_nothing(harness: Harness) -> None:
    measured = Measured()
    measure(harness, KILLS, RACES, 1, measured)
    no_findings(measured.broken())
    played = [*measured.killed, *measured.troubled]
    assert sum(outcome.kills for outcome in played) > KILLS // PARTS
    assert any(outcome.unknowns for outcome in played) and any(outcome.pauses for outcome in played)
    assert {outcome.run.scenario for outcome in played} >= {*SCENARIOS}


def test_every_kind_of_place_is_known(harness: Harness) -> None:
    found = known_places(harness, ["controller"])["controller"]
    assert len(found[AFTER_MEMORY]) >= 5


def test_an_owner_that_sleeps_between_two_tasks_has_no_lease_to_lose(harness: Harness) -> None:
    slept = stale.play(harness, Run("react_json", ("asleep@turn:1",)))
    no_findings(report.failures([slept]))
    assert slept.ends == ["well"]
