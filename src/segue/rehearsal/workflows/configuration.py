"""What a workflow and its scenario add to the configuration of a conversation."""

from typing import Any

from ...core.conversation import ConversationConfig
from .instructions import persona_text
from .loader import find_scenario, load_scenarios, load_workflow
from .participants import specs_of
from .scenario import Scenario
from .workflow import Workflow

CONTROLLERS = ("node_dependency",)


def with_workflow(config: ConversationConfig) -> ConversationConfig:
    """The configuration with what its workflow and scenario say, wherever it says nothing itself.

    Without a scenario, the seed picks one.

    Raises:
        UnknownWorkflow, UnknownScenario, InvalidWorkflow.
    """
    if not config.workflow:
        return config
    workflow = load_workflow(config.workflow)
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
        added["apis"] = tuple(spec["function"] for spec in specs_of(workflow))
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
