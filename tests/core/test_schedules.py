"""When schedules are due: moments, zones, daylight saving, missed runs and overlap."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from segue.core.errors import InvalidMessage
from segue.core.schedules import GRACE, Schedule, Step, following, step_of, timing
from segue.core.task import find_zone, local_zone, moment_of, zone_named
from tests.cases import cases

NOON = datetime(2026, 3, 28, 12, 0, tzinfo=UTC).timestamp()
BERLIN = ZoneInfo("Europe/Berlin")


def schedule(**fields: Any) -> Schedule:
    usual: dict[str, Any] = {"every": "0 9 * * *", "overlap": "skip", "missed": "once", "due": NOON, "timezone": "UTC"}
    return Schedule(**{"schedule_id": "s", "message": "m", "options": {}, **usual, **fields})


@cases(
    "given, expected",
    [
        ("18:00", datetime(2026, 3, 28, 18, tzinfo=BERLIN)),
        ("9:30", datetime(2026, 3, 29, 9, 30, tzinfo=BERLIN)),
        ("2026-04-01 18:00", datetime(2026, 4, 1, 18, tzinfo=BERLIN)),
        ("2026-04-01T18:00+08:00", datetime(2026, 4, 1, 10, tzinfo=UTC)),
        (datetime(2026, 4, 1, 18), datetime(2026, 4, 1, 18, tzinfo=BERLIN)),
        (datetime(2026, 4, 1, 18, tzinfo=timezone(timedelta(hours=2))), datetime(2026, 4, 1, 16, tzinfo=UTC)),
        (NOON + 60, datetime(2026, 3, 28, 12, 1, tzinfo=UTC)),
    ],
)
def test_a_moment_is_read_in_its_zone(given: Any, expected: datetime) -> None:
    assert moment_of(given, BERLIN, NOON) == expected.timestamp()


@cases("given", ["soon", "25:00", "2026-13-01", -5.0, 1e300, float("nan"), True])
def test_what_is_no_moment_is_refused(given: Any) -> None:
    with pytest.raises(InvalidMessage, match="is not a valid time"):
        moment_of(given, BERLIN, NOON)


def test_zones_are_found_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_zone("europe/berlin") == BERLIN and find_zone("z") is UTC
    with pytest.raises(InvalidMessage, match="There is no time zone 'Mars/Olympus'"):
        zone_named("Mars/Olympus")
    local_zone.cache_clear()
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert local_zone() == "Asia/Tokyo"
    local_zone.cache_clear()


def days(every: str, start: datetime, count: int, zone: str = "Europe/Berlin") -> list[str]:
    moments, after = [], start.timestamp()
    for _ in range(count):
        after = following(every, zone, after) or 0.0
        moments.append(f"{datetime.fromtimestamp(after, ZoneInfo(zone)):%d %H:%M%z}")
    return moments


def test_daylight_saving_moves_no_run_of_a_day_and_repeats_none() -> None:
    spring, autumn = datetime(2026, 3, 28, 8, tzinfo=UTC), datetime(2026, 10, 24, 7, tzinfo=UTC)
    assert days("0 9 * * *", spring, 2) == ["29 09:00+0200", "30 09:00+0200"]
    assert days("30 2 * * *", spring, 2) == ["29 03:00+0200", "30 02:30+0200"], "02:30 does not exist on the 29th"
    assert days("30 2 * * *", autumn, 2) == ["25 02:30+0200", "26 02:30+0100"], "it exists twice on the 25th"
    assert days("0 9 * * mon", spring, 2) == ["30 09:00+0200", "06 09:00+0200"]


@cases(
    "options, says",
    [
        ({}, "Give either a time"),
        ({"at": "18:00", "every": "0 9 * * *"}, "Give either a time"),
        ({"at": NOON}, "has passed"),
        ({"at": "2020-01-01"}, "has passed"),
        ({"every": "0 9 * *"}, "is not a cron expression"),
        ({"every": "0 0 9 * * *"}, "is not a cron expression"),
        ({"every": "61 9 * * *"}, "is not a cron expression"),
        ({"every": "0 9 30 2 *"}, "is not a cron expression"),
        ({"every": "0 9 * * *", "timezone": "Nowhere"}, "There is no time zone"),
        ({"every": "0 9 * * *", "overlap": "both"}, "The option overlap is 'both': use skip, queue\\."),
        ({"every": "0 9 * * *", "timezone": 5}, "There is no time zone '5'"),
        ({"every": 5}, "'5' is not a cron expression"),
        ({"at": 10**400}, "is not a valid time"),
        ({"every": "0 9 * * *", "missed": "never"}, "The option missed is 'never'"),
    ],
)
def test_bad_input_says_what_to_give(options: Any, says: str) -> None:
    with pytest.raises(InvalidMessage, match=says):
        timing(options, NOON)


def test_after_a_run_missed_ones_are_made_up_for_as_it_says() -> None:
    late = NOON + 3 * 86_400 + 100
    due = datetime(2026, 3, 28, 9, tzinfo=UTC).timestamp()
    assert schedule(due=due).after_run(late) == datetime(2026, 4, 1, 9, tzinfo=UTC).timestamp()
    assert schedule(due=due, missed="all").after_run(late) == datetime(2026, 3, 29, 9, tzinfo=UTC).timestamp()
    assert schedule(every=None).after_run(late) is None


@cases(
    "fields, late, unfinished, is_own, expected",
    [
        ({}, 0, False, True, Step.RUN),
        ({}, GRACE * 2, False, True, Step.RUN),
        ({"missed": "skip"}, GRACE / 2, False, True, Step.RUN),
        ({"missed": "skip"}, GRACE * 2, False, True, Step.SKIP),
        ({}, 0, True, True, Step.SKIP),
        ({}, 0, True, False, Step.WAIT),
        ({"overlap": "queue"}, 0, True, True, Step.WAIT),
        ({"every": None}, 0, True, True, Step.WAIT),
        ({"missed": "all"}, 0, True, True, Step.SKIP),
        ({"missed": "all"}, GRACE * 2, True, True, Step.WAIT),
    ],
)
def test_what_becomes_of_a_run_that_is_due(
    fields: dict[str, Any], late: float, unfinished: bool, is_own: bool, expected: Step
) -> None:
    assert step_of(schedule(**fields), NOON + late, unfinished, is_own, 0.0) is expected


def test_a_run_that_waited_for_the_last_one_is_not_missed() -> None:
    queued = schedule(overlap="queue", missed="skip")
    assert step_of(queued, NOON + 1000, False, True, NOON + 990) is Step.RUN
