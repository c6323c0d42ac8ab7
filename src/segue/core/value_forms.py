"""Forms of the same value: case, spaces, numbers, dates, links, e-mail addresses and account numbers."""

import json
import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation
from functools import lru_cache, wraps
from typing import Any, TypeVar

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
MONTH_NAMES = (
    *(
        "january",
        "february",
        "march",
        "april",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ),
)
SHINGLE = 4
"""Words in a row that two texts have in common where one is made of the other."""

DIGITS_MOST = 40
"""Digits of a number that is compared as one."""
LONG = 20_000
"""Characters of a text whose forms are kept for a few texts only."""
SHORT = 200
"""Characters of a value, whose forms are found once for all the texts that it is looked for in."""

T = TypeVar("T")


def kept_for_short(function: Callable[[str], T]) -> Callable[[str], T]:
    """The function, which is called once for a short text."""
    short = lru_cache(maxsize=2_000)(function)

    @wraps(function)
    def found(text: str) -> T:
        return short(text) if len(text) <= SHORT else function(text)

    return found


_WORD = re.compile(r"[^\W_]+")
_CHINESE = re.compile(r"[\u3400-\u9fff]")
_MAIL = re.compile(r"(?<![\w.+-])[\w.+-]++@[\w-]++(?:\.[\w-]++)+")
_LINK = re.compile(r"(?:(?<![\w])[a-z][a-z0-9+.-]{1,20}://|www\.)[^\s<>\"'，。；)\]]+", re.IGNORECASE)
_HOST = re.compile(
    r"(?<![\w.@/-])(?:[\w-]{1,63}+\.){1,9}"
    r"(?:(?:com|net|org|io|info|biz|ru|cn|xyz|dev|app|me|link|top|site|online|co|uk|de|eu)(?![\w.@-])|[^\W\d_]{2,24}(?=/))"
    r"(?:/[^\s<>\"'，。；)\]]*)?",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[a-z0-9])\.[A-Z][a-z]*$")
"""The beginning of a sentence that follows a link without a space."""
_ACCOUNT = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]){10,30}\b")
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?(?![\w])")
_ISO = re.compile(r"(?<!\d)(\d{4})[-/.年](\d{1,2})[-/.月](\d{1,2})(?!\d)")
_MONTH = "(" + "|".join(MONTHS) + r")[a-z]*\.?"
_DAY_FIRST = re.compile(rf"(?<!\d)(\d{{1,2}})(?:st|nd|rd|th)?(?: of)? {_MONTH}(?:,? (\d{{4}}))?", re.IGNORECASE)
_MONTH_FIRST = re.compile(rf"\b{_MONTH} (\d{{1,2}})(?:st|nd|rd|th)?(?!\d)(?:,? (\d{{4}}))?", re.IGNORECASE)
_CHINESE_DATE = re.compile(r"(?<![\d年])(\d{1,2})月(\d{1,2})[日号]")
_CLOCK = re.compile(r"(?<!\d)(\d{1,2}):(\d{2})(?!\d)")
_HOUR = re.compile(r"(?<!\d)(\d{1,2}) ?([ap])\.?m\b", re.IGNORECASE)


