"""The calculator: arithmetic on `simpleeval`, bounded so that no expression is slow or large.

Its errors are ValueErrors in English and Chinese: an expression has no language to answer in.
"""

import ast
import math
import operator
import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import Field
from simpleeval import InvalidExpression, SimpleEval  # type: ignore[import-untyped]

from segue.tools.registry import tool

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
    value = _tidy(_evaluate(_arithmetic(given)))
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


def _tidy(value: Number) -> Number:
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
