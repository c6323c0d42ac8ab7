"""State of the conversation graph, and the conversation that it amounts to."""

from typing import Any

from langgraph.config import get_config

from segue.core.calls import PendingCall
from segue.core.conversation import Conversation, ConversationConfig, Role, Utterance, line_of
from segue.core.events import Token, Uttered

from ..shared.channels import Records
from ..shared.context import NodeContext, announce
from ..shared.task import TaskState


class ConversationState(TaskState, total=False):
    """The graph's channels; a node returns those that it changes. INIT resets every one that belongs to a task.

    The message is the configuration as JSON; FINISH adds the transcript.
    """

    config: dict[str, Any]
    """A `ConversationConfig`. INIT."""
    calls: list[PendingCall]
    """The bot's call of a tool, while it is decided about or waits for its result. INIT, API."""
    utterances: Records
    """The transcript, as `Utterance.json`. USER, BOT, API."""
    kept: dict[str, Any]
    """What participants keep, by role; that of API is the backend's. INIT, USER, BOT, API."""
    end_reason: str
    """An `EndReason`; empty while the conversation continues. USER, BOT."""


class ConversationForm(dict[str, Any]):
    """The fields of a `ConversationConfig`, each a channel that a run without the app is invoked with."""

    __annotations__ = dict.fromkeys(ConversationConfig.model_fields, Any)


def conversation_of(state: ConversationState) -> Conversation:
    """The conversation so far."""
    thread = str(get_config().get("configurable", {}).get("thread_id", ""))
    return Conversation(
        conversation_id=thread or state["task_id"],
        config=ConversationConfig(**state["config"]),
        utterances=tuple(Utterance.of(form) for form in state["utterances"]),
        state=state["kept"],
        language=state["language"],
        task_id=state["task_id"],
    )


def announced(utterance: Utterance, conversation: Conversation, work: NodeContext) -> list[dict[str, Any]]:
    """Its event; its line of the transcript is streamed, since the transcript is the answer."""
    if text := line_of(utterance):
        work.emit(Token(task_id=conversation.task_id, content=f"\n{text}" if conversation.utterances else text))
    return announce(Uttered(task_id=conversation.task_id, utterance=utterance.json()))


def with_participant_state(state: ConversationState, role: Role, value: dict[str, Any] | None) -> dict[str, Any]:
    """What participants keep, with this role's new value if it has one."""
    return state["kept"] if value is None else {**state["kept"], role.value: value}
