"""Sessions of bots: a conversation with an agent has the agent's own session beside it."""

from ..checkpoints.tables.tasks import Tasks
from ..core.conversation import MODE, bot_session, conversation_of_bot
from ..core.errors import ConfigurationError, DamagedRow
from ..nodes.conversation.init import read_config


async def bot_session_of(tasks: Tasks, session_id: str) -> str:
    """The session of a conversation's bot; empty where the session is no conversation with an agent."""
    try:
        newest = await tasks.latest_of(session_id)
        has_bot = newest is not None and newest.mode == MODE and read_config(newest.message).has_agent
    except (ConfigurationError, DamagedRow):
        return ""
    return bot_session(session_id) if has_bot else ""


async def is_bot_session(tasks: Tasks, session_id: str) -> bool:
    """Whether a session is the bot side of a conversation, which resumes it."""
    conversation_id = conversation_of_bot(session_id)
    return bool(conversation_id) and bool(await bot_session_of(tasks, conversation_id))
