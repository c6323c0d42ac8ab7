"""Workflows and scenarios from files, each error with its file, line and field."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from pydantic import ValidationError

from ...core.errors import ConfigurationError, UnknownScenario, UnknownWorkflow
from .document import Document, read_document
from .scenario import Scenario
from .workflow import Record, Workflow

SHIPPED = Path(__file__).parent / "shipped"
R = TypeVar("R", bound=Record)


def shipped_names() -> list[str]:
    """The names of the workflows that come with Segue."""
    return sorted(path.stem for path in SHIPPED.glob("*.md"))


def workflow_file(name: str) -> Path:
    """The file of a workflow: a path, or the name of a shipped one.

    Raises:
        UnknownWorkflow: there is neither.
    """
    path = Path(name)
    if path.suffix in (".md", ".yaml", ".yml") and path.is_file():
        return path
    if name not in shipped_names():
        raise UnknownWorkflow(name, shipped_names())
    return SHIPPED / f"{name}.md"


def load_workflow(name: str) -> Workflow:
    """Load a workflow by its path or its shipped name.

    Raises:
        UnknownWorkflow: there is no such file and no such shipped workflow.
        InvalidWorkflow: the first fault, with its place.
    """
    return read_workflow(workflow_file(name))


@cache
def _read(path: Path, _changed: int) -> Workflow:
    document = read_document(path)
    fields = document.value
    if isinstance(fields, Mapping) and document.body:
        fields = {**fields, "policy": document.body}
    workflow = _validated(document, Workflow, fields, ())
    for name, api in workflow.apis.items():
        try:
            Draft202012Validator.check_schema(api.parameters)
        except SchemaError as error:
            raise document.fault(
                ("apis", name, "parameters"), "not a JSON schema: {error}", error=error.message
            ) from None
    for at, reason, values in workflow.faults():
        raise document.fault(at, reason, **values)
    return workflow


def read_workflow(path: Path) -> Workflow:
    """Read and check a workflow's file; one that has not changed is read once."""
    return _read(path, path.stat().st_mtime_ns if path.is_file() else 0)


def files_of(name: str) -> list[Path]:
    """The files of a workflow: its own, and that of its scenarios if it names one.

    Raises:
        UnknownWorkflow, InvalidWorkflow.
    """
    file = workflow_file(name)
    named = read_workflow(file).scenarios
    if not named:
        return [file]
    return [file, SHIPPED / f"{named}.yaml" if named in shipped_names() else file.parent / named]


def load_scenarios(name: str) -> tuple[Scenario, ...]:
    """The scenarios that a workflow names: a file beside it, or those of a shipped workflow; none if it names none.

    Raises:
        UnknownWorkflow: there is no such workflow.
        InvalidWorkflow: a file is missing or has a fault.
    """
    _, *paths = files_of(name)
    return tuple(s for path in paths for s in _read_scenarios(path, path.stat().st_mtime_ns if path.is_file() else 0))


@cache
def _read_scenarios(path: Path, _changed: int) -> tuple[Scenario, ...]:
    document = read_document(path)
    listed = document.value.get("scenarios") if isinstance(document.value, Mapping) else None
    if not isinstance(listed, list):
        raise document.fault(("scenarios",), "should be a list of scenarios")
    found: list[Scenario] = []
    for place, item in enumerate(listed):
        scenario = _validated(document, Scenario, item, ("scenarios", place))
        if any(scenario.name == other.name for other in found):
            raise document.fault(("scenarios", place, "name"), "there are two scenarios '{name}'", name=scenario.name)
        found.append(scenario)
    return tuple(found)


def find_scenario(name: str, scenario: str) -> Scenario:
    """A workflow's scenario by its name.

    Raises:
        UnknownScenario: listing the scenarios that there are.
        ConfigurationError: there are none.
    """
    listed = load_scenarios(name)
    if not listed:
        raise ConfigurationError(
            "The workflow {workflow} has no scenarios: name a file of them in its front matter, such as "
            "'scenarios: mine.yaml', or choose another user, such as --user llm_profile.",
            workflow=name,
        )
    for found in listed:
        if found.name == scenario:
            return found
    raise UnknownScenario(scenario, [found.name for found in listed])


def _validated(document: Document, record: type[R], value: Any, at: tuple[str | int, ...]) -> R:
    try:
        return record.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        problem = first["msg"].removeprefix("Value error, ")
        problem = problem[:1].lower() + problem[1:]
        raise document.fault((*at, *first["loc"]), "{problem}", problem=problem) from None
