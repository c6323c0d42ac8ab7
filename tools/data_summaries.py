"""The data tools' results as a few lines of Markdown that a person can read on their own."""

from collections.abc import Mapping, Sequence
from typing import Any

from .data_words import Language, listing, told

Result = Mapping[str, Any]
SHOWN = 12
"""Lines of groups, periods or columns in a summary; a result holds more."""
_PERIODS = {
    "day": ("按日", "by day"),
    "week": ("按周（周一起）", "by week (from Monday)"),
    "month": ("按月", "by month"),
    "quarter": ("按季度", "by quarter"),
    "year": ("按年", "by year"),
}
_KINDS = {"number": ("数值", "number"), "date": ("日期", "date"), "text": ("文本", "text")}
_CHARTS = {"bar": ("柱状图", "Bar chart"), "line": ("折线图", "Line chart"), "pie": ("饼图", "Pie chart")}


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
    """A value as it stands in a line or a table of Markdown: on one line, and never as mark-up."""
    shown = " ".join(str(text).split())
    shown = shown if len(shown) <= most else f"{shown[:most]}…"
    for sign in "\\`*[]<>|":
        shown = shown.replace(sign, f"\\{sign}")
    return shown


def named(name: str | None, language: Language) -> str:
    return told(language, "（空）", "(empty)") if name is None else cell(name)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [" | ".join(heads), " | ".join("---" for _ in heads), *(" | ".join(row) for row in rows)]
    return "\n".join(f"| {line} |" for line in lines)


def share(value: Any, total: Any) -> str:
    """What part of the total a figure is; empty where that says nothing."""
    try:
        part = float(value) / float(total)
    except (TypeError, ValueError, ZeroDivisionError):
        return ""
    return f"{part:.1%}" if 0 <= part <= 1 else ""


def describe_summary(result: Result, language: Language) -> str:
    columns, rows, file = result["columns"], result["rows"], cell(result["file"])
    count = len(columns) + len(result["more_columns"])
    head = told(language, f"**{file}**：{rows:,} 行，{count} 列", f"**{file}**: {rows:,} rows, {count} columns")
    heads = told(
        language, "列,类型,缺失,不同值,范围,平均 / 常见值", "column,type,missing,distinct,range,mean / common values"
    )
    body = [_column_row(column, language) for column in columns[:SHOWN]]
    rest = [column["name"] for column in columns[SHOWN:]] + list(result["more_columns"])
    also = told(language, "\n\n另有：", "\n\nAlso: ") + cell(listing(rest, language), 400) if rest else ""
    return f"{head}\n\n{table(heads.split(','), body)}{also}"


def _column_row(column: Result, language: Language) -> list[str]:
    common = ", ".join(f"{cell(item['value'], 20)} ({item['rows']:,})" for item in column.get("common", ()))
    mean = column.get("mean")
    least, most = column.get("min"), column.get("max")
    return [
        cell(column["name"]),
        told(language, *_KINDS[column["type"]]),
        f"{column['nulls']:,}",
        f"{column['distinct']:,}",
        "" if least is None else f"{figure(least)} – {figure(most)}",
        figure(mean) if mean is not None else common,
    ]


def overview_summary(files: Sequence[Result], language: Language) -> str:
    head = told(language, "有多个文件，请指明一个：", "There are several files; name one:")
    lines = [f"- **{cell(file['file'])}**: {_columns_or_error(file, language)}" for file in files]
    return "\n".join([head, "", *lines])


def _columns_or_error(file: Result, language: Language) -> str:
    return cell(file["error"] if "error" in file else listing(file["columns"], language), 400)


def _what(result: Result, language: Language) -> str:
    """What was added up or counted."""
    if result["value"] is None:
        return told(language, "行数", "rows")
    return cell(result["value"])


def groups_summary(result: Result, language: Language) -> str:
    """All groups' figures and shares, and the total."""
    column, what, file = cell(result["column"]), _what(result, language), cell(result["file"])
    head = told(
        language,
        f"**按{column}汇总{what}**（{file}，{result['rows']:,} 行）：合计 **{figure(result['total'])}**",
        f"**{what} by {column}** ({file}, {result['rows']:,} rows): **{figure(result['total'])}** in all",
    )
    heads = [column, what, told(language, "占比", "share")]
    body = [_group_row(group, result["total"], language) for group in result["groups"][:SHOWN]]
    return f"{head}\n\n{table(heads, body)}{_left_out(result, SHOWN, language)}"


def _group_row(group: Result, total: Any, language: Language) -> list[str]:
    return [named(group["name"], language), figure(group["figure"]), share(group["figure"], total)]


def _left_out(result: Result, shown: int, language: Language) -> str:
    rest = result["count"] - min(shown, len(result["groups"]))
    return told(language, f"\n\n另有 {rest:,} 组。", f"\n\nAnd {rest:,} more.") if rest > 0 else ""


