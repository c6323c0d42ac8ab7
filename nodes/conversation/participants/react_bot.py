"""The bot that thinks and acts in text, for any language model."""

import json
from collections.abc import Iterator

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from segue.core.conversation import BotOutput, BotOutputType, Conversation, Role, Utterance, as_text
from segue.core.participants import Setting
from segue.prompts.load import agent_prompt, render

from ...shared.prompt_budget import truncate
from ...shared.tool_schemas import described_specs
from ..completion import complete, model_context
from .action_text import read_output


class ReactBot:
    """Follows its agent's prompt, or the instructions that it is given."""

    def __init__(self, setting: Setting, instructions: str = "") -> None:
        model_context(setting)  # it is refused here, before the conversation begins
        self._setting = setting
        self._instructions = instructions

    async def process(self, conversation: Conversation) -> BotOutput:
        messages = [SystemMessage(self._system(conversation)), *self._dialogue(conversation)]
        done = await complete(self._setting, conversation, messages, self._read)
        if done.error:
            return BotOutput(action_type=BotOutputType.RESPONSE, usage=done.usage, error=done.error)
        output: BotOutput = done.value
        return BotOutput(**{**vars(output), "usage": done.usage})

    def _system(self, conversation: Conversation) -> str:
        setting = self._setting
        said = " ".join(u.text for u in conversation.utterances if u.role is Role.USER)
        own = self._instructions or agent_prompt(setting.agent, setting.language, said)
        return render(
            "react_bot", setting.language, instructions=own, apis=described_specs(setting.specs, setting.language)
        )

    def _read(self, text: str) -> BotOutput:
        return read_output(text)

    def _dialogue(self, conversation: Conversation) -> Iterator[BaseMessage]:
        most = self._setting.agent.budget.result_chars
        for utterance in conversation.utterances:
            match utterance.role:
                case Role.USER:
                    yield HumanMessage(utterance.text)
                case Role.BOT:
                    yield AIMessage(_written(utterance))
                case Role.API:
                    yield HumanMessage(f"Observation: {truncate(as_text(utterance.data), most)}")


def _written(utterance: Utterance) -> str:
    """A bot's utterance in its text form."""
    thought = f"Thought: {utterance.thought}\n" if utterance.thought else ""
    if not utterance.is_action:
        return f"{thought}Response: {utterance.text}"
    arguments = json.dumps(utterance.action_input, ensure_ascii=False)
    return f"{thought}Action: {utterance.action}\nAction Input: {arguments}"
