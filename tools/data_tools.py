"""The data tools: what is in a folder's CSV and Parquet files, in figures, summaries and charts.

They read that folder and nothing else; only `chart` writes, into a folder of its own. Every result has a `summary` in
Markdown. An unknown file or column is a ValueError that names the known ones.
"""

from typing import Any

from segue.tools.registry import tool

from .data_arguments import (
    EVERY_WORDS,
    KIND_WORDS,
    DateColumn,
    EveryPeriod,
    FileName,
    GroupColumn,
    HowMany,
    Kind,
    Lowest,
    ReaderLanguage,
    Sql,
    ValueColumn,
)
from .data_charts import draw, need_matplotlib
from .data_choosing import date_column as column_of_dates
from .data_choosing import group_column, value_column
from .data_files import DataFolder
from .data_plotting import plotted
from .data_query import run_query
from .data_questions import periods_of
from .data_results import described, grouped, opened, overview, ranked, shown_path
from .data_summaries import chart_summary, query_summary, trend_summary
from .data_words import told

ANALYSIS = (
    *("分析", "数据报告", "分析报告", "报表"),
    *("analyse", "analyze", "analysing", "analyzing", "analysis", "insights", "report on"),
)
"""Words of a request for everything, which calls for most of the tools together."""


@tool(
    read_only=True,
    idempotent=True,
    title="数据概况 · Overview",
    keywords=[
        *ANALYSIS,
        *(
            "概况",
            "概览",
            "描述",
            "有哪些列",
            "哪些字段",
            "有什么列",
            "列名",
            "多少行",
            "几行",
            "什么数据",
            "哪些数据",
            "数据结构",
        ),
        *(
            "overview",
            "describe",
            "profile",
            "which columns",
            "what columns",
            "how many rows",
            "what data",
            "structure",
        ),
    ],
)
def describe(file: FileName = None, language: ReaderLanguage = None, *, folder: DataFolder) -> dict[str, Any]:
    """Describe a file: rows, and each column's type, missing and distinct values, range, mean and usual values.

    Start with this one: it says how the columns are called. Where there are several files and none is named, it lists
    them with their columns.
    """
    if not file and len(folder.files()) > 1:
        return overview(folder, language or "en")
    return described(*opened(folder, file, (), language))


@tool(
    read_only=True,
    idempotent=True,
    title="分组计数 · Count by group",
    keywords=[
        *(
            "多少个",
            "多少条",
            "多少笔",
            "多少单",
            "几条",
            "计数",
            "个数",
            "次数",
            "笔数",
            "单数",
            "条数",
            "频次",
            "分布",
        ),
        *("count", "how many", "number of", "frequency", "distribution"),
    ],
)
def count_by(
    file: FileName = None, column: GroupColumn = None, language: ReaderLanguage = None, *, folder: DataFolder
) -> dict[str, Any]:
    """Count the rows of each value of a column, the most frequent first; a group's `figure` is its count."""
    table, reader = opened(folder, file, (column,), language)
    return grouped(table, group_column(table, column, reader), None, reader)


@tool(
    read_only=True,
    idempotent=True,
    title="分组汇总 · Sum by group",
    keywords=[
        *ANALYSIS,
        *("汇总", "合计", "总计", "总和", "求和", "小计", "占比", "总共"),
        *("sum", "total", "subtotal", "breakdown", "share of", "add up"),
    ],
)
def sum_by(
    file: FileName = None,
    column: GroupColumn = None,
    value: ValueColumn = None,
    language: ReaderLanguage = None,
    *,
    folder: DataFolder,
) -> dict[str, Any]:
    """Add up a numeric column for each value of another one, the largest sum first; a group's `figure` is its sum."""
    table, reader = opened(folder, file, (column, value), language)
    summed = value_column(table, value, reader)
    if summed is None:
        no_numbers = f"「{table.file.name}」里没有数值列：请用 count_by 计数。"
        raise ValueError(told(reader, no_numbers, f"«{table.file.name}» has no numeric column: count with count_by."))
    return grouped(table, group_column(table, column, reader), summed, reader)


