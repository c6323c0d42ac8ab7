"""Model calls of participants: attempts at a reply that can be read."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from segue.core.context import RunContext
from segue.core.conversation import Conversation
from segue.core.errors import ConfigurationError, UnreadableReply
from segue.core.models import ModelRequest
from segue.core.participants import Setting
from segue.prompts.catalogue import phrase
from segue.prompts.errors import render

from ..shared.context import NodeContext
from ..shared.live_reply import Listener
from ..shared.model_call import ask_model

Reading = TypeVar("Reading")


@dataclass(frozen=True)
class Completion:
    """The outcome of a model's attempts: `value` is None, and `error` says why, where no attempt could be read."""

    value: Any
    usage: dict[str, Any] = field(default_factory=dict)
    error: str = ""


async def complete(
    setting: Setting,
    conversation: Conversation,
    messages: Sequence[BaseMessage],
    read: Callable[[str], Reading],
    schema: Mapping[str, Any] | None = None,
) -> Completion:
    """Ask the participant's model; a reply that cannot be read is asked for again, with the reason.

    Raises:
        ConfigurationError: its model is no language model.
        ModelError: the call failed for good.
    """
    work = model_context(setting)
    asked, usage, why = list(messages), dict[str, Any](), ""
    for attempt in range(setting.config.retry_limit):
        seed = seed_of(setting, conversation, attempt)
        request = ModelRequest(purpose="converse", messages=asked, schema=schema, seed=seed)
        done = await ask_model(work, request, Listener, usage, {"task_id": conversation.task_id}, setting.language)
        usage = dict(done.usage)
        try:
            return Completion(read(done.reply.text), usage)
        except UnreadableReply as error:
            why = render(error, setting.language)
            hint = HumanMessage(phrase("reply_unread", setting.language, why=why))
            asked = [*asked, AIMessage(done.reply.text or "…"), hint]
    return Completion(None, usage, phrase("none_read", setting.language, n=setting.config.retry_limit, why=why))


def model_context(setting: Setting) -> NodeContext:
    """The context of a participant's model calls.

    Raises:
        ConfigurationError: its model is no language model.
    """
    work = NodeContext(setting.services, RunContext(model=setting.model), setting.agent)
    if not work.model.is_language_model:
        role = setting.role.value.lower()
        raise ConfigurationError(
            "The {role} of this conversation needs a language model and would have {model}: name one as "
            '{role}_model, such as "openai:<name>".',
            role=role,
            model=work.model.name,
        )
    return work


def seed_of(setting: Setting, conversation: Conversation, attempt: int = 0) -> int | None:
    """The seed of one model call: another one for every role, utterance and attempt; None without a seed."""
    if setting.config.seed is None:
        return None
    return random_of(setting, conversation, str(attempt)).randrange(2**31)


def random_of(setting: Setting, conversation: Conversation, purpose: str) -> Random:
    """Randomness that is the same whenever this utterance is made again."""
    seed = conversation.conversation_id if setting.config.seed is None else setting.config.seed
    return Random(f"{seed}/{setting.role}/{len(conversation.utterances)}/{purpose}")
