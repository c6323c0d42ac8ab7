"""The API that a language model plays."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import HumanMessage, SystemMessage

from segue.core.conversation import APIOutput, Conversation, Utterance
from segue.core.decision import read_object
from segue.core.errors import UnreadableReply
from segue.core.participants import Setting
from segue.prompts.load import render
from segue.prompts.phrases import phrase

from ...shared.tool_schemas import described_specs
from ..completion import complete, model_context
from .specs import offered, refused

UNAVAILABLE = 503
_REPLY = {
    "type": "object",
    "properties": {"status_code": {"type": "integer"}, "data": {}},
    "required": ["status_code", "data"],
}


class SimulatedAPI:
    """Answers calls from their schemas and the calls so far; nothing is run."""

    def __init__(self, setting: Setting) -> None:
        model_context(setting)  # it is refused here, before the conversation begins
        self._setting = setting
        self.specs: Sequence[Mapping[str, Any]] = offered(setting)

    async def process(self, conversation: Conversation) -> APIOutput:
        call = conversation.pending
        assert call is not None
        if refusal := refused(self.specs, call):
            return refusal
        messages = [SystemMessage(self._system(conversation)), HumanMessage(_line(call))]
        done = await complete(self._setting, conversation, messages, _read, schema=_REPLY)
        if done.error:
            return APIOutput(status_code=UNAVAILABLE, data=done.error, usage=done.usage)
        code, data = done.value
        return APIOutput(status_code=code, data=data, usage=done.usage)

    def _system(self, conversation: Conversation) -> str:
        language = self._setting.language
        calls = "\n".join(f"- {_line(result)}: {_result(result)}" for result in conversation.results)
        return render(
            "simulated_api",
            language,
            apis=described_specs(self.specs, language),
            calls=calls or phrase("no_calls", language),
        )


def _line(call: Utterance) -> str:
    return f"{call.action}({json.dumps(call.action_input, ensure_ascii=False)})"


def _result(result: Utterance) -> str:
    return json.dumps({"status_code": result.status_code, "data": result.data}, ensure_ascii=False)


def _read(text: str) -> tuple[int, Any]:
    """The status code and data of a reply.

    Raises:
        UnreadableReply.
    """
    form = read_object(text)
    code = form.get("status_code")
    if not isinstance(code, int) or not 100 <= code <= 599:
        raise UnreadableReply("The status_code is not an HTTP status code.")
    return code, form.get("data")
