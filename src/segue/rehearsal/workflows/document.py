"""YAML documents, and Markdown with YAML front matter, that know the line of each value."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ...core.errors import InvalidWorkflow
from .workflow import Location

_FENCE = "---"
_TIMESTAMP, _BOOL = "tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:bool"


class _Loader(yaml.SafeLoader):
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
