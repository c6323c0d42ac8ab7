"""Sentences of the data tools, in both languages."""

from collections.abc import Mapping, Sequence

from .language import Language

PHRASES: Mapping[str, tuple[str, str]] = {
    # Limits and failures
    "too_slow": ("超过 {seconds:g} 秒，已中断。", "It took longer than {seconds:g} s and was stopped."),
    "too_large": ("需要的内存超过 {memory}，已停止。", "It needs more than {memory} and was stopped."),
    "query_busy": (
        "正在运行的查询太多，{seconds:g} 秒内没有空位：请稍后再试。",
        "Too many queries are running; none ended within {seconds:g} s. Try again later.",
    ),
    "query_crashed": (
        "查询的进程异常结束，可能是内存不足：请写更简单的查询。",
        "The query's process crashed, perhaps out of memory: write a simpler query.",
    ),
    "query_failed": ("查询失败：{reason}", "The query failed: {reason}"),
    "query_zone": (
        "带时区的时间请先转换：CAST(… AS TIMESTAMP)。",
        "Cast times with a zone first: CAST(… AS TIMESTAMP).",
    ),
    "query_long": ("SQL 最多 {most} 个字符。", "A query has at most {most} characters."),
    "query_one": ("只能写一条 SELECT 语句。", "Write exactly one SELECT statement."),
    "query_select": ("只能用 SELECT 查询，其他语句不执行。", "Only a SELECT is run, no other statement."),
    "query_source": ("不能从 {name} 读取：请写文件名。", "Reading from {name} is not allowed: name a file."),
    # Files
    "no_folder": (
        "数据文件夹“{folder}”里没有文件：请放入 CSV 或 Parquet 文件，或设置 SEGUE_DATA。",
        'The data folder "{folder}" has no files: put a CSV or Parquet file there, or set SEGUE_DATA.',
    ),
    "which_file": ("有多个文件，请指明一个：{names}。", "Name one of the files: {names}."),
    "no_path": (
        "“{name}”不是文件名：请只写数据文件夹里的文件名，不带路径。可选：{names}。",
        '"{name}" is not a file name: give a name in the data folder, without a path. There are: {names}.',
    ),
    "no_file": (
        "数据文件夹里没有文件“{name}”。{hint}可选：{names}。",
        'There is no file "{name}" in the data folder. {hint}There are: {names}.',
    ),
    "nearest": ("是不是“{name}”？", 'Did you mean "{name}"? '),
    "file_closed": ("文件“{name}”无法打开。", 'The file "{name}" cannot be opened.'),
    "file_link": (
        "文件“{name}”是指向数据文件夹之外的链接，不能读取。",
        'The file "{name}" is a link that leads out of the data folder.',
    ),
    "file_kind": ("文件“{name}”不是普通文件，不能读取。", 'The file "{name}" is not a regular file.'),
    "file_large": ("文件“{name}”超过 {most} MB，不能读取。", 'The file "{name}" is larger than {most} MB.'),
    "file_empty": ("文件“{name}”是空的。", 'The file "{name}" is empty.'),
    "file_header": (
        "文件“{name}”的第一行应写列名（最多 {most} 列）。",
        'The first line of "{name}" has to name the columns, {most} at most.',
    ),
    "file_encoding": (
        "文件“{name}”不是 UTF-8、UTF-16 或 GB18030 编码的文本：请另存为 UTF-8 的 CSV。",
        'The file "{name}" is not text in UTF-8, UTF-16 or GB18030: save it as CSV in UTF-8.',
    ),
    "file_broken": ("文件“{name}”无法读取：{reason}", 'The file "{name}" cannot be read: {reason}'),
    # Columns
    "no_column": (
        "“{file}”里没有列“{name}”。{hint}可选：{names}。",
        'There is no column "{name}" in "{file}". {hint}There are: {names}.',
    ),
    "which_column": ("请指明按哪一列分组：{names}。", "Name the column to group by: {names}."),
    "wrong_type": (
        "列“{name}”是{found}，不是{requested}列；{requested}列有：{names}。",
        'The column "{name}" is {found}, not {requested}; columns that are: {names}.',
    ),
    "number": ("数值", "numeric"),
    "date": ("日期", "a date"),
    "text": ("文本", "text"),
    "not_numbers": (
        "其中 {count} 个值不是数字，例如“{value}”。",
        ' {count} of its values are not numbers, such as "{value}".',
    ),
    "no_numbers": (
        "“{file}”里没有数值列：请用 count_by 计数。",
        '"{file}" has no numeric column: count with count_by.',
    ),
    "no_dates": (
        "“{file}”里没有日期列；各列为：{names}。",
        '"{file}" has no column of dates; its columns are: {names}.',
    ),
    "no_date": ("列“{name}”里没有日期。", 'The column "{name}" holds no date.'),
    "many_periods": (
        "从 {first} 到 {last} 按 {every} 超过 {most} 段：请用更长的周期。",
        "From {first} to {last} there are more than {most} periods of a {every}: ask for longer ones.",
    ),
    # Charts
    "no_figures": ("没有数据可画。", "There is nothing to draw."),
    "pie_negative": (
        "饼图只能画不小于零的数：请用柱状图（bar）。",
        "A pie chart takes no figures below zero: ask for a bar chart.",
    ),
    "no_chart": (
        "图表不能写入“{folder}”（{reason}）：请用 SEGUE_CHARTS 指定可写的文件夹。",
        'No chart can be written to "{folder}" ({reason}): name another folder in SEGUE_CHARTS.',
    ),
    "chart_title": ("按{by}的{what}", "{what} by {by}"),
    "others": ("其他 {count} 个", "{count} others"),
    "chart": (
        "**{kind}：按{by}的{what}**，{width}×{height} 像素：`{path}`",
        "**{kind}: {what} by {by}**, {width}×{height} pixels: `{path}`",
    ),
    "bar": ("柱状图", "Bar chart"),
    "line": ("折线图", "Line chart"),
    "pie": ("饼图", "Pie chart"),
    "no_glyphs": ("\n\n图中有些字符没有字体可显示，以 □ 代替。", "\n\nCharacters that no font has are drawn as □."),
    # Summaries
    "none": ("（无）", "none"),
    "empty": ("（空）", "(empty)"),
    "rows": ("行数", "rows"),
    "number_type": ("数值", "number"),
    "date_type": ("日期", "date"),
    "text_type": ("文本", "text"),
    "describe": ("**{file}**：{rows:,} 行，{columns} 列", "**{file}**: {rows:,} rows, {columns} columns"),
    "describe_heads": (
        "列,类型,缺失,不同值,范围,平均 / 常见值",
        "column,type,missing,distinct,range,mean / common values",
    ),
    "also": ("\n\n另有：{names}", "\n\nAlso: {names}"),
    "files": ("有多个文件，请指明一个：", "There are several files; name one:"),
    "groups": (
        "**按{by}汇总{what}**（{file}，{rows:,} 行）：合计 **{total}**",
        "**{what} by {by}** ({file}, {rows:,} rows): **{total}** in all",
    ),
    "average_of": ("平均{what}", "average {what}"),
    "group_averages": (
        "**按{by}的{what}**（{file}，{rows:,} 行）：总体 **{total}**",
        "**{what} by {by}** ({file}, {rows:,} rows): **{total}** over all rows",
    ),
    "share": ("占比", "share"),
    "more_groups": ("\n\n另有 {count:,} 组。", "\n\nAnd {count:,} more."),
    "no_rows": ("{file} 里没有数据行。", "{file} has no rows."),
    "highest": (
        "{what}最高的{by}是 **{best}**：{figure}。共 {count:,} 个，前 {shown} 个：",
        "The {by} with the highest {what} is **{best}**: {figure}. {shown} of {count:,}:",
    ),
    "lowest": (
        "{what}最低的{by}是 **{best}**：{figure}。共 {count:,} 个，前 {shown} 个：",
        "The {by} with the lowest {what} is **{best}**: {figure}. {shown} of {count:,}:",
    ),
    "trend": ("**{what}趋势，{every}**（{file}，{by}）", "**{what} {every}** ({file}, {by})"),
    "day": ("按日", "by day"),
    "week": ("按周（周一起）", "by week (from Monday)"),
    "month": ("按月", "by month"),
    "quarter": ("按季度", "by quarter"),
    "year": ("按年", "by year"),
    "period": ("时间", "period"),
    "extremes": (
        "最高：{high}（{most}）；最低：{low}（{least}）；从 {first} 到 {last}：{before} → {after}{change}。",
        "Highest: {high} ({most}); lowest: {low} ({least}); from {first} to {last}: {before} → {after}{change}.",
    ),
    "no_shorter": (" 日期没有更短的周期。", " The dates have no shorter period."),
    "undated": (" 另有 {count:,} 行没有日期。", " {count:,} rows have no date."),
    "no_result": ("查询没有结果行。", "The query returned no rows."),
    "more_rows": ("\n\n结果不止这些行。", "\n\nThere are more rows than these."),
}
MOST_NAMES = 30
"""Names that a sentence lists at most."""


def phrase(name: str, language: Language, /, **values: object) -> str:
    """A sentence in the person's language."""
    chinese, english = PHRASES[name]
    return (chinese if language == "zh" else english).format(**values)


def listing(names: Sequence[str], language: Language) -> str:
    """The first `MOST_NAMES` names in a row, and how many more there are; "none" if there is no name."""
    shown = ("、" if language == "zh" else ", ").join(names[:MOST_NAMES]) or phrase("none", language)
    if len(names) <= MOST_NAMES:
        return shown
    return shown + (f"等 {len(names)} 个" if language == "zh" else f" and {len(names) - MOST_NAMES} more")
