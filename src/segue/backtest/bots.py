"""The agents of conversations' bots, which are registered only while a conversation needs them."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from ..checkpoints.storage import Storage
from ..core.agents import Agent
from ..core.context import RunContext
from ..core.conversation import Conversation
from ..core.participants import API, RunsTools
from ..nodes.conversation.init import read_config
from ..nodes.conversation.roles import api_of, bot_setting
from ..nodes.shared.context import NodeContext
from ..registry import Registry, services_of
from ..rehearsal.segue_bot import ConversationExecutor, bot_agent
from .recording import RecordedTurn


async def bots_of(storage: Storage, registry: Registry, turns: Iterable[RecordedTurn]) -> dict[str, Agent]:
    """The bots of these turns' conversations as their agents are now, by the ids that they had.

    Raises:
        ConfigurationError, UnknownAgent: a conversation names what is not there.
    """
    found: dict[str, Agent] = {}
    for task in (turn.task for turn in turns):
        if task.agent_id in (*registry, *found):
            continue
        if talk := await storage.tasks.conversation_of(task.thread_id):
            config = read_config(talk.message)
            work = NodeContext(services_of(registry, lambda _: None), RunContext(), registry.agent(config.bot_agent))
            language = task.language or "en"
            conversation = Conversation(conversation_id=talk.thread_id, config=config, language=language)
            setting = bot_setting(conversation, work)
            agent = bot_agent(setting)
            tools = tuple(_marked(tool, api_of(conversation, work)) for tool in agent.tools)
            own = {"agent_id": task.agent_id, "tools": tools, "model": setting.model or agent.model}
            found[task.agent_id] = agent.model_copy(update=own)
    return found


def _marked(tool: Any, api: API | RunsTools) -> Any:
    """A function of the API, which only reads if the API's tool, or else its specification, says so."""
    known = api.tools.get(tool.name) if isinstance(api, RunsTools) else None
    read_only = known.read_only if known else bool(tool.spec.get("segue", {}).get("read_only"))
    return replace(tool, marks=replace(tool.marks, read_only=read_only))


@contextmanager
def registered(registry: Registry, bots: dict[str, Agent]) -> Iterator[None]:
    """Have the bots in the registry meanwhile."""
    for agent in bots.values():
        registry.register(agent, ConversationExecutor())
    try:
        yield
    finally:
        for agent_id in bots:
            registry.forget(agent_id)
