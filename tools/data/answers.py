"""Questions to a table, their answers and summaries."""

import atexit
import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, get_args

from segue.prompts.catalogue import Language, data_text, listing

from .sources import NUMBER, Column, DataFile, Kind, connect, limited, load, lock, quoted
from .vocabulary import MAIN_VALUES, column_of, family_of, nearest

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


# Results as a few lines of Markdown that a person can read on their own.

ResultFields = Mapping[str, Any]
SHOWN = 12
"""Lines of groups, periods or columns in a summary; a result holds more."""


def figure(value: Any) -> str:
    """A number as people write it: 1,234,567 or 1,234.50."""
    if value is None:
        return "—"
    if isinstance(value, str):
        return value
    if isinstance(value, int) or float(value).is_integer():
        return f"{int(value):,}"
    return f"{value:,.2f}" if abs(value) >= 1 else f"{value:.4g}"


def cell(text: Any, most: int = 40) -> str:
    """A value in a line or a table of Markdown: on one line, and never as markup."""
    shown = " ".join(str(text).split())
    shown = shown if len(shown) <= most else f"{shown[:most]}…"
    for sign in "\\`*[]<>|":
        shown = shown.replace(sign, f"\\{sign}")
    return shown


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---" for _ in heads], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _name(name: str | None, language: Language) -> str:
    return data_text("empty", language) if name is None else cell(name)


def _share(value: Any, total: Any) -> str:
    """What part of the total a figure is; empty if that is not from 0 to 1."""
    if not float(total):
        return ""
    part = float(value) / float(total)
    return f"{part:.1%}" if 0 <= part <= 1 else ""


def described(result: ResultFields, language: Language) -> str:
    """What was added up, averaged or counted."""
    if result["value"] is None:
        return data_text("rows", language)
    what = cell(result["value"])
    return data_text("average_of", language, what=what) if is_average(result) else what


def is_average(result: ResultFields) -> bool:
    return result.get("measure") == "average" and result["value"] is not None


def describe_summary(result: ResultFields, language: Language) -> str:
    columns, more = result["columns"], result["more_columns"]
    head = data_text(
        "describe", language, file=cell(result["file"]), rows=result["rows"], columns=len(columns) + len(more)
    )
    table = _table(
        data_text("describe_heads", language).split(","), [_column_row(column, language) for column in columns[:SHOWN]]
    )
    rest = [column["name"] for column in columns[SHOWN:]] + list(more)
    also = data_text("also", language, names=cell(listing(rest, language), 400)) if rest else ""
    return f"{head}\n\n{table}{also}"


def _column_row(column: ResultFields, language: Language) -> list[str]:
    common = ", ".join(f"{cell(item['value'], 20)} ({item['rows']:,})" for item in column.get("common", ()))
    spread = f"{figure(column['min'])} – {figure(column['max'])}" if "min" in column else ""
    counts = [f"{column['nulls']:,}", f"{column['distinct']:,}"]
    kind = data_text(f"{column['type']}_type", language)
    return [cell(column["name"]), kind, *counts, spread, figure(column["mean"]) if "mean" in column else common]


def overview_summary(files: Sequence[ResultFields], language: Language) -> str:
    lines = [f"- **{cell(file['file'])}**: {_columns_or_error(file, language)}" for file in files]
    return "\n".join([data_text("files", language), "", *lines])


def _columns_or_error(file: ResultFields, language: Language) -> str:
    return cell(file["error"] if "error" in file else listing(file["columns"], language), 400)


def groups_summary(result: ResultFields, language: Language) -> str:
    """All groups' figures and shares, and the total."""
    by, what, total = cell(result["column"]), described(result, language), result["total"]
    file, rows = cell(result["file"]), result["rows"]
    name = "group_averages" if is_average(result) else "groups"
    head = data_text(name, language, by=by, what=what, file=file, rows=rows, total=figure(total), count=result["count"])
    groups = result["groups"][:SHOWN]
    heads, body = [by, what], [[_name(group["name"], language), figure(group["figure"])] for group in groups]
    if not is_average(result):
        heads.append(data_text("share", language))
        body = [[*line, _share(group["figure"], total)] for line, group in zip(body, groups, strict=True)]
    rest = result["count"] - len(groups)
    more = data_text("more_groups", language, count=rest) if rest else ""
    return f"{head}\n\n{_table(heads, body)}{more}"


def top_summary(result: ResultFields, language: Language) -> str:
    """The largest or smallest groups, in order."""
    groups, total = result["groups"], 0 if is_average(result) else result["total"]
    if not groups:
        return data_text("no_rows", language, file=cell(result["file"]))
    head = data_text(
        "lowest" if result["lowest"] else "highest",
        language,
        what=described(result, language),
        by=cell(result["column"]),
        best=_name(groups[0]["name"], language),
        figure=figure(groups[0]["figure"]),
        count=result["count"],
        shown=len(groups),
    )
    lines = [f"{place}. {_ranked(group, total, language)}" for place, group in enumerate(groups, start=1)]
    return "\n".join([head, "", *lines])


