"""The tool sets that come with Segue, by the names that agents ask for; calculator, clock and `recall`."""

import ast
import math
import operator
import re
from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from typing import Annotated, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from pydantic import Field
from simpleeval import InvalidExpression, SimpleEval  # type: ignore[import-untyped]

from segue.core.lifecycle import SPAWNING

from .bound_tool import BoundTool, Wait
from .registry import ToolSets, tool
from .travel import TRAVEL

PLACES = {
    **dict.fromkeys(("北京", "上海", "中国", "Beijing", "Shanghai", "China"), "Asia/Shanghai"),
    **dict.fromkeys(("香港", "Hong Kong"), "Asia/Hong_Kong"),
    **dict.fromkeys(("东京", "日本", "Tokyo", "Japan"), "Asia/Tokyo"),
    **dict.fromkeys(("新加坡", "Singapore"), "Asia/Singapore"),
    **dict.fromkeys(("伦敦", "London"), "Europe/London"),
    **dict.fromkeys(("巴黎", "Paris"), "Europe/Paris"),
    **dict.fromkeys(("柏林", "Berlin"), "Europe/Berlin"),
    **dict.fromkeys(("纽约", "New York"), "America/New_York"),
    **dict.fromkeys(("洛杉矶", "Los Angeles"), "America/Los_Angeles"),
    **dict.fromkeys(("悉尼", "Sydney"), "Australia/Sydney"),
}
"""What people say instead of a zone's name."""
WEEKDAYS = ("星期一", "星期二", "星期三", "星期四", "星期五", "星期六", "星期日")


@tool(
    read_only=True,
    title="现在时间 · Clock",
    keywords=[
        *("现在时间", "当前时间", "现在几点", "几点了", "几点钟", "时间几点", "现在是什么时间", "现在什么时间"),
        *("今天几号", "今天是几号", "几月几号", "日期", "今天星期几", "今天是星期几", "今天周几"),
        *("what time", "current time", "time is it", "time now", "what day is it", "what date", "today's date"),
        *("date today", "current date", "date is it"),
    ],
)
def current_time(
    timezone: Annotated[
        str,
        Field(
            description="An IANA time zone such as Asia/Shanghai, or a large city (时区).",
            examples=["UTC", *dict.fromkeys(PLACES.values()), *PLACES],
            json_schema_extra={"keywords": ["时区", "time zone", "timezone"]},
        ),
    ] = "UTC",
) -> dict[str, Any]:
    """Tell the date and time now in a time zone."""
    now = datetime.now(_zone(timezone))
    offset = now.strftime("%z")
    english, chinese = now.strftime("%A"), WEEKDAYS[now.weekday()]
    name = str(now.tzinfo)
    return {
        "timezone": name,
        "time": now.isoformat(timespec="seconds"),
        "weekday": english,
        "summary": f"**{now:%Y-%m-%d %H:%M}** {chinese} {english} ({name}, UTC{offset[:3]}:{offset[3:5]})",
    }


CLOCK = (current_time,)


@tool(idempotent=True, trusted=True, title="等待 · Wait", keywords=["等到", "wait until"])
def wait_until(
    time: Annotated[
        str,
        Field(
            description="18:00, 2026-12-01 18:00, or ISO 8601 with a zone (时刻).",
            examples=["18:00", "2026-12-01T18:00+08:00"],
        ),
    ],
) -> dict[str, Any]:
    """Wait until a moment, which may be days away; the task continues by itself then."""
    raise Wait(until=time)


@tool(idempotent=True, title="等待事件 · Wait for an event", keywords=["等待事件", "wait for the event"])
def wait_for_event(
    name: Annotated[str, Field(description="The name of the event (事件名).", examples=["paid"])],
    until: Annotated[str, Field(description="A moment at which to wait no longer; empty: none (最晚时刻).")] = "",
) -> dict[str, Any]:
    """Wait until somebody sends the event of this name, which may take days; gives its data."""
    raise Wait(name, until=until or None)


WAIT = (wait_until, wait_for_event)


def _zone(name: str) -> tzinfo:
    """The zone of an IANA name or a place, whatever its case; UTC needs no time-zone database."""
    places = {place.casefold(): zone for place, zone in PLACES.items()}
    requested = places.get(name.strip().casefold(), name.strip())
    if requested.casefold() in {"utc", "gmt", "z"}:
        return UTC
    try:
        return ZoneInfo(requested)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        known = {zone.casefold(): zone for zone in available_timezones()}
        if requested.casefold() in known:
            return ZoneInfo(known[requested.casefold()])
        if not known:
            raise ValueError(
                "This system has no time-zone database, only UTC: pip install tzdata (系统没有时区数据)."
            ) from error
        raise ValueError(
            f"There is no time zone {name[:60]!r} (没有这个时区): write an IANA name such as Asia/Shanghai."
        ) from error


