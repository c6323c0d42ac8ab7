"""What the columns of a CSV file hold: numbers, dates or text, judged by every row."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from .vocabulary import family_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Kind = Literal["number", "date", "text"]
SAMPLE = 1_000
"""Rows that suggest what a column holds; all rows then have to agree."""
BATCH = 16
"""Columns that one query examines: planning time grows faster than their number."""
_WHOLE = r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)"
NUMBER = rf"[-+]?[¥￥$€£]? ?(?:{_WHOLE}(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][-+]?[0-9]{{1,3}})?"
_CODE = r"[-+]?0[0-9]+"
"""Digits with a leading zero are a postcode or an order number, not a quantity."""
_MISSING = ("", "na", "n/a", "nan", "null", "none", "-", "--", "—")
"""No value in a column of numbers or dates; in a column of text only the empty text is none."""
_EXACT = 28
"""Characters up to which numbers are stored as decimals, whose sums are exact; longer ones are floating point."""
_LONGEST_DATE = 11
"""Characters of a date without a time of day: 2024年12月31日."""
_DATE = r"\d{4}[-/.年]\d{1,2}.*|\d{1,2}[/.]\d{1,2}[/.]\d{4}.*"
_CLOCKS = ("", " %H:%M", " %H:%M:%S")
_V = "{value}"
_MONTHS = ["%Y-%m", "%Y/%m", "%Y年%m月"]


def _time(*days: str) -> str:
    formats = [day + clock for day in ("%Y年%m月%d日", "%Y.%m.%d", *days) for clock in _CLOCKS] + _MONTHS
    time = f"coalesce(TRY_CAST({_V} AS TIMESTAMP), try_strptime({_V}, {formats}))"
    return f"CASE WHEN regexp_full_match({_V}, '{_DATE}') THEN {time} END"


_TIMES = {
    "year_first": _time(),
    "compact": f"CASE WHEN regexp_full_match({_V}, '(19|20)[0-9]{{6}}') THEN try_strptime({_V}, '%Y%m%d') END",
    "month_first": _time("%m/%d/%Y"),
    "day_first": _time("%d/%m/%Y", "%d.%m.%Y"),
}
"""SQL that reads a text as a time."""
_FORMS = ("compact", "number", "year_first", "month_first", "day_first")
"""What a column's texts may be, the first that fits; else they are text."""
Fact = dict[str, Any]


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    name: str
    kind: Kind


def typed(
    connection: "DuckDBPyConnection", relation: str, values: Sequence[Any], names: Sequence[str], *, whole: bool
) -> dict[Column, str]:
    """By column the SQL that reads it from a relation whose columns c0, c1, … are all text."""
    likely, seen = _sampled(connection, relation, values, names)
    if whole and seen == SAMPLE:
        likely = _confirmed(connection, relation, values, likely)
    columns: dict[Column, str] = {}
    for place, name in enumerate(names):
        form, fact = next(iter(likely.get(place, {}).items()), ("text", {}))
        kind: Kind = "text" if form == "text" else "number" if form == "number" else "date"
        columns[Column(name, kind)] = _reading(place, form, fact)
    return columns


def _sampled(
    connection: "DuckDBPyConnection", relation: str, values: Sequence[Any], names: Sequence[str]
) -> tuple[dict[int, dict[str, Fact]], int]:
    """By column the forms that all of the first rows have, and how many rows these are."""
    texts = ", ".join(f"c{place}" for place in range(len(names)))
    rows = f"SELECT {texts} FROM {relation} LIMIT {SAMPLE}"
    cells = f"SELECT unnest([{texts}]) AS c, unnest(range({len(names)})) AS place FROM ({rows})"
    facts = ", ".join(_facts("v", form) for form in _FORMS)
    filled = f"count(*) FILTER (lower(v) NOT IN {_MISSING})"
    trimmed = f"SELECT place, trim(c) AS v FROM ({cells})"
    sql = f"SELECT place, count(*), {filled}, {facts} FROM ({trimmed}) GROUP BY place"
    likely, seen = dict[int, dict[str, Fact]](), 0
    for place, rows_seen, filled, *found in connection.execute(sql, list(values)).fetchall():
        seen = rows_seen
        fits = {form: fact for form, fact in zip(_FORMS, found, strict=True) if filled and not fact["bad"]}
        if family_of(names[place]) != "date":
            fits.pop("compact", None)
        likely[place] = {"year_first": fits["year_first"]} if "year_first" in fits else fits
    return likely, seen


def _confirmed(
    connection: "DuckDBPyConnection", relation: str, values: Sequence[Any], likely: dict[int, dict[str, Fact]]
) -> dict[int, dict[str, Fact]]:
    """By column the forms that all rows have."""
    confirmed: dict[int, dict[str, Fact]] = {}
    checks = [(place, form) for place in sorted(likely) for form in likely[place]]
    for start in range(0, len(checks), BATCH):
        batch = checks[start : start + BATCH]
        cells = ", ".join(f"trim(c{place}) AS v{place}" for place in {place for place, _ in batch})
        facts = ", ".join(_facts(f"v{place}", form) for place, form in batch)
        found = connection.execute(f"SELECT {facts} FROM (SELECT {cells} FROM {relation})", list(values)).fetchall()[0]
        for (place, form), fact in zip(batch, found, strict=True):
            if not fact["bad"]:
                confirmed.setdefault(place, {})[form] = fact
    return confirmed


def _facts(v: str, form: str) -> str:
    """SQL that counts the values without the form, and gathers what decides how it is stored."""
    bad = f"lower({v}) NOT IN {_MISSING}"
    if form != "number":
        time = _TIMES[form].replace(_V, v)
        return f"struct_pack(bad := count(*) FILTER ({time} IS NULL AND {bad}), length := max(length({v})))"
    plain = f"TRY_CAST({v} AS DECIMAL(38, 10)) IS NOT NULL AND left({v}, 1) NOT IN ('0', '+', '-')"
    number = f"regexp_full_match({v}, '{NUMBER}') AND NOT regexp_full_match({v}, '{_CODE}')"
    decimals = f"CASE WHEN contains({v}, '.') THEN strlen({v}) - instr({v}, '.') ELSE 0 END"
    power = f"(contains({v}, 'e') OR contains({v}, 'E')) AND left({v}, 1) NOT IN ('n', 'N')"  # not "none"
    return (
        f"struct_pack(bad := count(*) FILTER (CASE WHEN {plain} THEN false ELSE NOT ({number}) AND {bad} END), "
        f"decimals := max({decimals}), length := max(length({v})), powers := bool_or({power}))"
    )


def _reading(place: int, form: str, fact: Fact) -> str:
    """The SQL that reads a column of that form."""
    text = f"trim(c{place})"
    if form == "text":
        return f"nullif({text}, '')"
    if form != "number":
        time = _TIMES[form].replace(_V, text)
        return time if fact["length"] > _LONGEST_DATE else f"CAST({time} AS DATE)"
    if fact["powers"] or fact["length"] > _EXACT or fact["decimals"] > _EXACT // 2:
        kind = "DOUBLE"
    elif fact["decimals"]:
        kind = f"DECIMAL(38, {fact['decimals']})"
    else:
        kind = "BIGINT" if fact["length"] <= 18 else "DECIMAL(38, 0)"
    digits = f"translate({text}, ',+¥￥$€£ ', '')"
    number = f"coalesce(TRY_CAST({text} AS {kind}), TRY_CAST({digits} AS {kind}))"
    return f"CASE WHEN isfinite({number}) THEN {number} END" if kind == "DOUBLE" else number
