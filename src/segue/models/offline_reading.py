"""What a text says: words, numbers, arithmetic and quotations, in Chinese and in English."""

import ast
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

CJK = r"\u3400-\u9fff"
QUOTED = re.compile(r"「([^」]+)」|『([^』]+)』|《([^》]+)》|“([^”]+)”|\"([^\"]+)\"")
PUNCTUATION = re.compile(r"[，。；！？、,;!?\n]|\.(?!\d)")
_NEGATED = re.compile(
    r"(?:\b(?:not|don't|don’t|never|without|no)\b(?!\s+(?:more|less|fewer|over|only|know|sure|forget|mind))(?:\s+[\w']+){0,2}\s+"
    rf"|(?:不要|不用|不需要|不想|无需|不含|不包括|(?<![特分区级类个])别)(?!忘)[{CJK}]{{0,3}})$",
    re.IGNORECASE,
)
_CHINESE_DIGITS = {char: value for value, char in enumerate("零一二三四五六七八九")} | {"两": 2}
_SCALES = {"十": 10, "百": 100, "千": 1000, "万": 10_000, "k": 1000}
_ENGLISH = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_NUMBER = re.compile(
    r"(?P<arabic>(?:(?<![A-Za-z0-9_)])-)?(?<![A-Za-z0-9_.])(?<![A-Za-z]-)\d+(?:,\d{3})*(?:\.\d+)?)"
    r"(?P<scale>[百千万](?![米克瓦])|k(?![a-z]))?"
    r"|(?<![第周期])(?P<chinese>(?:[零二两三四五六七八九]|一(?![些下般起共定样直点个切边旦种位])|十(?!分(?!钟)))"
    r"[零一二两三四五六七八九十百千万]*)"
    r"|(?<!which )(?<!this )(?<!that )(?<!any )\b(?P<english>(?!one\s+of\b)(?:" + "|".join(_ENGLISH) + r"))\b",
    re.IGNORECASE,
)
_RANGE = re.compile(r"\s*(?:-|~|–|—|至|到|to|and)\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Found:
    """A value and where it stands in a text."""

    start: int
    end: int
    value: Any


@dataclass(frozen=True)
class Number(Found):
    """A number; in a range, `first` and `last` are the whole range's bounds and `place` tells its two ends apart."""

    first: int
    last: int
    place: Literal["", "low", "high"] = ""


@lru_cache(maxsize=4096)
def _pattern(word: str) -> re.Pattern[str]:
    """Match a word: ASCII edges are word boundaries and tolerate a plural, CJK ones match anywhere."""
    body = r"[\s_-]+".join(re.escape(part) for part in re.split(r"[\s_-]+", word.strip()) if part)
    left = r"(?<![A-Za-z_])" if word[:1].isascii() and word[:1].isalpha() else ""
    right = ""
    if word[-1:].isascii() and word[-1:].isalnum():
        if word.lower().endswith("ies"):
            body = body[:-3] + "(?:ies|y)"
        elif word.lower().endswith("y"):
            body = body[:-1] + "(?:ies|ys?)"
        elif re.search(r"(?:ch|sh|x|ss)es$", word, re.IGNORECASE):
            body = body[:-2] + "(?:es)?"
        elif word[-1:].isalpha():
            body = (body[:-1] if re.search(r"\w\w[^s]s$", word, re.IGNORECASE) else body) + "(?:es|s)?"
        right = r"(?![A-Za-z0-9_])"
    return re.compile(left + body + right if body else r"(?!)", re.IGNORECASE)


def occurrences(text: str, word: str) -> list[Found]:
    """Where a word stands and is not said to be unwanted."""
    return [
        Found(hit.start(), hit.end(), word)
        for hit in _pattern(word).finditer(text)
        if not _NEGATED.search(text[max(0, hit.start() - 60) : hit.start()])
    ]


def unwanted(text: str, words: Iterable[str]) -> bool:
    """Tell whether one of the words stands in the text after a negation."""
    hits = (hit for word in words for hit in _pattern(word).finditer(text))
    return any(_NEGATED.search(text[max(0, hit.start() - 60) : hit.start()]) for hit in hits)


def known_values(text: str, values: Iterable[Any]) -> list[Found]:
    """The values that stand in the text, in its order; of two that overlap the longer one counts."""
    taken: list[Found] = []
    for value in sorted(set(values), key=lambda value: (-len(str(value)), str(value))):
        for hit in occurrences(text, str(value)):
            if all(hit.end <= other.start or hit.start >= other.end for other in taken):
                taken.append(Found(hit.start, hit.end, value))
    return sorted(taken, key=lambda hit: hit.start)


def masked(text: str, hits: Iterable[Found]) -> str:
    """The text with the given places blanked; everything else keeps its place."""
    for hit in hits:
        text = text[: hit.start] + "\0" * (hit.end - hit.start) + text[hit.end :]
    return text


def quotations(text: str) -> list[Found]:
    """The quoted texts; a place includes its quotation marks."""
    return [Found(hit.start(), hit.end(), next(filter(None, hit.groups())).strip()) for hit in QUOTED.finditer(text)]


def numbers(text: str) -> list[Number]:
    """The numbers of a text: Arabic, Chinese, and English words up to twelve."""
    plain = [Found(hit.start(), hit.end(), _value(hit)) for hit in _NUMBER.finditer(text)]
    read: list[Number] = []
    for place, hit in enumerate(plain):
        after = plain[place + 1] if place + 1 < len(plain) else None
        if read and read[-1].place == "low":
            read.append(Number(hit.start, hit.end, hit.value, read[-1].first, hit.end, "high"))
        elif after and _RANGE.fullmatch(text[hit.end : after.start]):
            read.append(Number(hit.start, hit.end, hit.value, hit.start, after.end, "low"))
        else:
            read.append(Number(hit.start, hit.end, hit.value, hit.start, hit.end))
    return read


def _value(hit: re.Match[str]) -> int | float:
    if word := hit["english"]:
        return _ENGLISH.index(word.lower())
    if numeral := hit["chinese"]:
        return _chinese(numeral)
    value = float(hit["arabic"].replace(",", "")) * _SCALES.get((hit["scale"] or "").lower(), 1)
    return int(value) if value.is_integer() else value


def _chinese(numeral: str) -> int:
    total = section = digit = 0
    for char in numeral:
        if char == "万":
            total, section, digit = (total + section + digit) * 10_000, 0, 0
        elif char in _SCALES:
            section, digit = section + (digit or 1) * _SCALES[char], 0
        else:
            digit = _CHINESE_DIGITS[char]
    return total + section + digit


_N = r"(\d+(?:\.\d+)?)"
_SPELLED: Sequence[tuple[re.Pattern[str], str]] = [
    (re.compile(pattern, re.IGNORECASE), replacement)
    for pattern, replacement in (
        (r"(?<=\d),(?=\d{3}\b)", ""),
        (rf"{_N}\s*的\s*{_N}\s*次方", r"\1**\2"),
        (rf"{_N}\s*的?平方根|根号\s*{_N}|square root of\s*{_N}", r"\1\2\3**0.5"),
        (rf"{_N}\s*(?:的?平方|squared)", r"\1**2"),
        (rf"{_N}\s*(?:的?立方|cubed)", r"\1**3"),
        (rf"(?:\bsum of|\badd)\s+{_N}\s+(?:and|to)\s+{_N}", r"\1+\2"),
        (rf"(?:\bproduct of|\bmultiply)\s+{_N}\s+(?:and|by)\s+{_N}", r"\1*\2"),
        (rf"\bdivide\s+{_N}\s+by\s+{_N}", r"\1/\2"),
        (rf"\bsubtract\s+{_N}\s+from\s+{_N}", r"\2-\1"),
        (rf"{_N}\s*%\s*of\s+{_N}", r"\1/100*\2"),
        (rf"{_N}\s*的\s*{_N}\s*%", r"\1*\2/100"),
        (rf"{_N}\s*%(?!\s*[\d(])", r"(\1/100)"),
        (r"(?:raised )?to the power of|\^", "**"),
        (r"乘以|乘|×|\btimes\b|\bmultiplied by\b|(?<=\d)\s*x\s*(?=\d)", "*"),
        (r"除以|÷|\bdivided by\b", "/"),
        (r"加上|加|\bplus\b", "+"),
        (r"减去|减|\bminus\b", "-"),
        (r"\bmod(?:ulo)?\b", "%"),
    )
]
_TERM = r"[-+]?(?:\(\s*[-+]?)*\d+(?:\.\d+)?(?:\s*\))*"
_EXPRESSION = re.compile(rf"(?<![\w.]){_TERM}(?:\s*(?:\*\*|//|[-+*/%])\s*{_TERM})+", re.ASCII)
_LONGEST = 300


def arithmetic(text: str) -> str | None:
    """The longest arithmetic expression of a text, in Python's notation; None if there is none."""
    text = unicodedata.normalize("NFKC", text.replace("²", "**2").replace("³", "**3"))
    text = _NUMBER.sub(lambda hit: hit[0] if hit["arabic"] else str(_value(hit)), text)
    for pattern, replacement in _SPELLED:
        text = pattern.sub(replacement, text)
    candidates = sorted((_balanced(hit[0]) for hit in _EXPRESSION.finditer(text)), key=len, reverse=True)
    return next((candidate for candidate in candidates if _parses(candidate)), None)


def _balanced(expression: str) -> str:
    surplus = expression.count("(") - expression.count(")")
    while surplus > 0 and expression.startswith("("):
        expression, surplus = expression[1:].strip(), surplus - 1
    while surplus < 0 and expression.endswith(")"):
        expression, surplus = expression[:-1].strip(), surplus + 1
    return expression


def _parses(expression: str) -> bool:
    if len(expression) > _LONGEST:
        return False
    try:
        return isinstance(ast.parse(expression, mode="eval").body, ast.BinOp)
    except SyntaxError:
        return False
