"""Turns that are forced to a reference conversation, and where the bot differs from it."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from difflib import SequenceMatcher
from typing import Any

from ...core.conversation import (
    END,
    REGISTERED,
    APIOutput,
    Bot,
    BotOutput,
    BotOutputType,
    Conversation,
    ConversationConfig,
    Role,
    Setting,
    UserOutput,
    Utterance,
    factory_of,
)
from ...core.errors import ConfigurationError
from ...core.json import Public
from ...nodes.participants import BUILTIN
from .participants import REFERENCE_API, REFERENCE_BOT, REFERENCE_USER, specs_of_workflow, workflows_of
from .simulate import read_log

_ALIKE = 0.6
"""From which similarity on two answers say the same, 1 being equal texts."""


@dataclass(frozen=True)
class Difference(Public):
    """What the bot would have done at an utterance of the reference: a call by its name and input, else an answer."""

    index: int
    turn: int
    expected: str
    got: str
    similarity: float


def differences(conversation: Conversation) -> list[Difference]:
    """Where the bot of a conversation that was forced to a reference would have done something else."""
    return [Difference(**form) for form in conversation.state_of(Role.BOT).get("differences", ())]


def _reference_of(config: ConversationConfig) -> Sequence[Utterance]:
    """The utterances of the log."""
    utterances = read_log(config.reference).utterances
    if not utterances:
        raise ConfigurationError("The reference {file} has no utterances: name another log.", file=config.reference)
    for place, each in enumerate(utterances):
        if each.is_action and (place + 1 == len(utterances) or utterances[place + 1].role is not Role.API):
            raise ConfigurationError(
                "The reference {file} has no result of the call '{action}' in turn {turn}: name a log that is whole.",
                file=config.reference,
                action=each.action,
                turn=each.turn,
            )
    return utterances


class ReferenceUser:
    """Says what the user of the reference said, and then ends the conversation."""

    def __init__(self, setting: Setting) -> None:
        self._utterances = _reference_of(setting.config)

    async def process(self, conversation: Conversation) -> UserOutput:
        place = len(conversation.utterances)
        if place >= len(self._utterances) or self._utterances[place].role is not Role.USER:
            return UserOutput(text=END)
        said = self._utterances[place]
        return UserOutput(text=f"{said.text}\n{END}".strip() if said.ends and END not in said.text else said.text)


class ReferenceBot:
    """Does what the bot of the reference did, and keeps what the bot named after the colon would have done."""

    def __init__(self, setting: Setting) -> None:
        self._utterances = _reference_of(setting.config)
        mode = setting.argument or "rule_bot"
        if mode.partition(":")[0] in ("segue", "input_bot", REFERENCE_BOT):
            raise ConfigurationError(
                "The bot {mode} keeps a session of its own, which cannot be forced to a reference: use another bot.",
                mode=mode,
            )
        tables = (setting.services.participants.bots, BUILTIN.bots)
        factory, argument = factory_of(mode, *tables, restrictions=setting.services.participants.restrictions)
        make: Callable[[Setting], Bot] = factory
        self._bot = make(replace(setting, argument=argument))

    async def process(self, conversation: Conversation) -> BotOutput:
        kept = conversation.state_of(Role.BOT)
        place = len(conversation.utterances)
        if place >= len(self._utterances) or self._utterances[place].role is not Role.BOT:
            raise ConfigurationError("The reference has no utterance of the bot here: it was not read whole.")
        expected = self._utterances[place]
        own = replace(conversation, state={**conversation.state, Role.BOT.value: kept.get("own", {})})
        got = await self._bot.process(own)
        found = list(kept.get("differences", ()))
        if (difference := _compare(expected, got)) is not None:
            found.append(asdict(difference))
        state = {"own": kept.get("own", {}) if got.state is None else got.state, "differences": found}
        kind = BotOutputType.ACTION if expected.is_action else BotOutputType.RESPONSE
        return BotOutput(
            action_type=kind,
            text=expected.text,
            thought=expected.thought,
            action=expected.action,
            action_input=expected.action_input,
            call_id=expected.call_id,
            state=state,
            usage=got.usage,
        )


class ReferenceAPI:
    """Gives the results of the reference's calls: nothing runs."""

    def __init__(self, setting: Setting) -> None:
        self._config = setting.config
        self._utterances = _reference_of(setting.config)

    @property
    def specs(self) -> Sequence[Mapping[str, Any]]:
        """Those of the workflows, else those of the configuration."""
        if not self._config.workflow:
            return [{"type": "function", "function": dict(api)} for api in self._config.apis]
        return [spec for each in workflows_of(self._config) for spec in specs_of_workflow(each)]

    async def process(self, conversation: Conversation) -> APIOutput:
        result = self._utterances[len(conversation.utterances)]
        return APIOutput(status_code=result.status_code or 200, data=result.data)


def _compare(expected: Utterance, got: BotOutput) -> Difference | None:
    """The difference between two outputs; of two answers, where their texts are unlike."""
    wanted = _described(expected.action, expected.action_input, expected.text)
    done = _described(got.action, got.action_input, got.text or got.error)
    if expected.action or got.action:
        similarity = float(wanted == done)
    else:
        similarity = round(SequenceMatcher(None, wanted.split(), done.split()).ratio(), 2)
        if not wanted.isascii():
            similarity = round(SequenceMatcher(None, wanted, done).ratio(), 2)
    if similarity >= _ALIKE:
        return None
    return Difference(expected.index, expected.turn, wanted, done, similarity)


def _described(action: str, arguments: Any, text: str) -> str:
    return f"{action}({json.dumps(arguments, ensure_ascii=False, sort_keys=True)})" if action else text


REGISTERED.users.register(REFERENCE_USER, ReferenceUser)
REGISTERED.bots.register(REFERENCE_BOT, ReferenceBot)
REGISTERED.apis.register(REFERENCE_API, ReferenceAPI)