@kept_for_short
def plain(text: str) -> str:
    """The text without differences of case, width and spaces."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def words_of(text: str) -> list[str]:
    """The words of a plain text; each Chinese character is one."""
    return [part for word in _WORD.findall(text) for part in _split(word)]


def _split(word: str) -> list[str]:
    return list(word) if _CHINESE.search(word) else [word]


def has_chinese(text: str) -> bool:
    return bool(_CHINESE.search(text))


def letters_in(text: str) -> int:
    """The letters of a plain text; a Chinese character counts as two, since two of them are a name."""
    return len(text.replace(" ", "")) + len(_CHINESE.findall(text))


_JOINED = re.compile(r"[@/\\]|\w\.[^\W\d]")


@kept_for_short
def is_joined(text: str) -> bool:
    """Whether the signs between the words of a text matter, as in an address, a host or a path."""
    return bool(_JOINED.search(text))


@kept_for_short
def identifiers(text: str) -> frozenset[str]:
    """The e-mail addresses, links and account numbers in a text, each in one form."""
    normal = unicodedata.normalize("NFKC", text)
    mails = {found.lower().strip(".") for found in _MAIL.findall(normal)}
    written = {*_LINK.findall(normal), *_HOST.findall(normal)}
    links = {_host_and_path(each) for found in written for each in (found, _SENTENCE.sub("", found))}
    return frozenset(mails | links | {found.replace(" ", "") for found in _ACCOUNT.findall(normal)})


def is_link_in(link: str, text: str) -> bool:
    """Whether a text has the link just as it is, `https://` and a slash at the end aside."""
    written = {*_LINK.findall(text), *_HOST.findall(text)}
    found = {form for each in written for form in (each, each.rstrip(".,;:!?)"), _SENTENCE.sub("", each))}
    return bool(identifiers(link)) and _bare(link) in map(_bare, found)


def _bare(link: str) -> str:
    return re.sub(r"^https?://", "", link).removesuffix("/")


def _host_and_path(link: str) -> str:
    bare = re.sub(r"^https?://", "", link.lower()).removeprefix("www.")  # casefold would make one of ß and ss
    return "www." + bare.rstrip("/.,;:!?)")


def number_of(value: object) -> str:
    """A number in one form, as `1200` for "1,200.00"; empty if it is none."""
    if isinstance(value, str):
        return _number_in(value)
    return _written(value) if isinstance(value, int | float) and not isinstance(value, bool) else ""


@kept_for_short
def _number_in(text: str) -> str:
    return "" if len(text) > DIGITS_MOST or not any(map(str.isdigit, text)) else _written(text)


def _written(value: str | float) -> str:
    try:
        number = Decimal(str(value).replace(",", "").strip())
    except (InvalidOperation, ValueError):  # Python writes out no whole number of more than 4,300 digits
        return ""
    if not number.is_finite() or abs(number.adjusted()) > DIGITS_MOST:
        return ""
    written = format(number, "f")
    return (written.rstrip("0").rstrip(".") if "." in written else written) or "0"


def numbers(text: str) -> frozenset[str]:
    """The numbers in a plain text."""
    return frozenset(filter(None, map(number_of, _NUMBER.findall(text))))


def numbers_alone(text: str) -> frozenset[str]:
    """The numbers in a text that are no part of a date or a time of day."""
    return numbers(_CLOCK.sub(" ", _ISO.sub(" ", plain(text))))


@dataclass(frozen=True)
class Day:
    """A day; `year` is 0 where none is written."""

    month: int
    day: int
    year: int = 0

    def fits(self, other: "Day") -> bool:
        same_year = not (self.year and other.year) or self.year == other.year
        return (self.month, self.day) == (other.month, other.day) and same_year

    @property
    def weekday(self) -> int | None:
        """Its day of the week, Monday being 0; None without a year."""
        try:
            return date(self.year, self.month, self.day).weekday() if self.year else None
        except ValueError:
            return None


def days(text: str) -> frozenset[Day]:
    """The days that are written in a plain text, in whichever form."""
    found = {Day(int(month), int(day), int(year)) for year, month, day in _ISO.findall(text)}
    found |= {Day(_month(month), int(day), int(year or 0)) for day, month, year in _DAY_FIRST.findall(text)}
    found |= {Day(_month(month), int(day), int(year or 0)) for month, day, year in _MONTH_FIRST.findall(text)}
    return frozenset(found | {Day(int(month), int(day)) for month, day in _CHINESE_DATE.findall(text)})


WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_CHINESE_WEEKDAY = re.compile(r"(?:星期|周|礼拜)([一二三四五六日])")
_CHINESE_DAYS = "一二三四五六日"


def weekdays(text: str) -> frozenset[int]:
    """The days of the week that are named in a plain text, Monday being 0."""
    found = {number for number, name in enumerate(WEEKDAYS) if name in text}
    chinese = _CHINESE_WEEKDAY.findall(text.replace("天", "日"))
    return frozenset(found | {_CHINESE_DAYS.index(sign) for sign in chinese})


def is_day_in(wanted: Collection[Day], text: "TextForms") -> bool:
    """Whether one of the days is in a text, as a date or by its day of the week."""
    if any(day.fits(other) for day in wanted for other in text.days):
        return True
    named = weekdays(text.text)
    return bool(named) and any(day.weekday in named for day in wanted)


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

    def quotes(self, phrase: str) -> bool:
        """Whether the plain phrase occurs in it with the same signs, as whole words."""
        whole = rf"(?<![\w@./\\-]){re.escape(phrase)}(?![\w@/\\-]|\.\w)"
        return phrase in self.text and bool(re.search(whole, self.text))

    def shares(self, words: list[str]) -> bool:
        """Whether several words in a row occur in it."""
        runs = (words[start : start + SHINGLE] for start in range(len(words) - SHINGLE + 1))
        return any(f" {' '.join(run)} " in self.line for run in runs)


def forms_of(text: str) -> TextForms:
    return _forms_of_short(text) if len(text) <= LONG else _forms_of_long(text)


def _forms(text: str) -> TextForms:
    normal = plain(text)
    words = words_of(normal)
    line = f" {' '.join(words)} "
    return TextForms(normal, line, frozenset(words), identifiers(text), numbers(normal), days(normal), clocks(normal))


_forms_of_short = lru_cache(maxsize=400)(_forms)
_forms_of_long = lru_cache(maxsize=4)(_forms)


@dataclass(frozen=True)
class Leaf:
    """A text, number or truth value inside of a value, with its field and the object that it is in."""

    name: str
    value: Any
    record: Mapping[str, Any] | None = None


def leaves(value: Any, name: str = "") -> Iterator[Leaf]:
    """Each text, number and truth value inside of a value, however deep; `name` is that of the value itself."""
    waiting = [Leaf(name, value)]
    while waiting:
        part = waiting.pop()
        if isinstance(part.value, Mapping):
            inner = part.value
            waiting += [Leaf(str(key), each, inner) for key, each in reversed([*inner.items()])]
            yield from (Leaf("key", str(key)) for key in inner if identifiers(str(key)))  # an address may be a key
        elif isinstance(part.value, list | tuple):
            waiting += [Leaf(part.name, each, part.record) for each in reversed(part.value)]
        elif part.value is not None:
            yield part


def structured(value: Any) -> Any:
    """A text that is JSON as its value; anything else as it is."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value
