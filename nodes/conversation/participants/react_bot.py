"""The bot that thinks and acts in text, and the parser of that text."""

import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from segue.core.conversation import BotOutput, BotOutputType, Conversation, Role, Utterance, as_text, without_end
from segue.core.decision import call_name, check_storable
from segue.core.errors import UnreadableReply
from segue.core.participants import Setting
from segue.prompts.load import agent_prompt, render

from ...shared.prompt_budget import truncate
from ...shared.tool_schemas import described_specs
from ..completion import complete, model_context


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


_FENCE = re.compile(r"^[ \t]*```[\w-]*[ \t]*$\n?", re.MULTILINE)
_LABEL = re.compile(
    r"^[ \t]*\**(Thought|Response|Action[ _]?Input|Action|Observation)\**[ \t]*[:：][ \t]*\**",
    re.IGNORECASE | re.MULTILINE,
)
_PLACEHOLDER = re.compile(r"<[^<>]*>")
_PREFIX = "API_"


def read_output(text: str) -> BotOutput:
    """Read a reply: fences and a trailing [END] are dropped, and only the last block of several counts.

    A text without any label is a response.

    Raises:
        UnreadableReply: saying what is missing or wrong.
    """
    plain = without_end(_FENCE.sub("", text)).strip()
    if not plain:
        raise UnreadableReply("The reply is empty.")
    labels = list(_LABEL.finditer(plain))
    if not labels:
        return BotOutput(action_type=BotOutputType.RESPONSE, text=plain)
    return _output(_last_block(plain, labels))


def _last_block(text: str, labels: list[re.Match[str]]) -> dict[str, str]:
    """The parts of the last block by label; a block begins with a thought, or with the first label."""
    block: dict[str, str] = {}
    ends = [*(label.start() for label in labels[1:]), len(text)]
    for label, end in zip(labels, ends, strict=True):
        name = re.sub(r"[ _]", "", label[1].lower())
        if name == "thought":
            block = {}
        block.setdefault(name, text[label.end() : end].strip())
    return block


def _output(block: dict[str, str]) -> BotOutput:
    if any(_PLACEHOLDER.fullmatch(block.get(name, "")) for name in ("action", "response")):
        raise UnreadableReply("It repeats the <placeholders> of the form: put your own text in their place.")
    thought, action = block.get("thought", ""), block.get("action", "").strip("`*\"' ")
    if action and action.lower() != "none":
        return BotOutput(
            action_type=BotOutputType.ACTION,
            thought=thought,
            action=call_name(action.removeprefix(_PREFIX)),
            action_input=_arguments(block.get("actioninput")),
        )
    if response := without_end(block.get("response", "")).strip():
        return BotOutput(action_type=BotOutputType.RESPONSE, thought=thought, text=response)
    raise UnreadableReply("It has neither a Response nor an Action.")


def _arguments(text: str | None) -> dict[str, Any]:
    if not text:
        raise UnreadableReply(
            "The Action Input is missing: write a JSON object, an empty one where there are no arguments."
        )
    try:
        value = json.loads(text, parse_constant=_refuse)
        check_storable(value)
    except (ValueError, RecursionError) as error:
        raise UnreadableReply("The Action Input is not valid JSON ({error}).", error=error) from error
    if not isinstance(value, dict):
        raise UnreadableReply("The Action Input is not a JSON object.")
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON value")
