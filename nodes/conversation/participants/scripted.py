"""Participants without a model: a script's user, and those that say what the document's transcript says."""

from collections.abc import Mapping, Sequence
from typing import Any

from segue.core.conversation import END, APIOutput, BotOutput, BotOutputType, Conversation, UserOutput
from segue.core.participants import Setting

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

    specs: Sequence[Mapping[str, Any]] = ()

    def __init__(self, setting: Setting) -> None:
        pass

    async def process(self, conversation: Conversation) -> APIOutput:
        return APIOutput(data="api calling...")


class ScriptedUser:
    """Says one line of `script` a turn, whatever the bot answers, and ends the conversation after the last."""

    def __init__(self, setting: Setting) -> None:
        self._script = setting.config.script

    async def process(self, conversation: Conversation) -> UserOutput:
        said = conversation.turn
        return UserOutput(text=self._script[said] if said < len(self._script) else END)
