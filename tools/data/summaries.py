"""Results as a few lines of Markdown that a person can read on their own."""

from collections.abc import Mapping, Sequence
from typing import Any

from segue.prompts.data import listing, phrase
from segue.prompts.language import Language

Result = Mapping[str, Any]
SHOWN = 12
"""Lines of groups, periods or columns in a summary; a result holds more."""


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
    """A value in a line or a table of Markdown: on one line, and never as markup."""
    shown = " ".join(str(text).split())
    shown = shown if len(shown) <= most else f"{shown[:most]}…"
    for sign in "\\`*[]<>|":
        shown = shown.replace(sign, f"\\{sign}")
    return shown


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---" for _ in heads], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _name(name: str | None, language: Language) -> str:
    return phrase("empty", language) if name is None else cell(name)


def _share(value: Any, total: Any) -> str:
    """What part of the total a figure is; empty if that is not from 0 to 1."""
    if not float(total):
        return ""
    part = float(value) / float(total)
    return f"{part:.1%}" if 0 <= part <= 1 else ""


def described(result: Result, language: Language) -> str:
    """What was added up, averaged or counted."""
    if result["value"] is None:
        return phrase("rows", language)
    what = cell(result["value"])
    return phrase("average_of", language, what=what) if is_average(result) else what


def is_average(result: Result) -> bool:
    return result.get("measure") == "average" and result["value"] is not None


def describe_summary(result: Result, language: Language) -> str:
    columns, more = result["columns"], result["more_columns"]
    head = phrase(
        "describe", language, file=cell(result["file"]), rows=result["rows"], columns=len(columns) + len(more)
    )
    table = _table(
        phrase("describe_heads", language).split(","), [_column_row(column, language) for column in columns[:SHOWN]]
    )
    rest = [column["name"] for column in columns[SHOWN:]] + list(more)
    also = phrase("also", language, names=cell(listing(rest, language), 400)) if rest else ""
    return f"{head}\n\n{table}{also}"


def _column_row(column: Result, language: Language) -> list[str]:
    common = ", ".join(f"{cell(item['value'], 20)} ({item['rows']:,})" for item in column.get("common", ()))
    spread = f"{figure(column['min'])} – {figure(column['max'])}" if "min" in column else ""
    counts = [f"{column['nulls']:,}", f"{column['distinct']:,}"]
    kind = phrase(f"{column['type']}_type", language)
    return [cell(column["name"]), kind, *counts, spread, figure(column["mean"]) if "mean" in column else common]


def overview_summary(files: Sequence[Result], language: Language) -> str:
    lines = [f"- **{cell(file['file'])}**: {_columns_or_error(file, language)}" for file in files]
    return "\n".join([phrase("files", language), "", *lines])


def _columns_or_error(file: Result, language: Language) -> str:
    return cell(file["error"] if "error" in file else listing(file["columns"], language), 400)


def groups_summary(result: Result, language: Language) -> str:
    """All groups' figures and shares, and the total."""
    by, what, total = cell(result["column"]), described(result, language), result["total"]
    file, rows = cell(result["file"]), result["rows"]
    name = "group_averages" if is_average(result) else "groups"
    head = phrase(name, language, by=by, what=what, file=file, rows=rows, total=figure(total), count=result["count"])
    groups = result["groups"][:SHOWN]
    heads, body = [by, what], [[_name(group["name"], language), figure(group["figure"])] for group in groups]
    if not is_average(result):
        heads.append(phrase("share", language))
        body = [[*line, _share(group["figure"], total)] for line, group in zip(body, groups, strict=True)]
    rest = result["count"] - len(groups)
    more = phrase("more_groups", language, count=rest) if rest else ""
    return f"{head}\n\n{_table(heads, body)}{more}"


def top_summary(result: Result, language: Language) -> str:
    """The largest or smallest groups, in order."""
    groups, total = result["groups"], 0 if is_average(result) else result["total"]
    if not groups:
        return phrase("no_rows", language, file=cell(result["file"]))
    head = phrase(
        "lowest" if result["lowest"] else "highest",
        language,
        what=described(result, language),
        by=cell(result["column"]),
        best=_name(groups[0]["name"], language),
        figure=figure(groups[0]["figure"]),
        count=result["count"],
        shown=len(groups),
    )
    lines = [f"{place}. {_ranked(group, total, language)}" for place, group in enumerate(groups, start=1)]
    return "\n".join([head, "", *lines])


def _ranked(group: Result, total: Any, language: Language) -> str:
    share = _share(group["figure"], total)
    return f"{_name(group['name'], language)}: {figure(group['figure'])}" + (f" ({share})" if share else "")


def trend_summary(result: Result, language: Language) -> str:
    """The periods' figures, the highest and the lowest, and how the last one differs from the first."""
    known = [period for period in result["periods"] if period["figure"] is not None]
    what, periods = described(result, language), result["periods"]
    every = phrase(result["every"], language)
    by, file = cell(result["date_column"]), cell(result["file"])
    head = phrase("trend", language, what=what, every=every, file=file, by=by)
    shown = periods
    if len(periods) > 2 * SHOWN:
        shown = [*periods[:SHOWN], {"period": "…", "figure": "…"}, *periods[-SHOWN:]]
    body = [[period["period"], figure(period["figure"])] for period in shown]
    remarks = _extremes(known, language) if known else ""
    if result["is_longer"]:
        remarks += phrase("no_shorter", language)
    if result["undated"]:
        remarks += phrase("undated", language, count=result["undated"])
    return "\n\n".join([head, remarks, _table([phrase("period", language), what], body)])


def _extremes(periods: Sequence[Result], language: Language) -> str:
    high = max(periods, key=lambda period: float(period["figure"]))
    low = min(periods, key=lambda period: float(period["figure"]))
    first, last = periods[0], periods[-1]
    before, after = float(first["figure"]), float(last["figure"])
    return phrase(
        "extremes",
        language,
        high=high["period"],
        most=figure(high["figure"]),
        low=low["period"],
        least=figure(low["figure"]),
        first=first["period"],
        last=last["period"],
        before=figure(first["figure"]),
        after=figure(last["figure"]),
        change=f" ({(after - before) / before:+.1%})" if before > 0 else "",
    )


def query_summary(result: Result, language: Language) -> str:
    rows = result["rows"]
    if not rows:
        return phrase("no_result", language)
    body = [["—" if value is None else cell(value) for value in row] for row in rows[: 2 * SHOWN]]
    more = phrase("more_rows", language) if result["more"] or len(rows) > 2 * SHOWN else ""
    return _table([cell(name) for name in result["columns"]], body) + more


def chart_summary(result: Result, language: Language) -> str:
    kind, what, by = phrase(result["kind"], language), described(result, language), cell(result["column"])
    width, height = result["size"]
    head = phrase("chart", language, kind=kind, what=what, by=by, width=width, height=height, path=result["path"])
    return head + (phrase("no_glyphs", language) if result["lacks_characters"] else "")
