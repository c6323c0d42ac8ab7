"""What a CSV file's columns hold: numbers, dates or text, judged by every row and not by the first ones only."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from .data_words import family_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Kind = Literal["number", "date", "text"]
BATCH = 16
"""Columns that are judged by one query: the engine takes ever longer to plan one of many."""
SAMPLE = 1_000
"""Rows that say what a column may be; all rows then have to agree."""
_WHOLE = r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)"
NUMBER = rf"[-+]?[¥￥$€£]? ?(?:{_WHOLE}(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][-+]?[0-9]{{1,3}})?"
_CODE = r"[-+]?0[0-9]+"
"""Digits with a leading zero are no quantity: a postcode, an order number."""
_MISSING = ("", "na", "n/a", "nan", "null", "none", "-", "--", "—")
"""What stands for no value in a column of numbers or dates; in a column of text only the empty text does."""
_SIGNS = ",+¥￥$€£ "
_DIGITS = 28
"""Digits up to which sums are exact; longer numbers are taken as floating point."""
_TIMES = (
    ("", ""),
    (r"\s\d{1,2}:\d{2}", " %H:%M"),
    (r"\s\d{1,2}:\d{2}:\d{2}", " %H:%M:%S"),
    (r"T\d{2}:\d{2}:\d{2}", "T%H:%M:%S"),
    (r"T\d{2}:\d{2}:\d{2}Z", "T%H:%M:%SZ"),
    (r"[\sT]\d{2}:\d{2}:\d{2}\.\d{1,6}", " %H:%M:%S.%f"),
)
_DAYS = (
    (r"\d{4}-\d{1,2}-\d{1,2}", "%Y-%m-%d"),
    (r"\d{4}/\d{1,2}/\d{1,2}", "%Y/%m/%d"),
    (r"\d{4}\.\d{1,2}\.\d{1,2}", "%Y.%m.%d"),
    (r"\d{4}年\d{1,2}月\d{1,2}日", "%Y年%m月%d日"),
    (r"\d{1,2}/\d{1,2}/\d{4}", "%m/%d/%Y"),
    (r"\d{1,2}/\d{1,2}/\d{4}", "%d/%m/%Y"),
    (r"\d{1,2}\.\d{1,2}\.\d{4}", "%d.%m.%Y"),
)
_MONTHS = ((r"\d{4}-\d{1,2}", "%Y-%m"), (r"\d{4}/\d{1,2}", "%Y/%m"), (r"\d{4}年\d{1,2}月", "%Y年%m月"))
_COMPACT = (r"(19|20)\d{6}", "%Y%m%d")
_FORMS = (
    *((day + time, date_form + clock) for day, date_form in _DAYS for time, clock in _TIMES),
    *_MONTHS,
)


@dataclass(frozen=True)
class Column:
    """A column as it stands in the table."""

    name: str
    kind: Kind


@dataclass(frozen=True)
class _Raw:
    """A column of text to be typed: its place in the source, and its name."""

    place: int
    name: str

    @property
    def text(self) -> str:
        return f"trim(c{self.place})"

    @property
    def missing(self) -> str:
        return f"(lower({self.text}) IN {_MISSING})"


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def typed(
    connection: "DuckDBPyConnection", source: str, values: Sequence[Any], names: Sequence[str]
) -> dict[Column, str]:
    """By column the SQL that reads it from the source, whose columns c0, c1, … are all text."""
    columns = [_Raw(place, name) for place, name in enumerate(names)]
    picked = ", ".join(f"c{raw.place}" for raw in columns)
    sample = connection.execute(f"SELECT {picked} FROM {source} LIMIT {SAMPLE}", values).fetchall()
    likely = {raw: _likely(raw, [row[raw.place] for row in sample]) for raw in columns}
    checks = [(raw, form, _check(raw, form)) for raw, forms in likely.items() for form in forms]
    facts = _facts(connection, source, values, [check for _, _, check in checks])
    read: dict[Column, str] = {}
    for raw in columns:
        own = [(form, fact) for (owner, form, _), fact in zip(checks, facts, strict=True) if owner is raw]
        fitting = (_reading(raw, form, fact) for form, fact in own)
        kind, sql = next((found for found in fitting if found), ("text", f"nullif({raw.text}, '')"))
        read[Column(raw.name, kind)] = sql
    return read


def _likely(raw: _Raw, sample: Sequence[str | None]) -> list[str]:
    """The forms that all of the sample has: «number», or date forms; none for text."""
    found = [value.strip() for value in sample if value and value.strip().lower() not in _MISSING]
    if not found:
        return []
    if family_of(raw.name) == "date" and all(re.fullmatch(_COMPACT[0], value) for value in found):
        return [_COMPACT[1]]
    if all(re.fullmatch(NUMBER, value) for value in found):
        return ["number"]
    return [form for pattern, form in _FORMS if all(re.fullmatch(pattern, value, re.ASCII) for value in found)]


def _check(raw: _Raw, form: str) -> str:
    """SQL that gathers what decides whether all rows have the form."""
    text = raw.text
    if form != "number":
        bad = f"count(*) FILTER (try_strptime({_clock(raw, form)}, '{form}') IS NULL AND NOT {raw.missing})"
        return f"struct_pack(bad := {bad})"
    decimals = f"CASE WHEN contains({text}, '.') THEN length({text}) - strpos({text}, '.') ELSE 0 END"
    return (
        f"struct_pack(bad := count(*) FILTER (NOT regexp_full_match({text}, '{NUMBER}') AND NOT {raw.missing}), "
        f"length := max(length({text})), decimals := max({decimals}), "
        f"codes := count(*) FILTER (regexp_full_match({text}, '{_CODE}')), "
        f"powers := count(*) FILTER (regexp_matches({text}, '[eE]') AND NOT {raw.missing}), "
        f"commas := count(*) FILTER (contains({text}, ',')), "
        f"signs := count(*) FILTER (regexp_matches({text}, '[+¥￥$€£ ]')))"
    )


def _clock(raw: _Raw, form: str) -> str:
    return f"replace({raw.text}, 'T', ' ')" if form.endswith("%f") else raw.text


def _facts(
    connection: "DuckDBPyConnection", source: str, values: Sequence[Any], checks: Sequence[str]
) -> Sequence[dict[str, int]]:
    found: list[dict[str, int]] = []
    for at in range(0, len(checks), BATCH):
        picked = ", ".join(checks[at : at + BATCH])
        found += connection.execute(f"SELECT {picked} FROM {source}", values).fetchone() or ()
    return found


def _reading(raw: _Raw, form: str, fact: dict[str, int]) -> tuple[Kind, str] | None:
    """The kind and the SQL of a column that has the form in every row."""
    if fact["bad"]:
        return None
    if form != "number":
        parsed = f"try_strptime({_clock(raw, form)}, '{form}')"
        return "date", parsed if "%H" in form else f"CAST({parsed} AS DATE)"
    if fact["codes"]:
        return None
    digits = f"replace({raw.text}, ',', '')" if fact["commas"] else raw.text
    digits = f"translate({raw.text}, '{_SIGNS}', '')" if fact["signs"] else digits
    if fact["powers"] or fact["length"] > _DIGITS or fact["decimals"] > _DIGITS // 2:
        kind = "DOUBLE"
    elif fact["decimals"]:
        kind = f"DECIMAL(38, {fact['decimals']})"
    else:
        kind = "BIGINT" if fact["length"] <= 18 else "DECIMAL(38, 0)"
    return "number", f"TRY_CAST({digits} AS {kind})"
