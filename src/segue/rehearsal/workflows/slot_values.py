"""Values of slots in what a user says."""

import re
from collections.abc import Iterator

from .workflow import Slot


def value_in(text: str, slot: Slot) -> str | None:
    """The slot's value in a text; None if there is none.

    The longest word of a choice wins, a pattern comes next, and a slot with neither takes the whole text.
    """
    found = max(_choices_in(text, slot), default=None)
    if found:
        return found[1]
    if slot.pattern:
        match = re.search(slot.pattern, text)
        return _cased(match[1] if match.re.groups else match[0], slot) if match else None
    return None if slot.choices else _cased(text.strip(), slot) or None


def _choices_in(text: str, slot: Slot) -> Iterator[tuple[int, str]]:
    for value, words in slot.choices.items():
        for word in words:
            if re.search(_whole_word(word), text, re.IGNORECASE):
                yield len(word), value


def _whole_word(word: str) -> str:
    """Words of letters stand alone; Chinese has no spaces between words."""
    return rf"\b{re.escape(word)}\b" if word.isascii() else re.escape(word)


def _cased(value: str, slot: Slot) -> str:
    return {"upper": value.upper, "lower": value.lower}.get(slot.case, lambda: value)()
