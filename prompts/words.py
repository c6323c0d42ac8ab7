"""Single words in tables and messages, by the English word."""

from collections.abc import Iterable, Sequence

from .catalogue import catalogue


def colon(language: str) -> str:
    """The separator between a label and its text."""
    return "：" if language == "zh" else ": "


def label(english: str, language: str) -> str:
    """A label of an entry, with its colon."""
    return (catalogue(language)["labels"][english] if language == "zh" else english) + colon(language)


def joined(items: Iterable[str], language: str) -> str:
    """The items in a row: a, b, c."""
    return ("、" if language == "zh" else ", ").join(items)


def clauses(items: Iterable[str], language: str) -> str:
    """The items as clauses in a row: a; b; c."""
    return ("；" if language == "zh" else "; ").join(items)


def enumerated(items: Sequence[str], language: str) -> str:
    """The items as a list in a sentence: a, b and c."""
    *others, last = items
    return f"{joined(others, language)}{word(' and ', language)}{last}" if others else last


def word(english: str, language: str) -> str:
    """The word in a language; one that is not known stays as it is."""
    return catalogue(language)["words"].get(english, english) if language == "zh" else english
