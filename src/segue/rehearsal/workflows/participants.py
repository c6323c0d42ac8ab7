"""Participants that follow a workflow, and the configuration and instructions that a workflow adds."""

import json
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
from ...nodes.conversation.participants.apis import refused
from ...nodes.conversation.participants.react_bot import ReactBot
from ...prompts.catalogue import phrase, rehearsed
from ...prompts.load import render
from .backends import Backend, find_backend
from .loader import find_scenario, load_scenarios, load_workflow
from .persona_user import PersonaUser
from .policy import Call, next_move
from .workflow import Persona, Scenario, Step, Workflow


def instructions(workflow: Workflow) -> str:
    """The instructions of a bot that follows the workflow: slots, procedure, answers, preconditions and the policy."""
    return render(
        "workflow_bot",
        workflow.language,
        description=workflow.description,
        slots=_listed({name: f"{slot.description}" for name, slot in workflow.slots.items()}),
        procedure="\n".join(_step(place, step) for place, step in enumerate(workflow.procedure, start=1)),
        preconditions=_preconditions(workflow),
        answers=_listed(workflow.answers),
        policy=workflow.policy,
    )


def _listed(texts: Mapping[str, str]) -> str:
    return "\n".join(f"- {name}: {text}" for name, text in texts.items())


def _step(place: int, step: Step) -> str:
    lines = [f"{place}. {step.description}"]
    if step.when:
        lines.append(f"   when: {json.dumps(dict(step.when), ensure_ascii=False)}")
    if step.call:
        lines.append(f"   call: {step.call}")
    lines += [f"   {status} → {failure.answer}" for status, failure in step.failures.items()]
    if step.answer:
        lines.append(f"   answer: {step.answer}")
    return "\n".join(lines)


def _preconditions(workflow: Workflow) -> str:
    required: dict[str, Any] = {name: ", ".join(api.requires) for name, api in workflow.apis.items() if api.requires}
    return _listed({name: rehearsed("requires", workflow.language, names=names) for name, names in required.items()})


def persona_text(workflow: Workflow, persona: Persona) -> str:
    """Who a simulated user is and what it knows, for a language model that plays it."""
    facts = {
        workflow.slots[name].description: fact if isinstance(fact, str) else " → ".join(fact)
        for name, fact in persona.facts.items()
        if name in workflow.slots
    }
    parts = [persona.profile, persona.style, rehearsed("knows", workflow.language, facts=_listed(facts))]
    if persona.requests:
        parts.append(rehearsed("also", workflow.language, requests=" ".join(persona.requests)))
    return "\n".join(part for part in parts if part)


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
        return UserOutput(text=self._user.reply(conversation))


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
        self._language = setting.language
        self._backend = backend_of(self._workflow)

    @property
    def specs(self) -> Sequence[Mapping[str, Any]]:
        return specs_of_workflow(self._workflow)

    def initial_state(self) -> Json:
        return self._backend.initial(self._seed)

    async def process(self, conversation: Conversation) -> APIOutput:
        call = conversation.pending
        if call is None:
            raise ConfigurationError("There is no call to run: the API follows a call of the bot.")
        if misfit := refused(self.specs, call, self._language):
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


def specs_of_workflow(workflow: Workflow) -> list[Json]:
    """The workflow's APIs in OpenAI's format."""
    return [
        {"type": "function", "function": {"name": name, "description": api.description, "parameters": api.parameters}}
        for name, api in workflow.apis.items()
    ]


CONTROLLERS = ("node_dependency",)


def with_workflow(config: ConversationConfig) -> ConversationConfig:
    """The configuration with what its workflow and scenario say, wherever it says nothing itself.

    Without a scenario, the seed picks one.

    Raises:
        UnknownWorkflow, UnknownScenario, InvalidWorkflow.
        ConfigurationError: the workflow is in another language.
    """
    if not config.workflow:
        return config
    workflow = load_workflow(config.workflow)
    if config.language not in ("", workflow.language):
        raise ConfigurationError(
            "The workflow {name} is in {own}, but the conversation is in {language}: leave out the "
            "language, or name a workflow in that language.",
            name=config.workflow,
            own=workflow.language,
            language=config.language,
        )
    added: dict[str, Any] = {
        "user_mode": "rule_user",
        "bot_mode": "rule_bot",
        "api_mode": "backend",
        "controllers": CONTROLLERS,
        "language": workflow.language,
    }
    if scenario := _scenario_of(config):
        added |= _of_scenario(workflow, scenario)
    api_mode = config.api_mode if "api_mode" in config.model_fields_set else "backend"
    if api_mode in ("llm", "request"):
        added["apis"] = tuple(spec["function"] for spec in specs_of_workflow(workflow))
    unset = {name: value for name, value in added.items() if name not in config.model_fields_set}
    return config.model_copy(update=unset)


def _scenario_of(config: ConversationConfig) -> Scenario | None:
    if config.scenario:
        return find_scenario(config.workflow, config.scenario)
    found = load_scenarios(config.workflow)
    return found[(config.seed or 0) % len(found)] if found else None


def _of_scenario(workflow: Workflow, scenario: Scenario) -> dict[str, Any]:
    persona = scenario.persona
    return {
        "scenario": scenario.name,
        "persona": persona_text(workflow, persona),
        "goal": persona.goal,
        "script": persona.script,
    }
