"""Sums and counts of any table, against plain Python."""

import csv
import io
import tempfile
from collections import Counter, defaultdict
from datetime import date
from decimal import Decimal
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from segue.tools.data.answers import Table, Tables, groups_of, periods_of
from segue.tools.data.sources import DataFile

_NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=8).map(str.strip)
_KEYS = st.one_of(st.sampled_from(["华东", "East", "a,b", 'say "x"', "O'Neil", "line\nend", "😀"]), _NAMES)
_CENTS = st.one_of(st.none(), st.integers(-(10**12), 10**12))
_ROWS = st.lists(st.tuples(st.one_of(st.just(""), _KEYS), _CENTS), min_size=1, max_size=30)


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
