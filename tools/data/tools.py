"""The data tools: what is in a folder's CSV and Parquet files, in figures, summaries and charts.

They read that folder and nothing else; only `chart` writes, into a folder of its own. Every result has a `summary` in
Markdown. An unknown file or column is a ValueError that names the known ones.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from segue.prompts.catalogue import Language, data_text, language_of
from segue.tools.bound_tool import F
from segue.tools.registry import tool

from ..adapters.functions import bind_function
from ..bound_tool import BoundTool
from .answers import (
    TABLES,
    Every,
    Measure,
    Result,
    Table,
    chart_summary,
    describe_summary,
    facts_of,
    group_column,
    groups_of,
    groups_summary,
    overview_summary,
    periods_of,
    query_summary,
    sample_of,
    top_summary,
    trend_summary,
    value_column,
)
from .answers import date_column as column_of_dates
from .charts import ChartKind, chart_of, draw, need_matplotlib
from .sandbox import run_query, slots
from .sources import DataFile, DataFolder, Kind, need_duckdb, peek, tables_text
from .vocabulary import family_of, words_for

DETAILED = 30
"""Columns that a description covers; further ones are only named."""
GROUPS = 50
"""Groups of a result at most."""
SAMPLE_ROWS, SAMPLE_COLUMNS = 3, 12
OVERVIEW = 20
"""Files that an overview covers."""


def _listed(text: str) -> list[str]:
    return [word.strip() for word in text.split(",")]


ANALYSIS = _listed(
    "分析, 数据报告, 分析报告, 报表, analyse, analyze, analysing, analyzing, analysis, insights, report on"
)
"""Words of a request for everything, which calls for most of the tools together."""
EVERY_WORDS = {
    "day": _listed("每天, 每日, 按天, 按日, 逐日, 日均, 哪天, 哪一天, daily, day"),
    "week": _listed("每周, 按周, 逐周, 周度, 哪周, 哪一周, weekly, week"),
    "month": _listed("每月, 每个月, 按月, 逐月, 月度, 各月, 哪个月, 哪月, 几月, 月份, monthly, month"),
    "quarter": _listed("每季, 每个季度, 按季, 季度, quarterly, quarter"),
    "year": _listed("每年, 按年, 逐年, 年度, 哪年, 哪一年, yearly, annual, annually, year"),
}
_LENGTHS = ("day", "week", "month", "quarter", "year", "region", "product", "city", "category", "channel", "store")
MEASURE_WORDS = {
    "average": _listed("平均, 均值, 每单, 每笔, 每个订单, average, averages, mean, avg, per order, average order")
    + [f"per order {by} {length}" for by in ("by", "per", "each", "every") for length in _LENGTHS],
    "sum": _listed("总和, 总计, 合计, sum, total"),
    "count": _listed(
        "订单数, 订单量, 单量, 订单最多, 订单最少, 多少订单, 多少个订单, 多少单, 多少笔, 几单, 笔数, 单数, 条数"
    )
    + _listed("number of orders, how many orders, order count, order volume, most orders, fewest orders")
    + [f"orders {by} {length}" for by in ("by", "per", "each", "every") for length in _LENGTHS],
}
"""What is made of values, by the words for it; an order is a row."""
KIND_WORDS = {
    "bar": _listed("柱状图, 柱形图, 条形图, 柱图, bar chart, bar graph, bars, column chart"),
    "line": _listed("折线图, 折线, 曲线图, 线图, line chart, line graph, as a line, curve"),
    "pie": _listed("饼图, 饼状图, 扇形图, 圆饼图, pie chart, pie"),
}
_RANKED = _listed(
    "排名, 排行, 最多, 最高, 最大, 最好, 最畅销, 最低, 最少, 最小, 最差, 倒数, "
    "top, most, best, highest, largest, biggest, ranking, rank, lowest, least, worst, smallest, fewest"
)
_LOWEST_WORDS = _listed("最低, 最少, 最小, 最差, 倒数, 垫底, lowest, least, worst, bottom, fewest, smallest")


def _reads(title: str, keywords: list[str]) -> Callable[[F], F]:
    """Mark a tool that changes nothing."""
    return tool(read_only=True, idempotent=True, title=title, keywords=keywords)


def _argument(description: str, **extra: Any) -> Any:
    return Field(description=description, json_schema_extra=extra or None)


FileName = Annotated[
    str | None,
    _argument(
        "The file's name in the data folder, without a path (文件名); may be left out if there is one.",
        keywords=_listed("文件, 数据, 数据集, 这个表, 表格, 表里, file, data, dataset, table"),
    ),
]
GroupColumn = Annotated[str | None, _argument("The column to group by (分组列); left out: one that suits.")]
ValueColumn = Annotated[
    str | None,
    _argument(
        "The numeric column to add up (数值列); left out: the main one, such as an amount.",
        keywords=_listed("卖得, 卖的, 卖了, 卖出, 销售, 业绩, sold, sell, sales, earned, earn"),
    ),
]
DateColumn = Annotated[str | None, _argument("The column of dates (日期列); left out: the one there is.")]
EveryPeriod = Annotated[
    Every | None,
    _argument("The length of a period (周期); left out: one that suits.", aliases=EVERY_WORDS, keywords=_RANKED),
]
Measured = Annotated[
    Measure | None,
    _argument(
        "What is made of a group (统计方式): left out, the sum, of prices the average; a count is of rows.",
        aliases=MEASURE_WORDS,
    ),
]
KindOfChart = Annotated[
    ChartKind | None,
    _argument("The kind of chart (图表类型); left out: a line over dates, else bars.", aliases=KIND_WORDS),
]
HowMany = Annotated[
    int,
    Field(ge=1, le=50),
    _argument("How many to name, 1 to 50 (前几名).", keywords=["前", "名", "个", "top", "best", "first"]),
]
Lowest = Annotated[bool, _argument("Name the lowest ones instead of the highest (取最低).", keywords=_LOWEST_WORDS)]
Sql = Annotated[
    str,
    _argument(
        "One DuckDB SELECT (SQL 查询), with names in double quotes. Each file is a table under its name, with or "
        "without its ending. Other statements and file functions are refused.",
        pattern=r"(?:[Ss][Ee][Ll][Ee][Cc][Tt]|[Ww][Ii][Tt][Hh])\s[\s\S]+",
    ),
]
ReaderLanguage = Annotated[
    Language | None,
    _argument("The language of the summary: that of the user (摘要的语言).", format="language"),
]


@_reads(
    title="数据概况 · Overview",
    keywords=ANALYSIS
    + _listed("概况, 概览, 描述, 有哪些列, 哪些字段, 有什么列, 列名, 多少行, 几行, 什么数据, 哪些数据, 数据结构")
    + _listed("overview, describe, profile, which columns, what columns, how many rows, what data, structure"),
)
def describe(file: FileName = None, language: ReaderLanguage = None, *, folder: DataFolder) -> Result:
    """Describe a file: rows, and each column's type, missing and distinct values, range, mean and usual values.

    Start with this one: it gives the columns' names. Where there are several files and none is named, it lists them
    with their columns. More than 100,000 distinct values are an estimate.
    """
    if not file and len(folder.files()) > 1:
        return _overview(folder, language or "en")
    table, reader = _opened(folder, file, (), language)
    names = table.names[:DETAILED]
    result = {
        "file": table.file.name,
        "rows": table.rows,
        "columns": [facts_of(table, name, reader) for name in names],
        "more_columns": table.names[DETAILED:],
        "sample": sample_of(table, names[:SAMPLE_COLUMNS], SAMPLE_ROWS, reader),
    }
    return {**result, "summary": describe_summary(result, reader)}


@_reads(
    title="分组计数 · Count by group",
    keywords=_listed("多少个, 多少条, 多少笔, 多少单, 几条, 记录, 订单, 计数, 个数, 次数, 笔数, 单数, 条数, 频次, 分布")
    + _listed("count, how many, number of, frequency, distribution, orders, records, rows"),
)
def count_by(
    file: FileName = None, column: GroupColumn = None, language: ReaderLanguage = None, *, folder: DataFolder
) -> Result:
    """Count the rows of each value of a column, the most frequent first; a group's `figure` is its count."""
    table, reader = _opened(folder, file, (column,), language)
    result = _grouped(table, group_column(table, column, reader), None, reader, most=GROUPS)
    return {**result, "summary": groups_summary(result, reader)}


