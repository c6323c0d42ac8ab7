"""Whether an argument of a call discloses a secret result."""

import re
from binascii import a2b_base64
from collections.abc import Collection, Iterable, Iterator, Mapping
from html import unescape
from typing import Any, Final
from urllib.parse import unquote_plus

from .value_forms import Leaf, TextForms, forms_of, leaves, letters_in, number_of, plain, structured, words_of

LETTERS: Final = 4
"""Letters of a secret text that is looked for; a shorter one may be there by accident."""
DIGITS: Final = 3
"""Digits of a secret number that is looked for."""
DEEP: Final = 2
"""Encodings in one another that are undone."""
_BASE64: Final = tuple(map(re.compile, (r"[A-Za-z0-9+/]{6,}", r"[A-Za-z0-9_-]{6,}", r"[A-Za-z0-9]{6,}")))
_STANDARD: Final = str.maketrans("-_", "+/")
_HEXADECIMAL: Final = re.compile(r"(?:[0-9A-Fa-f]{2}){4,}")
CODE: Final = 5
"""Characters of a word with digits that two texts have in common where one discloses the other."""


def discloses(argument: Any, secret: Any, known: Collection[TextForms]) -> bool:
    """Whether an argument has a value of a secret result, or a part of it, that is in none of the `known` texts."""
    texts = [str(leaf.value) for leaf in leaves(argument) if not isinstance(leaf.value, bool)]
    return any(_discloses(text, secret, known) for text in decoded([*texts, *_keys(argument)]))


def _keys(argument: Any) -> Iterator[str]:
    """The keys of objects inside of an argument: what they say goes out, too."""
    waiting = [argument]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Mapping):
            yield from map(str, part)
            waiting += part.values()
        elif isinstance(part, list | tuple):
            waiting += part


def decoded(texts: Iterable[str]) -> frozenset[str]:
    """The texts, and what they say without the encodings of links, HTML, Base64 and hexadecimal digits.

    Two encodings may be one in the other.
    """
    found = latest = frozenset(texts)
    for _ in range(DEEP):
        latest = frozenset(each for text in latest for each in _decodings(text)) - found
        found |= latest
    return found


def _decodings(text: str) -> Iterator[str]:
    """What a text says in each encoding that it may have parts of."""
    if "%" in text or "+" in text:
        yield unquote_plus(text)
    if "&" in text:
        yield unescape(text)
    for pattern in _BASE64:
        yield "\n".join(filter(None, map(_from_base64, pattern.findall(text))))
    yield "\n".join(bytes.fromhex(part).decode(errors="ignore") for part in _HEXADECIMAL.findall(text))


def _from_base64(part: str) -> str:
    """The text of a part, whichever of the two alphabets it has; empty for bytes that are none."""
    digits = part.translate(_STANDARD)
    digits = digits[:-1] if len(digits) % 4 == 1 else digits
    read = a2b_base64(digits + "=" * (-len(digits) % 4)).decode(errors="ignore")
    return read if " ".join(read.split()).isprintable() else ""


def _discloses(text: str, secret: Any, known: Collection[TextForms]) -> bool:
    said, hidden = forms_of(text), _forms(secret)
    if any(_is_in(text, each) for each in known):
        return False
    ours = frozenset[str]().union(*(_codes(each) | each.identifiers for each in known))
    if ((_codes(said) | said.identifiers) & (_codes(hidden) | hidden.identifiers)) - ours:
        return True
    is_part = letters_in(said.text) >= LETTERS and hidden.holds(said.text)
    return is_part or hidden.shares(words_of(said.text)) or _has_field(said, secret, known)


def _has_field(said: TextForms, secret: Any, known: Collection[TextForms]) -> bool:
    """Whether a text has a field of the secret."""
    for leaf in leaves(structured(secret)):
        if _is_field_in(leaf, said) and not any(_is_in(str(leaf.value), each) for each in known):
            return True
    return False


def _is_field_in(leaf: Leaf, said: TextForms) -> bool:
    if isinstance(leaf.value, bool):
        return False
    if number := number_of(leaf.value):
        return len(number.strip("-0.").replace(".", "")) >= DIGITS and number in said.numbers
    text = plain(str(leaf.value))
    return letters_in(text) >= LETTERS and text in said.text


def _is_in(text: str, known: TextForms) -> bool:
    return bool(text.strip()) and (
        known.holds(plain(text)) or (bool(number_of(text)) and number_of(text) in known.numbers)
    )


def _codes(forms: TextForms) -> frozenset[str]:
    """The words with digits, such as codes and account numbers."""
    return frozenset(word for word in forms.vocabulary if len(word) >= CODE and any(map(str.isdigit, word)))


def _forms(secret: Any) -> TextForms:
    """The forms of a secret: its texts and numbers, a line each."""
    return forms_of(secret if isinstance(secret, str) else "\n".join(str(leaf.value) for leaf in leaves(secret)))
