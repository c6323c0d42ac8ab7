"""Sentences of the data tools."""

from collections.abc import Sequence

from .catalogue import Texts
from .language import Language
from .words import joined

phrase = Texts("data")
MOST_NAMES = 30
"""Names that a sentence lists at most."""


def listing(names: Sequence[str], language: Language) -> str:
    """The first `MOST_NAMES` names in a row, and how many more there are; "none" if there is no name."""
    shown = joined(names[:MOST_NAMES], language) or phrase("none", language)
    more = len(names) - MOST_NAMES
    return shown + phrase("and_more", language, n=more) if more > 0 else shown
