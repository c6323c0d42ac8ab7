"""Which columns a question is about: the ones it names, else those that the data suggests."""

from collections.abc import Sequence

from .data_tables import TABLE, Table
from .data_typing import NUMBER, Kind, quoted
from .data_words import MAIN_VALUES, Language, family_of, listing, named_column, told, unknown

FEW = 50
"""Different values up to which a column is one to group by."""
LOOKED_AT = 64
"""Columns of text among which one to group by is looked for."""
_KINDS: dict[Kind, tuple[str, str]] = {
    "number": ("数值", "numeric"),
    "date": ("日期", "a date"),
    "text": ("文本", "text"),
}
_NO_VALUES = ("id", "no", "编号", "号", "码", "序号", "年", "year", "month", "月")
"""What the name of a number ends in that is not worth adding up."""


def column_named(table: Table, wanted: str, language: Language) -> str:
    """The column that a name means.

    Raises:
        ValueError: there is none; the message lists the columns.
    """
    if found := named_column(wanted, table.names):
        return found
    where = (f"「{table.file.name}」里", f"«{table.file.name}»")
    raise ValueError(unknown(wanted, table.names, language, ("列", "column"), where))


def value_column(table: Table, wanted: str | None, language: Language) -> str | None:
    """The column of numbers to add up; None if none was asked for and there is none.

    Raises:
        ValueError: the one that was asked for is not there or holds no numbers.
    """
    numeric = table.of_kind("number")
    if not wanted:
        return _main_value(numeric)
    name = column_named(table, wanted, language)
    if name in numeric:
        return name
    raise ValueError(_not_of_kind(table, name, "number", language) + _odd_values(table, name, language))


def _main_value(numeric: Sequence[str]) -> str | None:
    for family in MAIN_VALUES:
        if found := next((name for name in numeric if family_of(name) == family), None):
            return found
    worth = [name for name in numeric if not name.casefold().endswith(_NO_VALUES)]
    return worth[-1] if worth else None


def group_column(table: Table, wanted: str | None, language: Language, *, many: bool = False) -> str:
    """The column to group by; of those that may be meant the one with the fewest values, or the one with the most.

    Raises:
        ValueError: the one that was asked for is not there, or nothing can be grouped by.
    """
    if wanted:
        return column_named(table, wanted, language)
    counts = table.distinct(table.of_kind("text")[:LOOKED_AT])
    fit = [name for name, count in counts.items() if 1 < count <= FEW and (count < table.rows or table.rows < FEW)]
    repeated = fit or [name for name, count in counts.items() if count < table.rows] or list(counts)
    if repeated:
        return (max if many else min)(repeated, key=counts.__getitem__)
    names = listing(table.names, language)
    raise ValueError(told(language, f"请指明按哪一列分组：{names}。", f"Name the column to group by: {names}."))


def date_column(table: Table, wanted: str | None, language: Language) -> str:
    """The column of dates.

    Raises:
        ValueError: the one that was asked for is not there or holds no dates, or there is none.
    """
    dates = table.of_kind("date")
    if wanted:
        name = column_named(table, wanted, language)
        if name in dates:
            return name
        raise ValueError(_not_of_kind(table, name, "date", language))
    if dates:
        return next((name for name in dates if family_of(name) == "date"), dates[0])
    raise ValueError(
        told(
            language,
            f"「{table.file.name}」里没有日期列；各列为：{listing(table.names, 'zh')}。",
            f"«{table.file.name}» has no column of dates; its columns are: {listing(table.names, 'en')}.",
        )
    )


def _not_of_kind(table: Table, name: str, kind: Kind, language: Language) -> str:
    there = listing(table.of_kind(kind), language) or told(language, "（无）", "none")
    (zh, en), (is_zh, is_en) = _KINDS[kind], _KINDS[table.kind_of(name)]
    return told(
        language,
        f"列「{name}」是{is_zh}，不是{zh}列；{zh}列有：{there}。",
        f"The column «{name}» is {is_en}, not {en}; columns that are: {there}.",
    )


def _odd_values(table: Table, name: str, language: Language) -> str:
    """How many values keep a column of text from being numbers, where most of it is."""
    if table.kind_of(name) != "text":
        return ""
    odd = f"NOT regexp_full_match({quoted(name)}, ?)"
    sql = f"SELECT count({quoted(name)}), count(*) FILTER ({odd}), min({quoted(name)}) FILTER ({odd}) FROM {TABLE}"
    there, bad, sample = table.ask(sql, [NUMBER, NUMBER], language)[0]
    if not 0 < bad <= there // 2:
        return ""
    return told(
        language,
        f"其中 {bad} 个值不是数字，例如「{sample[:40]}」。",
        f" {bad} of its values are no numbers, such as «{sample[:40]}».",
    )
