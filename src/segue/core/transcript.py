"""The transcript of a conversation as text."""

import json
from collections.abc import Iterator
from typing import Any

from .conversation import Conversation, Role, Utterance

PREFIXES = {Role.USER: "[USER]", Role.BOT: "[BOT]", Role.API: "[SYSTEM]"}


def transcript(conversation: Conversation) -> str:
    """One line per utterance; an end without words has none."""
    return "\n".join(f"{PREFIXES[u.role]} {spoken(u)}" for u in shown(conversation))


def shown(conversation: Conversation) -> Iterator[Utterance]:
    """The utterances that a transcript shows."""
    return (u for u in conversation.utterances if spoken(u))


def spoken(utterance: Utterance) -> str:
    """The text of one utterance in a transcript: its words, its call or its result."""
    if utterance.role is Role.API:
        return as_text(utterance.data)
    if utterance.text or not utterance.action:
        return utterance.text
    return f"{utterance.action}({json.dumps(utterance.action_input, ensure_ascii=False)})"


def as_text(data: Any) -> str:
    """JSON data as text; a string is returned unchanged."""
    return data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
