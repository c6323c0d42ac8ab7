"""Queries of a table: its columns' figures, groups and periods, as JSON."""

import math
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal, get_args

from segue.prompts.data import phrase
from segue.prompts.language import Language

from .engine import quoted
from .tables import EXACT, TABLE, Table

Result = dict[str, Any]
Every = Literal["day", "week", "month", "quarter", "year"]
Measure = Literal["sum", "average", "count"]
_LENGTHS: tuple[Every, ...] = get_args(Every)
"""From the shortest period to the longest."""
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


def _figure(value: str | None, measure: Measure) -> str:
    if value is None:
        return "count(*)"
    return f"avg({quoted(value)})" if measure == "average" else f"coalesce(sum({quoted(value)}), 0)"


def groups_of(
    table: Table,
    column: str,
    value: str | None,
    language: Language,
    *,
    most: int,
    lowest: bool = False,
    measure: Measure = "sum",
) -> Result:
    """Count the rows of each value of a column, or add up another column for each; the largest first, or the least.

    `groups` are the first of `count`; `rest` is the sum of the others' figures, `total` the figure of all rows. An
    average is None where a group has no value.
    """
    figure = _figure(value, measure)
    sql = f"""
        WITH groups AS (
            SELECT CAST({quoted(column)} AS VARCHAR) AS name, count(*) AS rows, {figure} AS figure
            FROM {TABLE} GROUP BY 1
        ), ranked AS (
            SELECT *, row_number() OVER (
                ORDER BY figure {"ASC" if lowest else "DESC"} NULLS LAST, name NULLS LAST
            ) AS place
            FROM groups
        )
        SELECT name, rows, figure, count(*) OVER (), (SELECT {figure} FROM {TABLE}),
            coalesce(sum(figure) FILTER (place > {most}) OVER (), 0)
        FROM ranked QUALIFY place <= {most} ORDER BY place"""
    found = table.ask(sql, language=language)
    groups = [{"name": name, "rows": rows, "figure": plain(figure)} for name, rows, figure, *_ in found]
    count, total, rest = map(plain, found[0][3:]) if found else (0, 0, 0)
    return {"groups": groups, "count": count, "total": total, "rest": rest}


def periods_of(
    table: Table, column: str, value: str | None, every: Every | None, language: Language, measure: Measure = "sum"
) -> Result:
    """Add up a column, or count the rows, for each day, week, month, quarter or year; those without rows are zero.

    The average of a period without values is None.

    Periods are not shorter than those of the dates: figures of months are not spread over days. `undated` rows belong
    to no period.

    Raises:
        ValueError: no row has a date, or there are more than `MOST_PERIODS` such periods.
    """
    when = quoted(column)
    first, last, undated = table.ask(
        f"SELECT min({when})::DATE, max({when})::DATE, count(*) - count({when}) FROM {TABLE}", language=language
    )[0]
    if first is None:
        raise ValueError(phrase("no_date", language, name=column))
    own = _period_of(table, when, 3 if every else 2, language)
    step = max(every or _fitting((last - first).days), own, key=_LENGTHS.index)
    start = f"date_trunc('{step}', {when})::TIMESTAMP"
    many = f"SELECT date_diff('{step}', min({start}), max({start})) FROM {TABLE}"
    if table.ask(many, language=language)[0][0] >= MOST_PERIODS:
        raise ValueError(phrase("many_periods", language, first=first, last=last, every=step, most=MOST_PERIODS))
    averaged = value is not None and measure == "average"
    sql = f"""
        WITH found AS (
            SELECT {start} AS start, count(*) AS rows, {_figure(value, measure)} AS figure
            FROM {TABLE} WHERE {when} IS NOT NULL GROUP BY 1
        ), starts AS (
            SELECT unnest(generate_series(min(start), max(start), INTERVAL 1 {step})) AS start FROM found
        )
        SELECT {_LABELS[step]}, coalesce(rows, 0), {"figure" if averaged else "coalesce(figure, 0)"}
        FROM starts LEFT JOIN found USING (start) ORDER BY start"""
    rows = table.ask(sql, language=language)
    periods = [{"period": label, "rows": count, "figure": plain(figure)} for label, count, figure in rows]
    return {"every": step, "periods": periods, "undated": undated}


def _period_of(table: Table, when: str, least: int, language: Language) -> Every:
    """The period that the dates themselves have: month where each is the first day of one, or each the last.

    Fewer than `least` different dates, and those with a time of day, have none but days.
    """
    months, days = "date_diff('month', first.day, days.day)", "date_diff('day', first.day, days.day)"
    sql = f"""
        WITH days AS (SELECT DISTINCT {when}::DATE AS day FROM {TABLE} WHERE {when} IS NOT NULL),
            first AS (SELECT min(day) AS day FROM days)
        SELECT count(*) >= {least} AND (SELECT bool_and({when} = {when}::DATE) FROM {TABLE}),
            bool_and(day(days.day) = 1) OR bool_and(days.day = last_day(days.day)),
            bool_and({months} % 12 = 0), bool_and({months} % 3 = 0), bool_and({days} % 7 = 0)
        FROM days, first"""
    several, monthly, yearly, quarterly, weekly = table.ask(sql, language=language)[0]
    if several and monthly:
        return "year" if yearly else "quarter" if quarterly else "month"
    return "week" if several and weekly else "day"


def _fitting(days: int) -> Every:
    return "day" if days <= 45 else "month" if days <= 366 * 5 else "year"


def facts_of(table: Table, name: str, language: Language) -> Result:
    """A column's type and counts; the range and the mean of numbers and dates, the most common values of text."""
    filled, distinct = table.count(name, language)
    kind, column = table.kind_of(name), quoted(name)
    facts = {"name": name, "type": kind, "nulls": table.rows - filled, "distinct": distinct}
    if kind == "text":
        sql = f"SELECT {column}, count(*) FROM {TABLE} WHERE {column} IS NOT NULL GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 3"
        found = table.ask(sql, language=language) if 0 < distinct <= EXACT else []
        return {**facts, "common": [{"value": _truncated(v), "rows": rows} for v, rows in found]} if found else facts
    mean = f"avg({column})" if kind == "number" else "NULL"
    least, most, average = table.ask(f"SELECT min({column}), max({column}), {mean} FROM {TABLE}", language=language)[0]
    spread = {} if least is None else {"min": plain(least), "max": plain(most)}
    return {**facts, **spread, **({} if average is None else {"mean": round(float(average), 4)})}


def sample_of(table: Table, names: Sequence[str], rows: int, language: Language) -> list[Result]:
    """The first rows, long texts truncated."""
    picked = ", ".join(map(quoted, names))
    found = table.ask(f"SELECT {picked} FROM {TABLE} LIMIT {rows}", language=language) if names else []
    return [{name: _truncated(plain(value)) for name, value in zip(names, row, strict=True)} for row in found]


def _truncated(value: Any) -> Any:
    return f"{value[:_CELL]}…" if isinstance(value, str) and len(value) > _CELL else value
