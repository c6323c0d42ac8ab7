"""Words, numbers, quotations and arithmetic in a text, Chinese or English, with their places."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ...prompts.language import only_closed

CJK = r"\u3400-\u9fff"
_QUOTED = re.compile(r"「[^」]+」|『[^』]+』|《[^》]+》|“[^”]+”|\"[^\"]+\"")
_NEGATED = re.compile(
    r"(?:\b(?:not|don't|never|without|no)\b(?!\s+(?:more|less|fewer|over|only))(?:\s+[\w']+){0,2}\s+"
    rf"|(?:不要|不用|不需要|不想|无需|不含|不包括|(?<![特分区级类个])别)(?!忘)[{CJK}]{{0,3}})$",
    re.IGNORECASE,
)
_DIGITS = {char: value for value, char in enumerate("零一二三四五六七八九")} | {"两": 2}
_SCALES = {"十": 10, "百": 100, "千": 1000, "万": 10_000, "k": 1000}
_ENGLISH = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_NUMBER = re.compile(
    r"(?<![A-Za-z0-9_.])(?<![A-Za-z]-)(\d+(?:,\d{3})*(?:\.\d+)?)([百千万](?![米克瓦])|k(?![a-z]))?"
    r"|(?<![第周期])((?:[零二两三四五六七八九]|一(?![些下般起共定样直点个切边种位])|十(?!分))[零一二两三四五六七八九十百千万]*)"
    rf"|\b({'|'.join(_ENGLISH)})\b",
    re.IGNORECASE,
)
_PLAIN_NUMBER = re.sub(r"\((?!\?)", "(?:", _NUMBER.pattern)
_OPERATOR = (
    r"\*\*|[-+*/^×÷]|%(?:\s*of\b)?|(?<=\d)\s*x(?=\s*\d)|乘以?|除以|加上?|减去?|plus\b|minus\b|times\b"
    r"|(?:divided|multiplied) by|to the power of|square root of|根号|的[平立]方|次方"
)
_ARITHMETIC = re.compile(rf"(?:(?:{_OPERATOR}|{_PLAIN_NUMBER}|[()（）]|的(?=\s*\d))\s*)+", re.IGNORECASE)
_OPEN_END = re.compile(r"(?<![-+*/^×÷\s])[-+*/^×÷\s]+$")
_DATE = re.compile(r"[\d.]+(?:\s*[-/]\s*[\d.]+)+")

_FILLING_ENGLISH = frozenset(
    re.findall(
        r"\S+",
        """
