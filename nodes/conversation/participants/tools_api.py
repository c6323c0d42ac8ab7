"""The API that runs tools."""

from collections.abc import Mapping, Sequence
from typing import Any

from segue.core.conversation import APIOutput, Conversation
from segue.core.participants import Setting
from segue.core.tools import CallKey, Tool
from segue.tools.calls.run import run_call

from .specs import refused

FAILED = 500


class ToolsAPI:
    """Runs each call as a tool's, through the ledger: one that finished is never run again."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._tools: Mapping[str, Tool] = setting.tools

    @property
    def specs(self) -> Sequence[Mapping[str, Any]]:
        return [tool.spec for tool in self._tools.values()]

    async def process(self, conversation: Conversation) -> APIOutput:
        call = conversation.pending
        assert call is not None
        if refusal := refused(self.specs, call):
            return refusal
        ran = await run_call(
            self._tools,
            call.action,
            call.action_input,
            CallKey(conversation.task_id, f"call-{call.index}", 0),
            self._setting.services.ledger,
            self._setting.config.api_timeout,
        )
        if ran.failed:
            return APIOutput(status_code=FAILED, data=ran.result["error"])
        return self.output(ran.result["success"])

    def output(self, value: Any) -> APIOutput:
        """The result of a call that returned this value."""
        return APIOutput(data=value)
