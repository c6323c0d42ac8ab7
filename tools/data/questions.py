"""What can be asked of a table: its columns' figures, groups and periods, as plain values."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal

from segue.prompts.data import phrase
from segue.prompts.language import Language

from .engine import quoted
from .tables import EXACT, TABLE, Table

Every = Literal["day", "week", "month", "quarter", "year"]
Number = int | float | str
MOST_PERIODS = 120
_SAFE = 2**53
_LABELS = {
    "day": "strftime(start, '%Y-%m-%d')",
    "week": "strftime(start, '%Y-%m-%d')",
    "month": "strftime(start, '%Y-%m')",
    "quarter": "strftime(start, '%Y') || '-Q' || quarter(start)",
    "year": "strftime(start, '%Y')",
}
_CELL = 40
"""Characters of a text in a description."""


@dataclass(frozen=True)
class Group:
    """A value of the grouping column, how many rows have it, and their sum; without a value column the count."""

    name: str | None
    rows: int
    figure: Number


@dataclass(frozen=True)
class Groups:
    """The first of `count` groups; `rest` is the figure of the others, `total` that of all."""

    groups: Sequence[Group]
    count: int
    total: Number
    rest: Number = 0


@dataclass(frozen=True)
class Period:
    """A day, week, month, quarter or year, and its sum; without a value column the count."""

    period: str
    rows: int
    figure: Number


@dataclass(frozen=True)
class Periods:
    """All periods from the first to the last; `undated` rows belong to none."""

    every: Every
    periods: Sequence[Period]
    undated: int


def plain(value: Any) -> Any:
    """A value of the database as JSON holds it; a number that JSON would round becomes text."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if abs(value) <= _SAFE else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Decimal):
        if value == value.to_integral_value():
            return plain(int(value))
        return float(value) if Decimal(repr(float(value))) == value else str(value)
    return value.isoformat(sep=" ") if isinstance(value, datetime) else str(value)


def _sum(value: str | None) -> str:
    return f"coalesce(sum({quoted(value)}), 0)" if value else "count(*)"


def groups_of(
    table: Table, column: str, value: str | None, language: Language, *, most: int, lowest: bool = False
) -> Groups:
    """Count the rows of each value of a column, or add up another column for each; the largest first, or the least."""
    sql = f"""
        WITH groups AS (
            SELECT CAST({quoted(column)} AS VARCHAR) AS name, count(*) AS rows, {_sum(value)} AS figure
            FROM {TABLE} GROUP BY 1
        ), ranked AS (
            SELECT *, row_number() OVER (ORDER BY figure {"ASC" if lowest else "DESC"}, name NULLS LAST) AS place
            FROM groups
        )
        SELECT name, rows, figure, count(*) OVER (), (SELECT {_sum(value)} FROM {TABLE}),
            coalesce(sum(figure) FILTER (place > {most}) OVER (), 0)
        FROM ranked QUALIFY place <= {most} ORDER BY place"""
    found = table.ask(sql, language=language)
    groups = [Group(name, rows, plain(figure)) for name, rows, figure, *_ in found]
    return Groups(groups, *map(plain, found[0][3:])) if found else Groups([], 0, 0)


def periods_of(table: Table, column: str, value: str | None, every: Every | None, language: Language) -> Periods:
    """Add up a column, or count the rows, for each day, week, month, quarter or year; those without rows are zero.

    Raises:
        ValueError: no row has a date, or there are more than `MOST_PERIODS` such periods.
    """
    when = quoted(column)
    first, last, undated = table.ask(
        f"SELECT min({when})::DATE, max({when})::DATE, count(*) - count({when}) FROM {TABLE}", language=language
    )[0]
    if first is None:
        raise ValueError(phrase("no_date", language, name=column))
    step = every or _fitting((last - first).days)
    start = f"date_trunc('{step}', {when})::TIMESTAMP"
    many = f"SELECT date_diff('{step}', min({start}), max({start})) FROM {TABLE}"
    if table.ask(many, language=language)[0][0] >= MOST_PERIODS:
        raise ValueError(phrase("many_periods", language, first=first, last=last, every=step, most=MOST_PERIODS))
    sql = f"""
        WITH found AS (
            SELECT {start} AS start, count(*) AS rows, {_sum(value)} AS figure
            FROM {TABLE} WHERE {when} IS NOT NULL GROUP BY 1
        ), starts AS (
            SELECT unnest(generate_series(min(start), max(start), INTERVAL 1 {step})) AS start FROM found
        )
        SELECT {_LABELS[step]}, coalesce(rows, 0), coalesce(figure, 0)
        FROM starts LEFT JOIN found USING (start) ORDER BY start"""
    found = table.ask(sql, language=language)
    return Periods(step, [Period(label, rows, plain(figure)) for label, rows, figure in found], undated)


def _fitting(days: int) -> Every:
    return "day" if days <= 45 else "month" if days <= 366 * 5 else "year"


@dataclass(frozen=True)
class Facts:
    """What is in a column; `least`, `most`, `mean` of numbers and dates, the most `common` values of text."""

    name: str
    kind: str
    missing: int
    distinct: int
    least: Any = None
    most: Any = None
    mean: float | None = None
    common: Sequence[tuple[str, int]] = ()


def facts_of(table: Table, name: str, language: Language) -> Facts:
    """The figures of a column."""
    filled, distinct = table.count(name, language)
    kind, column, missing = table.kind_of(name), quoted(name), table.rows - filled
    if kind == "text":
        common = _common(table, name, language) if 0 < distinct <= EXACT else ()
        return Facts(name, kind, missing, distinct, common=common)
    mean = f"avg({column})" if kind == "number" else "NULL"
    least, most, average = table.ask(f"SELECT min({column}), max({column}), {mean} FROM {TABLE}", language=language)[0]
    rounded = None if average is None else round(float(average), 4)
    return Facts(name, kind, missing, distinct, plain(least), plain(most), rounded)


def _common(table: Table, name: str, language: Language) -> list[tuple[str, int]]:
    """The three most frequent values and their rows."""
    value = quoted(name)
    sql = f"SELECT {value}, count(*) FROM {TABLE} WHERE {value} IS NOT NULL GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 3"
    return [(_truncated(value), count) for value, count in table.ask(sql, language=language)]


def sample_of(table: Table, names: Sequence[str], rows: int, language: Language) -> list[dict[str, Any]]:
    """The first rows, long texts truncated."""
    picked = ", ".join(map(quoted, names))
    found = table.ask(f"SELECT {picked} FROM {TABLE} LIMIT {rows}", language=language) if names else []
    return [{name: _truncated(plain(value)) for name, value in zip(names, row, strict=True)} for row in found]


def _truncated(value: Any) -> Any:
    return f"{value[:_CELL]}…" if isinstance(value, str) and len(value) > _CELL else value
