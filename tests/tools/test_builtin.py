"""The built-in tools: the calculator, the clock and `recall`."""

import json
import os
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from segue.core.calls import CallKey
from segue.nodes.context import recall_tool
from segue.tools.builtin import CALCULATOR, CLOCK, PLACES, calculate, current_time
from segue.tools.registry import BadArguments, as_tool
from tests.cases import cases
from tests.tool_calls import run_call


@cases(
    "expression, value",
    [
        ("2+3*4", 14),
        ("(2+3)*4", 20),
        ("-7//2", -4),
        ("6/2", 3),
        ("7/2", 3.5),
        ("0.1+0.2", 0.3),
        ("2**10", 1024),
        ("2^10", 1024),
        ("2^3^2", 512),
        ("17 % 5", 2),
        ("200*15%", 30),
        ("2**50%", 1.4142135623731),
        ("1,200*2", 2400),
        ("max(1,200)", 200),
        ("sqrt(16)+abs(-3)", 7),
        ("round(2.345, 2)", 2.35),
        ("cos(pi)", -1),
        ("log(e)", 1),
        ("pow(2, 0.5)", 1.4142135623731),
        ("1e3+1", 1001),
        ("1+2=", 3),
        ("１＋２×３÷６＝？", 2),
        ("3乘以4", 12),
        ("2的10次方", 1024),
        ("3的平方加4的平方", 25),
        ("根号16", 4),
        ("12 divided by 5", 2.4),
        ("2 to the power of 10", 1024),
        (" 1\n+\n1 ", 2),
    ],
)
def test_value(expression: str, value: Any) -> None:
    assert calculate(expression)["value"] == value


def test_whole_values_are_integers_and_the_summary_says_them() -> None:
    result = calculate("6/2")
    assert isinstance(result["value"], int)
    assert result == {"expression": "6/2", "value": 3, "summary": "`6/2` = **3**"}


@pytest.mark.parametrize(
    ("expression", "value"), [("2**53-1", 2**53 - 1), ("2**53", str(2**53)), ("2**100", str(2**100))]
)
def test_an_integer_that_json_readers_would_bend_is_given_as_text(expression: str, value: int | str) -> None:
    assert json.loads(json.dumps(calculate(expression)))["value"] == value
    assert f"**{value}**" in calculate(expression)["summary"]


@cases(
    "expression, why",
    [
        ("1/0", "Division by zero.*除数"),
        ("5 % 0", "Division by zero"),
        ("0**-1", "Division by zero"),
        ("9**9**9", "too large.*太大"),
        ("10**1000", "too large"),
        ("(10**900)*(10**900)", "too large"),
        ("1e308*10", "too large"),
        ("1e400", "too large"),
        ("exp(1000)", "too large"),
        ("10**999/3", "too large"),
        ("sqrt(-1)", "no real value"),
        ("(-8)**(1/3)", "no real value"),
        ("log(0)", "no real value"),
        ("", "nothing to calculate.*空"),
        ("=?", "nothing to calculate"),
        ("2**", "cannot be read.*无法识别"),
        ("3(4)", "cannot be read"),
        ("max()", "cannot be read"),
        ("1,2", "cannot be read"),
        ("pi.e", "cannot be read"),
        ("sqrt", "without arguments"),
        ("1+" * 250 + "1", "longer than 500"),
        ("-" * 300 + "1", "deeper than 100"),
        ("+".join("1" * 150), "deeper than 100"),
    ],
)
def test_an_expression_without_a_value_says_why(expression: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        calculate(expression)


@cases(
    "expression",
    [
        *("__import__('os')", "().__class__", "x", "open", "a=1", "1;2", "[1]*9", "'a'*9", "lambda: 1", "True", "2j"),
        *("0x10", "1_000", "1 if 1 else 2", "f'{1}'", "max(key=1)", "1<<9", "1&1", "~1", "not 1", "1==1", "²", "٣"),
    ],
)
def test_anything_but_arithmetic_is_refused(expression: str) -> None:
    with pytest.raises(ValueError, match=r"is not arithmetic|cannot be read"):
        calculate(expression)


@cases(
    "expression",
    ["9**9**9**9", "round(5, -1000000000)", "(" * 249 + "1" + ")" * 249, "99**500*99**400", "((9**99)**99)**99"],
)
def test_hostile_expressions_end_at_once(expression: str) -> None:
    with suppress(ValueError):
        calculate(expression)  # a value that is worked out at length would not end at all


async def test_the_tool_is_marked_for_the_planner() -> None:
    bound = as_tool(CALCULATOR[0])
    field = bound.spec["function"]["parameters"]["properties"]["expression"]
    assert field["format"] == "arithmetic"
    assert {"计算", "次方", "calculate"} <= set(bound.marks.keywords)
    assert bound.idempotent
    assert (await bound.call({"expression": "1+1"}))["value"] == 2
    with pytest.raises(BadArguments, match="expression"):
        await bound.call({})


# The clock, against the real one; and a system without time-zone data.

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


# `recall`: the pages of a result, and refs that there are none of.

STORED = {"t.1.0": "0123456789", "t.1.1": "", "": "t.1.0"}


async def look_up(ref: str) -> str | None:
    return STORED.get(ref)


TOOL = recall_tool(look_up, 4)


def page(offset: int, text: str, following: int | None) -> dict[str, Any]:
    return {"ref": "t.1.0", "offset": offset, "text": text, "next_offset": following, "total_chars": 10}


@cases(
    "given, expected",
    [
        ({}, page(0, "0123", 4)),
        ({"offset": 4}, page(4, "4567", 8)),
        ({"offset": 6}, page(6, "6789", None)),
        ({"offset": 8}, page(8, "89", None)),
        ({"offset": 99}, page(99, "", None)),
    ],
)
async def test_a_result_is_opened_by_pages(given: dict[str, Any], expected: dict[str, Any]) -> None:
    assert await TOOL.call({"ref": "t.1.0", **given}) == expected


async def test_it_only_reads_and_is_called_recall() -> None:
    assert (TOOL.name, TOOL.read_only) == ("recall", True)
    function = TOOL.spec["function"]
    assert list(function["parameters"]["properties"]) == ["ref", "offset"]
    assert "required" not in function["parameters"]
    assert (await TOOL.call({}))["text"] == "t.1."


async def test_an_unknown_ref_is_a_sentence() -> None:
    with pytest.raises(ValueError, match="There is no result 'x'"):
        await TOOL.call({"ref": "x"})
    outcome = await run_call({"recall": TOOL}, "recall", {"ref": "x"}, CallKey("t", "s", 0), None, 10)
    assert outcome.result["error"].startswith("ValueError: There is no result 'x': call recall without")


@pytest.mark.parametrize("given", [{"ref": "t.1.0", "offset": -1}, {"ref": "t.1.0", "page": 2}])
async def test_arguments_that_do_not_fit(given: dict[str, Any]) -> None:
    with pytest.raises(BadArguments):
        await TOOL.call(given)