@tool(
    read_only=True,
    idempotent=True,
    title="排名 · Ranking",
    keywords=[
        *ANALYSIS,
        *("排名", "排行", "最多", "最高", "最大", "最好", "最畅销", "最低", "最少", "最小", "最差", "倒数", "前几"),
        *(f"前{number}" for number in "0123456789一二三四五六七八九十"),
        *("top", "most", "best", "highest", "largest", "biggest", "ranking", "rank"),
        *("lowest", "least", "worst", "smallest", "fewest"),
    ],
)
def top_n(
    file: FileName = None,
    column: GroupColumn = None,
    value: ValueColumn = None,
    n: HowMany = 5,
    lowest: Lowest = False,
    language: ReaderLanguage = None,
    *,
    folder: DataFolder,
) -> dict[str, Any]:
    """Name the groups of a column with the highest sums of another one; of the rows where there is nothing to sum."""
    table, reader = opened(folder, file, (column, value), language)
    summed = value_column(table, value, reader)
    chosen = group_column(table, column, reader, many=True)
    return ranked(table, chosen, summed, reader, most=n, lowest=lowest)


@tool(
    read_only=True,
    idempotent=True,
    title="趋势 · Trend",
    keywords=[
        *ANALYSIS,
        *(word for words in EVERY_WORDS.values() for word in words),
        *("趋势", "走势", "变化", "增长", "下降", "环比", "同比"),
        *("trend", "over time", "growth", "development", "change over"),
    ],
)
def trend(
    file: FileName = None,
    date_column: DateColumn = None,
    value: ValueColumn = None,
    every: EveryPeriod = None,
    language: ReaderLanguage = None,
    *,
    folder: DataFolder,
) -> dict[str, Any]:
    """Add up a column, or count the rows, for each day, week, month, quarter or year; a period without rows is 0."""
    table, reader = opened(folder, file, (date_column, value), language)
    when, summed = column_of_dates(table, date_column, reader), value_column(table, value, reader)
    found = periods_of(table, when, summed, every, reader)
    result = {
        **{"file": table.file.name, "date_column": when, "value": summed, "every": found.every},
        "periods": [{"period": at.label, "rows": at.rows, "figure": at.figure} for at in found.periods],
        "undated": found.undated,
    }
    return {**result, "summary": trend_summary(result, reader)}


@tool(read_only=True, idempotent=True, title="SQL 查询 · SQL query", keywords=["sql", "select *"])
def query(sql: Sql, language: ReaderLanguage = None, *, folder: DataFolder) -> dict[str, Any]:
    """Answer what the other tools cannot: one read-only SELECT over the files, with 100 rows and 20 seconds at most."""
    reader = language or "en"
    result = run_query(folder, sql, reader)
    return {**result, "summary": query_summary(result, reader)}


@tool(
    idempotent=True,
    title="画图 · Chart",
    keywords=[
        *ANALYSIS,
        *(word for words in KIND_WORDS.values() for word in words),
        *("图表", "画图", "画个", "画一", "画出", "作图", "绘制", "绘图", "可视化", "图形", "出图"),
        *("chart", "plot", "graph", "draw", "visualise", "visualize", "diagram"),
    ],
)
def chart(
    file: FileName = None,
    kind: Kind = None,
    column: GroupColumn = None,
    value: ValueColumn = None,
    every: EveryPeriod = None,
    language: ReaderLanguage = None,
    *,
    folder: DataFolder,
) -> dict[str, Any]:
    """Draw sums by group, or over time, as a PNG file; gives its path, its size in pixels and the plotted figures.

    With a column of dates, with `every`, or as a line without a column it goes over time. Groups beyond the largest
    ones are drawn as one.
    """
    need_matplotlib()
    table, reader = opened(folder, file, (column, value), language)
    plot = plotted(table, kind, column, value, every, reader)
    drawn = draw(plot.chart, folder.charts, table.file.stem, reader)
    result = {
        **{"file": table.file.name, "kind": plot.chart.kind, "column": plot.column, "value": plot.value},
        **{"path": shown_path(drawn.path), "size": list(drawn.size), "bytes": drawn.bytes},
        "plotted": [{"label": label, "figure": figure} for label, figure in plot.figures],
        "lacks_characters": drawn.lacks_characters,
    }
    return {**result, "summary": chart_summary(result, reader)}


DATA = (describe, count_by, sum_by, top_n, trend, query, chart)
"""Functions that still need their `folder`: see `data_set.data_tools`."""
