"""The user who says what a script says."""

from segue.core.conversation import END, Conversation, UserOutput
from segue.core.participants import Setting


class ScriptedUser:
    """Says one line of `script` a turn, whatever the bot answers, and ends the conversation after the last."""

    def __init__(self, setting: Setting) -> None:
        self._script = setting.config.script

    async def process(self, conversation: Conversation) -> UserOutput:
        said = conversation.turn
        return UserOutput(text=self._script[said] if said < len(self._script) else END)
