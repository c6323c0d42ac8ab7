"""Optional controllers of the referee."""

from segue.core.conversation import Conversation, EndReason, transcript
from segue.core.participants import Setting
from segue.prompts.phrases import phrase


class ApiDuplication:
    """Refuses a call that was made `api_duplication_limit` times before with the same arguments."""

    def __init__(self, setting: Setting) -> None:
        self._most = setting.config.api_duplication_limit
        self._language = setting.language

    def refusal(self, conversation: Conversation) -> str:
        call = conversation.pending
        assert call is not None
        requested = (call.action, call.action_input)
        made = sum((u.action, u.action_input) == requested for u in conversation.results)
        if made < self._most:
            return ""
        return phrase("api_duplication", self._language, tool=call.action, n=str(made))

    def end(self, conversation: Conversation) -> EndReason | None:
        return None


class SessionLength:
    """Ends a conversation whose transcript has `session_length` characters, after an answered turn."""

    def __init__(self, setting: Setting) -> None:
        self._most = setting.config.session_length

    def refusal(self, conversation: Conversation) -> str:
        return ""

    def end(self, conversation: Conversation) -> EndReason | None:
        reached = 0 < self._most <= len(transcript(conversation))
        return EndReason.SESSION_LENGTH if reached else None
