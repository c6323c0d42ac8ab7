"""Participants and a controller that follow a workflow."""

from collections.abc import Mapping, Sequence
from typing import Any

from ...core.conversation import (
    APIOutput,
    BotOutput,
    BotOutputType,
    Conversation,
    ConversationConfig,
    EndReason,
    Role,
    UserOutput,
)
from ...core.errors import ConfigurationError
from ...core.participants import Setting
from ...core.records import Json
from ...nodes.conversation.participants.react_bot import ReactBot
from ...nodes.conversation.participants.specs import refused
from ...prompts.phrases import phrase
from .backends import Backend, find_backend
from .instructions import instructions
from .loader import find_scenario, load_workflow
from .persona_user import PersonaUser
from .policy import Call, next_move
from .workflow import Workflow


def workflow_of(config: ConversationConfig) -> Workflow:
    """The workflow of a conversation.

    Raises:
        ConfigurationError: it names none, or one that is not there or not valid.
    """
    if not config.workflow:
        raise ConfigurationError("This participant follows a workflow: name one, such as --workflow travel_change.")
    return load_workflow(config.workflow)


class RuleUser:
    """Says what the scenario's persona knows; deterministic."""

    def __init__(self, setting: Setting) -> None:
        config = setting.config
        workflow = workflow_of(config)
        persona = find_scenario(config.workflow, config.scenario).persona
        self._user = PersonaUser(workflow, persona, config.seed or 0)

    async def process(self, conversation: Conversation) -> UserOutput:
        return UserOutput(text=self._user.says(conversation))


class RuleBot:
    """Follows the workflow's procedure by rules; deterministic."""

    def __init__(self, setting: Setting) -> None:
        self._workflow = workflow_of(setting.config)

    async def process(self, conversation: Conversation) -> BotOutput:
        move = next_move(self._workflow, conversation.utterances)
        if isinstance(move, Call):
            return BotOutput(action_type=BotOutputType.ACTION, action=move.name, action_input=move.arguments)
        return BotOutput(action_type=BotOutputType.RESPONSE, text=move.text)


class WorkflowBot:
    """Follows the workflow with a language model, after its agent's own prompt where an agent is named."""

    def __init__(self, setting: Setting) -> None:
        own = setting.agent.prompt if setting.config.bot_agent else ""
        text = instructions(workflow_of(setting.config))
        self._bot = ReactBot(setting, f"{own}\n\n{text}" if own else text)

    async def process(self, conversation: Conversation) -> BotOutput:
        return await self._bot.process(conversation)


class BackendAPI:
    """The workflow's simulated system; its state is kept with the conversation."""

    def __init__(self, setting: Setting) -> None:
        self._workflow = workflow_of(setting.config)
        self._seed = setting.config.seed or 0
        self._backend = backend_of(self._workflow)

    @property
    def specs(self) -> Sequence[Mapping[str, Any]]:
        return specs_of(self._workflow)

    def initial_state(self) -> Json:
        return self._backend.initial(self._seed)

    async def process(self, conversation: Conversation) -> APIOutput:
        call = conversation.pending
        if call is None:
            raise ConfigurationError("There is no call to carry out: the API follows a call of the bot.")
        if misfit := refused(self.specs, call):
            return misfit
        state = conversation.state_of(Role.API) or self.initial_state()
        response = self._backend.call(state, call.action, call.action_input)
        return APIOutput(status_code=response.status_code, data=response.data, state=response.state)


class NodeDependency:
    """Refuses a call before every call that its API requires has succeeded."""

    def __init__(self, setting: Setting) -> None:
        self._apis = workflow_of(setting.config).apis
        self._language = setting.language

    def refusal(self, conversation: Conversation) -> str:
        call = conversation.pending
        if call is None or call.action not in self._apis:
            return ""
        succeeded = {result.action for result in conversation.results if result.ok}
        missing = [name for name in self._apis[call.action].requires if name not in succeeded]
        if not missing:
            return ""
        return phrase("node_dependency", self._language, tool=call.action, names=", ".join(missing))

    def end(self, conversation: Conversation) -> EndReason | None:
        return None


def backend_of(workflow: Workflow) -> Backend:
    """The workflow's backend.

    Raises:
        ConfigurationError: it has none, or one that lacks an API of the workflow.
    """
    if not workflow.backend:
        raise ConfigurationError(
            "The workflow '{name}' names no backend: use --api llm or --api request.", name=workflow.name
        )
    backend = find_backend(workflow.backend)
    if missing := [name for name in workflow.apis if name not in backend.apis]:
        raise ConfigurationError(
            "The backend '{name}' has no API {missing}.", name=backend.name, missing=", ".join(missing)
        )
    return backend


def specs_of(workflow: Workflow) -> list[Json]:
    """The workflow's APIs in OpenAI's format."""
    return [
        {"type": "function", "function": {"name": name, "description": api.description, "parameters": api.parameters}}
        for name, api in workflow.apis.items()
    ]