def top_summary(result: Result, language: Language) -> str:
    """The largest or smallest groups, in order."""
    column, what, groups = cell(result["column"]), _what(result, language), result["groups"]
    if not groups:
        return told(language, f"{cell(result['file'])} 里没有数据行。", f"{cell(result['file'])} holds no rows.")
    best = f"**{named(groups[0]['name'], language)}**"
    way = ("最低", "lowest") if result["lowest"] else ("最高", "highest")
    head = told(
        language,
        f"{what}{way[0]}的{column}是 {best}：{figure(groups[0]['figure'])}。"
        f"共 {result['count']:,} 个，前 {len(groups)} 个：",
        f"The {column} with the {way[1]} {what} is {best}: {figure(groups[0]['figure'])}. "
        f"{len(groups)} of {result['count']:,}:",
    )
    lines = [f"{place}. {_ranked(group, result['total'], language)}" for place, group in enumerate(groups, start=1)]
    return "\n".join([head, "", *lines])


def _ranked(group: Result, total: Any, language: Language) -> str:
    part = share(group["figure"], total)
    text = f"{named(group['name'], language)}: {figure(group['figure'])}"
    return f"{text} ({part})" if part else text


def trend_summary(result: Result, language: Language) -> str:
    """The periods' figures, the highest and the lowest, and how the last one differs from the first."""
    what, periods, file = _what(result, language), result["periods"], cell(result["file"])
    head = told(
        language,
        f"**{what}趋势，{_PERIODS[result['every']][0]}**（{file}，{cell(result['date_column'])}）",
        f"**{what} {_PERIODS[result['every']][1]}** ({file}, {cell(result['date_column'])})",
    )
    heads = [told(language, "时间", "period"), what]
    body = [[period["period"], figure(period["figure"])] for period in _shown(periods)]
    return "\n\n".join([head, _remarks(periods, result["undated"], language), table(heads, body)])


def _shown(periods: Sequence[Result]) -> list[Result]:
    """The first and the last periods, with a gap where there are too many to show."""
    most = 2 * SHOWN
    if len(periods) <= most:
        return list(periods)
    return [*periods[:SHOWN], {"period": "…", "figure": "…"}, *periods[-SHOWN:]]


def _remarks(periods: Sequence[Result], undated: int, language: Language) -> str:
    high = max(periods, key=lambda period: float(period["figure"]))
    low = min(periods, key=lambda period: float(period["figure"]))
    first, last = periods[0], periods[-1]
    change = _change(first["figure"], last["figure"])
    parts = told(
        language,
        f"最高：{high['period']}（{figure(high['figure'])}）；最低：{low['period']}（{figure(low['figure'])}）；"
        f"从 {first['period']} 到 {last['period']}：{figure(first['figure'])} → {figure(last['figure'])}{change}。",
        f"Highest: {high['period']} ({figure(high['figure'])}); lowest: {low['period']} ({figure(low['figure'])}); "
        f"from {first['period']} to {last['period']}: {figure(first['figure'])} → {figure(last['figure'])}{change}.",
    )
    rest = told(language, f" 另有 {undated:,} 行没有日期。", f" {undated:,} rows have no date.") if undated else ""
    return parts + rest


def _change(first: Any, last: Any) -> str:
    before, after = float(first), float(last)
    return f" ({(after - before) / before:+.1%})" if before > 0 else ""


def query_summary(result: Result, language: Language) -> str:
    rows = result["rows"]
    if not rows:
        return told(language, "查询没有结果行。", "The query gave no rows.")
    body = [["—" if value is None else cell(value) for value in row] for row in rows[: 2 * SHOWN]]
    more = told(language, "结果不止这些行。", "There are more rows than these.")
    cut = f"\n\n{more}" if result["more"] or len(rows) > 2 * SHOWN else ""
    return table([cell(name) for name in result["columns"]], body) + cut


def chart_summary(result: Result, language: Language) -> str:
    kind, what, by = _CHARTS[result["kind"]], _what(result, language), cell(result["column"])
    width, height = result["size"]
    head = told(
        language,
        f"**{kind[0]}：按{by}的{what}**，{width}×{height} 像素：`{result['path']}`",
        f"**{kind[1]}: {what} by {by}**, {width}×{height} pixels: `{result['path']}`",
    )
    if not result["lacks_characters"]:
        return head
    labels = [f"#{place} {item['label']}" for place, item in enumerate(result["plotted"], start=1)]
    meant = cell(listing(labels, language), 400) if result["kind"] != "line" else ""
    return head + told(
        language,
        f"\n\n本机没有能显示图中某些文字的字体（可安装 Noto Sans CJK）。{f'图中：{meant}。' if meant else ''}",
        f"\n\nNo font here has some of its characters; Noto Sans CJK would do. {f'In it: {meant}.' if meant else ''}",
    )
