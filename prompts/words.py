"""Single words in tables and messages, by the English word."""

from collections.abc import Sequence

from .catalogue import catalogue


def colon(language: str) -> str:
    """The separator between a label and its text."""
    return "：" if language == "zh" else ": "


def label(english: str, language: str) -> str:
    """A label of an entry, with its colon."""
    return (catalogue(language)["labels"][english] if language == "zh" else english) + colon(language)


def enumerated(items: Sequence[str], language: str) -> str:
    """The items as a list in a sentence: a, b and c."""
    *others, last = items
    comma = "、" if language == "zh" else ", "
    return f"{comma.join(others)}{word(' and ', language)}{last}" if others else last


def word(english: str, language: str) -> str:
    """The word in a language; one that is not known stays as it is."""
    return catalogue(language)["words"].get(english, english) if language == "zh" else english
