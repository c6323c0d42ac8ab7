"""What a chart shows: the groups or periods of a table, with their labels and figures."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from segue.prompts.data import phrase
from segue.prompts.language import Language

from .columns import column_named, date_column, group_column, value_column
from .questions import Every, Number, groups_of, periods_of
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
    figures: Sequence[Number]
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
        figures = [(at.period, at.figure) for at in periods_of(table, by, summed, every, language).periods]
    else:
        by, kind = group_column(table, named, language), kind or "bar"
        figures = _groups(table, by, summed, SLICES if kind == "pie" else BARS, language)
    what = summed or phrase("rows", language)
    title = phrase("chart_title", language, by=by, what=what)
    return Chart(kind, title, by, what, [label for label, _ in figures], [figure for _, figure in figures], summed)


def _groups(table: Table, by: str, value: str | None, most: int, language: Language) -> list[tuple[str, Number]]:
    found = groups_of(table, by, value, language, most=most)
    empty = phrase("empty", language)
    shown = [(empty if group.name is None else group.name, group.figure) for group in found.groups]
    if others := found.count - len(shown):
        shown.append((phrase("others", language, count=others), found.rest))
    return shown
