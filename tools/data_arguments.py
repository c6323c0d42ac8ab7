"""The data tools' arguments: what is said of them to a model, and the words that stand for their values."""

from typing import Annotated, Literal

from pydantic import Field

from .data_charts import ChartKind
from .data_questions import Every

EVERY_WORDS = {
    "day": ["每天", "每日", "按天", "按日", "逐日", "日均", "daily", "by day", "per day", "each day", "every day"],
    "week": ["每周", "按周", "逐周", "周度", "weekly", "by week", "per week", "each week", "every week"],
    "month": [
        *("每月", "每个月", "按月", "逐月", "月度", "各月", "哪个月", "哪月"),
        *("monthly", "by month", "per month", "each month", "every month", "which month"),
    ],
    "quarter": [
        "每季",
        "每个季度",
        "按季",
        "季度",
        "quarterly",
        "by quarter",
        "per quarter",
        "each quarter",
        "which quarter",
    ],
    "year": ["每年", "按年", "逐年", "年度", "哪年", "哪一年", "yearly", "annual", "by year", "per year", "which year"],
}
KIND_WORDS = {
    "bar": ["柱状图", "柱形图", "条形图", "柱图", "bar chart", "bar graph", "bars", "column chart"],
    "line": ["折线图", "折线", "曲线图", "线图", "line chart", "line graph", "curve"],
    "pie": ["饼图", "饼状图", "扇形图", "圆饼图", "pie chart", "pie"],
}

FileName = Annotated[
    str | None,
    Field(description="The file's name in the data folder, without a path (文件名); may be left out if there is one."),
]
GroupColumn = Annotated[
    str | None,
    Field(description="The column to group by (分组列); left out: one that suits."),
]
ValueColumn = Annotated[
    str | None,
    Field(description="The numeric column to add up (数值列); left out: the main one, such as an amount."),
]
DateColumn = Annotated[
    str | None,
    Field(description="The column of dates (日期列); left out: the one there is."),
]
EveryPeriod = Annotated[
    Every | None,
    Field(
        description="The length of a period (周期); left out: one that suits.",
        json_schema_extra={"aliases": EVERY_WORDS},
    ),
]
Kind = Annotated[
    ChartKind | None,
    Field(
        description="The kind of chart (图表类型); left out: a line over dates, else bars.",
        json_schema_extra={"aliases": KIND_WORDS},
    ),
]
HowMany = Annotated[
    int,
    Field(
        ge=1,
        le=50,
        description="How many to name, 1 to 50 (前几名).",
        json_schema_extra={"keywords": ["前", "名", "个", "top", "best", "first"]},
    ),
]
Lowest = Annotated[
    bool,
    Field(
        description="Name the lowest ones instead of the highest (取最低).",
        json_schema_extra={
            "keywords": [
                "最低",
                "最少",
                "最小",
                "最差",
                "倒数",
                "垫底",
                "lowest",
                "least",
                "worst",
                "bottom",
                "fewest",
                "smallest",
            ]
        },
    ),
]
Sql = Annotated[
    str,
    Field(
        description=(
            "One DuckDB SELECT (SQL 查询), with names in double quotes. Each file is a table under its name, with or "
            "without its ending. Other statements and file functions are refused."
        ),
        json_schema_extra={"pattern": r"(?:[Ss][Ee][Ll][Ee][Cc][Tt]|[Ww][Ii][Tt][Hh])\s[\s\S]+"},
    ),
]
ReaderLanguage = Annotated[
    Literal["zh", "en"] | None,
    Field(
        description="The language of the summary: that of the user (摘要的语言).",
        json_schema_extra={"format": "language"},
    ),
]
