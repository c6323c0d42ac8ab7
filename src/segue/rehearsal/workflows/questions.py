"""What a bot's reply asks of the user."""

import re
from functools import cached_property

from ...passages.index import PassageIndex
from ...passages.markdown import Passage
from ...prompts.rehearsal import ANYTHING_ELSE, ONE_MOMENT, REQUESTS
from .workflow import Slot, Workflow

_SENTENCE_END = re.compile(r"(?<=[.?!])\s+|(?<=[。？！])|\n+")
_NAME = "slots"


class Questions:
    """Recognises the slots of a workflow in questions, however they are worded."""

    def __init__(self, workflow: Workflow) -> None:
        self._slots = workflow.slots

    def asked(self, reply: str) -> list[str]:
        """The slots that a reply asks for, in the order of the workflow.

        They are known by their keywords; without any, it is the one whose description fits the question best.
        """
        asking = self.requests_in(reply)
        if not asking:
            return []
        named = [name for name, slot in self._slots.items() if _contains(asking, slot.keywords)]
        return named or [[*self._slots][place] for place in self._index.places(_NAME, asking, 1)]

    @staticmethod
    def requests_in(reply: str) -> str:
        """The sentences of a reply that ask for something; not whether there is anything else."""
        asking = " ".join(part for part in _SENTENCE_END.split(reply) if _contains(part, REQUESTS))
        return "" if _contains(asking, ANYTHING_ELSE) else asking

    @staticmethod
    def is_closing(reply: str) -> bool:
        """Whether a reply asks whether there is anything else."""
        return _contains(reply, ANYTHING_ELSE)

    @staticmethod
    def is_pause(reply: str) -> bool:
        """Whether a reply only says that the bot is at work."""
        return _contains(reply, ONE_MOMENT) and not _contains(reply, REQUESTS)

    @cached_property
    def _index(self) -> PassageIndex:
        index = PassageIndex()
        index.add(_NAME, [Passage("", _described(slot)) for slot in self._slots.values()], len(self._slots))
        return index


def _described(slot: Slot) -> str:
    return " ".join([slot.description, *slot.keywords, *(word for words in slot.choices.values() for word in words)])


def _contains(text: str, words: tuple[str, ...]) -> bool:
    return any(word in text.casefold() for word in map(str.casefold, words))
