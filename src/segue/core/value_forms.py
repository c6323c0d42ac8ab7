"""Forms of the same value: case, spaces, numbers, dates, links, e-mail addresses and account numbers."""

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
SHINGLE = 4
"""Words in a row that two texts have in common where one is made of the other."""

_WORD = re.compile(r"[^\W_]+")
_CHINESE = re.compile(r"[\u3400-\u9fff]")
_MAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_LINK = re.compile(r"(?:https?://|www\.)[^\s<>\"'，。；]+", re.IGNORECASE)
_ACCOUNT = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]){10,30}\b")
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?(?![\w])")
_ISO = re.compile(r"(?<!\d)(\d{4})[-/.年](\d{1,2})[-/.月](\d{1,2})(?!\d)")
_MONTH = "(" + "|".join(MONTHS) + r")[a-z]*\.?"
_DAY_FIRST = re.compile(rf"(?<!\d)(\d{{1,2}})(?:st|nd|rd|th)?(?: of)? {_MONTH}(?:,? (\d{{4}}))?", re.IGNORECASE)
_MONTH_FIRST = re.compile(rf"\b{_MONTH} (\d{{1,2}})(?:st|nd|rd|th)?(?!\d)(?:,? (\d{{4}}))?", re.IGNORECASE)
_CHINESE_DATE = re.compile(r"(?<![\d年])(\d{1,2})月(\d{1,2})[日号]")
_CLOCK = re.compile(r"(?<!\d)(\d{1,2}):(\d{2})(?!\d)")
_HOUR = re.compile(r"(?<!\d)(\d{1,2}) ?([ap])\.?m\b", re.IGNORECASE)


def plain(text: str) -> str:
    """The text without differences of case, width and spaces."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def words_of(text: str) -> list[str]:
    """The words of a plain text; each Chinese character is one."""
    return [part for word in _WORD.findall(text) for part in _split(word)]


def _split(word: str) -> list[str]:
    return list(word) if _CHINESE.search(word) else [word]


def identifiers(text: str) -> frozenset[str]:
    """The e-mail addresses, links and account numbers in a text, each in one form."""
    normal = unicodedata.normalize("NFKC", text)
    mails = {found.casefold().strip(".") for found in _MAIL.findall(normal)}
    links = {_host_and_path(found) for found in _LINK.findall(normal)}
    return frozenset(mails | links | {found.replace(" ", "") for found in _ACCOUNT.findall(normal)})


def _host_and_path(link: str) -> str:
    bare = re.sub(r"^https?://", "", link.casefold()).removeprefix("www.")
    return "www." + bare.rstrip("/.,;:!?)")


def number_of(value: object) -> str:
    """A number in one form, as `1200` for "1,200.00"; empty if it is none."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    try:
        number = Decimal(str(value).replace(",", "").strip())
    except InvalidOperation:
        return ""
    return format(number.normalize(), "f") if number.is_finite() else ""


def numbers(text: str) -> frozenset[str]:
    """The numbers in a plain text."""
    return frozenset(filter(None, map(number_of, _NUMBER.findall(text))))


@dataclass(frozen=True)
class Day:
    """A day; `year` is 0 where none is written."""

    month: int
    day: int
    year: int = 0

    def fits(self, other: "Day") -> bool:
        same_year = not (self.year and other.year) or self.year == other.year
        return (self.month, self.day) == (other.month, other.day) and same_year


def days(text: str) -> frozenset[Day]:
    """The days that are written in a plain text, in whichever form."""
    found = {Day(int(month), int(day), int(year)) for year, month, day in _ISO.findall(text)}
    found |= {Day(_month(month), int(day), int(year or 0)) for day, month, year in _DAY_FIRST.findall(text)}
    found |= {Day(_month(month), int(day), int(year or 0)) for month, day, year in _MONTH_FIRST.findall(text)}
    return frozenset(found | {Day(int(month), int(day)) for month, day in _CHINESE_DATE.findall(text)})


def _month(name: str) -> int:
    return MONTHS.index(name.casefold()) + 1


def clocks(text: str) -> frozenset[str]:
    """The times of day in a plain text, as HH:MM."""
    found = {f"{int(hour):02}:{minute}" for hour, minute in _CLOCK.findall(text)}
    return frozenset(found | {_of_half(int(hour), half) for hour, half in _HOUR.findall(text)})


def _of_half(hour: int, half: str) -> str:
    return f"{hour % 12 + (12 if half.casefold() == 'p' else 0):02}:00"


_MOMENT = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?:[ t]\d{1,2}:\d{2}(?::\d{2})?(?:\.\d+)?(?:z|[+-]\d{2}:?\d{2})?)?")


def is_moment(text: str) -> bool:
    """Whether a plain text is a date, or a date with a time, and nothing else."""
    return bool(_MOMENT.fullmatch(text))


@dataclass(frozen=True)
class TextForms:
    """A text in the forms in which values are looked for."""

    text: str
    line: str
    vocabulary: frozenset[str]
    identifiers: frozenset[str]
    numbers: frozenset[str]
    days: frozenset[Day]
    clocks: frozenset[str]

    def holds(self, phrase: str) -> bool:
        """Whether the plain phrase occurs in it as whole words."""
        words = words_of(phrase)
        return bool(words) and f" {' '.join(words)} " in self.line

    def shares(self, words: list[str]) -> bool:
        """Whether several words in a row occur in it."""
        runs = (words[start : start + SHINGLE] for start in range(len(words) - SHINGLE + 1))
        return any(f" {' '.join(run)} " in self.line for run in runs)


@lru_cache(maxsize=2_000)
def forms_of(text: str) -> TextForms:
    """The forms of a text."""
    normal = plain(text)
    words = words_of(normal)
    line = f" {' '.join(words)} "
    return TextForms(normal, line, frozenset(words), identifiers(text), numbers(normal), days(normal), clocks(normal))


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each text, number and truth value inside of a value, with the names that lead to it."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from leaves(inner, (*path, str(name)))
            if identifiers(str(name)):  # an address may well be a key
                yield (*path, "key"), str(name)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from leaves(inner, path)
    elif value is not None:
        yield path, value


def structured(value: Any) -> Any:
    """A text that is JSON as its value; anything else as it is."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value
