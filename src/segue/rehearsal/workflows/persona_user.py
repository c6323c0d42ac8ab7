"""The deterministic user of a scenario: answers what it is asked from the facts that its persona knows."""

import re
from random import Random

from ...core.conversation import END, Conversation, Role
from ...prompts.rehearsal import ANYTHING_ELSE, rehearsed
from .references import fill
from .scenario import Persona
from .workflow import Workflow

_SENTENCE_END = re.compile(r"(?<=[.?!])\s+|(?<=[。？！])|\n+")
_REQUEST = re.compile(r"[?？]|\bplease\b|\btell me\b|请", re.IGNORECASE)
PATIENCE = 2
"""How often the user says the same thing, or that it does not know, before it ends the conversation."""


class PersonaUser:
    """Opens with the persona's request, and ends when nothing is asked and nothing is left to request."""

    def __init__(self, workflow: Workflow, persona: Persona, seed: int) -> None:
        self._workflow = workflow
        self._persona = persona
        self._seed = seed

    def says(self, conversation: Conversation) -> str:
        """The next message; a function of the seed and the conversation so far."""
        random = Random(f"{self._seed}/{len(conversation.utterances)}")
        replies = [u.text for u in conversation.utterances if u.role is Role.BOT and not u.is_action]
        if not replies:
            return self._opening(random)
        asked = self._asked(replies[-1])
        if not asked:
            return self._next_request(replies)
        earlier = [name for reply in replies[:-1] for name in self._asked(reply)]
        if any(earlier.count(name) >= PATIENCE + max(len(self._known(name)), 1) - 1 for name in asked):
            return f"{rehearsed('gives_up', self._workflow.language)}\n{END}"
        return " ".join(self._answer(name, earlier.count(name), random) for name in asked)

    def _opening(self, random: Random) -> str:
        opening = random.choice(self._persona.opening)
        return " ".join([opening, *(self._answer(name, 0, random) for name in self._persona.volunteers)])

    def _next_request(self, replies: list[str]) -> str:
        """The next request, or the end."""
        language = self._workflow.language
        unasked = sum(not self._asked(reply) for reply in replies) - 1
        if unasked < len(self._persona.requests):
            return self._persona.requests[unasked]
        return f"{rehearsed('thanks', language)}\n{END}"

    def _asked(self, reply: str) -> list[str]:
        """The slots that a reply asks for, in the order of the workflow."""
        asking = " ".join(part for part in _SENTENCE_END.split(reply) if _REQUEST.search(part)).casefold()
        if any(words in asking for words in ANYTHING_ELSE):
            return []
        return [
            name
            for name, slot in self._workflow.slots.items()
            if any(keyword.casefold() in asking for keyword in slot.keywords)
        ]

    def _known(self, name: str) -> tuple[str, ...]:
        fact = self._persona.facts.get(name, ())
        return (fact,) if isinstance(fact, str) else fact

    def _answer(self, name: str, asked_before: int, random: Random) -> str:
        known = self._known(name)
        if not known:
            return rehearsed("does_not_know", self._workflow.language)
        value = known[min(asked_before, len(known) - 1)]
        return str(fill(random.choice(self._workflow.slots[name].replies), {"value": value}))
