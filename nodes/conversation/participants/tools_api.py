"""The API that runs tools."""

from collections.abc import Mapping, Sequence
from typing import Any

from segue.core.calls import Execution
from segue.core.conversation import APIOutput, Conversation
from segue.core.participants import Setting
from segue.core.tools import CallKey, Tool
from segue.tools.calls.context import idempotency_key
from segue.tools.calls.run import TOOLS

from ...shared.call_runner import run_once
from .specs import refused

FAILED = 500


class ToolsAPI:
    """Runs each call as a tool's, through the ledger: one that finished is never run again."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self.tools: Mapping[str, Tool] = setting.tools

    @property
    def specs(self) -> Sequence[Mapping[str, Any]]:
        return [tool.spec for tool in self.tools.values()]

    async def process(self, conversation: Conversation) -> APIOutput:
        call = conversation.pending
        assert call is not None
        if refusal := refused(self.specs, call):
            return refusal
        execution = Execution(
            key=(key := CallKey(conversation.task_id, f"call-{call.index}", 0)),
            name=call.action,
            arguments=call.action_input,
            tools=self.tools,
            timeout=self._setting.config.api_timeout,
            approved=bool(call.approval),
            idempotency_key=idempotency_key(f"{key.task_id}/{key.scope}/0", call.action, call.action_input),
        )
        result, _ = await run_once(TOOLS, self._setting.services.ledger, execution)
        return self.output(result.value) if result.success else APIOutput(status_code=FAILED, data=result.error)

    def output(self, value: Any) -> APIOutput:
        """The result of a call that returned this value."""
        return APIOutput(data=value)
