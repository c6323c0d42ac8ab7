"""A person as the user or as the bot."""

import json
import re
from collections.abc import Mapping
from typing import Any

from langgraph.types import interrupt

from segue.core.conversation import END, BotOutput, BotOutputType, Conversation, UserOutput, spoken
from segue.core.participants import Setting
from segue.prompts.phrases import phrase

KIND = "question"
"""The kind of interrupt that a person answers with a text."""
_ENDS = ("END", END)
_CALL = re.compile(r"\A\s*(\w[\w.-]*)\s*\((\{.*\})?\)\s*\Z", re.DOTALL)


class PersonUser:
    """A person writes; END ends the conversation."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting

    async def process(self, conversation: Conversation) -> UserOutput:
        text = _ask(self._setting, conversation)
        return UserOutput(text=END if text.strip() in _ENDS else text)


class PersonBot:
    """A person answers, or calls an API as `name({"argument": …})`."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._names = {spec["function"]["name"] for spec in setting.specs}

    async def process(self, conversation: Conversation) -> BotOutput:
        text = _ask(self._setting, conversation)
        found = _CALL.match(text)
        if found and (found[2] or found[1] in self._names):  # of a name that is unknown the API says so
            try:
                arguments = json.loads(found[2] or "{}")
            except ValueError:
                return BotOutput(action_type=BotOutputType.RESPONSE, text=text)
            return BotOutput(action_type=BotOutputType.ACTION, action=found[1], action_input=arguments)
        return BotOutput(action_type=BotOutputType.RESPONSE, text=text)


def _ask(setting: Setting, conversation: Conversation) -> str:
    """What a person says; interrupts the graph until somebody did."""
    last = conversation.utterances[-1] if conversation.utterances else None
    question: dict[str, Any] = {
        "kind": KIND,
        "question": spoken(last) if last else phrase("begin_talk", setting.language),
        "role": setting.role.value,
        "calls": [],
    }
    answer = interrupt(question)
    if not isinstance(answer, Mapping):
        return str(answer)
    return "END" if answer.get("manual_finish") else str(answer.get("answer", ""))
