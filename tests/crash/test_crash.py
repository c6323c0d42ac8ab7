"""A small part of `make crash`: a kill of every kind, some pauses, full disks, sleeping owners, races; the controls.

Kinds and scenarios come in turn, so that among the kills is one of each scenario.
"""

import random
from collections.abc import Iterable, Iterator

import pytest

from tests.findings import no_findings

from . import commands, disk, flips, heartbeats, kills, load, pauses, races, report, stale, switched_off, undos
from .harness import Harness, Outcome, Run
from .points import KINDS, RANDOM
from .scenarios import SCENARIOS


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    with Harness(tmp_path_factory.mktemp("crash")) as opened:
        yield opened


def nothing_is_wrong(outcomes: Iterable[Outcome]) -> None:
    no_findings(report.failures(outcomes))


def test_nothing_is_lost_or_done_twice_wherever_it_is_killed(harness: Harness) -> None:
    outcomes = kills.at_places(harness, len(KINDS) - 1, random.Random(1))
    nothing_is_wrong(outcomes)
    assert {outcome.run.where for outcome in outcomes if outcome.kills} == {*KINDS} - {RANDOM}
    assert {outcome.run.scenario for outcome in outcomes if outcome.kills} == {*SCENARIOS}
    assert any(outcome.unknowns for outcome in outcomes)


def test_a_check_leaves_nothing_unknown_and_nothing_is_done_twice(harness: Harness) -> None:
    outcomes = kills.checked(harness)
    nothing_is_wrong(outcomes)
    assert sum(outcome.kills for outcome in outcomes) == len(outcomes) >= 10
    assert sum(outcome.unknowns for outcome in outcomes) == 0


def test_nothing_is_lost_or_done_twice_whenever_it_is_killed(harness: Harness) -> None:
    outcomes = kills.at_random(harness, 6, random.Random(2))
    nothing_is_wrong(outcomes)
    assert any(outcome.kills for outcome in outcomes)


def test_a_power_cut_takes_what_was_not_synced_and_nothing_is_lost(harness: Harness) -> None:
    nothing_is_wrong(kills.power_cuts(harness, 8, 1))


def test_a_command_that_is_cut_off_happens_whole_or_not_at_all(harness: Harness) -> None:
    outcomes = commands.measure(harness, 1, every=5, at_random=0)
    nothing_is_wrong(outcomes)
    assert {outcome.run.scenario for outcome in outcomes if outcome.kills} == {*commands.COMMANDS}


def test_a_call_is_undone_at_most_once_wherever_that_is_killed(harness: Harness) -> None:
    outcomes = undos.measure(harness, every=3)
    nothing_is_wrong(outcomes)
    assert sum(outcome.kills for outcome in outcomes) >= 4


def test_a_pause_changes_nothing(harness: Harness) -> None:
    outcomes = pauses.measure(harness, ["react_json", "plan", "lifecycle"], every=48)
    nothing_is_wrong(outcomes)
    assert sum(outcome.pauses for outcome in outcomes) >= 4


def test_a_full_disk_is_told_and_nothing_is_lost(harness: Harness) -> None:
    outcomes = disk.measure(harness, ["react_native"], every=12)
    nothing_is_wrong(outcomes)
    assert sum(outcome.ends[0] != "well" for outcome in outcomes) >= 3


def test_an_owner_that_lost_its_lease_writes_nothing(harness: Harness) -> None:
    outcomes = stale.measure(harness, 4, 1, ["react_json"])
    nothing_is_wrong(outcomes)
    assert any(outcome.ends[-1].startswith("StaleOwner: ") for outcome in outcomes)


def test_an_owner_that_sleeps_between_two_tasks_has_no_lease_to_lose(harness: Harness) -> None:
    slept = stale.play(harness, Run("react_json", ("asleep@turn:1",)))
    nothing_is_wrong([slept])
    assert slept.ends == ["well"]


def test_a_lease_that_cannot_be_renewed_for_a_while_loses_nothing(harness: Harness) -> None:
    outcomes = heartbeats.measure(harness, ["react_json"], times=2)
    nothing_is_wrong(outcomes)
    assert any(outcome.pauses for outcome in outcomes)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_tasks_beside_readers_all_end_well(harness: Harness, elsewhere: bool) -> None:
    loaded = load.measure(harness, 2, elsewhere=elsewhere)
    assert loaded.broken() == []
    assert loaded.ends.total() == 3 * load.SESSIONS


def test_a_flipped_bit_is_noticed_or_changes_nothing(harness: Harness) -> None:
    for flipped in (flips.keys(harness, 40, 1), *flips.log(harness, 20, 1)):
        assert flipped.silent == []
        assert flipped.ends[flips.REFUSED] > 0


def test_two_processes_on_one_thread_lose_no_update(harness: Harness) -> None:
    raced = races.measure(harness, 20)
    no_findings(raced.lost)
    assert 20 <= raced.ends["done"] <= raced.ends.total() == 40


def test_without_the_ledger_the_judge_sees_duplicated_effects(harness: Harness) -> None:
    outcomes = switched_off.without_ledger(harness, ["react_native"])
    assert len(outcomes) >= 3
    assert all(outcome.found("twice") for outcome in outcomes)


def test_without_the_lease_the_judge_sees_lost_updates(harness: Harness) -> None:
    assert switched_off.without_lease(harness, 20).lost
