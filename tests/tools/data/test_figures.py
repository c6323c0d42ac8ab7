"""Every figure that the tools give of generated tables, against DuckDB's own and plain Python."""

import asyncio
import csv
import io
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from segue.tools.data.answers import Table, Tables, groups_of, periods_of
from segue.tools.data.sources import DataFile

from .folder import Folder

_NAMES = st.sampled_from(
    [
        None,
        "华东",
        "East",
        "east",
        " East",
        "a,b",
        'say "x"',
        "O'Neil",
        "line\nend",
        "a\r\n\tb",
        "😀",
        "%",
        "$x$",
        "NaN",
        "0",
    ]
)
_WHOLE, _CENTS = st.integers(-(2**40), 2**40), st.decimals(-(10**9), 10**9, places=2)
_HALVES = st.integers(-(2**30), 2**30).map(lambda half: half / 2)
"""Floating point whose sums are exact in any order."""
_VALUES = {"BIGINT": _WHOLE, "INTEGER": st.integers(-(2**31), 2**31 - 1), "DECIMAL(18, 2)": _CENTS, "DOUBLE": _HALVES}
_DAYS = st.none() | st.dates(date(2019, 12, 20), date(2024, 3, 10))
_MOMENTS = st.none() | st.datetimes(datetime(2019, 12, 20), datetime(2024, 3, 10)).map(
    lambda m: m.replace(microsecond=0)
)
_TIMES = {"DATE": _DAYS, "TIMESTAMP": _MOMENTS}
_STEPS = ("month", "quarter", "year")


@dataclass(frozen=True)
class Drawn:
    """A table: the types of its value and of its time, and its rows."""

    value: str
    time: str
    rows: list[tuple[Any, ...]]


@st.composite
def _tables(draw: Callable[..., Any]) -> Drawn:
    value, time = draw(st.sampled_from([*_VALUES])), draw(st.sampled_from([*_TIMES]))
    rows = st.tuples(_NAMES, st.none() | _VALUES[value], _TIMES[time])
    return Drawn(value, time, draw(st.lists(rows, min_size=1, max_size=40)))


class Reference:
    """DuckDB over the same file; blanks around a text do not count."""

    def __init__(self, drawn: Drawn, path: Path) -> None:
        import duckdb

        self._connection = duckdb.connect(":memory:")
        self._connection.execute(f'CREATE TABLE t ("group" VARCHAR, amount {drawn.value}, day {drawn.time})')
        self._connection.executemany("INSERT INTO t VALUES (?, ?, ?)", drawn.rows)
        self._connection.execute(f"COPY t TO '{path}' (FORMAT parquet)")
        text = 'nullif(trim("group"), \'\') AS "group"'
        self._connection.execute(f"CREATE VIEW file AS SELECT * REPLACE ({text}) FROM read_parquet('{path}')")

    def close(self) -> None:
        self._connection.close()

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self._connection.execute(sql).fetchall()
        return found

    def row(self, sql: str) -> tuple[Any, ...]:
        return self.rows(sql)[0]


def exact(figure: Any) -> Decimal:
    return Decimal(str(figure))


def figures(pairs: Any) -> dict[Any, Decimal]:
    return {name: exact(figure) for name, figure in pairs}


async def check_description(folder: Folder, own: Reference) -> None:
    found = await folder.call("describe")
    assert found["rows"] == own.row("SELECT count(*) FROM file")[0]
    for column in found["columns"]:
        name = f'"{column["name"]}"'
        counts = own.row(f"SELECT count(*) - count({name}), count(DISTINCT {name}) FROM file")
        assert (column["nulls"], column["distinct"]) == counts
        if column["type"] == "number" and "min" in column:
            least, most, mean = own.row(f"SELECT min({name}), max({name}), avg({name}) FROM file")
            assert (exact(column["min"]), exact(column["max"])) == (exact(least), exact(most))
            assert column["mean"] == round(float(mean), 4)
        if column["type"] == "date" and "min" in column:
            assert [column["min"], column["max"]] == [
                str(v) for v in own.row(f"SELECT min({name}), max({name}) FROM file")
            ]


async def check_groups(folder: Folder, own: Reference) -> None:
    for tool, figure in (("count_by", "count(*)"), ("sum_by", "coalesce(sum(amount), 0)")):
        more = {"value": "amount"} if tool == "sum_by" else {}
        found = await folder.call(tool, column="group", **more)
        wanted = figures(own.rows(f'SELECT "group", {figure} FROM file GROUP BY ALL'))
        assert figures((group["name"], group["figure"]) for group in found["groups"]) == wanted
        assert exact(found["total"]) == exact(own.row(f"SELECT {figure} FROM file")[0])
    for order, lowest in (("DESC", False), ("ASC", True)):
        top = await folder.call("top_n", column="group", value="amount", n=3, lowest=lowest)
        ranked = own.rows(f'SELECT coalesce(sum(amount), 0) AS s FROM file GROUP BY "group" ORDER BY s {order} LIMIT 3')
        assert [exact(group["figure"]) for group in top["groups"]] == [exact(sum_) for (sum_,) in ranked]