MAX_LENGTH = 500
MAX_DEPTH = 100
MAX_DIGITS = 1000
SAFE_INTEGER = 2**53 - 1
"""The largest integer that every JSON reader keeps exactly; checkpoints take no more than 64 bits."""

Number = int | float

_SIGNS = str.maketrans("０１２３４５６７８９＋－＊／×÷·−–（）．，％＾＝？", "0123456789+-*/*/*--().,%^=?")
_WORDS = {
    **{"乘以": "*", "除以": "/", "加上": "+", "减去": "-", "乘": "*", "加": "+", "减": "-"},
    **{"multiplied by": "*", "divided by": "/", "to the power of": "**", "plus": "+", "minus": "-", "times": "*"},
    **{"的平方": "**2", "的立方": "**3"},
}
_REWRITES = (
    (re.compile(r"(?:根号|square root of)\s*(\d+(?:\.\d*)?)"), r"sqrt(\1)"),
    (re.compile(r"(?:的|(?<!\s))\s*+(?<!\d)(\d++)\s*+次方"), r"**\1"),
    *((re.compile(re.escape(word)), sign) for word, sign in _WORDS.items()),
    (re.compile(r"\^"), "**"),
    (re.compile(r"(?<![\w.])(\d++(?:\.\d*+)?|\.\d++)\s*+%(?!\s*[\w.(])"), r"(\1/100)"),
)
_THOUSANDS = re.compile(r"(?<![\d.])\d{1,3}(?:,\d{3})+(?!\d)")
_TOKEN = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[A-Za-z_]\w*|.", re.DOTALL)


@tool(
    read_only=True,
    idempotent=True,
    title="计算器 · Calculator",
    keywords=[
        *("计算", "计算器", "算式", "次方", "平方根", "根号", "乘以", "除以", "calculate", "calculator"),
        *("compute", "equals", "divided by", "multiplied by", "to the power of", "square root", "=?", "=？"),
    ],
)
def calculate(
    expression: Annotated[
        str,
        Field(
            description=(
                "Arithmetic (算式): + - * / // % ** ^, brackets, pi, e, sqrt, pow, exp, log, log2, log10, sin, cos, "
                "tan, asin, acos, atan, floor, ceil, round, abs, min, max."
            ),
            json_schema_extra={"keywords": ["计算", "算", "calculate", "compute"], "format": "arithmetic"},
        ),
    ],
) -> dict[str, Any]:
    """Calculate the value of an arithmetic expression.

    `^` is a power; `15%` is 0.15 but `17 % 5` a remainder; angles are radians; × ÷ and full-width signs are read.
    `value` is a number, or the digits as text where an integer is beyond 2**53.
    """
    given = " ".join(expression.translate(_SIGNS).split()).rstrip("=? ")
    if not given:
        raise ValueError("There is nothing to calculate (算式是空的).")
    if len(given) > MAX_LENGTH:
        raise ValueError(f"The expression is longer than {MAX_LENGTH} characters (算式太长).")
    value = _round_off(_evaluate(_arithmetic(given)))
    exact = isinstance(value, float) or abs(value) <= SAFE_INTEGER
    return {"expression": given, "value": value if exact else str(value), "summary": f"`{given}` = **{value}**"}


CALCULATOR = (calculate,)


def _arithmetic(given: str) -> str:
    """The expression as Python writes it: nothing but numbers, signs and known names."""
    written = given
    for pattern, sign in _REWRITES:
        written = pattern.sub(sign, written)
    if not re.search("[A-Za-z]", written):  # 1,200 is a number, but max(1,200) has two arguments
        written = _THOUSANDS.sub(lambda found: found[0].replace(",", ""), written)
    for token in _TOKEN.findall(written):
        if not (token in _NAMES or token in "+-*/%(),. " or (token.isascii() and token[0] in ".0123456789")):
            raise ValueError(f"{token!r} is not arithmetic (无法计算); the names known are: {', '.join(_NAMES)}.")
    return written


def _evaluate(written: str) -> Number:
    evaluator = SimpleEval(operators=_OPERATORS, functions=_FUNCTIONS, names=_CONSTANTS)
    evaluator.nodes = {kind: evaluator.nodes[kind] for kind in _NODES}
    try:
        tree = ast.parse(written, mode="eval").body
        value = _small(evaluator.eval(written, previously_parsed=_shallow(tree)))
    except ZeroDivisionError as error:
        raise ValueError("Division by zero has no value (除数不能为零).") from error
    except OverflowError as error:
        raise ValueError(f"The value is too large: {MAX_DIGITS} digits at most (结果太大).") from error
    except (SyntaxError, InvalidExpression, TypeError) as error:
        raise ValueError(f"{written!r} cannot be read as arithmetic (算式无法识别).") from error
    if not isinstance(value, int | float):
        raise ValueError(f"{written!r} is a function without arguments (函数缺少参数).")
    return value


