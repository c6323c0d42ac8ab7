"""Workflows for bots: their files, their simulated systems, their scenarios, and the participants that follow them."""

from ...core.participants import COMPLETIONS, REGISTERED
from .backends import Backend, Refused, find_backend, register_backend
from .loader import find_scenario, load_scenarios, load_workflow, read_workflow, shipped_names, workflow_file
from .participants import (
    BackendAPI,
    NodeDependency,
    RuleBot,
    RuleUser,
    WorkflowBot,
    backend_of,
    instructions,
    with_workflow,
)
from .workflow import Api, ExpectedCall, Persona, Scenario, Slot, Step, Workflow

REGISTERED.users.register("rule_user", RuleUser)
REGISTERED.bots.register("rule_bot", RuleBot)
REGISTERED.bots.register("workflow_bot", WorkflowBot)
REGISTERED.apis.register("backend", BackendAPI)
REGISTERED.controllers.register("node_dependency", NodeDependency)
COMPLETIONS.append(with_workflow)

__all__ = [
    "Api",
    "Backend",
    "ExpectedCall",
    "Persona",
    "Refused",
    "Scenario",
    "Slot",
    "Step",
    "Workflow",
    "backend_of",
    "find_backend",
    "find_scenario",
    "instructions",
    "load_scenarios",
    "load_workflow",
    "read_workflow",
    "register_backend",
    "shipped_names",
    "with_workflow",
    "workflow_file",
]
