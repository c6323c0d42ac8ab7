"""The deterministic user of a scenario, and how it recognises what it is asked."""

import re
from functools import cached_property
from random import Random

from ...core.conversation import END, Conversation, Role
from ...passages import Passage, PassageIndex
from ...prompts.catalogue import rehearsed
from .workflow import Persona, Slot, Workflow, fill

_SENTENCE_END = re.compile(r"(?<=[.?!])\s+|(?<=[。？！])|\n+")
_NAME = "slots"
_ANYTHING_ELSE = (
    "anything else",
    "something else i can",
    "how else can i",
    "what else can i",
    "还有什么",
    "其他可以帮",
    "别的需要",
)
"""Words of a bot that asks for nothing in particular."""
_REQUESTS = (
    *("?", "please", "tell me", "give me", "provide", "let me know", "i need", "i will need", "i'll need", "may i"),
    *("？", "请", "需要", "提供", "告诉", "告知", "麻烦您", "能否", "说一下"),
)
"""Words of a sentence that asks for something."""
_ONE_MOMENT = (
    "let me",
    "one moment",
    "hold on",
    "i will check",
    "i'll check",
    "稍等",
    "稍候",
    "正在",
    "我来查",
    "我查一下",
)
"""Words of a bot that is at work."""


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
        asking = " ".join(part for part in _SENTENCE_END.split(reply) if _contains(part, _REQUESTS))
        return "" if _contains(asking, _ANYTHING_ELSE) else asking

    @staticmethod
    def is_closing(reply: str) -> bool:
        """Whether a reply asks whether there is anything else."""
        return _contains(reply, _ANYTHING_ELSE)

    @staticmethod
    def is_pause(reply: str) -> bool:
        """Whether a reply only says that the bot is at work."""
        return _contains(reply, _ONE_MOMENT) and not _contains(reply, _REQUESTS)

    @cached_property
    def _index(self) -> PassageIndex:
        index = PassageIndex()
        index.add(_NAME, [Passage("", _described(slot)) for slot in self._slots.values()], len(self._slots))
        return index


def _described(slot: Slot) -> str:
    return " ".join([slot.description, *slot.keywords, *(word for words in slot.choices.values() for word in words)])


def _contains(text: str, words: tuple[str, ...]) -> bool:
    return any(word in text.casefold() for word in map(str.casefold, words))


PATIENCE = 2
"""How often the user says the same thing, or that it does not know, before it ends the conversation."""

SLOT, QUESTION, PAUSE, STATEMENT = "slot", "question", "pause", "statement"


class PersonaUser:
    """Opens with the persona's request, and ends when nothing is asked and nothing is left to request."""

    def __init__(self, workflow: Workflow, persona: Persona, seed: int) -> None:
        self._workflow = workflow
        self._questions = Questions(workflow)
        self._persona = persona
        self._seed = seed

    def reply(self, conversation: Conversation) -> str:
        """The next message; a function of the seed and the conversation so far."""
        random = Random(f"{self._seed}/{len(conversation.utterances)}")
        replies = [u.text for u in conversation.utterances if u.role is Role.BOT and not u.is_action]
        if not replies:
            return self._opening(random)
        asked = self._asked(replies[-1])
        if not asked:
            return self._reply_to_other(replies, random)
        earlier = [name for reply in replies[:-1] for name in self._asked(reply)]
        if any(earlier.count(name) >= PATIENCE + max(len(self._known(name)), 1) - 1 for name in asked):
            return self._end_unanswered()
        return " ".join(self._answer(name, earlier.count(name), random) for name in asked)

    def _opening(self, random: Random) -> str:
        opening = random.choice(self._persona.opening)
        return " ".join([opening, *(self._answer(name, 0, random) for name in self._persona.volunteers)])

    def _reply_to_other(self, replies: list[str], random: Random) -> str:
        """To a question that it does not understand, what it wants; to a statement the next request, or the end.

        A statement is not yet the end where the bot has not asked for all that it needs to know.
        """
        kinds = self._kinds(replies)
        if kinds[-1] != STATEMENT:
            if kinds.count(kinds[-1]) > PATIENCE:
                return self._end_unanswered()
            waits = rehearsed("waits", self._workflow.language)
            return waits if kinds[-1] == PAUSE else random.choice(self._persona.opening)
        settled = kinds.count(STATEMENT) - 1
        if settled < len(self._persona.requests):
            return self._persona.requests[settled]
        if settled < PATIENCE and not self._questions.is_closing(replies[-1]) and self._unstated(replies):
            return rehearsed("waits", self._workflow.language)
        return f"{rehearsed('thanks', self._workflow.language)}\n{END}"

    def _unstated(self, replies: list[str]) -> set[str]:
        """The facts that nobody has asked for: without them its request can hardly be settled."""
        asked = {name for reply in replies for name in self._asked(reply)}
        return self._persona.facts.keys() - asked - {*self._persona.volunteers}

    def _kinds(self, replies: list[str]) -> list[str]:
        """What each reply is; a bot that asks whether there is anything else before it asked for a slot is not done."""
        kinds: list[str] = []
        for reply in replies:
            early = SLOT not in kinds and self._questions.is_closing(reply)
            kinds.append(QUESTION if early else self._kind(reply))
        return kinds

    def _kind(self, reply: str) -> str:
        """What a reply is: a slot's question or another one, a pause, or a statement."""
        if self._questions.asked(reply):
            return SLOT
        if self._questions.requests_in(reply):
            return QUESTION
        return PAUSE if self._questions.is_pause(reply) else STATEMENT

    def _end_unanswered(self) -> str:
        return f"{rehearsed('gives_up', self._workflow.language)}\n{END}"

    def _asked(self, reply: str) -> list[str]:
        """The slots that a reply asks for: those that the persona knows, if it knows any of them."""
        asked = self._questions.asked(reply)
        return [name for name in asked if self._known(name)] or asked

    def _known(self, name: str) -> tuple[str, ...]:
        fact = self._persona.facts.get(name, ())
        return (fact,) if isinstance(fact, str) else fact

    def _answer(self, name: str, asked_before: int, random: Random) -> str:
        known = self._known(name)
        if not known:
            return rehearsed("does_not_know", self._workflow.language)
        value = known[min(asked_before, len(known) - 1)]
        return str(fill(random.choice(self._workflow.slots[name].replies), {"value": value}))
