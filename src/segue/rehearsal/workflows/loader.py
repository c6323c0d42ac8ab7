"""Workflows and scenarios from files, each error with its file, line and field."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from pydantic import ValidationError

from ...core.errors import ConfigurationError, InvalidWorkflow, UnknownScenario, UnknownWorkflow
from .workflow import Location, Record, Scenario, Workflow

_FENCE = "---"
_TIMESTAMP, _BOOL = "tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:bool"


_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Parser):  # type: ignore[misc]  # Any: libyaml may be absent
    """Reads dates and `yes` or `no` as the text that they are; only `true` and `false` are booleans."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in (_TIMESTAMP, _BOOL)]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(_BOOL, re.compile("^(?:true|false)$"), list("tf"))


@dataclass(frozen=True)
class Document:
    """The parsed text of a file, with the tree of its YAML nodes and the text below the front matter."""

    file: str
    value: Any
    body: str
    _tree: yaml.Node | None
    _offset: int

    def fault(self, at: Location, reason: str, **values: object) -> InvalidWorkflow:
        """An error that names the file, the line and the field; `reason` is a template of the values."""
        return InvalidWorkflow(self.file, self.line(at), ".".join(str(part) for part in at), reason, **values)

    def line(self, at: Location) -> int:
        """The line of the deepest part of that place that exists."""
        node, line = self._tree, self._offset + 1
        for part in at:
            key, node = _child(node, part)
            if key is None:
                break
            line = key.start_mark.line + 1 + self._offset
        return line


def _child(node: yaml.Node | None, part: str | int) -> tuple[yaml.Node | None, yaml.Node | None]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(part):
                return key, value
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        return node.value[part], node.value[part]
    return None, None


def read_document(path: Path) -> Document:
    """Read a `.yaml` file, or Markdown whose front matter is YAML.

    Raises:
        InvalidWorkflow: it cannot be read, is not valid YAML, or names a key twice.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidWorkflow(path.name, 1, "", "the file cannot be read ({error})", error=error) from None
    front, body, offset = (text, "", 0) if path.suffix in (".yaml", ".yml") else _front_matter(path.name, text)
    try:
        tree = yaml.compose(front, Loader=_Loader)
        value = yaml.load(front, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        line = (error.problem_mark.line + 1 if error.problem_mark else 1) + offset
        raise InvalidWorkflow(path.name, line, "", "this is not valid YAML: {error}", error=error.problem) from None
    except yaml.YAMLError as error:
        raise InvalidWorkflow(path.name, 1, "", "this is not valid YAML: {error}", error=error) from None
    document = Document(path.name, value, body, tree, offset)
    _refuse_repeated_keys(document, tree, ())
    return document


def _front_matter(file: str, text: str) -> tuple[str, str, int]:
    lines = text.splitlines(keepends=True)
    if not lines or lines[0].strip() != _FENCE:
        raise InvalidWorkflow(file, 1, "", "the file should begin with front matter: a line with '---', then YAML")
    for place, line in enumerate(lines[1:], start=1):
        if line.strip() == _FENCE:
            return "".join(lines[1:place]), "".join(lines[place + 1 :]).strip(), 1
    raise InvalidWorkflow(file, 1, "", "the front matter should end with a line with '---'")


def _refuse_repeated_keys(document: Document, node: yaml.Node | None, at: Location) -> None:
    """YAML itself would keep the last one in silence."""
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if key.value in seen:
                line = key.start_mark.line + 1 + document._offset
                raise InvalidWorkflow(document.file, line, ".".join(map(str, (*at, key.value))), "this key is repeated")
            seen.add(key.value)
            _refuse_repeated_keys(document, value, (*at, key.value))
    elif isinstance(node, yaml.SequenceNode):
        for place, value in enumerate(node.value):
            _refuse_repeated_keys(document, value, (*at, place))


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
