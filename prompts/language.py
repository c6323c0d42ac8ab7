"""The language that a person writes in, and that they are answered in."""

import re
from typing import Literal

Language = Literal["zh", "en"]
"""The languages that Segue's own texts have; the model is asked to answer in whichever the person writes."""

_QUOTED = re.compile(
    r"```.*?(?:```|$)|`[^`]*`|“[^”]*”|\"[^\"]*\"|「[^」]*」|『[^』]*』|《[^》]*》|(?<!\w)'[^']*'(?!\w)"
    r"|(?<!\w)\w+://\S+|(?<![\w/\\.~-])[\w/\\.~-]*\w\.[A-Za-z][A-Za-z0-9]{0,5}(?![A-Za-z0-9])",
    re.DOTALL,
)
_HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_KANA_OR_HANGUL = re.compile(r"[\u3041-\u30ff\u31f0-\u31ff\uac00-\ud7af\u1100-\u11ff]")
_WORD = re.compile(r"[^\W\d_\u1100-\u11ff\u3041-\u9fff\uac00-\ud7af\uf900-\ufaff]+")
_QUALITY = re.compile(r"\s*q=([01](?:\.\d{0,3})?)\s*")
_NAME = re.compile(r"[^A-Z]*[A-Z].*|.")
"""A word with a capital, or a single letter."""


def without_quotations(text: str) -> str:
    """The text without code, quotations, titles, addresses and file names."""
    kept, start = list[str](), 0
    for other in _QUOTED.finditer(only_closed(text)):
        kept.append(text[start : other.start()])
        start = other.end()
    return " ".join([*kept, text[start:]])


def only_closed(text: str) -> str:
    """The text with a null character for each opening quotation mark that is never closed.

    A search for quotations would read to the end of the text from each of them.
    """
    for opening, closing in ("“”", "「」", "『』", "《》"):
        last = text.rfind(closing) + 1
        text = text[:last] + text[last:].replace(opening, "\0")
    return text


def language_of(text: str) -> Language:
    """Chinese where most of the person's own words are.

    A Chinese character counts one, a Latin word one and a half, a name in Latin letters a half, since a Chinese
    sentence has them too. Among kana or hangul, Chinese characters are Japanese or Korean.
    """
    own = without_quotations(text).lstrip()
    counted = own[:1].lower() + own[1:] if _HAN.search(own) or _WORD.search(own) else text
    han = len(_HAN.findall(counted))
    foreign = 2 * len(_KANA_OR_HANGUL.findall(counted))
    words = sum(0.5 if _NAME.fullmatch(word) else 1.5 for word in _WORD.findall(counted))
    return "zh" if han > foreign and han >= words else "en"


def accepted_language(header: str) -> Language:
    """The language that an Accept-Language header prefers; English where it names neither."""
    ranges = sorted((part.partition(";") for part in header.split(",")), key=lambda part: _weight(part[2]))
    return next(filter(None, (language_named(tag) for tag, _, _ in ranges)), "en")


def _weight(parameter: str) -> float:
    """The quality of a range, negated, so that the best sorts first."""
    found = _QUALITY.fullmatch(parameter)
    return -float(found[1]) if found else -1.0


def language_named(tag: str) -> Language | None:
    """The language of a tag or locale such as zh, zh-Hans, en_GB.UTF-8; None where it is another one or none."""
    name = re.split(r"[-_.@]", tag.strip().lower())[0]
    return "zh" if name == "zh" else "en" if name == "en" else None
