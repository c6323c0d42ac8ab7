"""Rehearsals: conversations between simulated users, bots and APIs."""

from ...core.conversation import (
    API,
    REGISTERED,
    APIOutput,
    Bot,
    BotOutput,
    BotOutputType,
    Controller,
    Conversation,
    ConversationConfig,
    Ending,
    EndReason,
    Participant,
    Role,
    Setting,
    User,
    UserOutput,
    Utterance,
    load_config,
)
from .main_bot import MainBot
from .reference import differences
from .simulate import converse, load_conversation, read_log, start_conversation, write_log

register_user = REGISTERED.users.register
register_bot = REGISTERED.bots.register
register_api = REGISTERED.apis.register
register_controller = REGISTERED.controllers.register

__all__ = [
    "API",
    "APIOutput",
    "Bot",
    "BotOutput",
    "BotOutputType",
    "Controller",
    "Conversation",
    "ConversationConfig",
    "EndReason",
    "Ending",
    "MainBot",
    "Participant",
    "Role",
    "Setting",
    "User",
    "UserOutput",
    "Utterance",
    "converse",
    "differences",
    "load_config",
    "load_conversation",
    "read_log",
    "register_api",
    "register_bot",
    "register_controller",
    "register_user",
    "start_conversation",
    "write_log",
]