def _ranked(group: ResultFields, total: Any, language: Language) -> str:
    share = _share(group["figure"], total)
    return f"{_name(group['name'], language)}: {figure(group['figure'])}" + (f" ({share})" if share else "")


def trend_summary(result: ResultFields, language: Language) -> str:
    """The periods' figures, the highest and the lowest, and how the last one differs from the first."""
    known = [period for period in result["periods"] if period["figure"] is not None]
    what, periods = described(result, language), result["periods"]
    every = data_text(result["every"], language)
    by, file = cell(result["date_column"]), cell(result["file"])
    head = data_text("trend", language, what=what, every=every, file=file, by=by)
    shown = periods
    if len(periods) > 2 * SHOWN:
        shown = [*periods[:SHOWN], {"period": "…", "figure": "…"}, *periods[-SHOWN:]]
    body = [[period["period"], figure(period["figure"])] for period in shown]
    remarks = _extremes(known, language) if known else ""
    if result["is_longer"]:
        remarks += data_text("no_shorter", language)
    if result["undated"]:
        remarks += data_text("undated", language, count=result["undated"])
    return "\n\n".join([head, remarks, _table([data_text("period", language), what], body)])


def _extremes(periods: Sequence[ResultFields], language: Language) -> str:
    high = max(periods, key=lambda period: float(period["figure"]))
    low = min(periods, key=lambda period: float(period["figure"]))
    first, last = periods[0], periods[-1]
    before, after = float(first["figure"]), float(last["figure"])
    return data_text(
        "extremes",
        language,
        high=high["period"],
        most=figure(high["figure"]),
        low=low["period"],
        least=figure(low["figure"]),
        first=first["period"],
        last=last["period"],
        before=figure(first["figure"]),
        after=figure(last["figure"]),
        change=f" ({(after - before) / before:+.1%})" if before > 0 else "",
    )


def query_summary(result: ResultFields, language: Language) -> str:
    rows = result["rows"]
    if not rows:
        return data_text("no_result", language)
    body = [["—" if value is None else cell(value) for value in row] for row in rows[: 2 * SHOWN]]
    more = data_text("more_rows", language) if result["more"] or len(rows) > 2 * SHOWN else ""
    return _table([cell(name) for name in result["columns"]], body) + more


def chart_summary(result: ResultFields, language: Language) -> str:
    kind, what, by = data_text(result["kind"], language), described(result, language), cell(result["column"])
    width, height = result["size"]
    head = data_text("chart", language, kind=kind, what=what, by=by, width=width, height=height, path=result["path"])
    return head + (data_text("no_glyphs", language) if result["lacks_characters"] else "")


# The tables of data files, cached for the next question, and the columns that a question names.

TABLE = "data"
KEPT = 2
"""Tables that stay in memory."""
EXACT = 100_000
"""Different values up to which they are counted exactly; more would not fit into memory."""


