"""The clock, against the real one; and a system without time-zone data."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from segue.tools.builtin import CLOCK, PLACES, current_time
from segue.tools.registry import as_tool
from tests.cases import cases

BARE = (
    "import sys; sys.modules['tzdata'] = None; from segue.tools.builtin import current_time; print(current_time({0!r}))"
)


def test_utc_is_now() -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    result = current_time()
    told = datetime.fromisoformat(result["time"])
    assert before <= told <= datetime.now(UTC)
    assert told.utcoffset() == timedelta(0)
    assert result["timezone"] == "UTC"
    assert result["summary"].startswith(f"**{told:%Y-%m-%d %H:%M}** 星期")
    assert result["weekday"] == told.strftime("%A")
    assert result["weekday"] in result["summary"]


@cases(
    "given, zone, hours",
    [
        ("Asia/Shanghai", "Asia/Shanghai", 8),
        ("asia/tokyo", "Asia/Tokyo", 9),
        ("北京", "Asia/Shanghai", 8),
        ("singapore", "Asia/Singapore", 8),
        ("utc", "UTC", 0),
        (" GMT ", "UTC", 0),
    ],
)
def test_a_zone_is_known_by_name_or_place(given: str, zone: str, hours: int) -> None:
    result = current_time(given)
    assert result["timezone"] == zone
    assert datetime.fromisoformat(result["time"]).utcoffset() == timedelta(hours=hours)
    assert f"UTC+{hours:02}:00" in result["summary"]


@cases("place", PLACES)
def test_every_place_has_a_zone(place: str) -> None:
    assert current_time(place)["timezone"] == PLACES[place]


@cases("name", ["Foo/Bar", "", "Asia", "../etc/passwd", "/etc/passwd", "火星", "A" * 5000, "a\0b"])
def test_an_unknown_zone_is_refused_shortly(name: str) -> None:
    with pytest.raises(ValueError, match=r"no time zone.*Asia/Shanghai") as caught:
        current_time(name)
    assert len(str(caught.value)) < 200


def without_zone_data(name: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONTZPATH": "", "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, "-c", BARE.format(name)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, encoding="utf-8", check=False)


@pytest.mark.slow
def test_utc_works_without_zone_data_and_others_name_the_remedy() -> None:
    assert "UTC" in without_zone_data("UTC").stdout
    assert "pip install tzdata" in without_zone_data("Asia/Shanghai").stderr


async def test_the_tool_only_reads_and_needs_no_argument() -> None:
    bound = as_tool(CLOCK[0])
    assert bound.read_only
    assert {"现在几点", "几点了", "日期", "what time"} <= set(bound.marks.keywords)
    assert {"Asia/Shanghai", "UTC"} <= set(bound.spec["function"]["parameters"]["properties"]["timezone"]["examples"])
    assert (await bound.call({}))["timezone"] == "UTC"
