"""Single words in tables and messages, by the English word."""

import re
from collections.abc import Sequence

from .catalogue import catalogue

_OF_MODEL = re.compile(r'The model "(.+?)" at (\S+) (.+)', re.DOTALL)
_NUMBER = re.compile(r"\d[\d,.]*")


def colon(language: str) -> str:
    """The separator between a label and its text."""
    return "：" if language == "zh" else ": "


def label(english: str, language: str) -> str:
    """A label of an entry, with its colon."""
    return (catalogue(language)["labels"][english] if language == "zh" else english) + colon(language)


def described(english: str, language: str) -> str:
    """What happened, in a language: a number in it and the detail in parentheses stay as they are."""
    if language != "zh":
        return english
    if of_model := _OF_MODEL.fullmatch(english):
        return f"模型“{of_model[1]}”（{of_model[2]}）{described(of_model[3], language)}"
    what, opened, detail = english.partition(" (")
    known = catalogue(language)["words"]
    if number := _NUMBER.search(what):
        template = known.get(_NUMBER.sub("{n}", what, count=1), what)
        return template.replace("{n}", number[0]) + opened + detail
    return known.get(what, what) + opened + detail


def enumerated(items: Sequence[str], language: str) -> str:
    """The items as a list in a sentence: a, b and c."""
    *others, last = items
    comma = "、" if language == "zh" else ", "
    return f"{comma.join(others)}{word(' and ', language)}{last}" if others else last


def word(english: str, language: str) -> str:
    """The word in a language; one that is not known stays as it is."""
    return catalogue(language)["words"].get(english, english) if language == "zh" else english