async def check_periods(folder: Folder, own: Reference) -> None:
    if own.row("SELECT count(day) FROM file") == (0,):
        return
    for step in _STEPS:
        found = await folder.call("trend", date_column="day", value="amount", every=step)
        sql = f"SELECT coalesce(sum(amount), 0) FROM file WHERE day IS NOT NULL GROUP BY date_trunc('{step}', day)"
        filled = [exact(each["figure"]) for each in found["periods"] if each["rows"]]
        assert filled == [exact(sum_) for (sum_,) in own.rows(f"{sql} ORDER BY date_trunc('{step}', day)")]
        assert all(each["figure"] == 0 for each in found["periods"] if not each["rows"])
        assert found["undated"] == own.row("SELECT count(*) - count(day) FROM file")[0]


async def check_chart(folder: Folder, own: Reference) -> None:
    drawn = await folder.call("chart", kind="bar", column="group", value="amount")
    sums = own.rows('SELECT coalesce(sum(amount), 0) FROM file GROUP BY "group" ORDER BY 1 DESC')
    plotted = [exact(item["figure"]) for item in drawn["plotted"]]
    largest = [exact(sum_) for (sum_,) in sums[:12]]
    rest = [sum((exact(sum_) for (sum_,) in sums[12:]), Decimal())] if sums[12:] else []
    assert plotted == largest + rest


async def check_query(folder: Folder, own: Reference) -> None:
    sql = 'SELECT "group", sum(amount) AS total FROM {} GROUP BY "group" ORDER BY 2 NULLS LAST, 1 NULLS LAST'
    found = await folder.call("query", sql=sql.format("sales"))
    wanted = [[name, None if total is None else exact(total)] for name, total in own.rows(sql.format("file"))]
    assert [[name, None if total is None else exact(total)] for name, total in found["rows"]] == wanted


@pytest.mark.slow
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(drawn=_tables())
def test_every_figure_is_duckdbs(drawn: Drawn) -> None:
    async def check(folder: Folder, own: Reference) -> None:
        for part in (check_description, check_groups, check_periods, check_chart, check_query):
            await part(folder, own)

    with tempfile.TemporaryDirectory() as path:
        folder = Folder(Path(path))
        with closing(Reference(drawn, folder.path / "sales.parquet")) as own:
            asyncio.run(check(folder, own))


# Sums and counts of any table, against plain Python.

_COLUMN_NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=8).map(
    str.strip
)
_KEYS = st.one_of(st.sampled_from(["华东", "East", "a,b", 'say "x"', "O'Neil", "line\nend", "😀"]), _COLUMN_NAMES)
_AMOUNTS = st.one_of(st.none(), st.integers(-(10**12), 10**12))
_ROWS = st.lists(st.tuples(st.one_of(st.just(""), _KEYS), _AMOUNTS), min_size=1, max_size=30)


def table_of(folder: str, rows: list[list[str]]) -> Table:
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    path = Path(folder) / "x.csv"
    path.write_bytes(out.getvalue().encode())
    return Tables().open(DataFile("x.csv", path, path.stat().st_size, 0))


def written(cents: int | None, thousands: bool) -> str:
    if cents is None:
        return ""
    return f"{Decimal(cents) / 100:{',' if thousands else ''}.2f}"


@settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow])
@given(rows=_ROWS, thousands=st.booleans())
def test_sums_and_counts_of_any_table(rows: list[tuple[str, int | None]], thousands: bool) -> None:
    counts: Counter[str | None] = Counter()
    sums: dict[str | None, Decimal] = defaultdict(Decimal)
    for key, cents in rows:
        name = key.strip(" ") or None
        counts[name] += 1
        sums[name] += Decimal(cents or 0) / 100
    lines = [["k", "v"], ["k", "0.01"], *([key, written(cents, thousands)] for key, cents in rows)]
    counts["k"] += 1
    sums["k"] += Decimal("0.01")
    with tempfile.TemporaryDirectory() as folder:
        table = table_of(folder, lines)
    found = groups_of(table, "k", None, "en", most=100)
    assert {group["name"]: group["figure"] for group in found["groups"]} == counts
    assert [group["figure"] for group in found["groups"]] == sorted(counts.values(), reverse=True)
    summed = groups_of(table, "k", "v", "en", most=100)
    assert {group["name"]: Decimal(str(group["figure"])) for group in summed["groups"]} == sums
    assert (summed["count"], Decimal(str(summed["total"]))) == (len(sums), sum(sums.values()))


@settings(max_examples=5, suppress_health_check=[HealthCheck.too_slow])
@given(rows=st.lists(st.tuples(st.dates(date(2015, 1, 1), date(2024, 12, 31)), st.integers(0, 9)), min_size=1))
def test_months_of_any_dates(rows: list[tuple]) -> None:
    sums: Counter[str] = Counter()
    for day, value in rows:
        sums[f"{day:%Y-%m}"] += value
    with tempfile.TemporaryDirectory() as folder:
        table = table_of(folder, [["d", "v"], *([day.isoformat(), str(value)] for day, value in rows)])
    found = periods_of(table, "d", "v", "month", "en")["periods"]
    labels = [period["period"] for period in found]
    assert {period["period"]: period["figure"] for period in found if period["rows"]} == sums
    assert labels == sorted(set(labels))
    assert len(labels) == 1 + 12 * (int(labels[-1][:4]) - int(labels[0][:4])) + int(labels[-1][5:]) - int(labels[0][5:])
