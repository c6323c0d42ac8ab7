"""Users and an API that a language model plays."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import HumanMessage, SystemMessage

from segue.core.conversation import END, APIOutput, Conversation, Role, UserOutput, Utterance, without_end
from segue.core.decision import read_object
from segue.core.errors import UnreadableReply
from segue.core.participants import Setting
from segue.prompts.catalogue import phrase
from segue.prompts.load import render

from ...shared.tool_schemas import described_specs
from ..completion import complete, model_context, random_of
from .apis import offered, refused

_NAME = re.compile(r"\A\s*(?:\[USER\]|(?:User|用户)\s*[:：])\s*", re.IGNORECASE)
_OTHER = re.compile(r"^[^\S\n]*(?:\[BOT\]|(?:Assistant|助手)\s*[:：])", re.IGNORECASE | re.MULTILINE)


class SimulatedUser:
    """Plays a persona with a goal, on a model of its own; it sees what the bot says, and no call."""

    def __init__(self, setting: Setting) -> None:
        model_context(setting)  # it is refused here, before the conversation begins
        self._setting = setting

    async def process(self, conversation: Conversation) -> UserOutput:
        messages = [SystemMessage(self._system()), HumanMessage(self.instructions(conversation))]
        done = await complete(self._setting, conversation, messages, _read if conversation.turn else _read_first)
        return UserOutput(text=done.value or "", usage=done.usage, error=done.error)

    def instructions(self, conversation: Conversation) -> str:
        """The conversation so far and what to do next, in one message: small models confuse swapped roles."""
        return render("user_turn", self._setting.language, transcript="\n".join(self._lines(conversation)))

    def _system(self) -> str:
        config, language = self._setting.config, self._setting.language
        return render(
            "simulated_user",
            language,
            persona=config.persona or phrase("no_persona", language),
            goal=config.goal or phrase("no_goal", language),
        )

    def _lines(self, conversation: Conversation) -> Iterator[str]:
        language = self._setting.language
        yield phrase("assistant_said", language, text=phrase("greeting", language))
        for utterance in conversation.utterances:
            if utterance.role is Role.USER:
                yield phrase("user_said", language, text=utterance.text)
            elif utterance.role is Role.BOT and not utterance.is_action:
                yield phrase("assistant_said", language, text=utterance.text)


class OutOfWorkflowUser(SimulatedUser):
    """Says something outside the workflow now and then, with a seeded probability; never in its first turn."""

    def instructions(self, conversation: Conversation) -> str:
        whole = super().instructions(conversation)
        chance = random_of(self._setting, conversation, "out of workflow").random()
        if not conversation.turn or chance >= self._setting.config.out_of_workflow:
            return whole
        return f"{whole}\n\n{phrase('out_of_workflow', self._setting.language)}"


def _read_first(text: str) -> str:
    """The first message, which cannot end the conversation.

    Raises:
        UnreadableReply: it is empty.
    """
    said = without_end(_read(text)).strip()
    if not said:
        raise UnreadableReply("The first message says what the user wants.")
    return said


def _read(text: str) -> str:
    """The message without the name of its speaker and what it has the assistant say; an [END] that closes it ends.

    Raises:
        UnreadableReply: it is empty.
    """
    said = _NAME.sub("", text)
    if other := _OTHER.search(said):
        said = said[: other.start()]
    before, end, after = said.rpartition(END)
    if end and not re.search(r"\w", after):
        said = before.rstrip(" \t") + f"\n{END}"
    if not said.strip():
        raise UnreadableReply("The message is empty.")
    return said.strip()


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
        if refusal := refused(self.specs, call, self._setting.language, simple=bool(self._setting.config.apis)):
            return refusal
        messages = [SystemMessage(self._system(conversation)), HumanMessage(_line(call))]
        done = await complete(self._setting, conversation, messages, _read_reply, schema=_REPLY)
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


def _read_reply(text: str) -> tuple[int, Any]:
    """The status code and data of a reply.

    Raises:
        UnreadableReply.
    """
    form = read_object(text, "status_code")
    code = form.get("status_code")
    if not isinstance(code, int) or not 100 <= code <= 599:
        raise UnreadableReply("The status_code is not an HTTP status code.")
    return code, form.get("data")