@_reads(
    title="分组汇总 · Sum by group",
    keywords=ANALYSIS
    + _listed("汇总, 合计, 总计, 总和, 求和, 小计, 占比, 总共, sum, total, subtotal, breakdown, share of, add up")
    + MEASURE_WORDS["average"],
)
def sum_by(
    file: FileName = None,
    column: GroupColumn = None,
    value: ValueColumn = None,
    measure: Measured = None,
    language: ReaderLanguage = None,
    *,
    folder: DataFolder,
) -> Result:
    """Add up, or average, a numeric column for each value of another one, the largest `figure` first."""
    table, reader = _opened(folder, file, (column, value), language)
    summed = _counted_or(value, measure, table, reader)
    if summed is None and measure != "count":
        raise ValueError(data_text("no_numbers", reader, file=table.file.name))
    result = _grouped(table, group_column(table, column, reader), summed, reader, most=GROUPS, measure=measure)
    return {**result, "summary": groups_summary(result, reader)}


@_reads(
    title="排名 · Ranking",
    keywords=ANALYSIS + _RANKED + [f"前{number}" for number in "几0123456789一二三四五六七八九十"],
)
def top_n(
    file: FileName = None,
    column: GroupColumn = None,
    value: ValueColumn = None,
    n: HowMany = 5,
    lowest: Lowest = False,
    measure: Measured = None,
    language: ReaderLanguage = None,
    *,
    folder: DataFolder,
) -> Result:
    """Name the groups of a column with the highest sums, or averages, of another one; where there is none, of rows."""
    table, reader = _opened(folder, file, (column, value), language)
    summed = _counted_or(value, measure, table, reader)
    chosen = group_column(table, column, reader, many=True)
    result = {**_grouped(table, chosen, summed, reader, most=n, lowest=lowest, measure=measure), "lowest": lowest}
    return {**result, "summary": top_summary(result, reader)}


