"""Whether an argument of a call discloses a secret result."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote_plus

from .value_forms import Leaf, TextForms, forms_of, leaves, letters_in, number_of, plain, structured, words_of

LETTERS: Final = 4
"""Letters of a secret text that is looked for; a shorter one may be there by accident."""
DIGITS: Final = 3
"""Digits of a secret number that is looked for."""
CODE: Final = 5
"""Characters of a word with digits that two texts have in common where one discloses the other."""


def discloses(argument: Any, secret: Any, known: Collection[TextForms]) -> bool:
    """Whether an argument has a value of a secret result, or a part of it, that is in none of the `known` texts."""
    texts = [str(leaf.value) for leaf in leaves(argument) if not isinstance(leaf.value, bool)]
    return any(_discloses(text, secret, known) for text in _decoded([*texts, *_keys(argument)]))


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


def _decoded(texts: Collection[str]) -> Iterator[str]:
    """The texts, and what they say without the encoding of links."""
    for text in texts:
        yield text
        if "%" in text or "+" in text:
            yield unquote_plus(text)


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
