"""What a chart is to show: which groups or periods of a table, under which labels."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from .data_charts import BARS, SLICES, Chart, ChartKind
from .data_choosing import column_named, date_column, group_column, value_column
from .data_questions import Every, Groups, Number, groups_of, periods_of, plain
from .data_tables import Table
from .data_words import Language, told


@dataclass(frozen=True)
class Plot:
    """A chart with what it was made of: the columns, and each label's exact figure."""

    chart: Chart
    column: str
    value: str | None
    figures: Sequence[tuple[str, Number]]


def plotted(
    table: Table, kind: ChartKind | None, column: str | None, value: str | None, every: Every | None, language: Language
) -> Plot:
    """Sums by group, or over time; with the columns that suit where none are named.

    Raises:
        ValueError: a column is not there or not of the kind that is needed.
    """
    summed = value_column(table, value, language)
    named = column_named(table, column, language) if column else None
    if (named and table.kind_of(named) == "date") or (not named and (every or kind == "line")):
        by = date_column(table, named, language)
        periods = periods_of(table, by, summed, every, language).periods
        return _plot(kind or "line", by, summed, [(period.label, period.figure) for period in periods], language)
    by = group_column(table, named, language)
    most = SLICES if kind == "pie" else BARS
    return _plot(
        kind or "bar", by, summed, _labelled(groups_of(table, by, summed, language, most=most), language), language
    )


def _labelled(found: Groups, language: Language) -> list[tuple[str, Number]]:
    """The groups' labels and figures, those that are not shown one by one as the last of them."""
    empty = told(language, "（空）", "(empty)")
    shown = [(empty if group.name is None else group.name, group.figure) for group in found.groups]
    if rest := found.count - len(shown):
        left = Decimal(str(found.total)) - sum(Decimal(str(figure)) for _, figure in shown)
        shown.append((told(language, f"其他 {rest} 个", f"{rest} others"), plain(left)))
    return shown


def _plot(
    kind: ChartKind, by: str, summed: str | None, figures: Sequence[tuple[str, Number]], language: Language
) -> Plot:
    what = summed or told(language, "行数", "rows")
    title = told(language, f"按{by}的{what}", f"{what} by {by}")
    chart = Chart(kind, title, by, what, [label for label, _ in figures], [float(figure) for _, figure in figures])
    return Plot(chart, by, summed, figures)
