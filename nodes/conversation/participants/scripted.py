"""Participants without a model: the dummies, a scripted user, and a person."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from langgraph.types import interrupt

from segue.core.conversation import END, APIOutput, BotOutput, BotOutputType, Conversation, UserOutput, spoken
from segue.core.participants import Setting
from segue.prompts.catalogue import phrase

from .apis import offered

TURNS = 2
"""Turns after which the dummy user ends the conversation."""


class DummyUser:
    """Asks twice and ends."""

    def __init__(self, setting: Setting) -> None:
        pass

    async def process(self, conversation: Conversation) -> UserOutput:
        return UserOutput(text="user query..." if conversation.turn < TURNS else END)


class DummyBot:
    """Answers the first turn at once, and every later one after a call."""

    def __init__(self, setting: Setting) -> None:
        pass

    async def process(self, conversation: Conversation) -> BotOutput:
        if conversation.turn > 1 and not conversation.actions:
            return BotOutput(action_type=BotOutputType.ACTION, text="bot action...", action="dummy_action")
        return BotOutput(action_type=BotOutputType.RESPONSE, text="bot response...")


class DummyAPI:
    """Says that it is called."""

    def __init__(self, setting: Setting) -> None:
        self.specs: Sequence[Mapping[str, Any]] = offered(setting)

    async def process(self, conversation: Conversation) -> APIOutput:
        return APIOutput(data="api calling...")


class ScriptedUser:
    """Says one line of `script` a turn, whatever the bot answers, and ends the conversation after the last."""

    def __init__(self, setting: Setting) -> None:
        self._script = setting.config.script

    async def process(self, conversation: Conversation) -> UserOutput:
        said = conversation.turn
        return UserOutput(text=self._script[said] if said < len(self._script) else END)


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