@_reads(
    title="趋势 · Trend",
    keywords=ANALYSIS
    + [word for words in EVERY_WORDS.values() for word in words]
    + _listed("趋势, 走势, 变化, 增长, 下降, 环比, 同比, trend, over time, growth, development, change over"),
)
def trend(
    file: FileName = None,
    date_column: DateColumn = None,
    value: ValueColumn = None,
    every: EveryPeriod = None,
    measure: Measured = None,
    language: ReaderLanguage = None,
    *,
    folder: DataFolder,
) -> Result:
    """Add up or average a column, or count the rows, for each day, week, month, quarter or year.

    A period without rows has the sum 0, and no average. Figures of months are not spread over days: where the dates
    have no shorter period, `is_longer` says so.
    """
    table, reader = _opened(folder, file, (date_column, value), language)
    when, summed = column_of_dates(table, date_column, reader), _counted_or(value, measure, table, reader)
    measure = measure or _usual_measure(summed)
    found = periods_of(table, when, summed, every, reader, measure)
    result = {"file": table.file.name, "date_column": when, "value": summed, "measure": measure, **found}
    result["is_longer"] = every not in (None, found["every"])
    return {**result, "summary": trend_summary(result, reader)}


@_reads(title="SQL 查询 · SQL query", keywords=["sql", "select *"])
def query(sql: Sql, language: ReaderLanguage = None, *, folder: DataFolder) -> Result:
    """Answer what the other tools cannot: one read-only SELECT over the files, with 100 rows and 20 seconds at most."""
    reader = language or "en"
    result = run_query(folder, sql, reader)
    return {**result, "summary": query_summary(result, reader)}


