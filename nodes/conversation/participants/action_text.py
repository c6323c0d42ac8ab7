"""The text form of a bot's output: Thought and Response, or Thought, Action and Action Input."""

import json
import re
from typing import Any, NoReturn

from segue.core.conversation import BotOutput, BotOutputType, without_end
from segue.core.errors import UnreadableReply

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
            action=action.removeprefix(_PREFIX),
            action_input=_arguments(block.get("actioninput")),
        )
    if response := without_end(block.get("response", "")).strip():
        return BotOutput(action_type=BotOutputType.RESPONSE, thought=thought, text=response)
    raise UnreadableReply("It has neither a Response nor an Action.")


def _arguments(text: str | None) -> dict[str, Any]:
    if not text:
        raise UnreadableReply("The Action Input is missing: write a JSON object, {} where there are no arguments.")
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise UnreadableReply(f"The Action Input is not valid JSON ({error}).") from error
    if not isinstance(value, dict):
        raise UnreadableReply("The Action Input is not a JSON object.")
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON value")
