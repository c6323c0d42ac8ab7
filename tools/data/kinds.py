"""The types of a CSV file's columns: number, date or text, judged by every row."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from .vocabulary import family_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Kind = Literal["number", "date", "text"]
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


def _time(*days: str) -> str:
    formats = [day + clock for day in ("%Y年%m月%d日", "%Y.%m.%d", *days) for clock in _CLOCKS]
    formats += ["%Y-%m", "%Y/%m", "%Y年%m月"]
    time = f"coalesce(TRY_CAST(v AS TIMESTAMP), try_strptime(v, {formats}))"
    return f"CASE WHEN regexp_full_match(v, '{_DATE}') THEN {time} END"


_COMPACT = "CASE WHEN regexp_full_match(v, '(19|20)[0-9]{6}') THEN try_strptime(v, '%Y%m%d') END"
"""Days without separators, in a column whose name mentions dates."""
_TIMES = (_time(), _time("%m/%d/%Y"), _time("%d/%m/%Y", "%d.%m.%Y"))
"""Dates with the year first, the month first, or the day first."""
_IS_NUMBER = (
    "(TRY_CAST(v AS DECIMAL(38, 10)) IS NOT NULL AND left(v, 1) NOT IN ('0', '+', '-'))"
    f" OR (regexp_full_match(v, '{NUMBER}') AND NOT regexp_full_match(v, '{_CODE}'))"
)


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    name: str
    kind: Kind


def typed(connection: "DuckDBPyConnection", table: str, names: Sequence[str]) -> dict[Column, str]:
    """By column the SQL that reads it from a table whose columns c0, c1, … are trimmed texts."""
    return dict(_Texts(connection, table, f"c{place}").read(name) for place, name in enumerate(names))


@dataclass(frozen=True)
class _Texts:
    """The texts of a column; in its SQL each of them is `v`."""

    connection: "DuckDBPyConnection"
    table: str
    column: str

    def read(self, name: str) -> tuple[Column, str]:
        """What the column holds, and the SQL that reads it."""
        if self._any("true"):
            compact = (_COMPACT,) if family_of(name) == "date" else ()
            if time := next((time for time in compact if self._all(f"{time} IS NOT NULL")), None):
                return Column(name, "date"), self._date(time)
            if self._all(_IS_NUMBER):
                return Column(name, "number"), self._number()
            if time := next((time for time in _TIMES if self._all(f"{time} IS NOT NULL")), None):
                return Column(name, "date"), self._date(time)
        return Column(name, "text"), f"nullif({self.column}, '')"

    def _all(self, condition: str) -> bool:
        return not self._any(f"NOT coalesce({condition}, false)")

    def _any(self, condition: str) -> bool:
        """Whether a value meets the condition; the search ends at the first one."""
        return bool(self._ask("1", f"{condition} LIMIT 1"))

    def _ask(self, picked: str, condition: str = "true") -> list[tuple[int, ...]]:
        texts = f"SELECT {self.column} AS v FROM {self.table}"
        sql = f"SELECT {picked} FROM ({texts}) WHERE lower(v) NOT IN {_MISSING} AND {condition}"
        return self.connection.execute(sql).fetchall()

    def _date(self, time: str) -> str:
        ((longest,),) = self._ask("max(length(v))")
        read = time.replace("(v", f"({self.column}")
        return read if longest > _LONGEST_DATE else f"CAST({read} AS DATE)"

    def _number(self) -> str:
        decimals = "CASE WHEN contains(v, '.') THEN strlen(v) - instr(v, '.') ELSE 0 END"
        ((longest, places, powers),) = self._ask(f"max(length(v)), max({decimals}), bool_or(contains(lower(v), 'e'))")
        if powers or longest > _EXACT or places > _EXACT // 2:
            kind = "DOUBLE"
        elif places:
            kind = f"DECIMAL(38, {places})"
        else:
            kind = "BIGINT" if longest <= 18 else "DECIMAL(38, 0)"
        digits = f"translate({self.column}, ',+¥￥$€£ ', '')"
        number = f"coalesce(TRY_CAST({self.column} AS {kind}), TRY_CAST({digits} AS {kind}))"
        return f"CASE WHEN isfinite({number}) THEN {number} END" if kind == "DOUBLE" else number
