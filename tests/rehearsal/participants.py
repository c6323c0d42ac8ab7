"""Participants that tests register."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from segue.core.conversation import APIOutput, BotOutput, BotOutputType, Conversation, EndReason, UserOutput

RESPONSE, ACTION = BotOutputType.RESPONSE, BotOutputType.ACTION


def says(text: str) -> BotOutput:
    return BotOutput(action_type=RESPONSE, text=text)


def calls(action: str, **arguments: Any) -> BotOutput:
    return BotOutput(action_type=ACTION, action=action, action_input=arguments)


@dataclass
class Does:
    """Any participant: what it does is a function of the conversation."""

    act: Callable[[Conversation], Any]
    specs: list[dict[str, Any]] = field(default_factory=list)

    async def process(self, conversation: Conversation) -> Any:
        return self.act(conversation)


def talkative(conversation: Conversation) -> UserOutput:
    """A user who never ends."""
    return UserOutput(text=f"question {conversation.turn + 1}")


def restless(conversation: Conversation) -> BotOutput:
    """A bot that calls for ever."""
    return calls("look", place=len(conversation.actions))


def helpful(conversation: Conversation) -> BotOutput:
    """A bot that answers at once."""
    return says(f"answer {conversation.turn}")


def found(conversation: Conversation) -> APIOutput:
    """An API that always succeeds."""
    return APIOutput(data="found")


class Never:
    """A controller that refuses every call."""

    def refusal(self, conversation: Conversation) -> str:
        return "not now"

    def end(self, conversation: Conversation) -> EndReason | None:
        return None