@tool(
    idempotent=True,
    title="画图 · Chart",
    keywords=ANALYSIS
    + [word for words in KIND_WORDS.values() for word in words]
    + _listed("图表, 画图, 画个, 画一, 画出, 作图, 绘制, 绘图, 可视化, 图形, 出图")
    + _listed("chart, plot, graph, draw, visualise, visualize, diagram"),
)
def chart(
    file: FileName = None,
    kind: KindOfChart = None,
    column: GroupColumn = None,
    value: ValueColumn = None,
    every: EveryPeriod = None,
    measure: Measured = None,
    language: ReaderLanguage = None,
    *,
    folder: DataFolder,
) -> Result:
    """Draw sums, averages or counts by group, or over time, as a PNG file; gives its path, size and plotted figures.

    With a column of dates, with `every`, or as a line without a column it goes over time. Groups beyond the largest
    ones are drawn as one, but for averages.
    """
    need_matplotlib()
    table, reader = _opened(folder, file, (column, value), language)
    summed = _counted_or(value, measure, table, reader)
    shown = chart_of(table, kind, column, summed, every, reader, measure or _usual_measure(summed))
    picture = draw(shown, folder.charts, table.file.stem, reader)
    result = {
        **{"file": table.file.name, "kind": shown.kind, "column": shown.by, "value": shown.value},
        **{"path": _path(picture.path), "size": list(picture.size), "bytes": picture.bytes},
        "plotted": [
            {"label": label, "figure": figure} for label, figure in zip(shown.labels, shown.figures, strict=True)
        ],
        "lacks_characters": picture.lacks_characters,
    }
    return {**result, "summary": chart_summary(result, reader)}


DATA = (describe, count_by, sum_by, top_n, trend, query, chart)
"""Functions that still need their `folder`: see `toolset.data_tools`."""


def _opened(
    folder: DataFolder, file: str | None, named: Sequence[str | None], language: Language | None
) -> tuple[Table, Language]:
    """The file's table, and the language to answer in: the requested one, else that of the names."""
    texts = [text for text in (file, *named) if text]
    reader = language or language_of("".join(texts))
    table = TABLES.open(folder.find(file, reader), reader)
    return table, language or language_of("".join(texts or table.names))


def _overview(folder: DataFolder, language: Language) -> Result:
    """The files there are, with their columns; for a file that cannot be read the reason."""
    files = [{"file": file.name, **_columns(file, language)} for file in folder.files()[:OVERVIEW]]
    return {"files": files, "summary": overview_summary(files, language)}


def _columns(file: DataFile, language: Language) -> Result:
    try:
        return {"columns": [column.name for column in peek(file, language)]}
    except ValueError as error:
        return {"error": str(error)}


def _grouped(
    table: Table,
    column: str,
    value: str | None,
    language: Language,
    *,
    most: int,
    lowest: bool = False,
    measure: Measure | None = None,
) -> Result:
    """The largest or smallest figures of a column by another one, or without a column the counts."""
    measure = measure or _usual_measure(value)
    found = groups_of(table, column, value, language, most=most, lowest=lowest, measure=measure)
    del found["rest"]
    about = {"column": column, "value": value, "measure": measure}
    return {"file": table.file.name, **about, "rows": table.rows, **found}


def _counted_or(value: str | None, measure: Measure | None, table: Table, language: Language) -> str | None:
    """The column of numbers that is added up or averaged; None where rows are counted."""
    return None if measure == "count" else value_column(table, value, language)