def _shallow(tree: ast.expr) -> ast.expr:
    level: list[ast.AST] = [tree]
    for _ in range(MAX_DEPTH):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    if level:
        raise ValueError(f"The expression is nested deeper than {MAX_DEPTH} levels (嵌套太深).")
    return tree


def _round_off(value: Number) -> Number:
    """A float to the 15 digits that it holds surely, a whole one as an integer: 0.1 + 0.2 is 0.3 and 6 / 2 is 3."""
    if isinstance(value, int):
        return value
    rounded = float(f"{value:.15g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) <= SAFE_INTEGER else rounded


def _small(value: Any) -> Any:
    if isinstance(value, complex):
        raise ValueError("The expression has no real value (没有实数解).")
    if isinstance(value, float) and not math.isfinite(value):
        raise OverflowError
    if isinstance(value, int) and abs(value) >= 10**MAX_DIGITS:
        raise OverflowError
    return value


def _bounded(operation: Callable[..., Any]) -> Callable[..., Any]:
    def run(*operands: Any) -> Any:
        try:
            return _small(operation(*operands))
        except ValueError as error:
            raise ValueError("The expression has no real value (没有实数解).") from error

    return run


def _power(base: Number, exponent: Number) -> Any:
    """Refuse before computing: 9**9**9 has 370 million digits."""
    whole = isinstance(base, int) and isinstance(exponent, int)
    if whole and abs(base) > 1 and exponent * math.log10(abs(base)) > MAX_DIGITS:
        raise OverflowError
    return base**exponent


def _round(value: Number, digits: int = 0) -> Number:
    """Bounded in `digits`: round(5, -10**9) would compute a power of that size."""
    return round(value, max(-MAX_DIGITS, min(MAX_DIGITS, digits))) if digits else round(value)


_NODES = (ast.BinOp, ast.UnaryOp, ast.Call, ast.Name, ast.Constant)
_CONSTANTS = {"pi": math.pi, "e": math.e}
_OPERATORS = {
    ast.Add: _bounded(operator.add),
    ast.Sub: _bounded(operator.sub),
    ast.Mult: _bounded(operator.mul),
    ast.Div: _bounded(operator.truediv),
    ast.FloorDiv: _bounded(operator.floordiv),
    ast.Mod: _bounded(operator.mod),
    ast.Pow: _bounded(_power),
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
_PLAIN: dict[str, Callable[..., Any]] = {
    **{"sqrt": math.sqrt, "pow": _power, "exp": math.exp, "log": math.log, "log2": math.log2, "log10": math.log10},
    **{"sin": math.sin, "cos": math.cos, "tan": math.tan, "asin": math.asin, "acos": math.acos, "atan": math.atan},
    **{"floor": math.floor, "ceil": math.ceil, "round": _round, "abs": abs, "min": min, "max": max},
}
_FUNCTIONS = {name: _bounded(function) for name, function in _PLAIN.items()}
_NAMES = (*_CONSTANTS, *_FUNCTIONS)


@tool(read_only=True)
async def spawn_subtask(
    description: Annotated[str, Field(description="What is to be done, complete in itself.")],
    depends_on: Annotated[list[str], Field(description="The ids of subtasks whose results it needs.")] = [],  # noqa: B006
    priority: Annotated[int, Field(description="Lower runs first.")] = 0,
    timeout: Annotated[float | None, Field(description="Seconds that it may take.")] = None,  # noqa: ASYNC109
) -> dict[str, Any]:
    """Add a subtask to the run that this subtask is a part of, for work that only now turns out to be needed."""
    if (add := SPAWNING.get()) is None:
        raise ValueError("spawn_subtask works within the subtasks of a lifecycle run only: do the work here.")
    given = {"description": description, "dependencies": depends_on, "priority": priority, "timeout": timeout}
    return (await add(given)).public


def _data() -> tuple[BoundTool, ...]:
    """The tools over the data folder of the environment, loaded where somebody wants them: they need an extra."""
    from segue.tools.data.tools import data_tools

    return data_tools()


SPAWN_SUBTASK = (spawn_subtask,)
BUILTIN = ToolSets(
    {
        "travel": TRAVEL,
        "calculator": CALCULATOR,
        "clock": CLOCK,
        "wait": WAIT,
        "data": _data,
        "spawn_subtask": SPAWN_SUBTASK,
    }
)
