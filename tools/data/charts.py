"""The contents of a chart: the groups or periods of a table, with their labels and figures."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from segue.prompts.data import phrase
from segue.prompts.language import Language

from .columns import column_named, date_column, group_column, value_column
from .questions import Every, groups_of, periods_of
from .tables import Table

ChartKind = Literal["bar", "line", "pie"]
BARS, SLICES = 12, 8
"""Groups that are drawn one by one; the others are drawn as one more."""


@dataclass(frozen=True)
class Chart:
    """A chart's kind, title, axes and figures; `value` is the column that was added up, if there is one."""

    kind: ChartKind
    title: str
    by: str
    what: str
    labels: Sequence[str]
    figures: Sequence[int | float | str]
    value: str | None = None


def chart_of(
    table: Table, kind: ChartKind | None, column: str | None, value: str | None, every: Every | None, language: Language
) -> Chart:
    """Sums by group, or over time; of the columns that suit where none are named.

    Raises:
        ValueError: a column does not exist or holds the wrong type.
    """
    summed = value_column(table, value, language)
    named = column_named(table, column, language) if column else None
    if (named and table.kind_of(named) == "date") or (not named and (every or kind == "line")):
        by, kind = date_column(table, named, language), kind or "line"
        drawn = [(at["period"], at["figure"]) for at in periods_of(table, by, summed, every, language)["periods"]]
    else:
        by, kind = group_column(table, named, language), kind or "bar"
        drawn = _groups(table, by, summed, SLICES if kind == "pie" else BARS, language)
    what = summed or phrase("rows", language)
    title = phrase("chart_title", language, by=by, what=what)
    return Chart(kind, title, by, what, [label for label, _ in drawn], [figure for _, figure in drawn], summed)


def _groups(table: Table, by: str, value: str | None, most: int, language: Language) -> list[tuple[str, Any]]:
    found = groups_of(table, by, value, language, most=most)
    empty = phrase("empty", language)
    drawn = [(empty if group["name"] is None else group["name"], group["figure"]) for group in found["groups"]]
    others = found["count"] - len(drawn)
    return [*drawn, (phrase("others", language, count=others), found["rest"])] if others else drawn
