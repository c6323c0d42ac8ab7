"""The calculator: values worked out by hand, and the expressions that must not run."""

import json
from contextlib import suppress
from typing import Any

import pytest

from segue.tools.builtin import CALCULATOR, calculate
from segue.tools.registry import BadArguments, as_tool
from tests.cases import cases


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
