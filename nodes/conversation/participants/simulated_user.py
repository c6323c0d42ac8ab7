"""Users that a language model plays."""

import re
from collections.abc import Iterator

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from segue.core.conversation import Conversation, Role, UserOutput
from segue.core.errors import UnreadableReply
from segue.core.participants import Setting
from segue.prompts.load import render
from segue.prompts.phrases import phrase

from ..completion import complete, random_of

_NAME = re.compile(r"\A\s*(?:\[USER\]|(?:User|用户)\s*[:：])\s*", re.IGNORECASE)


class SimulatedUser:
    """Plays a persona with a goal, on a model of its own; it sees what the bot says, and no call."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting

    async def process(self, conversation: Conversation) -> UserOutput:
        messages = [SystemMessage(self.instructions(conversation)), *self._dialogue(conversation)]
        done = await complete(self._setting, conversation, messages, _read)
        return UserOutput(text=done.value or "", usage=done.usage, error=done.error)

    def instructions(self, conversation: Conversation) -> str:
        """The system message of this turn."""
        config, language = self._setting.config, self._setting.language
        return render(
            "simulated_user",
            language,
            persona=config.persona or phrase("no_persona", language),
            goal=config.goal or phrase("no_goal", language),
            workflow="",
        )

    def _dialogue(self, conversation: Conversation) -> Iterator[BaseMessage]:
        yield HumanMessage(phrase("begin_talk", self._setting.language))
        for utterance in conversation.utterances:
            if utterance.role is Role.USER:
                yield AIMessage(utterance.text)
            elif utterance.role is Role.BOT and not utterance.is_action:
                yield HumanMessage(utterance.text)


class OutOfWorkflowUser(SimulatedUser):
    """Says something outside the workflow now and then, with a seeded probability; never in its first turn."""

    def instructions(self, conversation: Conversation) -> str:
        whole = super().instructions(conversation)
        chance = random_of(self._setting, conversation, "out of workflow").random()
        if not conversation.turn or chance >= self._setting.config.out_of_workflow:
            return whole
        return f"{whole}\n\n{phrase('out_of_workflow', self._setting.language)}"


def _read(text: str) -> str:
    """The message without the name of its speaker.

    Raises:
        UnreadableReply: it is empty.
    """
    said = _NAME.sub("", text).strip()
    if not said:
        raise UnreadableReply("The message is empty.")
    return said