def _usual_measure(value: str | None) -> Measure:
    """Prices are averaged: their sum says nothing."""
    return "average" if value and family_of(value) == "price" else "sum"


def _path(path: Path) -> str:
    """A path relative to the working directory if it is below it."""
    whole, here = path.absolute(), Path.cwd()
    return str(whole.relative_to(here)) if whole.is_relative_to(here) else str(whole)


LOOKED_AT = 20
"""Files whose columns are known by name."""
MOST_COLUMNS = 60
"""Columns of one kind that are known by name."""
_BY = {
    "count_by": ("多少种{}", "多少个{}", "几种{}", "几个{}", "different {}", "distinct {}"),
    "sum_by": ("按{}", "各{}", "各个{}", "每个{}", "分{}", "by {}", "per {}", "each {}", "every {}"),
    "top_n": ("哪个{}", "哪些{}", "哪种{}", "哪家{}", "which {}", "what {}"),
}
"""How a sentence asks for groups of a column."""
_OF = {"sum_by": ("how many {}", "how much {}", "number of {}", "多少{}", "总{}")}
"""How a sentence asks for the values of a column of numbers: "how many units" does not count rows."""
_KINDS: Mapping[str, Kind] = {"column": "text", "value": "number", "date_column": "date"}


def data_tools(folder: str | Path = "", charts: str | Path = "") -> tuple[BoundTool, ...]:
    """The tools over a folder: as given, else as `SEGUE_DATA` says, else `./data`; the same for charts' folder."""
    need_duckdb()
    slots()
    where = DataFolder.of(folder, charts)
    return _bound(where, tuple(where.files()))


@lru_cache(maxsize=8)
def _bound(folder: DataFolder, files: tuple[DataFile, ...]) -> tuple[BoundTool, ...]:
    """The same tools as long as no file changes."""
    words, tables = _words(files[:LOOKED_AT]), tables_text(files[:LOOKED_AT])
    return tuple(_knowing(bind_function(partial(function, folder=folder)), words, tables) for function in DATA)


Words = Mapping[str, Mapping[str, list[str]]]
"""By argument the words that stand for its values."""


def _words(files: Iterable[DataFile]) -> Words:
    known: dict[str, dict[str, list[str]]] = {"file": {}, **{argument: {} for argument in _KINDS}}
    for file in files:
        known["file"][file.name] = [word for word in (file.name, file.stem) if len(word) > 1]
        try:
            columns = peek(file)
        except ValueError:
            continue  # a question about the file says why
        words = words_for([column.name for column in columns])
        for argument, kind in _KINDS.items():
            of_kind = [column.name for column in columns if column.kind == kind][:MOST_COLUMNS]
            known[argument] |= {name: words[name] for name in of_kind}
    return known


def _knowing(bound: BoundTool, words: Words, tables: str) -> BoundTool:
    """The tool, with the names of the files and columns among what its specification says."""
    function, marks = bound.spec["function"], bound.spec["segue"]
    parameters = function["parameters"]
    properties = {name: _with_words(schema, words.get(name)) for name, schema in parameters["properties"].items()}
    if tables and "sql" in properties:
        sql = properties["sql"]
        properties["sql"] = {**sql, "description": f"{sql['description']} The tables are: {tables}."}
    forms = ((_BY, "column"), (_OF, "value"))
    asked = [
        form.format(word)
        for form_of, argument in forms
        for form in form_of.get(bound.name, ())
        for said in words[argument].values()
        for word in said
    ]
    spec = {
        **bound.spec,
        "function": {**function, "parameters": {**parameters, "properties": properties}},
        "segue": {**marks, "keywords": [*marks["keywords"], *asked]},
    }
    return replace(bound, spec=spec)


def _with_words(schema: Mapping[str, Any], words: Mapping[str, list[str]] | None) -> Mapping[str, Any]:
    return {**schema, "examples": list(words), "aliases": words} if words else schema
