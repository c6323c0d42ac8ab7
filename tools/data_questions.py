"""What the data tools find out of a table: groups, periods and the columns' figures, as plain values."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal

from .data_tables import TABLE, Table
from .data_typing import quoted
from .data_words import Language, told

Every = Literal["day", "week", "month", "quarter", "year"]
Number = int | float | str
MOST_PERIODS = 120
_SAFE = 2**53
_STEPS = {"day": 1, "week": 7, "month": 31, "quarter": 92, "year": 366}


@dataclass(frozen=True)
class Group:
    """A value of the grouping column, how many rows have it, and their sum; without a value column the count."""

    name: str | None
    rows: int
    figure: Number


@dataclass(frozen=True)
class Groups:
    """The first of `count` groups, and what all of them come to together."""

    groups: Sequence[Group]
    count: int
    total: Number


@dataclass(frozen=True)
class Period:
    """A stretch of time: how it is called, and what is summed up in it."""

    label: str
    rows: int
    figure: Number


@dataclass(frozen=True)
class Periods:
    """Stretches of time without a gap, in order; `undated` rows belong to none."""

    every: Every
    periods: Sequence[Period]
    undated: int


def plain(value: Any) -> Any:
    """A value of the database as JSON holds it: exact where a number of 64 bits is, else as text."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if abs(value) <= _SAFE else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Decimal):
        return _of_decimal(value)
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    return value.isoformat() if isinstance(value, date) else str(value)


def _of_decimal(value: Decimal) -> Number:
    if value == value.to_integral_value():
        return int(value) if abs(value) <= _SAFE else str(int(value))
    near = float(value)
    return near if Decimal(repr(near)) == value else str(value)


def groups_of(
    table: Table, column: str, value: str | None, language: Language, *, most: int, lowest: bool = False
) -> Groups:
    """Count the rows of each value of a column, or add up another column for each; the largest first, or the least."""
    figure, way = f"coalesce(sum({quoted(value)}), 0)" if value else "count(*)", "ASC" if lowest else "DESC"
    sql = (
        f"SELECT CAST({quoted(column)} AS VARCHAR), count(*), {figure}, count(*) OVER (), "
        f"(SELECT {figure} FROM {TABLE}) FROM {TABLE} GROUP BY 1 ORDER BY 3 {way}, 1 NULLS LAST LIMIT {most}"
    )
    found = table.ask(sql, language=language)
    groups = [Group(name, rows, plain(figure)) for name, rows, figure, *_ in found]
    return Groups(groups, found[0][3], plain(found[0][4])) if found else Groups([], 0, 0)


def periods_of(table: Table, column: str, value: str | None, every: Every | None, language: Language) -> Periods:
    """Add up a column, or count the rows, for each day, week, month, quarter or year; those without rows are zero.

    Raises:
        ValueError: no row has a date, or there are more than `MOST_PERIODS` such periods.
    """
    when = quoted(column)
    sql = f"SELECT min({when}), max({when}), count(*) - count({when}) FROM {TABLE}"
    first, last, undated = table.ask(sql, language=language)[0]
    if first is None:
        raise ValueError(told(language, f"列「{column}」里没有日期。", f"The column «{column}» holds no date."))
    span = (_day(last) - _day(first)).days
    step = every or _fitting(span)
    if span // _STEPS[step] > MOST_PERIODS:
        raise ValueError(
            told(
                language,
                f"从 {_day(first)} 到 {_day(last)} 按 {step} 超过 {MOST_PERIODS} 段：请用更长的周期。",
                f"From {_day(first)} to {_day(last)} there are more than {MOST_PERIODS} periods of a {step}: "
                "ask for longer ones.",
            )
        )
    figure = f"coalesce(sum({quoted(value)}), 0)" if value else "count(*)"
    rows = table.ask(
        f"SELECT CAST(date_trunc('{step}', {when}) AS DATE), count(*), {figure} FROM {TABLE} "
        f"WHERE {when} IS NOT NULL GROUP BY 1",
        language=language,
    )
    found = {start: (count, plain(figure)) for start, count, figure in rows}
    starts = list(_starts(min(found), max(found), step))
    return Periods(step, [Period(_label(start, step), *found.get(start, (0, 0))) for start in starts], undated)


def _day(value: date | datetime) -> date:
    return value.date() if isinstance(value, datetime) else value


def _fitting(days: int) -> Every:
    return "day" if days <= 45 else "month" if days <= 366 * 5 else "year"


def _starts(first: date, last: date, every: Every) -> Iterator[date]:
    at = first
    while at < last:
        yield at
        ahead = at + timedelta(days=_STEPS[every])
        at = ahead if every in ("day", "week") else ahead.replace(day=1)
        at = at.replace(month=1) if every == "year" else at
    yield last


def _label(start: date, every: Every) -> str:
    if every == "year":
        return f"{start.year:04}"
    if every == "quarter":
        return f"{start.year:04}-Q{(start.month + 2) // 3}"
    return f"{start.year:04}-{start.month:02}" if every == "month" else start.isoformat()


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


def facts_of(table: Table, names: Sequence[str], language: Language) -> list[Facts]:
    """The figures of columns."""
    distinct = table.distinct(names)
    return [_facts(table, name, distinct[name], language) for name in names]


def _facts(table: Table, name: str, distinct: int, language: Language) -> Facts:
    kind, column = table.kind_of(name), quoted(name)
    bounds = "NULL, NULL" if kind == "text" else f"min({column}), max({column})"
    mean = f"avg({column})" if kind == "number" else "NULL"
    sql = f"SELECT count({column}), {bounds}, {mean} FROM {TABLE}"
    there, least, most, average = table.ask(sql, language=language)[0]
    kept = None if average is None else round(float(average), 4)
    common = _common(table, column, language) if kind == "text" and there else []
    return Facts(name, kind, table.rows - there, distinct, plain(least), plain(most), kept, common)


def _common(table: Table, column: str, language: Language) -> list[tuple[str, int]]:
    """The three most frequent values and their rows."""
    sql = f"SELECT {column}, count(*) FROM {TABLE} WHERE {column} IS NOT NULL GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 3"
    return [(_cut(value), count) for value, count in table.ask(sql, language=language)]


def sample_of(table: Table, names: Sequence[str], rows: int, language: Language) -> list[dict[str, Any]]:
    """The first rows, long texts cut."""
    picked = ", ".join(map(quoted, names))
    found = table.ask(f"SELECT {picked} FROM {TABLE} LIMIT {rows}", language=language) if names else []
    return [{name: _cut(plain(value)) for name, value in zip(names, row, strict=True)} for row in found]


def _cut(value: Any) -> Any:
    return f"{value[:40]}…" if isinstance(value, str) and len(value) > 40 else value