a about above all also am an and any are as at be below but by can check could day did do does find for from get give
go had has have hello help here hey hi how i i'd i'm if in including into is it its just know least less let let's
like list look make many may me more most much my need now of on one or our out over plan please query same search see
should show so some start take tell than thank thanks that the their them then there these they this those to too trip
try under up us use using want was we were what what's when where which who will with within would you your
""",
    )
)
_FILLING_CHINESE = re.compile(
    "帮我|帮忙|请问|请帮|给我|告诉我|我想要?|我要|我们|怎么样|什么时候|什么|怎么|如何|多少|哪些|哪个|有没有|是不是|可以|一下|一些|一个|一共|"
    "不超过|不低于|以内|以上|以下|至少|最多|高于|低于|包括|以及|还有|那么|如果|现在|推荐|关于|之内|需要|进行|看看|算算|等于|换成|改成|改为|"
    "谢谢|你好|您好|知道|[的了呢吗吧啊呀和与在是有那这请帮我你您它他她们也都再就把给从到去为对或及等能会还要用又几看让想查个做次日月年]"
)


@dataclass(frozen=True)
class Found:
    """A value and its position."""

    start: int
    end: int
    value: Any


@lru_cache(maxsize=4096)
def _pattern(word: str) -> re.Pattern[str]:
    """Match a word: Latin edges are word boundaries and tolerate a plural, Chinese ones match anywhere."""
    body = r"[\s_-]+".join(re.escape(part) for part in re.split(r"[\s_-]+", word.strip()) if part)
    left = r"(?<![A-Za-z_])" if re.match(r"[A-Za-z]", word) else ""
    right = r"(?![A-Za-z0-9_])" if re.search(r"[A-Za-z0-9]$", word) else ""
    if re.search(r"[A-Za-z]{2}(?:ies|y)$", word):
        body = re.sub(r"(?:ies|y)$", "(?:ies|ys?)", body)
    elif re.search(r"[A-Za-z]$", word):
        body = re.sub(r"(?<=\w\w[^s\W])s$", "", body) + "(?:es|s)?"
    return re.compile(left + (body or "(?!)") + right, re.IGNORECASE)


def occurrences(text: str, words: Iterable[str], negated: bool = False) -> list[Found]:
    """Where words occur: only after a negation, or only without one."""
    return [
        Found(hit.start(), hit.end(), word)
        for word in words
        for hit in _pattern(word).finditer(text)
        if bool(_NEGATED.search(text[max(0, hit.start() - 60) : hit.start()])) == negated
    ]


def known_values(text: str, values: Mapping[Any, Any]) -> list[Found]:
    """The values whose words occur, in the order of the text; of two that overlap the longer one counts."""
    taken: list[Found] = []
    for word in sorted(map(str, values), key=lambda word: (-len(word), word)):
        for hit in occurrences(text, [word]):
            if all(hit.end <= other.start or hit.start >= other.end for other in taken):
                taken.append(hit)
    named = {str(word): value for word, value in values.items()}
    return [Found(hit.start, hit.end, named[hit.value]) for hit in sorted(taken, key=lambda hit: hit.start)]


def places(hits: Iterable[Found]) -> frozenset[int]:
    """The indexes of all characters that the hits cover."""
    return frozenset(place for hit in hits for place in range(hit.start, hit.end))


def masked(text: str, covered: Iterable[int]) -> str:
    """The text with the given characters blanked; everything else keeps its place."""
    blank = set(covered)
    return "".join("\0" if place in blank else char for place, char in enumerate(text))


def quotations(text: str) -> list[Found]:
    """The quoted texts; a place includes its quotation marks."""
    spans = (hit.span() for hit in _QUOTED.finditer(only_closed(text)))
    return [Found(start, end, text[start + 1 : end - 1].strip()) for start, end in spans]


def numbers(text: str) -> list[Found]:
    """The numbers of a text: Arabic, Chinese, and English words up to twelve."""
    return [Found(hit.start(), hit.end(), _value(hit)) for hit in _NUMBER.finditer(text)]


def _value(hit: re.Match[str]) -> int | float:
    arabic, scale, chinese, english = hit.groups()
    if english:
        return _ENGLISH.index(english.lower())
    if chinese:
        return _chinese(chinese)
    value = float(arabic.replace(",", "")) * _SCALES.get((scale or "").lower(), 1)
    return int(value) if value.is_integer() else value


def _chinese(numeral: str) -> int:
    total = section = digit = 0
    for char in numeral:
        if char == "万":
            total, section, digit = (total + section + digit) * 10_000, 0, 0
        elif char in _SCALES:
            section, digit = section + (digit or 1) * _SCALES[char], 0
        else:
            digit = _DIGITS[char]
    return total + section + digit


def arithmetic(text: str) -> Found | None:
    """The longest arithmetic expression of a text, with its numbers in digits; a date or a range is not one."""
    hits = [(hit.start(), _OPEN_END.sub("", hit[0])) for hit in _ARITHMETIC.finditer(text)]
    hits = [hit for hit in hits if re.search(_OPERATOR, hit[1], re.IGNORECASE) and _NUMBER.search(hit[1])]
    start, written = max(hits, key=lambda hit: len(hit[1]), default=(0, ""))
    end = start + len(written)
    if not written or (_DATE.fullmatch(written) and unused(text, range(start, end))):
        return None
    digits = _NUMBER.sub(lambda number: number[0] if number[1] else str(_value(number)), written)
    return Found(start, end, re.sub(r"%\s*of", "/100*", digits, flags=re.IGNORECASE))


def unused(text: str, used: Iterable[int]) -> list[Found]:
    """The parts of a text that say something and were not used; words that follow each other make up one part."""
    rest = _FILLING_CHINESE.sub(lambda hit: "\0" * len(hit[0]), masked(text, used))
    found: list[Found] = []
    for hit in re.finditer(rf"[{CJK}]+|[^\W_{CJK}][\w'.-]*(?<![.])", rest):
        if hit[0].lower() in _FILLING_ENGLISH or (len(hit[0]) == 1 and not hit[0].isdigit()):
            continue
        joined = found and not rest[found[-1].end : hit.start()].strip(" ")
        start = found.pop().start if joined else hit.start()
        found.append(Found(start, hit.end(), text[start : hit.end()]))
    return found
