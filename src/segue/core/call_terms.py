"""What a tool and its agent say of a call: the words that ask for it, its arguments, and the rules for these."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from .allow_rules import AllowRule
from .value_forms import TextForms, plain

STEM: Final = 4
"""Letters of a verb that may have another ending."""


@dataclass(frozen=True)
class CallTerms:
    """What its tool and agent say of a call: the words that ask for it, the arguments that are only text, and rules.

    `secret_tool` is the tool if its results are secret: what it gave may go into its own calls. `allowed` are the rules
    for arguments of the tool, `choices` the values of those that have a closed list of them.
    """

    words: Collection[str] = ()
    content: Collection[str] = ()
    defaults: Mapping[str, Any] | None = None
    secret_tool: str = ""
    allowed: Sequence[AllowRule] = ()
    choices: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def allows(self, name: str, value: Any, *, secret: bool = False) -> bool:
        """Whether a rule lets untrusted, or secret, text go into an argument with this value."""
        rules = (rule for rule in self.allowed if rule.argument == name and (rule.secret or not secret))
        return any(rule.covers(value) for rule in rules)

    def follows_links(self, name: str) -> bool:
        """Whether a rule lets links go into an argument that a result has."""
        return any(rule.links for rule in self.allowed if rule.argument == name)

    def is_named_in(self, words: TextForms) -> bool:
        """Whether a person's words ask for such a call."""
        return any(_asks(word, words) for word in self.words)


_ENDING: Final = r"(?:e|e?s|[a-z]?e?d|[a-z]?ing|a?tions?|ions?|ments?)?"
"""Endings of a verb, so that "share" is not in "shark"."""


def _asks(word: str, said: TextForms) -> bool:
    """Whether a word occurs, also with another ending; a Chinese one, or several, as it is."""
    asked = plain(word)
    if not asked.isascii() or " " in asked:
        return asked in said.text
    stem = asked.rstrip("e") if len(asked) > STEM else asked
    forms = re.compile(re.escape(stem) + _ENDING)
    return any(own == asked or (len(stem) >= STEM and forms.fullmatch(own)) for own in said.vocabulary)