@dataclass(frozen=True)
class Table:
    """A file that was read: its columns, its rows, and a way to ask about them."""

    file: DataFile
    columns: tuple[Column, ...]
    rows: int
    _connection: "DuckDBPyConnection" = field(repr=False, compare=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)
    _counts: dict[str, tuple[int, int]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    def of_kind(self, *kinds: Kind) -> list[str]:
        return [column.name for column in self.columns if column.kind in kinds]

    def kind_of(self, name: str) -> Kind:
        return next(column.kind for column in self.columns if column.name == name)

    def ask(self, sql: str, values: Sequence[Any] = (), language: Language = "en") -> list[tuple[Any, ...]]:
        """The rows of a query about the table `data`; several threads may ask at once."""
        with self._lock:
            cursor = self._connection.cursor()
        with limited(cursor, language):
            return cursor.execute(sql, list(values)).fetchall()

    def count(self, name: str, language: Language = "en") -> tuple[int, int]:
        """How many values a column has, and how many different ones: beyond `EXACT` an estimate. Counted once."""
        if name not in self._counts:
            column = quoted(name)
            sql = f"SELECT count({column}), approx_count_distinct({column}) FROM {TABLE}"
            filled, distinct = self.ask(sql, language=language)[0]
            if distinct <= EXACT:
                distinct = self.ask(f"SELECT count(DISTINCT {column}) FROM {TABLE}", language=language)[0][0]
            self._counts[name] = filled, distinct
        return self._counts[name]


class Tables:
    """The most recently used tables; each version of a file is read once, also by concurrent callers."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._lock = threading.Lock()
        self._tables: dict[DataFile, Table] = {}

    def open(self, file: DataFile, language: Language = "en") -> Table:
        """The file's table."""
        with self._lock:
            table = self._tables.pop(file, None) or _opened(file, language)
            self._tables[file] = table
            for oldest in [*self._tables][: -self._kept]:
                del self._tables[oldest]
            return table

    def clear(self) -> None:
        """Drop every table."""
        with self._lock:
            self._tables.clear()


def _opened(file: DataFile, language: Language) -> Table:
    connection = connect()
    columns = load(connection, file, TABLE, language)
    lock(connection)
    counted = connection.execute(f"SELECT count(*) FROM {TABLE}").fetchone()
    return Table(file, columns, counted[0] if counted else 0, connection)


TABLES = Tables()
atexit.register(TABLES.clear)  # the engine complains of connections that outlive it


FEW = 50
"""Different values up to which a column is one to group by."""
CANDIDATES = 64
"""Columns of text among which one to group by is searched for."""
_NO_VALUES = ("id", "no", "编号", "号", "码", "序号", "年", "year", "month", "月")
"""Ends of the names of numbers that are not worth adding up."""


def column_named(table: Table, requested: str, language: Language) -> str:
    """The column that a name means."""
    if found := column_of(requested, table.names):
        return found
    hint, names = nearest(requested, table.names, language), listing(table.names, language)
    raise ValueError(
        data_text("no_column", language, name=requested[:80], file=table.file.name, hint=hint, names=names)
    )


def value_column(table: Table, requested: str | None, language: Language) -> str | None:
    """The column of numbers to add up; None if none was requested and there is none."""
    numeric = table.of_kind("number")
    if not requested:
        return _main_value(numeric)
    name = column_named(table, requested, language)
    if name in numeric:
        return name
    raise ValueError(_wrong_type(table, name, "number", language) + _not_numbers(table, name, language))


def _main_value(numeric: Sequence[str]) -> str | None:
    for family in MAIN_VALUES:
        if found := next((name for name in numeric if family_of(name) == family), None):
            return found
    worth = [name for name in numeric if not name.casefold().endswith(_NO_VALUES)]
    return worth[-1] if worth else None


def group_column(table: Table, requested: str | None, language: Language, *, many: bool = False) -> str:
    """The column to group by; of those that suit the one with the fewest values, or the one with the most."""
    if requested:
        return column_named(table, requested, language)
    counts = {name: table.count(name, language)[1] for name in table.of_kind("text")[:CANDIDATES]}
    fit = [name for name, count in counts.items() if 1 < count <= FEW and (count < table.rows or table.rows < FEW)]
    repeated = fit or [name for name, count in counts.items() if count < table.rows] or list(counts)
    if repeated:
        return (max if many else min)(repeated, key=counts.__getitem__)
    raise ValueError(data_text("which_column", language, names=listing(table.names, language)))


def date_column(table: Table, requested: str | None, language: Language) -> str:
    """The column of dates."""
    dates = table.of_kind("date")
    if requested:
        name = column_named(table, requested, language)
        if name in dates:
            return name
        raise ValueError(_wrong_type(table, name, "date", language))
    if dates:
        return next((name for name in dates if family_of(name) == "date"), dates[0])
    raise ValueError(data_text("no_dates", language, file=table.file.name, names=listing(table.names, language)))


def _wrong_type(table: Table, name: str, requested: Kind, language: Language) -> str:
    found, names = data_text(table.kind_of(name), language), listing(table.of_kind(requested), language)
    return data_text(
        "wrong_type", language, name=name, found=found, requested=data_text(requested, language), names=names
    )


def _not_numbers(table: Table, name: str, language: Language) -> str:
    """How many values prevent a column of text from being numbers, if most are."""
    if table.kind_of(name) != "text":
        return ""
    odd = f"FILTER (NOT regexp_full_match({quoted(name)}, '{NUMBER}'))"
    sql = f"SELECT count({quoted(name)}), count(*) {odd}, min({quoted(name)}) {odd} FROM {TABLE}"
    filled, bad, sample = table.ask(sql, language=language)[0]
    return data_text("not_numbers", language, count=bad, value=sample[:40]) if 0 < bad <= filled // 2 else ""


# Queries of a table: its columns' figures, groups and periods, as JSON.

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
    """
    when = quoted(column)
    first, last, undated = table.ask(
        f"SELECT min({when})::DATE, max({when})::DATE, count(*) - count({when}) FROM {TABLE}", language=language
    )[0]
    if first is None:
        raise ValueError(data_text("no_date", language, name=column))
    own = _period_of(table, when, 3 if every else 2, language)
    step = max(every or _fitting((last - first).days), own, key=_LENGTHS.index)
    start = f"date_trunc('{step}', {when})::TIMESTAMP"
    many = f"SELECT date_diff('{step}', min({start}), max({start})) FROM {TABLE}"
    if table.ask(many, language=language)[0][0] >= MOST_PERIODS:
        raise ValueError(data_text("many_periods", language, first=first, last=last, every=step, most=MOST_PERIODS))
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
